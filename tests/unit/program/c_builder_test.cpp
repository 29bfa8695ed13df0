// What the builder that items of plugins get refuses: each malformed call, by what it names.
#include "engine/program/c_builder.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <thread>

#include "engine/base/c_error.hpp"
#include "engine/base/text.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

std::string code_of(const Error& e) {
  switch (e.code()) {
    case PLAIT_ERR_INVALID:
      return "INVALID";
    case PLAIT_ERR_STATE:
      return "STATE";
    case PLAIT_ERR_PLUGIN:
      return "PLUGIN";
    default:
      return std::to_string(e.code());
  }
}

struct Fixture : GraphFixture {
  BuildHooks hooks;
  ValueId x = in({4, 6});
  // What the hooks got.
  plait_parameter asked{};
  plait_state state{};
  std::vector<std::string> told;

  Fixture() {
    g.scope = "model.fc1";
    hooks.parameter = [this](const plait_parameter& p) {
      asked = p;
      return x;
    };
    hooks.state = [this](const std::string& name, double initial) {
      told.push_back("state " + name + strf(" %g", initial));
      return x;
    };
    hooks.set_state = [this](const std::string& name, ValueId v) {
      told.push_back("set " + name + " " + std::to_string(v));
    };
    hooks.tensor_state = [this](const plait_state& s) {
      state = s;
      return x;
    };
    hooks.add_loss = [this](const std::string& name, double factor, ValueId sum, ValueId weight) {
      told.push_back("loss " + name + strf(" %g %u %u", factor, sum, weight));
    };
  }

  // The error of a call with a builder, its code first: "INVALID [model.fc1] ..."; "" for none.
  template <class Call>
  std::string error(Call&& call) {
    CBuilder builder(g, hooks);
    return error(builder.get(), call);
  }
  template <class Call>
  static std::string error(plait_builder* b, Call&& call) {
    plait_error* const e = call(b);
    if (!e) return "";
    const Error got = from_c(e);
    return code_of(got) + " " + got.full_text();
  }
  template <class Call>
  void expect(Call&& call, const std::string& text) {
    CHECK(error(call) == text);
  }

  plait_parameter parameter() const {
    return {sizeof(plait_parameter),
            "weight",
            make_shape(PLAIT_F32, {4, 6}),
            PLAIT_INIT_UNIFORM,
            1,
            -1,
            1,
            0,
            0,
            0};
  }
  std::string parameter_error(const plait_parameter& p) {
    return error([&](plait_builder* b) {
      plait_value out = 0;
      return b->table->parameter(b, &p, &out);
    });
  }
  std::string state_error(const plait_state& s) {
    return error([&](plait_builder* b) {
      plait_value out = 0;
      return b->table->tensor_state(b, &s, &out);
    });
  }
};

plait_error* op(plait_builder* b, const char* name, std::vector<plait_value> in, uint32_t n_out = 1,
                std::vector<plait_attr> attrs = {}) {
  plait_value out[4] = {};
  return b->table->op(b, name, in.data(), static_cast<uint32_t>(in.size()), attrs.data(),
                      static_cast<uint32_t>(attrs.size()), out, n_out);
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a builder of NULL, of an earlier call and of another thread") {
  const auto constant = [](plait_builder* b) {
    plait_value v = 0;
    return b->table->constant(b, 1, &v);
  };
  plait_builder* kept = nullptr;
  const plait_build_table* table = nullptr;
  {
    CBuilder builder(g, hooks);
    kept = builder.get();
    table = kept->table;
    CHECK(error(kept, constant) == "");
    std::string other;
    std::thread([&] { other = error(kept, constant); }).join();
    const std::string earlier =
        "STATE [plugin] constant(): the builder is of an earlier call or another thread; use only "
        "the one that the present call got, on its thread";
    CHECK(other == earlier);
    {
      CBuilder inner(g, hooks);  // that of the outer call stays good
      CHECK(error(kept, constant) == "");
      CHECK(error(inner.get(), constant) == "");
    }
    CHECK(error(nullptr, [&](plait_builder* b) {
            plait_value v = 0;
            return table->shape(b, v, nullptr);
          }) == "INVALID [plugin] shape(): the builder is NULL");
  }
  CHECK(error(kept, [&](plait_builder* b) { return table->set_state(b, "m", 1); }) ==
        "STATE [plugin] set_state(): the builder is of an earlier call or another thread; use only "
        "the one that the present call got, on its thread");
  CHECK(table->training(kept) == 0);
  CHECK(table->training(nullptr) == 0);
  CHECK(std::string(table->scope(kept)) == "");
  CHECK(std::string(table->scope(nullptr)) == "");
}

