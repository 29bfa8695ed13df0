// Items that do nothing wrong unless told to.
#include "tests/unit/plan/odd_plugin.hpp"

#include <plait/peft.h>

#include <cstddef>
#include <plait/plugin.hpp>
#include <plait/plugin/peft.hpp>
#include <vector>

std::string plait::test::fault;
plait_device_item plait::test::odd_device;
uint32_t plait::test::odd_threads = 1;

namespace {

using plait::Builder;
using plait::Options;
using plait::PeftTarget;
using plait::PeftUpdate;
using plait::Shape;
using plait::Update;
using plait::Value;

bool has(const char* what) { return plait::test::fault == what; }
Value none_of(Value v) { return {v.b, 0}; }

std::pair<Value, Value> build_loss(Builder& b, const Options&, std::span<const Value> in) {
  const Value sum = b.sum(in[0] * in[0]), weight = b.sum(b.named("weight"));
  if (has("loss without weights")) return {sum, none_of(sum)};
  if (has("loss without sum")) return {none_of(sum), weight};
  if (has("loss of rows")) return {in[0], weight};
  if (has("weights of rows")) return {sum, b.named("weight")};
  return {sum, weight};
}

Value build_metric(Builder& b, const Options&, std::span<const Value> in) {
  if (has("metric of rows")) return in[0];
  if (has("metric of one")) return b.sum(in[0]);
  return b.reshape(b.sum(in[0], {0}, false), {4});
}

Value build_number(Builder& b, const Options&, std::span<const Value> in) {
  const Value sum = b.sum(in[0]);
  return has("number in a matrix") ? b.reshape(sum, {1, 1}) : sum;
}

Value build_update(Builder& b, const Options&, const Update& u) {
  if (has("no parameter")) return none_of(u.parameter);
  if (has("scalar")) return u.learning_rate;
  if (has("state unknown")) b.set_state("m", u.gradient);
  const Value m = b.state("m", 0);
  b.set_state("m", has("scalar state") ? u.learning_rate : m + u.gradient);
  if (has("moves zeros")) return u.parameter - u.learning_rate;
  return u.parameter - u.learning_rate * m;
}

Value wrap(Builder& b, const Options&, const PeftTarget& t) {
  const Value s = b.parameter("s", Shape({b.shape(t.output).last()}), plait::Init::constant(1));
  b.parameter("r", Shape({2}), plait::Init::constant(1));
  return has("other output") ? b.sum(t.output) : t.output * s;
}
plait::Merged merge(Builder& b, const Options&, const PeftTarget& t, plait::Merged m) {
  if (has("refused")) plait::fail(PLAIT_ERR_UNIMPLEMENTED, "not on a Saturday");
  if (has("broken")) plait::fail(PLAIT_ERR_PLUGIN, "it is broken");
  if (has("weight of one")) m.weight = b.sum(m.weight);
  if (has("bias of one")) m.bias = b.sum(m.bias);
  if (has("new parameter")) b.parameter("q", Shape({2}), plait::Init::constant(1));
  if (has("longer parameter")) b.parameter("r", Shape({3}), plait::Init::constant(1));
  b.parameter("s", Shape({b.shape(t.weight).dims[t.out_dim()]}), plait::Init::constant(1));
  return m;
}
std::vector<plait::PeftStart> start(Builder& b, const Options&, const PeftTarget& t) {
  const int64_t n = b.shape(t.weight).dims[t.out_dim()];
  const Value s = b.parameter("s", Shape({n}), plait::Init::constant(1));
  if (has("start of the weight")) return {{t.weight, t.weight}};
  if (has("start of one")) return {{s, b.sum(t.weight)}};
  return {{s, s}};
}
Value score(Builder& b, const Options&, const PeftUpdate& u) {
  if (has("scores as a matrix")) return b.reshape(u.gradient, {1, b.shape(u.gradient).last()});
  if (has("other numbers")) return u.gradient;
  if (has("scores of nothing")) return {u.gradient.b, 4000000};
  return none_of(u.gradient);
}
Value behind(Builder& b, const Options&, const PeftUpdate& u) {
  if (has("update of one")) return b.sum(u.parameter);
  if (has("update of nothing")) return none_of(u.parameter);
  return u.parameter;
}
plait_error* many_starts(plait_builder*, const plait_options*, const plait_peft_target*,
                         plait_peft_start*, uint32_t* n) {
  *n = PLAIT_PEFT_MAX_STARTS + 1;
  return nullptr;
}

Value wrap_layer(Builder& b, const Options&, const PeftTarget& t) {
  return t.output * b.parameter("s", Shape({b.shape(t.output).last()}), plait::Init::constant(1));
}

plait_error* open_plugin(const plait_host* h, const char*, void** state) {
  *state = nullptr;
  return plait::detail::guard(plait::detail::maker(h), [&] {
    static const auto loss = plait::loss<build_loss>("odd", "a loss", {}, 1, 1);
    static const auto metric = plait::metric<build_metric>(
        "odd", "a metric", 4, true, [](const double* s) { return s[0]; }, {}, 1, 1);
    static const auto number = plait::metric<build_number>(
        "odd.number", "a metric", 1, true, [](const double* s) { return s[0]; }, {}, 1, 1);
    static const auto optimizer = plait::optimizer<build_update>("odd", "an optimizer", 0.25, 0);
    static const auto peft =
        plait::peft<wrap, merge, start, score, behind>("odd", "a method", PLAIT_PEFT_PRODUCT);
    static const auto many = [] {
      plait_peft_item item = plait::peft<wrap, merge>("odd.many", "a method", PLAIT_PEFT_PRODUCT);
      item.start = many_starts;
      return item;
    }();
    // As of an author whose headers have no score() and no update().
    static const auto old = [] {
      auto item =
          plait::peft<wrap, merge, start, score, behind>("odd.old", "a method", PLAIT_PEFT_PRODUCT);
      item.struct_size = offsetof(plait_peft_item, score);
      return item;
    }();
    static const auto of_layers =
        plait::peft<wrap_layer, merge>("odd.layers", "a method", PLAIT_PEFT_LAYER);
    const plait::Host host(h);
    for (const auto* one : {&peft, &many, &old, &of_layers}) host.add(*one);
    host.add(loss);
    host.add(metric);
    host.add(number);
    host.add(optimizer);
  });
}

plait_error* open_device(const plait_host* h, const char*, void** state) {
  *state = nullptr;
  plait::test::odd_device.name = "odd";
  plait::test::odd_device.threads = [](const plait_options*) { return plait::test::odd_threads; };
  return plait::detail::guard(plait::detail::maker(h),
                              [&] { plait::Host(h).add(plait::test::odd_device); });
}
}  // namespace

const plait_plugin plait::test::kOddDevice{sizeof(plait_plugin), PLAIT_ABI_VERSION, 0,
                                           "odd-device",         "1.0.0",           "Apache-2.0",
                                           "an odd device",      open_device,       [](void*) {}};
const plait_plugin plait::test::kOddPlugin{
    sizeof(plait_plugin), PLAIT_ABI_VERSION, 0,           "odd",       "1.0.0",
    "Apache-2.0",         "odd items",       open_plugin, [](void*) {}};
