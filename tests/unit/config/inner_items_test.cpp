// Options that are items of other kinds, and lists of paths.
#include <doctest/doctest.h>

#include "engine/base/c_error.hpp"
#include "tests/unit/config/fake_catalog.hpp"

using namespace plait;
using namespace plait::config;

namespace {

struct Loaded {
  ItemConfig item;
  std::string problems;
};

Loaded load(const std::string& text) {
  static const FakeCatalog catalog;
  Problems problems;
  const Document document = Document::parse(text, "x.toml", problems);
  ItemConfig item = load_one_item(PLAIT_KIND_DATASET, document, catalog, PathResolver(), problems);
  return {std::move(item), problems.text()};
}

constexpr char kMix[] = R"(type = "mix"
files = ["a.csv", "/b.csv"]
ramp = {type = "slope", warmup = 3}
[[parts]]
type = "table"
file = "c.csv"
[[parts]]
type = "mix"
parts = {type = "table", file = "d.csv", columns = ["x"]}
)";

std::string problem_of(const std::string& text) { return load(text).problems; }

}  // namespace

TEST_CASE("items within items are checked, and read by plugins") {
  const Loaded l = load(kMix);
  CHECK(l.problems.empty());
  const plait_options& o = l.item.options;
  const char* type = nullptr;
  const plait_options* inner = nullptr;
  uint64_t n = 0;
  CHECK(o.table->get_item(&o, "parts", 0, &type, &inner, &n) == nullptr);
  CHECK(n == 2);
  CHECK(std::string(type) == "table");
  const char* path = nullptr;
  uint64_t size = 0;
  CHECK(inner->table->get_text(inner, "file", &path, &size) == nullptr);
  CHECK(std::string(path, size) == "c.csv");
  CHECK(o.table->get_item(&o, "ramp", 0, &type, &inner, &n) == nullptr);
  CHECK(n == 1);
  CHECK(std::string(type) == "slope");
  CHECK(o.table->get_item(&o, "parts", 2, &type, &inner, &n) == nullptr);
  CHECK(type == nullptr);
  CHECK(inner == nullptr);
  const Loaded without = load("type = \"mix\"\nparts = []");
  CHECK(without.problems.empty());
  CHECK(without.item.options.get_items("ramp").empty());
  plait_error* wrong = o.table->get_item(&o, "files", 0, &type, &inner, &n);
  REQUIRE(wrong);
  CHECK(
      contains(wrong->text, "'files' is declared as list of paths but was read as list of tables"));
  free_c_error(wrong);
}

TEST_CASE("paths within items have their keys") {
  const Loaded l = load(kMix);
  CHECK(l.item.options.get_texts("files") == std::vector<std::string>{"a.csv", "/b.csv"});
  std::string keys;
  for (const GivenPath& p : l.item.options.paths()) keys += p.key + "=" + p.given + " ";
  CHECK(keys == "files=a.csv files=/b.csv parts[0].file=c.csv parts[1].parts[0].file=d.csv ");
}

TEST_CASE("items within items as TOML give the same again") {
  const Loaded l = load(kMix);
  const std::string text = "type = \"mix\"\n" + l.item.options.to_toml(false);
  CHECK(contains(text,
                 "parts = [{type = \"table\", file = \"c.csv\", columns = []}, {type = \"mix\""));
  const Loaded again = load(text);
  CHECK(contains(text, "files = [\"a.csv\", \"/b.csv\"]\n"));
  CHECK(again.problems.empty());
  CHECK(again.item.options.to_toml(false) == l.item.options.to_toml(false));
}

TEST_CASE("faults within items have the place and the key") {
  CHECK(contains(problem_of("type = \"mix\"\n[[parts]]\ntype = \"tabel\""),
                 "parts[0].type: unknown dataset 'tabel' (did you mean 'table'?)"));
  CHECK(contains(problem_of("type = \"mix\"\n[[parts]]\ntype = \"table\"\nfile = \"a\"\nfil = 1"),
                 "x.toml:5:1: parts[0].fil: unknown key 'fil' (did you mean 'file'?)"));
  CHECK(contains(problem_of("type = \"mix\"\n[[parts]]\ntype = \"table\""),
                 "parts[0].file: required key is missing"));
  CHECK(contains(problem_of("type = \"mix\"\n[[parts]]\nfile = \"a\""),
                 "parts[0].type: required key is missing"));
  CHECK(contains(problem_of("type = \"mix\"\nparts = [1]"),
                 "parts: expected list of tables: {type = \"NAME\", ...} of a dataset, found 1"));
  CHECK(contains(problem_of("type = \"mix\"\nparts = []\nramp = [{type = \"slope\"}]"),
                 "ramp: expected table: {type = \"NAME\", ...} of a schedule, found"));
  CHECK(contains(problem_of("type = \"mix\"\nparts = []\nfiles = [3]"),
                 "files: element 0: expected list of paths, found 3"));
}
