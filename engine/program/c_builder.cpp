#include "engine/program/c_builder.hpp"

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/program/op_registry.hpp"

namespace plait::program {
namespace {

using CHandle = CBuilder::CHandle;
CHandle& handle(plait_builder* b) { return *reinterpret_cast<CHandle*>(b); }

void check_value(const CHandle& f, plait_value v, const char* call) {
  if (v == 0 || v >= f.g->n_values())
    fail_invalid("[" + f.g->scope + "] " + call + ": " + std::to_string(v) +
                 " is no value of this program");
}

template <class Hook>
const Hook& need(const CHandle& f, const Hook& hook, const char* call) {
  if (!hook)
    fail(PLAIT_ERR_STATE,
         "[" + f.g->scope + "] " + call + "() is not offered to this kind of item");
  return hook;
}

plait_error* op(plait_builder* b, const char* name, const plait_value* in, uint32_t n_in,
                const plait_attr* attrs, uint32_t n_attrs, plait_value* out, uint32_t n_out) {
  return guard_c([&] {
    CHandle& f = handle(b);
    std::vector<ValueId> inputs(in, in + n_in);
    std::vector<ValueId> outputs;
    const OpDef& def = *f.g->registry()->find(name);
    Attrs given = Attrs::copy(attrs, n_attrs);
    check_audience(def, given, "[" + f.g->scope + "] " + name + ":");
    if (def.draws_random) {
      if (n_in != 1)
        fail_invalid("[" + f.g->scope + "] " + name +
                     " takes 1 input, the value whose shape to follow");
      checked(def, given, "[" + f.g->scope + "] " + name + ":");
      check_value(f, in[0], name);
      outputs = {need(f, f.hooks->random_uniform, name)(in[0])};
    } else {
      outputs = f.g->apply(name, std::move(inputs), std::move(given));
    }
    if (n_out > outputs.size())
      fail_invalid("[" + f.g->scope + "] " + name + ": " + std::to_string(n_out) +
                   " outputs asked for, it has " + std::to_string(outputs.size()));
    std::copy_n(outputs.begin(), n_out, out);
  });
}

plait_error* constant(plait_builder* b, double value, plait_value* out) {
  return guard_c([&] { *out = handle(b).g->constant(value); });
}

plait_error* shape(plait_builder* b, plait_value v, plait_shape* out) {
  return guard_c([&] {
    check_value(handle(b), v, "shape");
    *out = handle(b).g->shape(v);
  });
}

plait_error* parameter(plait_builder* b, const plait_parameter* p, plait_value* out) {
  return guard_c([&] {
    const CHandle& f = handle(b);
    if (p->struct_size < sizeof(plait_parameter) || !p->name)
      fail_invalid("[" + f.g->scope + "] malformed plait_parameter");
    *out = need(f, f.hooks->parameter, "parameter")(*p);
  });
}

plait_error* named(plait_builder* b, const char* name, plait_value* out) {
  return guard_c([&] { *out = need(handle(b), handle(b).hooks->named, "named")(name); });
}

uint32_t training(plait_builder* b) { return handle(b).hooks->training ? 1 : 0; }
const char* scope(plait_builder* b) { return handle(b).g->scope.c_str(); }

plait_error* state(plait_builder* b, const char* name, double initial, plait_value* out) {
  return guard_c([&] { *out = need(handle(b), handle(b).hooks->state, "state")(name, initial); });
}

plait_error* set_state(plait_builder* b, const char* name, plait_value v) {
  return guard_c([&] {
    check_value(handle(b), v, "set_state");
    need(handle(b), handle(b).hooks->set_state, "set_state")(name, v);
  });
}

plait_error* tensor_state(plait_builder* b, const plait_state* s, plait_value* out) {
  return guard_c([&] {
    const CHandle& f = handle(b);
    if (s->struct_size < sizeof(plait_state) || !s->name || s->shape.ndim > PLAIT_MAX_NDIM)
      fail_invalid("[" + f.g->scope + "] malformed plait_state");
    *out = need(f, f.hooks->tensor_state, "tensor_state")(*s);
  });
}

plait_error* fail_with(plait_builder*, uint32_t code, const char* text, uint64_t size) {
  return new_c_error(code, text, size, nullptr);
}

const plait_build_table kTable = {sizeof(plait_build_table),
                                  op,
                                  constant,
                                  shape,
                                  parameter,
                                  named,
                                  training,
                                  scope,
                                  state,
                                  set_state,
                                  fail_with,
                                  tensor_state};

}  // namespace

CBuilder::CBuilder(Graph& g, const BuildHooks& hooks) : handle_{{&kTable}, &g, &hooks} {}

}  // namespace plait::program
