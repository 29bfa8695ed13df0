// What holds of every definition: attributes are refused under any other name or type, and the
// reference page is theirs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "engine/base/error.hpp"
#include "engine/program/op_reference.hpp"
#include "engine/program/op_registry.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Fixture = GraphFixture;

std::string refusal(const OpDef& def, Attrs attrs) {
  try {
    checked(def, std::move(attrs), std::string("[model.fc1] ") + def.name + ":");
  } catch (const Error& e) {
    return e.text();
  }
  return "accepted";
}

// A value of the type that `decl` names.
Attr value_of(const plait_option& decl, const std::string& name) {
  const std::string choices = decl.choices ? decl.choices : "x";
  return {name, decl.type, 1, 0.5, choices.substr(0, choices.find('|')), {1}};
}

// What the op must be given, but for one attribute.
Attrs required_but(const OpDef& def, const plait_option& but) {
  Attrs attrs;
  for (const plait_option& decl : def.attrs)
    if (!decl.default_value && &decl != &but) attrs.set(value_of(decl, decl.name));
  return attrs;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "every attribute of every op is refused under a name that is not its") {
  size_t n = 0;
  for (const OpDef* def : core_ops())
    for (const plait_option& decl : def->attrs) {
      CAPTURE(def->name);
      CAPTURE(decl.name);
      Attrs right = required_but(*def, decl), wrong = right;
      right.set(value_of(decl, decl.name));
      CHECK(refusal(*def, right) == "accepted");
      const std::string renamed = std::string(decl.name) + "x";
      wrong.set(value_of(decl, renamed));
      const std::string text = refusal(*def, wrong);
      CHECK(text.find("has no attribute '" + renamed + "'") != std::string::npos);
      CHECK(text.find("it takes ") != std::string::npos);
      CHECK(text.find(decl.name) != std::string::npos);
      ++n;
    }
  CHECK(n >= 25);
}

TEST_CASE_FIXTURE(
    Fixture, "every attribute is refused with another type, or missing where it must be given") {
  for (const OpDef* def : core_ops())
    for (const plait_option& decl : def->attrs) {
      CAPTURE(def->name);
      CAPTURE(decl.name);
      Attrs wrong = required_but(*def, decl);
      if (!decl.default_value)
        CHECK(refusal(*def, wrong).find(std::string("needs the attribute '") + decl.name) !=
              std::string::npos);
      Attr a = value_of(decl, decl.name);
      a.type = decl.type == PLAIT_OPT_TEXT ? PLAIT_OPT_INTS : PLAIT_OPT_TEXT;
      wrong.set(a);
      CHECK(refusal(*def, wrong).find(", expected ") != std::string::npos);
    }
}

TEST_CASE_FIXTURE(
    Fixture, "a transposition that is misspelt, a choice that is none, a number out of bounds") {
  CHECK(refusal(*ops.find("matmul"), {attr("transpose_B", true)}) ==
        "[model.fc1] matmul: has no attribute 'transpose_B' (did you mean 'transpose_b'?); it "
        "takes transpose_a, transpose_b, bias, wide");
  CHECK(refusal(*ops.find("reduce"), {attr("axes", Dims{0}), attr("kind", std::string("mean"))}) ==
        "[model.fc1] reduce: kind 'mean' is none of sum, max, sum_squares");
  CHECK(refusal(*ops.find("cross_entropy"), {attr("label_smoothing", 1.0)}) ==
        "[model.fc1] cross_entropy: label_smoothing must be below 1, found 1");
  CHECK(refusal(*ops.find("tanh"), {attr("axis", int64_t{0})}) ==
        "[model.fc1] tanh: has no attribute 'axis'; it takes none");
  CHECK(refusal(*ops.find("layer_norm"), {attr("eps", int64_t{1})}) == "accepted");
  for (const auto& [number, text] : {std::pair(std::nan(""), "nan"), {INFINITY, "inf"}})
    CHECK(refusal(*ops.find("layer_norm"), {attr("eps", number)})
              .starts_with("[model.fc1] layer_norm: attribute 'eps' is " + std::string(text) +
                           ", expected a finite number: "));
}

TEST_CASE_FIXTURE(Fixture, "what passes fold in is not for whoever writes a program") {
  const OpDef& matmul = *ops.find("matmul");
  CHECK_THROWS_WITH_AS(
      check_audience(matmul, {attr("activation", std::string("relu"))}, "[m] f:"),
      "[m] f: has no attribute 'activation'; it takes transpose_a, transpose_b, bias, wide", Error);
  CHECK_THROWS_AS(check_audience(*ops.find("collective_start"), {}, "[m] f:"), Error);
  check_audience(matmul, {attr("bias", true)}, "[m] f:");
}

TEST_CASE("definitions are complete, and names are theirs alone") {
  for (const OpDef* def : core_ops()) {
    CAPTURE(def->name);
    CHECK(*def->help != 0);
    CHECK(*def->signature != 0);
    CHECK(*def->dtypes != 0);
    CHECK((def->infer || def->lower || def->is_map));
    if (def->vjp && def->audience == Audience::kEveryone) CHECK((def->examples != nullptr));
    CHECK(std::count_if(core_ops().begin(), core_ops().end(), [&](const OpDef* other) {
            return std::string(other->name) == def->name;
          }) == 1);
  }
}

// With PLAIT_UPDATE_OPS set to the page's path it is written instead.
TEST_CASE_FIXTURE(Fixture, "abi/plait/OPS.md is the page of the definitions") {
  const std::string page = op_page(ops.all());
  if (const char* path = std::getenv("PLAIT_UPDATE_OPS")) std::ofstream(path) << page;
  std::ifstream file(PLAIT_SOURCE_FOLDER "/abi/plait/OPS.md");
  const std::string written{std::istreambuf_iterator<char>(file), {}};
  CHECK_MESSAGE(written == page, "write it anew: PLAIT_UPDATE_OPS=abi/plait/OPS.md unit_program");
  CHECK(op_json(ops.all()).find("\"matmul\"") != std::string::npos);
}
