// Values that are refused although their keys and types are in order, and declarations that are.
#include <plait/op.h>

#include <limits>

#include "engine/base/c_error.hpp"
#include "engine/config/bind.hpp"
#include "tests/unit/config/loaded.hpp"
#include "tests/unit/error_of.hpp"

using namespace plait;
using namespace plait::config;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// So many blocks inside each other, in place of the second layer.
std::string blocks(int n) {
  std::string layer = "{type = \"ramp\"}";
  for (int i = 1; i < n; ++i) layer = "{type = \"block\", layers = [" + layer + "]}";
  return replaced(kSmall, "type = \"ramp\"", "type = \"block\"\nlayers = [" + layer + "]");
}

// Knows one item, of any kind.
struct OneItem : FakeCatalog {
  bool find_item(std::string_view, std::string_view name, CatalogItem& out) const override {
    out = {std::string(name), "what it does", "fake", {}, 0, 0};
    return true;
  }
};

}  // namespace

TEST_CASE("refused values: what is missing, of the wrong kind or has no name") {
  struct Case {
    std::string text, problem;  // "": none
  };
  const std::string small = kSmall;
  const auto before_device = [&](const std::string& section) {
    return replaced(small, "[device]", section + "\n[device]");
  };
  const std::string adapter = "[[model.adapters]]\ntype = \"patch\"\nmatch = ";
  for (const Case& c : {
           Case{before_device("[topology]\nrecompute = \"budget\""),
                "topology.recompute: \"budget\" needs topology.recompute_budget, found none; set "
                "it to the MiB of activations that a program may hold"},
           Case{before_device("[topology]\nrecompute = \"budget\"\nrecompute_budget = 0.5"), ""},
           Case{"tokenizer = 3\n" + small,
                "x.toml:1:13: tokenizer: expected a table, found an integer; write [tokenizer] "
                "with its type below"},
           Case{blocks(8), ""},
           Case{blocks(9),
                "more than 8 blocks inside each other; write the inner layers without a block"},
           Case{"[models.\"a b\"]\nlayers = [{type = \"ramp\"}]\n",
                "models.\"a b\": 'a b' is not a valid name; use letters, digits, _ and -"},
           Case{small + adapter + "[]\n",
                "model.adapters[0].match: an empty list matches nothing; name patterns, as in "
                "[\"*.attn.*.weight\"]"},
           Case{small + adapter + "[\"*\"]\n", ""},
           Case{replaced(small, "match = [\"*.bias\"]", "match = [\"*.bias\"]\nname = \"frozen\""),
                "optimizer.groups[0].name: 'frozen' is what plans call parameters of no group; "
                "give it another name"},
           Case{replaced(small, "epochs = 4", "epochs = 1979-05-27"),
                "run.epochs: expected integer >= 0, in epochs, found a date or time"},
       }) {
    const std::string problems = load(c.text).problems;
    CAPTURE(problems);
    CAPTURE(c.text);
    if (c.problem.empty())
      CHECK(problems.empty());
    else
      CHECK(contains(problems, c.problem));
  }
}

TEST_CASE("refused values: a metric to watch is a loss of one of the models, too") {
  const auto problems = [](const std::string& metric) {
    return load(R"([run]
epochs = 1
[batch]
global = 8
[data.train]
type = "table"
file = "a.csv"
[data.eval]
type = "table"
file = "b.csv"
[models.one]
layers = [{type = "ramp"}]
loss.type = "squared"
optimizer.type = "descent"
[models.two]
layers = [{type = "ramp"}]
losses = [{type = "squared"}, {type = "squared"}]
optimizer.type = "descent"
[evaluate.early_stop]
patience = 2
metric = ")" + metric +
                "\"\n")
        .problems;
  };
  for (const std::string name :
       {"loss", "loss.one.squared", "loss.two.squared", "loss.two.squared2"})
    CHECK(problems(name) == "");
  CHECK(contains(problems("loss.one.squared2"),
                 "evaluate.early_stop.metric: there is no metric 'loss.one.squared2' (did you mean "
                 "'loss.one.squared'?); known are: loss, loss.one.squared, loss.two.squared, "
                 "loss.two.squared2"));
}

