#include <zlib.h>

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

TEST_CASE("csv makes fields of columns of integers") {
  const Csv csv("a,which,b,y\n1,2,3,10\n4,-1,5,20\n6,16777217,7,30\n",
                {{"target", "[\"y\"]"}, {"integers", "[\"which\"]"}});
  const Dataset d("csv", csv.given);
  REQUIRE(d.info().n_fields == 3);
  CHECK(d.read<float>(0, {0, 1}) == Floats{1, 3, 4, 5});
  CHECK(d.field(2) == "which");
  CHECK(d.dims(2).empty());
  CHECK(d.info().fields[2].role == PLAIT_FIELD_INPUT);
  CHECK(d.info().fields[2].shape.dtype == PLAIT_I32);
  CHECK(d.read<int32_t>(2, {2, 0, 1}) == std::vector<int32_t>{16777217, 2, -1});
  const auto error = [](const char* text, const char* integers, uint32_t code = PLAIT_ERR_DATA) {
    return Csv(text, {{"integers", integers}}).error(code);
  };
  CHECK(contains(error("a,k\n1,0.5\n", "[\"k\"]"),
                 "line 2, column 2: '0.5' is not a 32-bit integer, expected one because "
                 "`integers` names the column"));
  CHECK(contains(error("a,k\n1,\n", "[\"k\"]"), "column 'k' is empty, expected a number"));
  CHECK(contains(error("a,key\n1,2\n", "[\"key\"]", PLAIT_ERR_CONFIG),
                 "integers names column 'key', which is the name of another field"));
  CHECK(contains(error("a,k\n1,2\n", "[\"l\"]", PLAIT_ERR_CONFIG),
                 "integers names column 'l', which does not exist"));
  CHECK(contains(error("a,k\n1,2\n", "[\"k\", \"k\"]", PLAIT_ERR_CONFIG),
                 "column 'k' is named twice in input, categories, integers, target"));
}

