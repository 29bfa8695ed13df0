// What the engine refuses of the functions of a plugin's op.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/text.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/plugin_op.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

// What the item's functions answer; they have no context of their own.
plait_shape said;
double said_flops = 0;
// d_inputs[0]; its dims make a gradient of these, of that type.
plait_value said_gradient = 0;
Dims said_dims;
uint32_t said_type = 0;
// What infer() has seen of the attributes.
std::vector<std::string> seen;

plait_error* PLAIT_CALL infer(const plait_host*, const plait_op_desc* desc, plait_shape* outputs) {
  for (uint32_t i = 0; i < desc->n_attrs; ++i)
    seen.push_back(desc->attrs[i].name + strf("=%g", desc->attrs[i].f));
  outputs[0] = said;
  return nullptr;
}
double PLAIT_CALL flops(const plait_op_desc*) { return said_flops; }
plait_error* PLAIT_CALL gradient(plait_builder* b, const plait_op_use* use, plait_value* d_inputs) {
  d_inputs[0] = said_gradient;
  if (!said_dims.empty()) {
    const plait_attr shape{"shape", PLAIT_OPT_INTS,  static_cast<uint32_t>(said_dims.size()), 0, 0,
                           nullptr, said_dims.data()};
    if (plait_error* e = b->table->op(b, "reshape", use->d_outputs, 1, &shape, 1, d_inputs, 1))
      return e;
  }
  if (said_type == 0) return nullptr;
  const plait_attr type{"dtype", PLAIT_OPT_INT, 0, said_type, 0, nullptr, nullptr};
  return b->table->op(b, "cast", d_inputs, 1, &type, 1, d_inputs, 1);
}

struct Fixture : GraphFixture {
  plugin::Extensions extensions;
  plugin::Host host{registry, log, extensions, "acme"};
  plait_op_item item{};

  Fixture() {
    item.struct_size = sizeof item;
    item.name = "acme.swish";
    item.n_outputs = 1;
    item.infer = infer;
    item.gradient = gradient;
    item.flops = flops;
    said = make_shape(PLAIT_F32, {4, 6});
    said_flops = 7;
    said_gradient = 0;
    said_dims.clear();
    said_type = 0;
    seen.clear();
    g.scope = "model.swish1";
  }
  // y = swish(x), with x (4, 6).
  ValueId swish(Attrs attrs = {}) {
    if (!registry.find_op(item.name)) {
      host.begin_open();
      plait_error* e = host.add(&host, PLAIT_KIND_OP, &item);
      REQUIRE(e == nullptr);
      host.end_open();
    }
    g.scope = "model.swish1";
    const ValueId x = in({4, 6});
    g.value(x).requires_grad = true;
    return g.apply1(item.name, {x}, std::move(attrs));
  }
  std::string refusal() {
    return test::error_of([&] { swish(); }, PLAIT_ERR_PLUGIN);
  }
  // Of the gradient of the sum of y.
  ValueId gradient_of_x() {
    const ValueId y = swish();
    const ValueId loss =
        g.apply1("reduce", {y},
                 {attr("kind", std::string("sum")), attr("axes", Dims{0, 1}), attr("keep", false)});
    return differentiate(g, loss, {g.ops()[0].in[0]})[0];
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "shapes that do not exist are refused, and one that was not set") {
  const struct {
    void (*change)(plait_shape&);
    std::string words;
  } rows[] = {
      {[](auto& s) { s.dtype = 0; }, "left output 0 unset; tell its author"},
      {[](auto& s) { s.dtype = 77; },
       "set output 0 to element type 77, which does not exist; tell its author"},
      {[](auto& s) { s.ndim = 9; },
       "set output 0 to ndim 9, at most 8 are supported; tell its author"},
      {[](auto& s) { s.dims[1] = -6; },
       "set output 0 to a malformed shape: [shape] negative extent -6; tell its author"},
  };
  for (const auto& row : rows) {
    said = make_shape(PLAIT_F32, {4, 6});
    row.change(said);
    CHECK(refusal() == "[plugin acme] infer() of op 'acme.swish' at model.swish1 " + row.words);
  }
  said = make_shape(PLAIT_U8, Dims(8, 1));
  CHECK(same(g.shape(swish()), said));
}

TEST_CASE_FIXTURE(Fixture, "numbers of operations that cannot be") {
  swish();
  const Op& op = g.ops()[0];
  CHECK(op.def->is_product);
  CHECK(flops_of(g, op) == 7);
  said_flops = 0;
  CHECK(flops_of(g, op) == 0);
  for (const auto& [number, text] :
       {std::pair(-1.0, "-1"), {std::nan(""), "nan"}, {INFINITY, "inf"}}) {
    said_flops = number;
    CHECK(test::error_of([&] { flops_of(g, op); }, PLAIT_ERR_PLUGIN) ==
          "[plugin acme] flops() of op 'acme.swish' at model.swish1 returned " + std::string(text) +
              ", expected a number that is not below 0; tell its author");
  }
}

TEST_CASE_FIXTURE(Fixture, "gradients: of the input's shape, and floats") {
  const std::string head =
      "[plugin acme] gradient() of op 'acme.swish' at model.swish1 set d_inputs[0] to ";
  said_dims = {4, 6};
  CHECK(same(g.shape(gradient_of_x()), make_shape(PLAIT_F32, {4, 6})));
  said_dims = {6, 4};
  const auto refused = [this] {
    g = Graph(&ops);
    return test::error_of([this] { gradient_of_x(); }, PLAIT_ERR_PLUGIN);
  };
  CHECK(refused() ==
        head + "f32 (6, 4), expected a float of the input's shape, f32 (4, 6); tell its author");
  said_dims = {4, 6};
  said_type = PLAIT_I32;
  CHECK(refused() ==
        head + "i32 (4, 6), expected a float of the input's shape, f32 (4, 6); tell its author");
  said_dims.clear();
  said_type = 0;
  said_gradient = 99;
  CHECK(refused() == head + "99, which is no value of this program; tell its author");
  said_gradient = 0;
  g = Graph(&ops);
  CHECK(gradient_of_x() == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "declared attributes, though their table is of a longer or shorter kind") {
  struct Longer {
    plait_option option;
    uint64_t more[3];
  };
  Longer longer[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    longer[i].option = {};
    longer[i].option.struct_size = sizeof(Longer);
    longer[i].option.name = i == 0 ? "alpha" : "beta";
    longer[i].option.type = PLAIT_OPT_REAL;
    longer[i].option.default_value = i == 0 ? "1.5" : "2.5";
    longer[i].option.help = "a factor";
    for (uint64_t& word : longer[i].more) word = ~uint64_t{0};
  }
  item.attrs = &longer[0].option;
  item.n_attrs = 2;
  swish({attr("beta", 4.0)});
  CHECK(seen == std::vector<std::string>{"alpha=1.5", "beta=4"});
  CHECK(test::error_of([&] { swish({attr("gamma", 1.0)}); }, PLAIT_ERR_INVALID) ==
        "[model.swish1] acme.swish: has no attribute 'gamma'; it takes alpha, beta");
}

TEST_CASE_FIXTURE(Fixture, "an op that declares no attributes takes any, and they are passed on") {
  swish({attr("gamma", 0.5)});
  CHECK(seen == std::vector<std::string>{"gamma=0.5"});
}
