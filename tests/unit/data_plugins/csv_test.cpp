#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace plait;
using fake::contains;
using fake::Dataset;
using fake::Folder;
using fake::open_error;
using Floats = std::vector<float>;

namespace {
struct Csv {
  Folder folder;
  fake::Options::Given given;
  explicit Csv(const std::string& text, fake::Options::Given options = {})
      : given(std::move(options)) {
    given["path"] = folder.write("t.csv", text);
  }
  std::string error(uint32_t code = PLAIT_ERR_DATA) const { return open_error("csv", given, code); }
};
}  // namespace

TEST_CASE("csv takes all columns but target and weight as the input") {
  const Csv csv("a,w,b,y\n1,0.5,2,10\r\n-3e2,0,+4.25,20\n\n",
                {{"target", "[\"y\"]"}, {"weight", "\"w\""}});
  const Dataset d("csv", csv.given);
  CHECK(d.info().n_samples == 2);
  REQUIRE(d.info().n_fields == 3);
  CHECK(d.field(0) == "input");
  CHECK(d.dims(0) == std::vector<int64_t>{2});
  CHECK(d.read<float>(0, {1, 0}) == Floats{-300, 4.25, 1, 2});
  CHECK(d.field(1) == "target");
  CHECK(d.dims(1) == std::vector<int64_t>{1});
  CHECK(d.read<float>(1, {0, 1}) == Floats{10, 20});
  CHECK(d.info().fields[2].role == PLAIT_FIELD_WEIGHT);
  CHECK(d.dims(2).empty());
  CHECK(d.read<float>(2, {0, 1}) == Floats{0.5, 0});
}

TEST_CASE(
    "csv reads named columns in the order given, quotes, blanks, a byte order mark, other "
    "separators") {
  const Csv csv("\xef\xbb\xbf\"a \"\"1\"\"\";name;b\n \"x\" ;\"two\nlines; ok\";2\n",
                {{"separator", "\";\""}, {"input", "[\"b\"]"}});
  const Dataset d("csv", csv.given);
  CHECK(d.read<float>(0, {0}) == Floats{2});
  const Csv quoted("\"a \"\"1\"\"\",b\n\" 3 \",4\n", {{"input", "[\"b\", \"a\"]"}});
  CHECK(quoted.error(PLAIT_ERR_CONFIG) ==
        "[data.csv] path 't.csv': input names column 'a', which does not exist; the columns are 'a "
        "\"1\"', 'b'");
  const Csv tab("a\tb\n\"3\"\t 4 ", {{"separator", "\"tab\""}, {"input", "[\"b\", \"a\"]"}});
  CHECK(Dataset("csv", tab.given).read<float>(0, {0}) == Floats{4, 3});
}

TEST_CASE("csv without a header counts columns from 0; labels are i32, one a scalar") {
  const Csv csv("5,1.5,2.5\n7.0,3.5,4.5",
                {{"header", "false"}, {"target", "[\"0\"]"}, {"target_type", "\"i32\""}});
  const Dataset d("csv", csv.given);
  CHECK(d.info().n_samples == 2);
  CHECK(d.read<float>(0, {0, 1}) == Floats{1.5, 2.5, 3.5, 4.5});
  CHECK(d.info().fields[1].shape.dtype == PLAIT_I32);
  CHECK(d.dims(1).empty());
  CHECK(d.read<int32_t>(1, {1, 0}) == std::vector<int32_t>{7, 5});
}

TEST_CASE("csv names line and column of a cell that it cannot read") {
  CHECK(Csv("a,b\n1,2\n3,x\n").error() ==
        "[data.csv] path 't.csv', line 3, column 2: 'x' in column 'b' is not a number; name the "
        "columns to read in `input`");
  CHECK(Csv("a,b\n1,\n").error() ==
        "[data.csv] path 't.csv', line 2, column 2: column 'b' is empty, expected a number; fill "
        "it or drop the line");
  CHECK(Csv("a,b\n1\n").error() ==
        "[data.csv] path 't.csv', line 2, column 1: the line ends after 1 cells, expected 2 as in "
        "the first line");
  CHECK(Csv("a,b\n1,2,3\n").error() ==
        "[data.csv] path 't.csv', line 2, column 3: one cell too many, expected 2 as in the first "
        "line");
  CHECK(contains(Csv("a\nnan\n").error(), "line 2, column 1: 'nan' is not finite"));
  CHECK(contains(Csv("a\n1e999\n").error(), "does not fit a 64-bit number"));
  CHECK(contains(Csv("a\n1e39\n").error(), "too large for f32"));
  CHECK(contains(Csv("a\n\"\"\"\n\n1\n").error(),
                 "line 2, column 1: the quote that opens here is never closed"));
  CHECK(contains(Csv("a\n\"1\"2\n").error(), "text follows the closing quote"));
  CHECK(contains(Csv("a,b\n\"1\n\n\",x\n", {{"input", "[\"b\"]"}}).error(), "line 4, column 2"));
  CHECK(contains(
      Csv("a\n1.5\n", {{"header", "false"}, {"target", "[\"0\"]"}}).error(PLAIT_ERR_CONFIG),
      "no column is left"));
  CHECK(contains(Csv("y,a\n1.5,1\n", {{"target", "[\"y\"]"}, {"target_type", "\"i32\""}}).error(),
                 "'1.5' is not a 32-bit integer"));
  CHECK(contains(Csv("y,w\n1,-1\n", {{"weight", "\"w\""}}).error(),
                 "the weight is '-1', expected 0 or more"));
}

TEST_CASE("csv refuses empty files, doubled names and gzip") {
  CHECK(Csv("").error() ==
        "[data.csv] path 't.csv', offset 0: the file is empty, expected a header");
  CHECK(Csv("\n\r\n").error() ==
        "[data.csv] path 't.csv', offset 0: the file is empty, expected a header");
  CHECK(Csv("a,b\n").error() ==
        "[data.csv] path 't.csv', offset 4: the file has a header but no rows");
  CHECK(Csv("a,a\n1,2\n", {{"target", "[\"a\"]"}}).error() ==
        "[data.csv] path 't.csv', line 1: two columns are called 'a'; rename one");
  CHECK(contains(
      Csv("a,b\n1,2\n", {{"target", "[\"a\"]"}, {"input", "[\"a\"]"}}).error(PLAIT_ERR_CONFIG),
      "named twice"));
  CHECK(contains(Csv("\x1f\x8b\x08").error(), "gunzip"));
}