TEST_CASE("csv names line and column of a cell that it cannot read") {
  CHECK(Csv("a,b\n1,2\n3,x\n").error() ==
        "[data.csv] path 't.csv', line 3, column 2: 'x' in column 'b' is not a number; name the "
        "columns to read in `input`, columns of texts in `categories`, and what stands for a "
        "missing value in `missing_texts`");
  CHECK(Csv("a,b\n1,\n").error() ==
        "[data.csv] path 't.csv', line 2, column 2: column 'b' is empty, expected a number; fill "
        "it, or set missing = \"mean\" (of the column), \"zero\" or \"drop\" (the line)");
  CHECK(Csv("a,b\n1\n").error() ==
        "[data.csv] path 't.csv', line 2, column 1: the line ends after 1 cells, expected 2 as in "
        "the first line");
  CHECK(Csv("a,b\n1,2,3\n").error() ==
        "[data.csv] path 't.csv', line 2, column 3: one cell too many, expected 2 as in the first "
        "line");
  CHECK(contains(Csv("a\nnan\n").error(), "line 2, column 1: 'nan' in column 'a' is missing"));
  CHECK(contains(Csv("a\nnan\n", {{"missing_texts", "[]"}}).error(), "'nan' is not finite"));
  CHECK(contains(Csv("a\n-inf\n").error(), "line 2, column 1: '-inf' is not finite"));
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

// As gzip writes it, without compression: a header, a stored block, CRC and size.
std::string gzip_of(const std::string& text) {
  std::string packed = "\x1f\x8b\x08" + std::string(7, '\0') + "\x01";
  const auto n = static_cast<uint16_t>(text.size());
  packed += fake::little(n, 2) + fake::little(static_cast<uint16_t>(~n), 2) + text;
  return packed + fake::little(crc32(0, reinterpret_cast<const Bytef*>(text.data()), n), 4) +
         fake::little(n, 4);
}

TEST_CASE("csv finds the separator and the header") {
  for (const char* text : {"a;b\n1;2\n", "a\tb\n1\t2\n", "a|b\n1|2\n", "a,b\n1,2\n", "1;2\n",
                           "\"x;y\";b\n1;2\n", "0,1\n1,2\n", "id,7\n1,2\n"}) {
    INFO(text);
    const Csv csv(text);
    const Dataset d("csv", csv.given);
    CHECK(d.info().n_samples == 1);
    CHECK(d.read<float>(0, {0}) == Floats{1, 2});
  }
  const Csv zero("0\n1\n");  // one column is no row of indices
  CHECK(Dataset("csv", zero.given).info().n_samples == 2);
  const Csv tabs("a\tb;c\n1;2\n");  // a tab in one of the lines
  CHECK(Dataset("csv", tabs.given).read<float>(0, {0}) == Floats{1, 2});
  // Numbers in the first line: a sample. A text in it may be a class or a missing cell.
  const Csv iris("5.1,3.5,setosa\n4.9,3,virginica\n",
                 {{"target", "[\"2\"]"}, {"target_type", "\"class\""}});
  CHECK(Dataset("csv", iris.given).read<float>(0, {0}) == Floats{5.1f, 3.5f});
  const Csv gap("5.1,?\n4.9,3\n", {{"missing", "\"zero\""}});
  CHECK(Dataset("csv", gap.given).read<float>(0, {0, 1}) == Floats{5.1f, 0, 4.9f, 3});
  const Csv comma("a;b\n1,5;-2,25\n", {{"decimal", "\",\""}});
  CHECK(Dataset("csv", comma.given).read<float>(0, {0}) == Floats{1.5, -2.25});
  // Digits that are grouped, or more of them than any number needs.
  const auto comma_error = [](const std::string& cell) {
    return Csv("a;b\n" + cell + ";2\n", {{"decimal", "\",\""}}).error();
  };
  CHECK(contains(comma_error("1.234,5"), "'1.234,5' in column 'a' is not a number"));
  CHECK(contains(comma_error("0," + std::string(63, '1')), "in column 'a' is not a number"));
  const Csv longest("a;b\n0," + std::string(62, '1') + ";2\n", {{"decimal", "\",\""}});
  CHECK(Dataset("csv", longest.given).read<float>(0, {0}) == Floats{1.0f / 9, 2});
  const Csv given("1,2\n3,4\n", {{"header", "true"}, {"separator", "\",\""}});
  CHECK(Dataset("csv", given.given).info().n_samples == 1);
}

TEST_CASE("csv numbers classes by their sorted texts, or by a list") {
  const char* text = "x,kind\n1,cat\n2, ant \n3,bee\n4,cat\n";
  fake::Options::Given options{{"target", "[\"kind\"]"}, {"target_type", "\"class\""}};
  const Csv csv(text, options);
  const Dataset d("csv", csv.given);
  CHECK(d.dims(1).empty());
  CHECK(d.info().fields[1].shape.dtype == PLAIT_I32);
  CHECK(d.read<int32_t>(1, {0, 1, 2, 3}) == std::vector<int32_t>{2, 0, 1, 2});
  // The order of the lines is of no matter.
  const Csv other("x,kind\n4,cat\n3,bee\n2,ant\n", options);
  CHECK(Dataset("csv", other.given).read<int32_t>(1, {0, 1, 2}) == std::vector<int32_t>{2, 1, 0});
  const Csv numbers("x,kind\n1,10\n1,9\n1,-1\n", options);
  CHECK(Dataset("csv", numbers.given).read<int32_t>(1, {0, 1, 2}) == std::vector<int32_t>{2, 1, 0});
  options["classes"] = "[\"cat\", \"bee\", \"ant\", \"dog\"]";
  const Csv listed(text, options);
  CHECK(Dataset("csv", listed.given).read<int32_t>(1, {0, 1, 2}) == std::vector<int32_t>{0, 2, 1});
  options["classes"] = "[\"cat\", \"ant\"]";
  CHECK(Csv(text, options).error() ==
        "[data.csv] path 't.csv', line 4, column 2: 'bee' in column 'kind' is none of the 2 "
        "classes; add it to `classes`, in this dataset and in that of training");
  options["classes"] = "[\"cat\", \"cat\"]";
  CHECK(contains(Csv(text, options).error(PLAIT_ERR_CONFIG), "classes lists 'cat' twice"));
  CHECK(contains(Csv(text, {{"classes", "[\"a\"]"}}).error(PLAIT_ERR_CONFIG),
                 "only with target_type"));
  CHECK(contains(Csv(text, {{"target_type", "\"class\""}}).error(PLAIT_ERR_CONFIG),
                 "target names 0 columns"));
}

TEST_CASE("csv makes columns or ids of categories, in the order of the columns") {
  const char* text = "a,color,b\n1,red,2\n3,blue,4\n";
  const Csv csv(text, {{"categories", "[\"color\"]"}});
  const Dataset d("csv", csv.given);
  CHECK(d.dims(0) == std::vector<int64_t>{4});
  CHECK(d.read<float>(0, {0, 1}) == Floats{1, 0, 1, 2, 3, 1, 0, 4});
  const Csv ids(text, {{"categories", "[\"color\"]"}, {"encoding", "\"id\""}});
  const Dataset e("csv", ids.given);
  CHECK(e.field(1) == "category");
  CHECK(e.read<float>(0, {1}) == Floats{3, 4});
  CHECK(e.read<int32_t>(1, {0, 1}) == std::vector<int32_t>{1, 0});
  const Csv named(text, {{"input", "[\"b\", \"color\"]"}, {"categories", "[\"color\"]"}});
  CHECK(Dataset("csv", named.given).read<float>(0, {0}) == Floats{2, 0, 1});
  const Csv added(text, {{"input", "[\"b\"]"}, {"categories", "[\"color\"]"}});
  CHECK(Dataset("csv", added.given).read<float>(0, {1}) == Floats{4, 1, 0});
}

TEST_CASE("csv orders categories that are numbers as such, and equal ones by their texts") {
  const Csv csv("a,kind\n1,10\n2,2.0\n3,2\n4,2.00\n",
                {{"categories", "[\"kind\"]"}, {"encoding", "\"id\""}});
  CHECK(Dataset("csv", csv.given).read<int32_t>(1, {0, 1, 2, 3}) ==
        std::vector<int32_t>{3, 1, 0, 2});
}

TEST_CASE("csv fits another file as it fitted that of training") {
  const Folder folder;
  const std::string train = folder.write("train.csv", "a,c\n1,x\n,y\n5,x\n"),
                    eval = folder.write("eval.csv", "a,c\n?,y\n7,y\n");
  fake::Options::Given options{{"path", eval}, {"categories", "[\"c\"]"}, {"missing", "\"mean\""}};
  CHECK(Dataset("csv", options).read<float>(0, {0}) == Floats{7, 1});
  options["fit_on"] = train;
  CHECK(Dataset("csv", options).read<float>(0, {0, 1}) == Floats{3, 0, 1, 7, 0, 1});
  options["path"] = train;
  options["fit_on"] = eval;
  CHECK(contains(open_error("csv", options), "'x' in column 'c' is none of the 1 texts"));
  options["fit_on"] = folder.write("b.csv", "a\n1\n");
  CHECK(contains(open_error("csv", options, PLAIT_ERR_CONFIG), "names column 'c'"));
}

TEST_CASE("csv fills or drops missing cells as it is told") {
  const char* text = "a,b,y\n1,,1\n3,4,2\nNA,6,3\n";
  fake::Options::Given options{{"target", "[\"y\"]"}, {"missing", "\"mean\""}};
  const Csv mean(text, options);
  CHECK(Dataset("csv", mean.given).read<float>(0, {0, 1, 2}) == Floats{1, 5, 3, 4, 2, 6});
  options["missing"] = "\"zero\"";
  const Csv zero(text, options);
  CHECK(Dataset("csv", zero.given).read<float>(0, {0, 2}) == Floats{1, 0, 0, 6});
  options["missing"] = "\"drop\"";
  const Csv drop(text, options);
  const Dataset d("csv", drop.given);
  CHECK(d.info().n_samples == 1);
  CHECK(d.read<float>(0, {0}) == Floats{3, 4});
  CHECK(d.read<float>(1, {0}) == Floats{2});
  // A cell that is not read may be missing; a target may not, but its line may be dropped.
  const Csv unread("a,b\n1,\n", {{"input", "[\"a\"]"}});
  CHECK(Dataset("csv", unread.given).info().n_samples == 1);
  options["missing"] = "\"mean\"";
  CHECK(contains(Csv("a,b,y\n1,1,?\n", options).error(), "column 3: '?' in column 'y' is missing"));
  CHECK(contains(Csv("a,b,y\n?,1,1\n", options).error(), "no number to take the mean of"));
  CHECK(
      contains(Csv("a\n?\n", {{"missing", "\"drop\""}}).error(), "every line has a missing cell"));
  CHECK(contains(Csv("a,c\n1,\n", {{"categories", "[\"c\"]"}}).error(),
                 "take it out of missing_texts"));
  const Csv own("a,c\n1,\n2,x\n", {{"categories", "[\"c\"]"}, {"missing_texts", "[\"?\"]"}});
  CHECK(Dataset("csv", own.given).read<float>(0, {0}) == Floats{1, 1, 0});
}

TEST_CASE("csv leaves a line with a missing cell out, whatever else it holds") {
  // A class, a category and a text instead of a number that only such lines have.
  const Csv csv("a,c,y\n1,red,cat\n,blue,dog\nx,green,?\n3,red,ant\n?,pink,\n",
                {{"target", "[\"y\"]"},
                 {"target_type", "\"class\""},
                 {"categories", "[\"*\"]"},
                 {"missing", "\"drop\""}});
  const Dataset d("csv", csv.given);
  CHECK(d.info().n_samples == 2);
  CHECK(d.dims(0) == std::vector<int64_t>{2});  // a number, and one color
  CHECK(d.read<float>(0, {0, 1}) == Floats{1, 1, 3, 1});
  CHECK(d.read<int32_t>(1, {0, 1}) == std::vector<int32_t>{1, 0});
}

TEST_CASE("csv takes a number that is too small for 64 bits as 0, as others do") {
  const Csv csv("a,b,c,d,e\n1e-400,-0.00001e-320,+1e-99999999999999999999,12345e-500,2.5e-310\n");
  CHECK(Dataset("csv", csv.given).read<float>(0, {0}) == Floats{0, 0, 0, 0, 0});
  const std::string zeros(400, '0');
  const Csv longer("a,b\n0." + zeros + "1,0.5\n");
  CHECK(Dataset("csv", longer.given).read<float>(0, {0}) == Floats{0, 0.5});
  for (const std::string& large : std::vector<std::string>{"1e400", "-12" + zeros + ".5",
                                                           "0.01e999", "1e99999999999999999999"})
    CHECK(contains(Csv("a\n" + large + "\n").error(), "does not fit a 64-bit number"));
}

TEST_CASE("csv orders classes that are numbers by their values, others by their bytes") {
  const auto order = [](const std::string& decimal, const std::vector<std::string>& texts) {
    std::string text = "x;y\n";
    for (const std::string& one : texts) text += "1;" + one + "\n";
    const Csv csv(text, {{"target", "[\"y\"]"},
                         {"target_type", "\"class\""},
                         {"missing_texts", "[]"},
                         {"decimal", decimal}});
    std::vector<int64_t> all(texts.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    return Dataset("csv", csv.given).read<int32_t>(1, all);
  };
  using Ids = std::vector<int32_t>;
  CHECK(order("\".\"", {"10", "9", "-1"}) == Ids{2, 1, 0});
  CHECK(order("\",\"", {"10,5", "9,5"}) == Ids{1, 0});
  // nan compares with nothing: were these numbers, their order would depend on the lines'.
  CHECK(order("\".\"", {"10", "nan", "9", "inf"}) == Ids{0, 3, 1, 2});
  CHECK(order("\".\"", {"nan", "9", "inf", "10"}) == Ids{3, 1, 2, 0});
}

TEST_CASE("csv refuses one-hot columns that would take more memory than the file is worth") {
  constexpr int kLines = 25000;
  std::string text = "a,id,color\n";
  for (int i = 0; i < kLines; ++i) text += "1,t" + std::to_string(i) + (i % 2 ? ",b\n" : ",r\n");
  fake::Options::Given options{{"categories", "[\"id\", \"color\"]"}};
  CHECK(Csv(text, options).error(PLAIT_ERR_CONFIG) ==
        "[data.csv] path 't.csv': column 'id' has 25000 different texts: 25002 one-hot columns of "
        "25000 lines take 2384 MiB, expected 2048 at most; take ids with encoding = \"id\", or "
        "leave the column out");
  options["encoding"] = "\"id\"";
  const Csv ids(text, options);
  CHECK(Dataset("csv", ids.given).info().n_samples == kLines);
}

TEST_CASE("csv reads .gz") {
  const Csv packed(gzip_of("a,b\n1,2\n"));
  CHECK(Dataset("csv", packed.given).read<float>(0, {0}) == Floats{1, 2});
  CHECK(contains(Csv(gzip_of("a,b\n1,x\n")).error(), "line 2, column 2: 'x'"));
}

TEST_CASE("csv reads lines that end in CR alone, as old programs write them") {
  const Csv csv("a,b;c\r1,2\r\r3,4\r");
  CHECK(Dataset("csv", csv.given).read<float>(0, {0, 1}) == Floats{1, 2, 3, 4});
  CHECK(contains(Csv("a,b\r1,2\r3,x\r").error(), "line 3, column 2: 'x'"));
  CHECK(contains(Csv("a,b\r\r\n1,2\r\r\n3,x\r\r\n").error(), "column 2: 'x'"));
}

TEST_CASE("csv says what a file that it cannot read probably is") {
  CHECK(contains(Csv(std::string("\xff\xfe"
                                 "a\0,\0b\0",
                                 8))
                     .error(),
                 "offset 3: a byte 0, which no text has: this is UTF-16, a spreadsheet or another "
                 "binary file; save it as CSV in UTF-8"));
  const fake::Options::Given kinds{{"target", "[\"y\"]"}, {"target_type", "\"class\""}};
  CHECK(contains(Csv("a,y\n1,x\n2,caf\xe9\n", kinds).error(),
                 "line 3, column 2: 'caf\xef\xbf\xbd' is not UTF-8; convert the file"));
  CHECK(contains(Csv("a,caf\xe9\n1,2\n").error(), "line 1, column 2: 'caf\xef\xbf\xbd' is not"));
  CHECK(Dataset("csv", Csv("a,y\n1,caf\xc3\xa9\n", kinds).given).info().n_samples == 1);
  CHECK(contains(Csv("a;b\n1;2\n", {{"separator", "\",\""}}).error(), "set separator = \";\""));
  CHECK(contains(
      Csv("a;b\n1;2\n", {{"separator", "\",\""}, {"input", "[\"b\"]"}}).error(PLAIT_ERR_CONFIG),
      "set separator = \";\""));
  // Without a header the only column is called 0, whatever its line holds.
  const auto unnamed = [](const char* text, const char* separator, const char* decimal = "\".\"") {
    return Csv(text, {{"header", "false"},
                      {"separator", separator},
                      {"decimal", decimal},
                      {"target", "[\"2\"]"}})
        .error(PLAIT_ERR_CONFIG);
  };
  CHECK(unnamed("1;1;1\n2;2;2\n", "\",\"") ==
        "[data.csv] path 't.csv': target names column '2', which does not exist; the columns are "
        "'0'; set separator = \";\" or \"auto\"");
  CHECK(contains(unnamed("1,1,1\n", "\";\""), "'0'; set separator = \",\" or \"auto\""));
  CHECK(contains(unnamed("1\t1\t1\n", "\"pipe\""), "'0'; set separator = \"tab\" or"));
  CHECK(contains(unnamed("1|1\n", "\";\""), "'0'; set separator = \"pipe\" or"));
  CHECK(!contains(unnamed("1,5\n2,5\n", "\";\"", "\",\""), "set separator"));  // decimals
  CHECK(!contains(unnamed("1;2\n", "\";\""), "set separator"));                // two columns of it
  CHECK(contains(Csv("a;b\n1,5;2\n").error(), "set decimal = \",\""));
  CHECK(contains(Csv("a,b\n1,2\n", {{"header", "false"}}).error(), "set header = true"));
  CHECK(contains(
      Csv("a,b\n1,2\n", {{"header", "false"}, {"target", "[\"b\"]"}}).error(PLAIT_ERR_CONFIG),
      "target names column 'b', which does not exist; the columns are '0', '1'; with "
      "header = false columns have numbers; if the first line holds their names, set "
      "header = true"));
  CHECK(contains(
      Csv("1,2\n3,4\n", {{"header", "true"}, {"input", "[\"0\"]"}}).error(PLAIT_ERR_CONFIG),
      "set header = false"));
  CHECK(contains(Csv("1,2\n3,4\n", {{"input", "[\"x\"]"}}).error(PLAIT_ERR_CONFIG),
                 "set header = true"));
  CHECK(contains(Csv("a,y\n1,cat\n", {{"target", "[\"y\"]"}}).error(), "target_type = \"class\""));
}

TEST_CASE("csv shows 40 characters of a cell, and 20 names of columns") {
  const std::string forty(40, 'x');
  CHECK(contains(Csv("a\n1\n" + forty + "\n").error(), "'" + forty + "' in column 'a'"));
  CHECK(contains(Csv("a\n1\n" + forty + "y\n").error(), "'" + forty + "…' in column 'a'"));
  std::string names = "c0", numbers = "1";
  for (int i = 1; i < 20; ++i) names += ",c" + std::to_string(i), numbers += ",1";
  const auto error = [](const std::string& text) {
    return Csv(text, {{"input", "[\"none\"]"}}).error(PLAIT_ERR_CONFIG);
  };
  CHECK(contains(error(names + "\n" + numbers + "\n"), "'c18', 'c19'"));
  CHECK(!contains(error(names + "\n" + numbers + "\n"), "…"));
  CHECK(contains(error(names + ",c20\n" + numbers + ",1\n"), "'c18', 'c19', …"));
}

TEST_CASE("csv refuses empty files and doubled names") {
  CHECK(Csv("").error() ==
        "[data.csv] path 't.csv', offset 0: the file is empty, expected a header");
  CHECK(Csv("\n\r\n").error() ==
        "[data.csv] path 't.csv', offset 0: the file is empty, expected a header");
  CHECK(Csv("a,b\n").error() ==
        "[data.csv] path 't.csv', offset 4: the file has a header but no rows");
  CHECK(Csv("a,b,a\n1,2,3\n", {{"target", "[\"a\"]"}}).error() ==
        "[data.csv] path 't.csv', line 1: columns 1 and 3 are both called 'a'; rename one");
  CHECK(Csv("y,a,b,a\n1,2,3,4\n", {{"target", "[\"y\"]"}}).error() ==
        "[data.csv] path 't.csv', line 1: columns 2 and 4 are both called 'a'; rename one, or name "
        "the columns to read in `input`");
  CHECK(contains(Csv("a,,\n1,2,3\n").error(), "columns 2 and 3 are both called ''"));
  const Csv unread("a,b,b\n1,2,3\n", {{"input", "[\"a\"]"}});
  CHECK(Dataset("csv", unread.given).read<float>(0, {0}) == Floats{1});
  const Csv numbered("1,1\n2,2\n", {{"header", "false"}});
  CHECK(Dataset("csv", numbered.given).info().n_samples == 2);
  CHECK(contains(
      Csv("a,b\n1,2\n", {{"target", "[\"a\"]"}, {"input", "[\"a\"]"}}).error(PLAIT_ERR_CONFIG),
      "named twice"));
  CHECK(contains(Csv("\x1f\x8b\x08").error(), "the gzip data is truncated here"));
}