TEST_CASE_FIXTURE(Fixture, "its scope, and whether it trains") {
  CBuilder builder(g, hooks);
  plait_builder* const b = builder.get();
  CHECK(b->table->training(b) == 0);
  CHECK(std::string(b->table->scope(b)) == "model.fc1");
  hooks.training = true;
  CHECK(b->table->training(b) == 1);
}

TEST_CASE_FIXTURE(Fixture, "ops: pointers, counts and ids") {
  expect([](auto* b) { return op(b, nullptr, {1}); }, "INVALID [model.fc1] op(): name is NULL");
  expect([](auto* b) { return b->table->op(b, "tanh", nullptr, 1, nullptr, 0, nullptr, 0); },
         "INVALID [model.fc1] tanh(): inputs is NULL");
  expect([this](auto* b) { return b->table->op(b, "tanh", &x, 1, nullptr, 2, nullptr, 0); },
         "INVALID [model.fc1] tanh(): attrs is NULL");
  expect([this](auto* b) { return b->table->op(b, "tanh", &x, 1, nullptr, 0, nullptr, 1); },
         "INVALID [model.fc1] tanh(): outputs is NULL");
  expect([this](auto* b) { return op(b, "concat", std::vector<plait_value>(65537, x)); },
         "INVALID [model.fc1] concat: 65537 inputs, expected at most 65536");
  expect([this](auto* b) { return b->table->op(b, "tanh", &x, 1, nullptr, 65537, nullptr, 0); },
         "INVALID [model.fc1] tanh: 65537 attributes, expected at most 65536");
  expect([this](auto* b) { return op(b, "tanh", {x}, 2); },
         "INVALID [model.fc1] tanh: 2 outputs asked for, it has 1");
  expect([this](auto* b) { return op(b, "tanh", {x}, 0); }, "");
  CHECK(g.ops().size() == 1);
  const std::string unknown = error([](auto* b) { return op(b, "tanh", {99}); });
  CHECK(unknown.starts_with("INVALID [model.fc1] tanh"));
  plait_attr typeless{};
  typeless.name = "axis";
  for (const uint32_t type : {0u, PLAIT_OPT_INTS + 1u}) {
    typeless.type = type;
    const std::string text = "INVALID [model.fc1] tanh: attribute 'axis' has type " +
                             std::to_string(type) + ", which is none of PLAIT_OPT_BOOL to _INTS";
    expect([&](auto* b) { return op(b, "tanh", {x}, 1, {typeless}); }, text);
  }
}

TEST_CASE_FIXTURE(Fixture, "values of other calls, and where results go") {
  plait_shape shape;
  plait_value v = 0;
  const auto n = static_cast<plait_value>(g.n_values());
  for (const plait_value none : {plait_value{0}, n})
    expect([&](auto* b) { return b->table->shape(b, none, &shape); },
           "INVALID [model.fc1] shape: " + std::to_string(none) + " is no value of this program");
  expect([&](auto* b) { return b->table->shape(b, x, nullptr); },
         "INVALID [model.fc1] shape(): out is NULL");
  expect([&](auto* b) { return b->table->shape(b, n - 1, &shape); }, "");
  CHECK(same(shape, make_shape(PLAIT_F32, {4, 6})));
  expect([](auto* b) { return b->table->constant(b, 1, nullptr); },
         "INVALID [model.fc1] constant(): out is NULL");
  expect([&](auto* b) { return b->table->named(b, nullptr, &v); },
         "INVALID [model.fc1] named(): name is NULL");
  expect([&](auto* b) { return b->table->named(b, "x", nullptr); },
         "INVALID [model.fc1] named(): out is NULL");
  expect([&](auto* b) { return b->table->named(b, "x", &v); },
         "STATE [model.fc1] named() is not offered to this kind of item");
}

