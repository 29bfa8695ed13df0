#include <doctest/doctest.h>

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/base/c_error.hpp"
#include "engine/base/files.hpp"
#include "engine/config/option_set.hpp"
#include "engine/config/written_path.hpp"
#include "tests/unit/config/fake_catalog.hpp"

using namespace plait;
using namespace plait::config;

namespace {

const std::vector<plait_option>& declared() {
  static const std::vector<plait_option> all = {
      make_option(PLAIT_OPT_BOOL, "flag", "true"),
      at_most(at_least(make_option(PLAIT_OPT_INT, "count", "3"), 1), 10),
      at_most(at_least(make_option(PLAIT_OPT_REAL, "share", "0.5"), 0, true), 1, true),
      with_choices(make_option(PLAIT_OPT_TEXT, "kind", "\"sum\""), "sum|mean|none"),
      at_least(make_option(PLAIT_OPT_INTS, "sizes", "[1, 2]"), 0),
      make_option(PLAIT_OPT_REALS, "betas", "[]"),
      make_option(PLAIT_OPT_TEXTS, "names", "[\"a\"]"),
      make_option(PLAIT_OPT_PATH, "file", "\"\""),
  };
  return all;
}

struct Checked {
  OptionSet set;
  std::string problems;
};

Checked check(const std::string& text, const std::vector<plait_option>& options = declared()) {
  Problems problems;
  const Document document = Document::parse(text, "x.toml", problems);
  constexpr std::array<std::string_view, 1> kEngine = {"type"};
  const OptionSet set = OptionSet::check(document.root, OptionView(options), kEngine,
                                         "model.layers[2]", PathResolver(), problems);
  return {set, problems.text()};
}

}  // namespace

TEST_CASE("defaults fill omitted options") {
  const Checked c = check("type = \"x\"");
  CHECK(c.problems.empty());
  CHECK(c.set.get_bool("flag"));
  CHECK(c.set.get_int("count") == 3);
  CHECK(c.set.get_real("share") == 0.5);
  CHECK(c.set.get_text("kind") == "sum");
  CHECK(c.set.get_ints("sizes") == std::vector<int64_t>{1, 2});
  CHECK(c.set.get_reals("betas").empty());
  CHECK(c.set.get_texts("names") == std::vector<std::string>{"a"});
  CHECK_FALSE(c.set.given("count"));
  CHECK(c.set.origin("count").text() == "default");
}

TEST_CASE("true and false are choices like others, with or without quotes") {
  const std::vector<plait_option> options = {
      with_choices(make_option(PLAIT_OPT_TEXT, "header", "\"auto\""), "auto|true|false")};
  CHECK(check("header = true", options).set.get_text("header") == "true");
  CHECK(check("header = false", options).set.get_text("header") == "false");
  CHECK(check("header = \"true\"", options).set.get_text("header") == "true");
  CHECK(check("kind = true").problems.find("found true") != std::string::npos);
}

TEST_CASE("given values are read, with their origin") {
  const Checked c = check(
      "flag = false\ncount = 10\nshare = 0.25\nkind = \"mean\"\nsizes = 4\nbetas = [1, 0.5]\nnames "
      "= []\n");
  CHECK(c.problems.empty());
  CHECK_FALSE(c.set.get_bool("flag"));
  CHECK(c.set.get_int("count") == 10);
  CHECK(c.set.get_ints("sizes") == std::vector<int64_t>{4});  // a single value is a list of one
  CHECK(c.set.get_reals("betas") == std::vector<double>{1, 0.5});
  CHECK(c.set.get_texts("names").empty());
  CHECK(c.set.origin("count").text() == "x.toml:2:9");
  CHECK(c.set.given("count"));
}