TEST_CASE("refused values: a date, and more than one value") {
  Problems problems;
  CHECK(parse_value("1979-05-27", {"here", 0, 0}, problems).toml() == "a date or time");
  CHECK(parse_value("[\"a\"]\nb = 2", {"here", 0, 0}, problems).absent());
  CHECK(problems.text() == "here: not one TOML value; check quotes and brackets");
}

TEST_CASE("refused values: plugins' folders become absolute with all other paths") {
  Problems problems;
  const Document document = Document::parse(
      replaced(kSmall, "[device]", "[plugins]\npaths = [\"mine\", \"/abs\"]\n[device]"),
      "/dir/x.toml", problems);
  const Experiment e = load_experiment(document, catalog(), PathResolver(), problems);
  CHECK(problems.text() == "");
  CHECK(contains(bind(e, catalog(), true), "\npaths = [\"/dir/mine\", \"/abs\"]\n"));
  CHECK(contains(bind(e, catalog(), false), "\npaths = [\"mine\", \"/abs\"]\n"));
}

TEST_CASE("refused values: limits of a declaration that contradict each other") {
  struct Case {
    uint32_t type, flags;
    double min, max;
    const char *default_value, *defect;  // "": none
  };
  constexpr uint32_t kMin = PLAIT_OPT_HAS_MIN, kMax = PLAIT_OPT_HAS_MAX;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Case& c : {
           Case{PLAIT_OPT_INT, kMin | kMax, 1, 1, "1", ""},
           Case{PLAIT_OPT_REAL, kMin | PLAIT_OPT_MIN_EXCLUSIVE, 0, nan, "1", ""},
           Case{PLAIT_OPT_INT, 64, 0, 0, "1", "has flags 64, of which some are unknown"},
           Case{PLAIT_OPT_INT, PLAIT_OPT_MIN_EXCLUSIVE, 0, 0, "1",
                "excludes a limit that it does not have"},
           Case{PLAIT_OPT_INT, kMin | PLAIT_OPT_MAX_EXCLUSIVE, 0, 0, "1",
                "excludes a limit that it does not have"},
           Case{PLAIT_OPT_TEXT, kMin, 0, 0, "\"\"", "has limits, which only numbers have"},
           Case{PLAIT_OPT_BOOL, kMax, 0, 0, "true", "has limits, which only numbers have"},
           Case{PLAIT_OPT_REALS, kMax, 0, 0, "[]", ""},
           Case{PLAIT_OPT_REAL, kMin, nan, 0, "1", "has a limit that is not a number"},
           Case{PLAIT_OPT_REAL, kMax, 0, nan, "1", "has a limit that is not a number"},
           Case{PLAIT_OPT_INT, kMin | kMax, 2, 1.5, "2",
                "has a minimum of 2 above its maximum of 1.5"},
           Case{PLAIT_OPT_TEXT, 0, 0, 0, "word", "has a default without quotes: word"},
           Case{PLAIT_OPT_TEXT, 0, 0, 0, "'word'", ""},
           Case{PLAIT_OPT_PATH, 0, 0, 0, "word", "has a default without quotes: word"},
       }) {
    plait_option o = make_option(c.type, "n", c.default_value);
    o.flags = c.flags, o.min = c.min, o.max = c.max;
    const std::string defect = defect_of(OptionView(&o, 1));
    CHECK(defect == (*c.defect ? std::string("option 'n' ") + c.defect : ""));
  }
}

TEST_CASE("refused values: an option is asked for by name, of a set, into a place") {
  const Loaded loaded = load(kSmall);
  const OptionSet& set = loaded.experiment.models[0].layers[0].options;
  const plait_options* o = &set;
  int64_t n = 7;
  const auto text = [&](const plait_options* of, const char* name, int64_t* to) {
    plait_error* e = o->table->get_int(of, name, to);
    REQUIRE(e != nullptr);
    const Error error = from_c(e);
    CHECK(error.code() == PLAIT_ERR_INVALID);
    return error.text();
  };
  CHECK(text(o, "out", nullptr) == "[options] 'out' was asked for without a place: out is NULL");
  CHECK(text(o, nullptr, &n) == "[options] an option was asked for without a name: it is NULL");
  CHECK(text(nullptr, "out", &n) ==
        "[options] an option was asked for without the options: they are NULL");
  CHECK(n == 7);
}
