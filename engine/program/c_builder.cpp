#include "engine/program/c_builder.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_registry.hpp"
#include "engine/program/shape.hpp"
#include "kit/dtype.hpp"

namespace plait::program {
namespace {

using CHandle = CBuilder::CHandle;

// The builder of the call that this thread is in; nested for ops whose gradient writes others.
thread_local const CBuilder* innermost = nullptr;

bool is_live(const plait_builder* b) {
  for (const CBuilder* one = innermost; one; one = one->outer())
    if (one->is(b)) return true;
  return false;
}

// A function of the table, called by an item. Only the builder of the present call may be used, and
// only by its thread: a builder kept from an earlier call points to what is no more.
CHandle& handle(plait_builder* b, const char* call) {
  if (!b) fail_invalid(std::string("[plugin] ") + call + "(): the builder is NULL");
  if (!is_live(b))
    fail(PLAIT_ERR_STATE, std::string("[plugin] ") + call +
                              "(): the builder is of an earlier call or another thread; use only "
                              "the one that the present call got, on its thread");
  return *reinterpret_cast<CHandle*>(b);
}

std::string where(const CHandle& f, std::string_view call) {
  return "[" + f.g->scope + "] " + std::string(call);
}

void check_value(const CHandle& f, plait_value v, const char* call) {
  if (v == 0 || v >= f.g->n_values())
    fail_invalid(where(f, call) + ": " + std::to_string(v) + " is no value of this program");
}

void check_argument(const CHandle& f, const char* call, const char* name, const void* pointer) {
  if (!pointer) fail_invalid(where(f, call) + "(): " + name + " is NULL");
}

constexpr uint32_t kMostOperands = 65536;  // of one op

void check_count(const CHandle& f, const char* call, uint32_t n, const char* what) {
  if (n > kMostOperands)
    fail_invalid(where(f, call) + strf(": %u %s, expected at most %u", n, what, kMostOperands));
}

template <class Hook>
const Hook& need(const CHandle& f, const Hook& hook, const char* call) {
  if (!hook) fail(PLAIT_ERR_STATE, where(f, call) + "() is not offered to this kind of item");
  return hook;
}

plait_error* op(plait_builder* b, const char* name, const plait_value* in, uint32_t n_in,
                const plait_attr* attrs, uint32_t n_attrs, plait_value* out, uint32_t n_out) {
  return guard_c([&] {
    CHandle& f = handle(b, "op");
    check_argument(f, "op", "name", name);
    check_count(f, name, n_in, "inputs");
    check_count(f, name, n_attrs, "attributes");
    if (n_in > 0) check_argument(f, name, "inputs", in);
    if (n_attrs > 0) check_argument(f, name, "attrs", attrs);
    if (n_out > 0) check_argument(f, name, "outputs", out);
    std::vector<ValueId> inputs(in, in + n_in);
    std::vector<ValueId> outputs;
    const OpDef& def = *f.g->registry()->find(name);
    Attrs given = Attrs::copy(attrs, n_attrs, where(f, name) + ":");
    check_audience(def, given, where(f, name) + ":");
    if (def.draws_random) {
      if (n_in != 1)
        fail_invalid(where(f, name) + " takes 1 input, the value whose shape to follow");
      checked(def, given, where(f, name) + ":");
      check_value(f, in[0], name);
      outputs = {need(f, f.hooks->random_uniform, name)(in[0])};
    } else {
      if (f.hooks->elementwise_only && !def.lower)
        fail(PLAIT_ERR_PLUGIN, where(f, name) +
                                   " is not element-wise: the rule of an optimizer is "
                                   "given parts of parameters in one row, and may look "
                                   "at no element but its own");
      if (def.reads_random && def.reads_random(given)) {
        const RandomStream random = need(f, f.hooks->random_stream, name)();
        inputs.push_back(random.counter);
        given.set(attr("seed", random.seed));
        given.set(attr("stream", random.stream));
      }
      outputs = f.hooks->apply ? f.hooks->apply(name, std::move(inputs), std::move(given))
                               : f.g->apply(name, std::move(inputs), std::move(given));
      if (f.hooks->wrote) outputs[0] = f.hooks->wrote(outputs[0]);
    }
    if (n_out > outputs.size())
      fail_invalid(where(f, name) + ": " + std::to_string(n_out) + " outputs asked for, it has " +
                   std::to_string(outputs.size()));
    std::copy_n(outputs.begin(), n_out, out);
  });
}

plait_error* constant(plait_builder* b, double value, plait_value* out) {
  return guard_c([&] {
    CHandle& f = handle(b, "constant");
    check_argument(f, "constant", "out", out);
    *out = f.g->constant(value);
  });
}

plait_error* shape(plait_builder* b, plait_value v, plait_shape* out) {
  return guard_c([&] {
    const CHandle& f = handle(b, "shape");
    check_value(f, v, "shape");
    check_argument(f, "shape", "out", out);
    *out = f.g->shape(v);
  });
}

// Size of plait_parameter in ABI 1, up to its last member at that time. Never changes.
constexpr size_t kParameterV1 = offsetof(plait_parameter, init_b) + sizeof(plait_parameter::init_b);

// The same of plait_state.
constexpr size_t kStateV1 =
    offsetof(plait_state, parameter_dims) + sizeof(plait_state::parameter_dims);

// The fault of a name within an item, as messages end.
void check_name(const CHandle& f, const char* call, const char* name) {
  check_argument(f, call, "name", name);
  const std::string fault = fault_of_name(name);
  if (fault.empty()) return;
  fail_invalid(where(f, call) +
               "(): " + (*name ? "the name '" + printable(name) + "' " + fault : "it has no name"));
}

void check_initial_values(const CHandle& f, const plait_parameter& p) {
  const std::string at = where(f, "parameter") + "() '" + p.name + "'";
  if (p.init < PLAIT_INIT_CONSTANT || p.init > PLAIT_INIT_TRUNCATED)
    fail_invalid(at + strf(": init %u, known are %u to %u (PLAIT_INIT_*)", p.init,
                           PLAIT_INIT_CONSTANT, PLAIT_INIT_TRUNCATED));
  if (!std::isfinite(p.init_a)) fail_invalid(at + strf(": init_a is %g", p.init_a));
  if (p.init == PLAIT_INIT_CONSTANT) return;
  if (!std::isfinite(p.init_b)) fail_invalid(at + strf(": init_b is %g", p.init_b));
  if (p.init == PLAIT_INIT_UNIFORM && p.init_b < p.init_a)
    fail_invalid(at + strf(": uniform in [init_a, init_b), and init_b %g is below init_a %g",
                           p.init_b, p.init_a));
  if (p.init != PLAIT_INIT_UNIFORM && p.init_b < 0)
    fail_invalid(at + strf(": init_b is the standard deviation and below 0: %g", p.init_b));
}

void check_parameter(const CHandle& f, const plait_parameter& p) {
  const std::string call = where(f, "parameter") + "()";
  if (p.struct_size < kParameterV1)
    fail_invalid(call + strf(": plait_parameter has struct_size %zu, expected at least %zu",
                             p.struct_size, kParameterV1));
  if (!p.name) fail_invalid(call + ": plait_parameter has no name");
  check_name(f, "parameter", p.name);
  const std::string at = call + " '" + p.name + "'";
  const plait_shape& s = p.shape;
  if (!is_float(s.dtype))
    fail_invalid(at + ": element type " +
                 (kit::dtype_bytes(s.dtype) ? kit::dtype_name(s.dtype)
                                            : std::to_string(s.dtype) + ", which does not exist") +
                 "; parameters are floats, whose type [precision] decides");
  if (s.ndim > PLAIT_MAX_NDIM)
    fail_invalid(at + strf(": ndim %u, at most %d are supported", s.ndim, PLAIT_MAX_NDIM));
  int64_t bytes = sizeof(double);
  for (uint32_t d = 0; d < s.ndim; ++d) {
    if (s.dims[d] < 1)
      fail_invalid(at + strf(": extent %lld of dimension %u, expected at least 1",
                             static_cast<long long>(s.dims[d]), d));
    if (__builtin_mul_overflow(bytes, s.dims[d], &bytes))
      fail_invalid(at + ": larger than any memory");
  }
  if (p.shard_dim < -1 || p.shard_dim >= static_cast<int32_t>(s.ndim))
    fail(PLAIT_ERR_PLUGIN, at + strf(" is to be sharded along dimension %d of ", p.shard_dim) +
                               text(s) + "; -1 means that it is replicated");
  check_initial_values(f, p);
}

// A plugin may have been compiled with an older or newer struct. shard_unit is at least 1.
plait_parameter known_members(const CHandle& f, const plait_parameter& given) {
  plait_parameter p{};
  std::memcpy(&p, &given, std::min(given.struct_size, sizeof p));
  if (p.shard_dim < 0 || p.shard_unit == 0) p.shard_unit = 1;
  if (p.shard_unit < 1 || p.shape.dims[std::max(p.shard_dim, 0)] % p.shard_unit != 0)
    fail(PLAIT_ERR_PLUGIN, where(f, "parameter") +
                               strf("() '%s': shard_unit is %lld, expected a divisor of the "
                                    "extent of dimension %d of ",
                                    p.name, static_cast<long long>(p.shard_unit), p.shard_dim) +
                               text(p.shape));
  constexpr uint32_t kKnown = PLAIT_REQUEST_FIXED | PLAIT_REQUEST_OF_WEIGHT;
  if ((p.flags & ~kKnown) != 0)
    fail(PLAIT_ERR_PLUGIN,
         where(f, "parameter") + strf("() '%s': flags are 0x%x, known are 0x%x (PLAIT_REQUEST_*)",
                                      p.name, p.flags, kKnown));
  return p;
}

plait_error* parameter(plait_builder* b, const plait_parameter* p, plait_value* out) {
  return guard_c([&] {
    const CHandle& f = handle(b, "parameter");
    check_argument(f, "parameter", "plait_parameter", p);
    check_argument(f, "parameter", "out", out);
    const auto& hook = need(f, f.hooks->parameter, "parameter");
    check_parameter(f, *p);
    *out = hook(known_members(f, *p));
  });
}

plait_error* named(plait_builder* b, const char* name, plait_value* out) {
  return guard_c([&] {
    const CHandle& f = handle(b, "named");
    check_argument(f, "named", "name", name);
    check_argument(f, "named", "out", out);
    *out = need(f, f.hooks->named, "named")(name);
  });
}

// These two cannot fail: without a builder they answer as little as possible.
uint32_t training(plait_builder* b) {
  return b && is_live(b) && reinterpret_cast<CHandle*>(b)->hooks->training ? 1 : 0;
}
const char* scope(plait_builder* b) {
  return b && is_live(b) ? reinterpret_cast<CHandle*>(b)->g->scope.c_str() : "";
}

plait_error* state(plait_builder* b, const char* name, double initial, plait_value* out) {
  return guard_c([&] {
    const CHandle& f = handle(b, "state");
    const auto& hook = need(f, f.hooks->state, "state");
    check_name(f, "state", name);
    check_argument(f, "state", "out", out);
    if (!std::isfinite(initial))
      fail_invalid(where(f, "state") + strf("('%s'): the initial value is %g", name, initial));
    *out = hook(name, initial);
  });
}

plait_error* set_state(plait_builder* b, const char* name, plait_value v) {
  return guard_c([&] {
    const CHandle& f = handle(b, "set_state");
    const auto& hook = need(f, f.hooks->set_state, "set_state");
    check_argument(f, "set_state", "name", name);
    check_value(f, v, "set_state");
    hook(name, v);
  });
}

plait_error* tensor_state(plait_builder* b, const plait_state* s, plait_value* out) {
  return guard_c([&] {
    const CHandle& f = handle(b, "tensor_state");
    check_argument(f, "tensor_state", "state", s);
    check_argument(f, "tensor_state", "out", out);
    const auto& hook = need(f, f.hooks->tensor_state, "tensor_state");
    if (s->struct_size < kStateV1)
      fail_invalid(where(f, "tensor_state") +
                   strf("(): plait_state has struct_size %zu, expected at least %zu",
                        s->struct_size, kStateV1));
    check_name(f, "tensor_state", s->name);
    if (s->shape.ndim > PLAIT_MAX_NDIM)
      fail_invalid(where(f, "tensor_state") + strf("('%s'): ndim %u, at most %d are supported",
                                                   s->name, s->shape.ndim, PLAIT_MAX_NDIM));
    if (!std::isfinite(s->initial))
      fail_invalid(where(f, "tensor_state") +
                   strf("('%s'): the initial value is %g", s->name, s->initial));
    *out = hook(*s);
  });
}

plait_error* add_loss(plait_builder* b, const char* name, double factor, plait_value sum,
                      plait_value weight) {
  return guard_c([&] {
    const CHandle& f = handle(b, "add_loss");
    const auto& hook = need(f, f.hooks->add_loss, "add_loss");
    check_name(f, "add_loss", name);
    for (const plait_value v : {sum, weight}) {
      check_value(f, v, "add_loss");
      const plait_shape& s = f.g->shape(v);
      if (s.ndim != 0 || !is_float(s.dtype))
        fail_invalid(where(f, "add_loss") + "('" + name +
                     "'): sum and weight are scalars, floats, found " + text(s));
    }
    if (!std::isfinite(factor))
      fail_invalid(where(f, "add_loss") + strf("('%s'): the factor is %g", name, factor));
    hook(name, factor, sum, weight);
  });
}

plait_error* fail_with(plait_builder*, uint32_t code, const char* text, uint64_t size) {
  return new_plugin_error(code, text, size, nullptr);
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
                                  tensor_state,
                                  add_loss};

// Handles that no builder uses. There are as many as builders existed at once.
class HandlePool {
 public:
  static CHandle* take() {
    HandlePool& pool = the();
    const std::lock_guard lock(pool.mutex_);
    if (pool.free_.empty()) {
      pool.all_.push_back(std::make_unique<CHandle>());
      pool.free_.reserve(pool.all_.size());  // give() needs no memory
      return pool.all_.back().get();
    }
    CHandle* handle = pool.free_.back();
    pool.free_.pop_back();
    return handle;
  }
  static void give(CHandle* handle) noexcept {
    HandlePool& pool = the();
    const std::lock_guard lock(pool.mutex_);
    pool.free_.push_back(handle);
  }

 private:
  static HandlePool& the() {
    static HandlePool* const pool = new HandlePool;  // never destroyed
    return *pool;
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<CHandle>> all_;
  std::vector<CHandle*> free_;
};

}  // namespace

CBuilder::CBuilder(Graph& g, const BuildHooks& hooks)
    : handle_(HandlePool::take()), outer_(innermost) {
  *handle_ = {{&kTable}, &g, &hooks};
  innermost = this;
}

CBuilder::~CBuilder() {
  innermost = outer_;
  handle_->g = nullptr;
  handle_->hooks = nullptr;
  HandlePool::give(handle_);
}

void check_outputs(const Graph& g, const PluginCall& at, const std::vector<ValueId>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId v = outputs[i];
    const std::string head = "[plugin " + std::string(at.plugin) + "] " + text_of(at);
    if (v == 0) fail(PLAIT_ERR_PLUGIN, head + strf(" left output %zu unset; tell its author", i));
    if (v >= g.n_values())
      fail(PLAIT_ERR_PLUGIN,
           head + strf(" set output %zu to %u, which is no value of this program; "
                       "tell its author",
                       i, v));
  }
}

}  // namespace plait::program