TEST_CASE("each defect is a problem with place, path and expected value") {
  struct Case {
    const char *text, *problem;
  };
  const Case cases[] = {
      {"flag = 1", "x.toml:1:8: model.layers[2].flag: expected true or false, found 1"},
      {"count = 0", "model.layers[2].count: expected integer >= 1 and <= 10, found 0"},
      {"count = 11", "found 11"},
      {"count = 2.0", "expected integer >= 1 and <= 10, found 2.0"},
      {"count = \"2\"", "found \"2\""},
      {"share = 0", "expected number > 0.0 and < 1.0, found 0"},
      {"share = 1.0", "found 1.0"},
      {"share = nan", "found nan"},
      {"share = [0.5]", "found a list"},
      {"kind = \"mena\"",
       "expected string: \"sum\" | \"mean\" | \"none\", found \"mena\" (did you mean 'mean'?)"},
      {"sizes = [1, -1]", "element 1: expected list of integers >= 0, found -1"},
      {"names = [1]", "element 0: expected list of strings, found 1"},
      {"file = 3", "expected path, found 3"},
      {"kind = \"a\\u0000b\"", "expected string"},
      {"names = \"a\\u0000b\"", "NUL"},
      {"count = 2020-01-01", "found a date or time"},
      {"cuont = 3",
       "x.toml:1:1: model.layers[2].cuont: unknown key 'cuont' (did you mean 'count'?); known "
       "keys: betas, count"},
      {"tpye = 3", "(did you mean 'type'?)"},
      {"count = \"???\"",
       "x.toml:1:9: model.layers[2].count: required value not set; replace \"???\" by a value: "
       "integer"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const std::string found = check(c.text).problems;
    CAPTURE(found);
    CHECK(contains(found, c.problem));
  }
}

TEST_CASE("a real number that is whole says what to write for an integer") {
  const auto advice = [](const std::string& given) {
    const std::string text =
        check("n = " + given, {at_least(make_option(PLAIT_OPT_INT, "n", "3"), -8)}).problems;
    const size_t at = text.find(": write ");
    return at == std::string::npos ? "" : text.substr(at + 8, text.find('\n', at) - at - 8);
  };
  CHECK(advice("1e3") == "1000");
  CHECK(advice("-8.0") == "-8");
  CHECK(advice("-9.0") == "");  // out of range
  CHECK(advice("2.5") == "");
  CHECK(advice("9007199254740992.0") == "9007199254740992");  // 2^53
  CHECK(advice("9007199254740994.0") == "");
}

TEST_CASE("an option without limits takes any number") {
  const std::vector<plait_option> free = {make_option(PLAIT_OPT_INT, "n", "3"),
                                          make_option(PLAIT_OPT_REAL, "x", "0.5")};
  const Checked c = check("n = -5\nx = -1e9", free);
  CHECK(c.problems == "");
  CHECK(c.set.get_int("n") == -5);
}

TEST_CASE("all problems are reported, not the first alone") {
  const Checked c = check("flag = 1\ncount = 0\nother = 1\n");
  CHECK(std::count(c.problems.begin(), c.problems.end(), '\n') == 2);
}

TEST_CASE("a required option that is missing") {
  const Checked c = check("", {make_option(PLAIT_OPT_INT, "out", nullptr)});
  CHECK(contains(c.problems, "model.layers[2].out: required key is missing; add out = <integer>"));
}

TEST_CASE("getters of the wrong name or type are the caller's bug") {
  const Checked c = check("");
  const auto text_of = [](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_INVALID);
      return e.text();
    }
    return std::string();
  };
  CHECK(contains(text_of([&] { c.set.get_int("cout"); }),
                 "'cout' is not declared (did you mean 'count'?)"));
  CHECK(contains(text_of([&] { c.set.get_int("share"); }),
                 "declared as number but was read as integer"));
}

TEST_CASE("the C table reads the same values and leaves outputs alone on error") {
  const Checked c = check("names = [\"p\", \"q\"]\nsizes = [5]");
  const plait_options* o = &c.set;
  const plait_options_table& t = *o->table;
  uint32_t flag = 7;
  CHECK(t.get_bool(o, "flag", &flag) == nullptr);
  CHECK(flag == 1);
  int64_t n = 99;
  CHECK(t.get_int(o, "count", &n) == nullptr);
  CHECK(n == 3);
  n = 99;
  plait_error* e = t.get_int(o, "flag", &n);
  REQUIRE(e != nullptr);
  CHECK(e->code == PLAIT_ERR_INVALID);
  free_c_error(e);
  CHECK(n == 99);
  double r = 0;
  CHECK(t.get_real(o, "share", &r) == nullptr);
  CHECK(r == 0.5);
  const char* text = nullptr;
  uint64_t size = 0, total = 0;
  CHECK(t.get_text(o, "kind", &text, &size) == nullptr);
  CHECK(std::string(text, size) == "sum");
  const int64_t* ints = nullptr;
  CHECK(t.get_ints(o, "sizes", &ints, &size) == nullptr);
  CHECK(size == 1);
  CHECK(ints[0] == 5);
  const double* reals = nullptr;
  CHECK(t.get_reals(o, "betas", &reals, &size) == nullptr);
  CHECK(size == 0);
  CHECK(t.get_texts(o, "names", 1, &text, &size, &total) == nullptr);
  CHECK(std::string(text, size) == "q");
  CHECK(total == 2);
  CHECK(t.get_texts(o, "names", 2, &text, &size, &total) == nullptr);
  CHECK(text == nullptr);
  CHECK(std::string(t.origin(o, "sizes")) == "x.toml:2:9");
  CHECK(std::string(t.origin(o, "flag")) == "default");
  CHECK(std::string(t.origin(o, "nothing")) == "undeclared option");
}