TEST_CASE_FIXTURE(Fixture, "random numbers follow the shape of one value") {
  hooks.random_uniform = [](ValueId like) { return like; };
  const auto drawn = [](std::vector<plait_value> in) {
    return [in](plait_builder* b) { return op(b, "random_uniform", in); };
  };
  expect(drawn({}),
         "INVALID [model.fc1] random_uniform takes 1 input, the value whose shape to "
         "follow");
  expect(drawn({x, x}),
         "INVALID [model.fc1] random_uniform takes 1 input, the value whose shape "
         "to follow");
  expect(drawn({77}), "INVALID [model.fc1] random_uniform: 77 is no value of this program");
  expect(drawn({x}), "");
  hooks.random_uniform = nullptr;
  expect(drawn({x}), "STATE [model.fc1] random_uniform() is not offered to this kind of item");
}

TEST_CASE_FIXTURE(Fixture, "the rule of an optimizer looks at no element but its own") {
  hooks.elementwise_only = true;
  expect([this](auto* b) { return op(b, "tanh", {x}); }, "");
  expect([this](auto* b) { return op(b, "softmax", {x}); },
         "PLUGIN [model.fc1] softmax is not element-wise: the rule of an optimizer is given parts "
         "of parameters in one row, and may look at no element but its own");
}

TEST_CASE_FIXTURE(Fixture, "parameters: what is malformed") {
  const std::string at = "[model.fc1] parameter()", named = at + " 'weight'";
  const struct {
    void (*change)(plait_parameter&);
    std::string text;
  } rows[] = {
      {[](auto& p) { p.struct_size = 111; },
       "INVALID " + at + ": plait_parameter has struct_size 111, expected at least 112"},
      {[](auto& p) { p.name = nullptr; }, "INVALID " + at + ": plait_parameter has no name"},
      {[](auto& p) { p.name = ""; }, "INVALID " + at + ": it has no name"},
      {[](auto& p) { p.name = "a b"; },
       "INVALID " + at +
           ": the name 'a b' contains the character ' ', expected letters, digits, '_', '-' and "
           "'.'"},
      {[](auto& p) { p.shape.dtype = PLAIT_I32; },
       "INVALID " + named +
           ": element type i32; parameters are floats, whose type [precision] decides"},
      {[](auto& p) { p.shape.dtype = 77; },
       "INVALID " + named +
           ": element type 77, which does not exist; parameters are floats, whose type "
           "[precision] decides"},
      {[](auto& p) { p.shape.ndim = PLAIT_MAX_NDIM + 1; },
       "INVALID " + named + ": ndim 9, at most 8 are supported"},
      {[](auto& p) { p.shape.dims[1] = 0; },
       "INVALID " + named + ": extent 0 of dimension 1, expected at least 1"},
      {[](auto& p) { p.shape.dims[0] = INT64_MAX / 8; },
       "INVALID " + named + ": larger than any memory"},
      {[](auto& p) { p.shard_dim = 2; },
       "PLUGIN " + named +
           " is to be sharded along dimension 2 of f32 (4, 6); -1 means that it is replicated"},
      {[](auto& p) { p.shard_dim = -2; },
       "PLUGIN " + named +
           " is to be sharded along dimension -2 of f32 (4, 6); -1 means that it is replicated"},
      {[](auto& p) { p.init = PLAIT_INIT_CONSTANT - 1; },
       "INVALID " + named +
           strf(": init %u, known are %u to %u (PLAIT_INIT_*)", PLAIT_INIT_CONSTANT - 1,
                PLAIT_INIT_CONSTANT, PLAIT_INIT_TRUNCATED)},
      {[](auto& p) { p.init = PLAIT_INIT_TRUNCATED + 1; },
       "INVALID " + named +
           strf(": init %u, known are %u to %u (PLAIT_INIT_*)", PLAIT_INIT_TRUNCATED + 1,
                PLAIT_INIT_CONSTANT, PLAIT_INIT_TRUNCATED)},
      {[](auto& p) { p.init_a = kNan; }, "INVALID " + named + ": init_a is nan"},
      {[](auto& p) { p.init_b = kInf; }, "INVALID " + named + ": init_b is inf"},
      {[](auto& p) { p.init_b = -1.5; },
       "INVALID " + named + ": uniform in [init_a, init_b), and init_b -1.5 is below init_a -1"},
      {[](auto& p) {
         p.init = PLAIT_INIT_NORMAL;
         p.init_b = -0.5;
       },
       "INVALID " + named + ": init_b is the standard deviation and below 0: -0.5"},
      {[](auto& p) { p.shard_unit = 4; },
       "PLUGIN " + named +
           ": shard_unit is 4, expected a divisor of the extent of dimension 1 of f32 (4, 6)"},
      {[](auto& p) { p.shard_unit = -1; },
       "PLUGIN " + named +
           ": shard_unit is -1, expected a divisor of the extent of dimension 1 of f32 (4, 6)"},
      {[](auto& p) { p.flags = 4; },
       "PLUGIN " + named + ": flags are 0x4, known are 0x3 (PLAIT_REQUEST_*)"},
  };
  for (const auto& row : rows) {
    plait_parameter p = parameter();
    row.change(p);
    CHECK(parameter_error(p) == row.text);
  }
  CHECK(asked.name == nullptr);  // the hook has seen none of them
  expect([](auto* b) { return b->table->parameter(b, nullptr, nullptr); },
         "INVALID " + at + ": plait_parameter is NULL");
  const plait_parameter good = parameter();
  expect([&](auto* b) { return b->table->parameter(b, &good, nullptr); },
         "INVALID " + at + ": out is NULL");
  hooks.parameter = nullptr;
  CHECK(parameter_error(good) == "STATE " + at + " is not offered to this kind of item");
}

