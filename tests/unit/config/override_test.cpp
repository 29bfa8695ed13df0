#include <doctest/doctest.h>

#include "engine/config/document.hpp"
#include "tests/unit/config/fake_catalog.hpp"

using namespace plait;
using namespace plait::config;

namespace {

struct Result {
  std::string toml, problems;
};

Result apply(const char* text, std::initializer_list<const char*> overrides) {
  Problems problems;
  Document document = Document::parse(text, "x.toml", problems);
  for (const char* one : overrides) apply_override(document, one, problems);
  return {document.root.toml(), problems.text()};
}

constexpr char kBase[] =
    "[run]\nseed = 1\n[[model.layers]]\ntype = \"a\"\n[[model.layers]]\ntype = \"b\"\n";

}  // namespace

TEST_CASE("plus signs of Hydra are refused with what to write") {
  for (const char* word : {"+run.seed=7", "++run.seed=7"}) {
    const Result r = apply(kBase, {word});
    CHECK(contains(r.problems, "'+' before a key"));
    CHECK(contains(r.problems, "write run.seed=7"));
    CHECK(contains(r.toml, "seed = 1"));
  }
}

TEST_CASE("overrides set, add, index and remove") {
  Result r = apply(kBase, {"run.seed=7", "run.name = demo", "batch.global=32",
                           "model.layers[1].out=64", "~model.layers[0]"});
  CHECK(r.problems.empty());
  CHECK(r.toml ==
        "{run = {seed = 7, name = \"demo\"}, model = {layers = [{type = \"b\", out = 64}]}, batch "
        "= {global = 32}}");
  r = apply(kBase, {"~run.seed", "data.train={type = \"t\"}", "data.train.\"odd.key\"=[1]"});
  CHECK(r.problems.empty());
  CHECK(contains(r.toml, "run = {}"));
  CHECK(contains(r.toml, "{type = \"t\", \"odd.key\" = [1]}"));
  r = apply("", {"a=b=c", "x.list=[1,2]", "x.list[1]=9"});
  CHECK(r.toml == "{a = \"b=c\", x = {list = [1, 9]}}");
}

TEST_CASE("the origin is the override itself") {
  Problems problems;
  Document d = Document::parse(kBase, "x.toml", problems);
  apply_override(d, "run.seed=7", problems);
  apply_override(d, "new.key=[1]", problems);
  CHECK(d.root["run"]["seed"].origin().text() == "override 'run.seed=7'");
  CHECK(d.root["run"].origin().text() == "x.toml:1:1");
  CHECK(d.root["new"]["key"].items()[0].origin().text() == "override 'new.key=[1]'");
}

TEST_CASE("bad overrides are problems that name the remedy, and change nothing") {
  struct Case {
    const char *text, *message;
  };
  const Case cases[] = {
      {"run.seed", "there is no '='"},
      {"=1", "an empty key"},
      {"run..seed=1", "an empty key"},
      {"run.seed=", "there is no value"},
      {"run.seed=[1", "not a TOML value"},
      {"run.seed.x=1", "run.seed: is an integer, not a table"},
      {"model.layers.out=1", "name an element: model.layers[0].out"},
      {"model.layers.0.out=1", "name an element: model.layers[0].out"},
      {"model.layers.\"\"=1", "name an element: model.layers[0].\"\""},
      {"model.layers.2=1", "name an element: model.layers[2]"},
      {"model.layers.\"a.b\"=1", "name an element: model.layers[0].\"a.b\""},
      {"model.layers.out[0].a=1", "name an element: model.layers[0].out[0].a"},
      {"model.layers.out[1]=1", "name an element: model.layers[0].out[1]"},
      {"model.layers[0].type.x=1", "model.layers[0].type: is a string, not a table"},
      {"model.layers[2].out=1", "model.layers[2]: the list has 2 elements"},
      {"model.layers[x].out=1", "an index that is not a number"},
      {"model.layers[1x].out=1", "an index that is not a number"},
      {"model.layers[99999999999999999999].out=1", "an index that is not a number"},
      {"model.layers[-1].out=1", "an index that is not a number"},
      {"model.layers[0.out=1", "'[' without ']'"},
      {"model.layers[0]out=1", "cannot read the key"},
      {"run[0]=1", "run: is a table, not a list"},
      {"~run.sed", "there is no such key (did you mean 'seed'?)"},
      {"~model.layers[7]", "the list has 2 elements"},
      {"\"open=1", "no '='"},
      {"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h=1", "too many parts"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const Result r = apply(kBase, {c.text});
    CAPTURE(r.problems);
    CHECK(contains(r.problems, c.message));
    CHECK(contains(r.problems, std::string("override '") + c.text + "'"));
    CHECK(r.toml == apply(kBase, {}).toml);
  }
}