TEST_CASE("a copy stands on its own") {
  OptionSet copy;
  {
    const Checked c = check("names = [\"p\"]");
    copy = c.set;
  }
  CHECK(copy.get_texts("names")[0] == "p");
  copy.set_int("count", 8, Origin{"engine", 0, 0});
  CHECK(copy.get_int("count") == 8);
  CHECK(copy.origin("count").text() == "engine");
}

TEST_CASE("options may be larger in a newer plugin") {
  struct Larger {
    plait_option option;
    uint64_t added;
  };
  Larger options[2] = {{make_option(PLAIT_OPT_INT, "a", "1"), 5},
                       {make_option(PLAIT_OPT_INT, "b", "2"), 6}};
  for (Larger& one : options) one.option.struct_size = sizeof(Larger);
  const OptionView view(&options[0].option, 2);
  CHECK(view.names() == std::vector<std::string>{"a", "b"});
  CHECK(defect_of(view).empty());
}

TEST_CASE("elements of an array of options have one size, of at most 4096 bytes") {
  struct Largest {
    plait_option option;
    char more[4104 - sizeof(plait_option)];
  };
  Largest one[2] = {{make_option(PLAIT_OPT_INT, "a", "1"), {}}};
  const OptionView view(&one[0].option, 1);
  one[0].option.struct_size = 4096;
  CHECK(defect_of(view).empty());
  for (const uint32_t size : {4104u, 100u}) {
    one[0].option.struct_size = size;
    CHECK(contains(defect_of(view), "options have struct_size " + std::to_string(size)));
  }
  plait_option two[] = {make_option(PLAIT_OPT_INT, "a", "1"), make_option(PLAIT_OPT_INT, "b", "1")};
  two[1].struct_size -= 8;
  CHECK(defect_of(OptionView(two)) == "options differ in struct_size");
}

TEST_CASE("malformed declarations are found") {
  const auto defect = [](plait_option o) { return defect_of(OptionView(&o, 1)); };
  plait_option o = make_option(PLAIT_OPT_INT, "n", "1");
  CHECK(defect(o).empty());
  o.struct_size = 8;
  CHECK(contains(defect(o), "struct_size 8, expected at least 72"));
  CHECK(contains(defect(make_option(PLAIT_OPT_INT, "Bad", "1")), "snake_case"));
  CHECK(contains(defect(make_option(99, "n", "1")), "has type 99"));
  o = make_option(PLAIT_OPT_TEXTS, "n", "[]");
  o.flags = PLAIT_OPT_BY_TARGET;
  CHECK(defect(o).empty());
  o.type = PLAIT_OPT_TEXT;
  o.default_value = "\"\"";
  CHECK(contains(defect(o), "has values by target, which only a list of texts has"));
  CHECK(contains(defect(make_option(PLAIT_OPT_INT, "n", "x")), "breaks its own declaration"));
  CHECK(contains(defect(at_least(make_option(PLAIT_OPT_INT, "n", "0"), 1)),
                 "breaks its own declaration"));
  o = make_option(PLAIT_OPT_INT, "n", "1");
  o.help = nullptr;
  CHECK(contains(defect(o), "no help"));
  const plait_option twice[] = {make_option(PLAIT_OPT_INT, "n", "1"),
                                make_option(PLAIT_OPT_INT, "n", "1")};
  CHECK(contains(defect_of(OptionView(twice)), "declared twice"));
  o = make_option(PLAIT_OPT_INT, "", "1");
  CHECK(defect(o) == "an option has no name");
  o.name = nullptr;
  CHECK(defect(o) == "option number 0 has no name");
}