TEST_CASE_FIXTURE(Fixture, "parameters: what is at the edge is taken") {
  const std::pair<void (*)(plait_parameter&), int64_t> rows[] = {
      // with the shard_unit
      {[](auto&) {}, 1},
      {[](auto& p) { p.shard_unit = 3; }, 3},
      {[](auto& p) { p.shard_dim = 0, p.shard_unit = 4; }, 4},
      {[](auto& p) { p.shard_dim = -1, p.shard_unit = 4; }, 1},
      // Of before the members were there: these are not read.
      {[](auto& p) { p.struct_size = 112, p.shard_unit = 5, p.flags = 99; }, 1},
      {[](auto& p) { p.struct_size = 120, p.shard_unit = 2, p.flags = 99; }, 2},
      {[](auto& p) { p.init_b = p.init_a; }, 1},
      {[](auto& p) { p.init = PLAIT_INIT_CONSTANT, p.init_b = kNan; }, 1},
      {[](auto& p) { p.init = PLAIT_INIT_NORMAL, p.init_b = 0; }, 1},
      {[](auto& p) { p.init = PLAIT_INIT_TRUNCATED, p.init_a = 3; }, 1},
      {[](auto& p) { p.flags = PLAIT_REQUEST_FIXED | PLAIT_REQUEST_OF_WEIGHT; }, 1},
      {[](auto& p) { p.shape.ndim = 0, p.shard_dim = -1; }, 1},
  };
  for (const auto& [change, unit] : rows) {
    plait_parameter p = parameter();
    change(p);
    asked = {};
    CHECK(parameter_error(p) == "");
    CHECK(asked.shard_unit == unit);
    CHECK(asked.shard_dim == p.shard_dim);
    CHECK(asked.flags == (p.struct_size < 128 ? 0 : p.flags));
  }
}

