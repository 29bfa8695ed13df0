// Columns of texts in csv files: what the file of fit_on decides, and how many texts are too many.
#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace plait;
using fake::contains;
using fake::Dataset;
using fake::Folder;
using fake::open_error;
using Floats = std::vector<float>;
using Ids = std::vector<int32_t>;

TEST_CASE("csv: of categories = \"*\" the file of fit_on says which columns hold texts") {
  const Folder folder;
  fake::Options::Given given{
      {"path", folder.write("p.csv", "a,kind,number\n5,2,7\n6,1,8\n")},
      {"fit_on", folder.write("f.csv", "a,kind,number\n1,1,2\n1,x,2\n1,2,2\n")},
      {"categories", "[\"*\"]"},
      {"encoding", "\"id\""}};
  const Dataset d("csv", given);
  CHECK(d.read<float>(0, {0, 1}) == Floats{5, 7, 6, 8});
  CHECK(d.field(1) == "category");
  CHECK(d.read<int32_t>(1, {0, 1}) == Ids{1, 0});
  // The same the other way round: its column holds texts only where it is read.
  std::swap(given["path"], given["fit_on"]);
  CHECK(contains(open_error("csv", given), "line 3, column 2: 'x' in column 'kind' is not a"));
}

TEST_CASE("csv: a separator that is the decimal sign, and a key that is missing") {
  const Folder folder;
  const auto error = [&](const std::string& text, fake::Options::Given given, uint32_t code) {
    given["path"] = folder.write("t.csv", text);
    return open_error("csv", given, code);
  };
  CHECK(error("a,b\n1,2\n", {{"separator", "\",\""}, {"decimal", "\",\""}}, PLAIT_ERR_CONFIG) ==
        "[data.csv] path 't.csv': separator and decimal are both ','; set separator = \";\"");
  CHECK(error("a,k\n1,p\n2,\n", {{"key", "\"k\""}}, PLAIT_ERR_DATA) ==
        "[data.csv] path 't.csv', line 3, column 2: column 'k' is empty, expected a text; fill it, "
        "or set missing = \"drop\" to leave such lines out");
}

TEST_CASE("csv: more texts than a column, or an input, can have") {
  constexpr int kMost = 1 << 20;
  const Folder folder;
  // `half` has half as many texts as there are lines.
  const auto path = [&](int lines) {
    std::string text = "all,half,other\n";
    text.reserve(static_cast<size_t>(lines) * 24);
    for (int i = 0; i < lines; ++i)
      text += "t" + std::to_string(i) + ",t" + std::to_string(i / 2) + ",t" +
              std::to_string(i / 2) + "\n";
    return folder.write("t.csv", text);
  };
  const std::string large = path(kMost + 2);
  CHECK(open_error("csv", {{"path", large}, {"input", "[\"all\"]"}, {"categories", "[\"all\"]"}}) ==
        "[data.csv] path 't.csv', line 1048578, column 1: column 'all' has more than 1048576 "
        "different texts; is it a category?");
  CHECK(contains(open_error("csv",
                            {{"path", large},
                             {"input", "[\"half\", \"other\"]"},
                             {"categories", "[\"half\", \"other\"]"}},
                            PLAIT_ERR_CONFIG),
                 "column 'other' has 524289 different texts, and the input 1048578 columns with "
                 "them, at most 1048576 are possible"));
}