TEST_CASE("malformed limits are found") {
  const auto defect = [](uint32_t type, const char* value, uint32_t flags, double min, double max) {
    plait_option o = make_option(type, "n", value);
    o.flags = flags;
    o.min = min;
    o.max = max;
    return defect_of(OptionView(&o, 1));
  };
  const uint32_t least = PLAIT_OPT_HAS_MIN, most = PLAIT_OPT_HAS_MAX;
  CHECK(defect(PLAIT_OPT_REAL, "1.0", 1u << 30, 0, 0) ==
        "option 'n' has flags 1073741824, of which some are unknown");
  for (const uint32_t excluded : {PLAIT_OPT_MIN_EXCLUSIVE | most, PLAIT_OPT_MAX_EXCLUSIVE | least})
    CHECK(defect(PLAIT_OPT_REAL, "1.0", excluded, 0, 2) ==
          "option 'n' excludes a limit that it does not have");
  for (const uint32_t limited : {least, most, least | most}) {
    CAPTURE(limited);
    CHECK(defect(PLAIT_OPT_BOOL, "true", limited, 0, 2) ==
          "option 'n' has limits, which only numbers have");
    CHECK(defect(PLAIT_OPT_REAL, "1.0", limited, NAN, NAN) ==
          "option 'n' has a limit that is not a number");
    for (const uint32_t type : {PLAIT_OPT_INT, PLAIT_OPT_REAL})
      CHECK(defect(type, "1", limited, 1, 1) == "");
    for (const uint32_t type : {PLAIT_OPT_INTS, PLAIT_OPT_REALS})
      CHECK(defect(type, "[1]", limited, 1, 1) == "");
  }
  for (const auto& [min, max] : {std::pair{double{NAN}, 2.0}, {0.0, double{NAN}}})
    CHECK(defect(PLAIT_OPT_REAL, "1.0", least | most, min, max) ==
          "option 'n' has a limit that is not a number");
  CHECK(defect(PLAIT_OPT_REAL, "1.0", least | most, 2, 0.5) ==
        "option 'n' has a minimum of 2 above its maximum of 0.5");
}

TEST_CASE("choices belong to texts; the kind of item to items") {
  const auto defect = [](uint32_t type, const char* value, const char* choices) {
    plait_option o = make_option(type, "n", value);
    o.choices = choices;
    return defect_of(OptionView(&o, 1));
  };
  CHECK(defect(PLAIT_OPT_TEXT, "\"a\"", "a|b") == "");
  CHECK(defect(PLAIT_OPT_TEXTS, "[\"a\"]", "a|b") == "");
  for (const uint32_t type : {PLAIT_OPT_INT, PLAIT_OPT_PATH})
    CHECK(defect(type, nullptr, "a|b") == "option 'n' has choices, which only texts have");
  for (const uint32_t type : {PLAIT_OPT_ITEM, PLAIT_OPT_ITEMS}) {
    CHECK(defect(type, nullptr, PLAIT_KIND_DATASET) == "");
    for (const char* none : {static_cast<const char*>(nullptr), "dataset"})
      CHECK(defect(type, nullptr, none) == "option 'n' names no kind of item in its choices");
  }
  for (const uint32_t type : {PLAIT_OPT_TEXT, PLAIT_OPT_PATH})
    CHECK(defect(type, "a", nullptr) == "option 'n' has a default without quotes: a");
}

TEST_CASE("descriptions of options: limits in full up to 1e15, items by their kind") {
  plait_option o = make_option(PLAIT_OPT_INT, "n", "1");
  const auto limited = [&o](double limit) {
    return describe_option(at_most(at_least(o, -limit), limit));
  };
  CHECK(limited(999999999999999) == "integer >= -999999999999999 and <= 999999999999999");
  CHECK(limited(1e15) == "integer >= -1e+15 and <= 1e+15");
  o = make_option(PLAIT_OPT_ITEM, "n", nullptr);
  o.choices = PLAIT_KIND_PEFT;
  CHECK(describe_option(o) == "table: {type = \"NAME\", ...} of a method");
  o.choices = PLAIT_KIND_DATASET;
  CHECK(describe_option(o) == "table: {type = \"NAME\", ...} of a dataset");
  CHECK(describe_option(make_option(99, "n", nullptr)) == "unknown type");
}