TEST_CASE_FIXTURE(Fixture, "states of optimizers") {
  plait_value out = 0;
  expect([&](auto* b) { return b->table->state(b, "m", 0.5, &out); }, "");
  CHECK(out == x);
  expect([&](auto* b) { return b->table->state(b, "m", kInf, &out); },
         "INVALID [model.fc1] state('m'): the initial value is inf");
  expect([&](auto* b) { return b->table->state(b, "", 0, &out); },
         "INVALID [model.fc1] state(): it has no name");
  expect([&](auto* b) { return b->table->state(b, nullptr, 0, &out); },
         "INVALID [model.fc1] state(): name is NULL");
  expect([&](auto* b) { return b->table->state(b, "m", 0, nullptr); },
         "INVALID [model.fc1] state(): out is NULL");
  expect([&](auto* b) { return b->table->set_state(b, nullptr, x); },
         "INVALID [model.fc1] set_state(): name is NULL");
  expect([&](auto* b) { return b->table->set_state(b, "m", 0); },
         "INVALID [model.fc1] set_state: 0 is no value of this program");
  expect([&](auto* b) { return b->table->set_state(b, "m", x); }, "");
  CHECK(told == std::vector<std::string>{"state m 0.5", "set m " + std::to_string(x)});
  const plait_state good{sizeof(plait_state), "rows", make_shape(PLAIT_F32, {4}), 2.5, {0}};
  const std::string at = "INVALID [model.fc1] tensor_state";
  plait_state s = good;
  s.struct_size -= 1;
  CHECK(state_error(s) == at + strf("(): plait_state has struct_size %zu, expected at least %zu",
                                    sizeof s - 1, sizeof s));
  (s = good).name = "a/b";
  CHECK(state_error(s) == at + "(): the name 'a/b' contains the character '/', expected letters, "
                               "digits, '_', '-' and '.'");
  (s = good).shape.ndim = 9;
  CHECK(state_error(s) == at + "('rows'): ndim 9, at most 8 are supported");
  (s = good).initial = kNan;
  CHECK(state_error(s) == at + "('rows'): the initial value is nan");
  CHECK(state.name == nullptr);
  (s = good).shape.ndim = 8;
  CHECK(state_error(s) == "");
  CHECK(state.initial == 2.5);
  expect([&](auto* b) { return b->table->tensor_state(b, nullptr, &out); },
         at + "(): state is NULL");
  expect([&](auto* b) { return b->table->tensor_state(b, &good, nullptr); },
         at + "(): out is NULL");
  hooks = {};
  const std::string none = "() is not offered to this kind of item";
  CHECK(state_error(good) == "STATE [model.fc1] tensor_state" + none);
  expect([&](auto* b) { return b->table->state(b, "m", 0, &out); },
         "STATE [model.fc1] state" + none);
  expect([&](auto* b) { return b->table->set_state(b, "m", x); },
         "STATE [model.fc1] set_state" + none);
}

TEST_CASE_FIXTURE(Fixture, "terms of the loss") {
  const ValueId sum = in({}), weight = g.constant(1), whole = in({}, PLAIT_I32);
  const auto add = [](const char* name, double factor, ValueId of, ValueId by) {
    return [=](plait_builder* b) { return b->table->add_loss(b, name, factor, of, by); };
  };
  const std::string at = "INVALID [model.fc1] add_loss";
  expect(add("balance", 0.1, sum, weight), "");
  CHECK(told == std::vector<std::string>{strf("loss balance 0.1 %u %u", sum, weight)});
  expect(add("balance", kNan, sum, weight), at + "('balance'): the factor is nan");
  expect(add("balance", 1, x, weight),
         at + "('balance'): sum and weight are scalars, floats, found f32 (4, 6)");
  expect(add("balance", 1, sum, whole),
         at + "('balance'): sum and weight are scalars, floats, found i32 ()");
  expect(add("balance", 1, sum, 99), at + ": 99 is no value of this program");
  expect(add("", 1, sum, weight), at + "(): it has no name");
  CHECK(told.size() == 1);
  hooks.add_loss = nullptr;
  expect(add("balance", 1, sum, weight),
         "STATE [model.fc1] add_loss() is not offered to this kind of item");
}

TEST_CASE_FIXTURE(Fixture, "an error that an item makes has its code and text") {
  const auto made = [](uint32_t code, const std::string& text) {
    return [=](plait_builder* b) { return b->table->fail(b, code, text.data(), text.size()); };
  };
  expect(made(PLAIT_ERR_CONFIG, "too wide"), std::to_string(PLAIT_ERR_CONFIG) + " too wide");
  expect(made(PLAIT_ERR_INTERNAL, "mine"), "PLUGIN mine");
  expect(made(PLAIT_ERR_CONFIG, ""),
         std::to_string(PLAIT_ERR_CONFIG) + " the plugin gave no reason");
}

TEST_CASE_FIXTURE(Fixture, "results that build() left unset, or set to what is no value") {
  const PluginCall at{"acme", "build", "layer", "acme.wide"};
  const auto n = static_cast<ValueId>(g.n_values());
  CHECK(test::error_of(
            [&] {
              check_outputs(g, at, {x, 0});
            },
            PLAIT_ERR_PLUGIN) ==
        "[plugin acme] build() of layer 'acme.wide' left output 1 unset; tell its author");
  CHECK(test::error_of([&] { check_outputs(g, at, {n}); }, PLAIT_ERR_PLUGIN) ==
        "[plugin acme] build() of layer 'acme.wide' set output 0 to " + std::to_string(n) +
            ", which is no value of this program; tell its author");
  check_outputs(g, at, {x, n - 1});
}