TEST_CASE("paths: data folder first, then beside the experiment") {
  FileSystem& files = FileSystem::posix();
  char name[] = "./plait-paths-XXXXXX";
  REQUIRE(mkdtemp(name) != nullptr);
  const std::string folder = files.real_path(name);
  files.make_folders(folder + "/data");
  files.make_folders(folder + "/exp");
  for (const char* file : {"/data/a", "/exp/a", "/exp/b"}) files.replace(folder + file, "");
  const PathResolver resolver{&files, folder + "/data", folder + "/exp"};
  CHECK(resolver.resolve("a") == folder + "/data/a");
  CHECK(resolver.resolve("b") == folder + "/exp/b");
  CHECK(resolver.resolve("c") == "c");
  // Folders inside the data folder, as `plait data get` makes them, where one alone has the file.
  for (const char* set : {"/data/one", "/data/two"}) files.make_folders(folder + set);
  for (const char* file : {"/data/one/d", "/data/one/e", "/data/two/e", "/data/two/a"})
    files.replace(folder + file, "");
  CHECK(resolver.resolve("d") == folder + "/data/one/d");
  CHECK(resolver.resolve("a") == folder + "/data/a");
  CHECK(resolver.resolve("e") == "e");
  CHECK(resolver.in_sets("e") ==
        std::vector<std::string>{folder + "/data/one/e", folder + "/data/two/e"});
  CHECK(resolver.resolve("/abs") == "/abs");
  CHECK(resolver.resolve("") == "");
  // A file that is extended gives paths beside it, before those beside the experiment.
  files.make_folders(folder + "/base");
  for (const char* file : {"/base/a", "/base/b", "/base/f"}) files.replace(folder + file, "");
  const std::string base = folder + "/base/base.toml";
  const Origin below{base, 1, 1}, own{folder + "/exp/own.toml", 1, 1}, override{"override", 0, 0};
  CHECK(resolve_written(resolver, "b", below) == folder + "/base/b");
  CHECK(resolve_written(resolver, "b", own) == folder + "/exp/b");
  CHECK(resolve_written(resolver, "a", below) == folder + "/data/a");
  CHECK(resolve_written(resolver, "d", below) == folder + "/data/one/d");
  CHECK(resolve_written(resolver, "f", override) == "f");
  // Every folder has ".": that of an override is the current one, that of a file is looked up.
  const Origin written = Origin::of_override("model.load=.");
  for (const char* dots : {".", "./", "..", "../.."}) {
    CHECK(resolve_written(resolver, dots, written) == dots);
    CHECK(resolve_written(resolver, dots, own) == folder + "/data/" + dots);
  }
  CHECK(resolve_written(resolver, "./b", written) == folder + "/exp/./b");
  CHECK(folders_of(resolver, below) ==
        std::vector<std::string>{folder + "/data", folder + "/base", folder + "/exp"});
  Problems none;
  const Document file = Document::parse("file = \"f\"", base, none);
  const OptionSet whole =
      OptionSet::check(file.root, OptionView(declared()), {}, "data.train", resolver, none);
  CHECK(whole.get_text("file") == folder + "/base/f");
  CHECK(contains(whole.to_toml(false), folder + "/base/f"));

  Problems problems;
  const Document document = Document::parse("file = \"c\"", "x.toml", problems);
  const OptionSet set =
      OptionSet::check(document.root, OptionView(declared()), {}, "data.train", resolver, problems);
  CHECK(set.get_text("file") == "c");
  const std::vector<GivenPath> missing = set.missing_paths(resolver);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].given == "c");
  CHECK(missing[0].origin.text() == "x.toml:1:8");
  files.remove_all(folder);
}

TEST_CASE("options become TOML again") {
  const Checked c = check("kind = \"mean\"");
  const std::string text = c.set.to_toml(true);
  CHECK(contains(text, "# a help text\n# integer >= 1 and <= 10\ncount = 3\n"));
  CHECK(contains(text, "# string: \"sum\" | \"mean\" | \"none\"\nkind = \"mean\"\n"));
  const Checked again = check(text);
  CHECK(again.problems.empty());
  CHECK(again.set.to_toml(true) == text);
  constexpr std::string_view kSkip[] = {"kind"};
  CHECK_FALSE(contains(c.set.to_toml(false, kSkip), "kind"));
}
