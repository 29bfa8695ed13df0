#include "tests/abi/planted/items.hpp"

#include <cstdlib>
#include <cstring>

#include "plugins/comm/threads/group.hpp"
#include "plugins/support/host_device.hpp"
#include "plugins/support/plain/plain.hpp"

namespace misfit {
namespace {

using namespace plait;

plait_error* apply(plait_builder* b, const char* name, std::initializer_list<plait_value> in,
                   plait_value* out) {
  return b->table->op(b, name, in.begin(), static_cast<uint32_t>(in.size()), nullptr, 0, out, 1);
}

// y = misfit.op(x * weight)
plait_error* build_layer(plait_builder* b, const plait_options* o, const plait_value* in, uint32_t,
                         plait_value* out) {
  double scale = 0;
  if (plait_error* e = o->table->get_real(o, "scale", &scale)) return e;
  plait_parameter p{sizeof p, "weight", {PLAIT_F32, 1, {4}}, PLAIT_INIT_NORMAL, 0, 0, scale, 1,
                    0,        0};
  plait_value w = 0, product = 0;
  if (plait_error* e = b->table->parameter(b, &p, &w)) return e;
  if (plait_error* e = apply(b, "mul", {in[0], w}, &product)) return e;
  return apply(b, "misfit.op", {product}, out);
}

plait_error* sum(plait_builder* b, plait_value v, plait_value* out) {
  plait_attr kind{"kind", PLAIT_OPT_TEXT, 0, 0, 0, "sum", nullptr};
  plait_shape s;
  if (plait_error* e = b->table->shape(b, v, &s)) return e;
  const int64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const plait_attr axes{"axes", PLAIT_OPT_INTS, s.ndim, 0, 0, nullptr, all};
  const plait_attr attrs[] = {kind, axes};
  return b->table->op(b, "reduce", &v, 1, attrs, 2, out, 1);
}

// The sums of weight * mean of (y - target)^2 and of weight.
plait_error* build_loss(plait_builder* b, const plait_options*, const plait_value* in, uint32_t,
                        plait_value* out) {
  plait_value difference = 0, square = 0, weight = 0;
  if (plait_error* e = apply(b, "sub", {in[0], in[1]}, &difference)) return e;
  if (plait_error* e = apply(b, "mul", {difference, difference}, &square)) return e;
  if (plait_error* e = b->table->named(b, "weight", &weight)) return e;
  if (plait_error* e = sum(b, square, &out[0])) return e;
  return sum(b, weight, &out[1]);
}

plait_error* build_metric(plait_builder* b, const plait_options*, const plait_value* in, uint32_t,
                          plait_value* state) {
  plait_value total = 0;
  if (plait_error* e = sum(b, in[0], &total)) return e;
  const int64_t one[] = {1};
  const plait_attr shape{"shape", PLAIT_OPT_INTS, 1, 0, 0, nullptr, one};
  return b->table->op(b, "reshape", &total, 1, &shape, 1, state, 1);
}

plait_error* build_update(plait_builder* b, const plait_options*, const plait_update* u,
                          plait_value* out) {
  plait_value mean = 0, change = 0;
  if (plait_error* e = b->table->state(b, "mean", 0, &mean)) return e;
  if (plait_error* e = apply(b, "add", {mean, u->gradient}, &mean)) return e;
  if (plait_error* e = b->table->set_state(b, "mean", mean)) return e;
  if (plait_error* e = apply(b, "mul", {mean, u->learning_rate}, &change)) return e;
  return apply(b, "sub", {u->parameter, change}, out);
}

plait_error* infer(const plait_host*, const plait_op_desc* desc, plait_shape* outputs) {
  outputs[0] = desc->inputs[0];
  return nullptr;
}
plait_error* gradient(plait_builder* b, const plait_op_use* use, plait_value* d_inputs) {
  return apply(b, "add", {use->d_outputs[0], use->d_outputs[0]}, &d_inputs[0]);
}
double flops(const plait_op_desc*) { return 8; }
uint32_t shard(plait_shard_use* use) {
  use->inputs[0] = use->outputs[0] = use->have[0];
  use->keeps_zeros = 1;
  return 1;
}

// misfit.op: twice its input.
struct Doubled {
  uint64_t n;
};
uint32_t select(const plait_op_desc*, plait_choice* choice) {
  choice->workspace = 64;
  return 1;
}
plait_error* prepare(const plait_host*, plait_device*, const plait_op_desc* desc,
                     plait_kernel** out) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < desc->inputs[0].ndim; ++i)
    n *= static_cast<uint64_t>(desc->inputs[0].dims[i]);
  *out = reinterpret_cast<plait_kernel*>(new Doubled{n});
  return nullptr;
}
plait_error* run(const plait_kernel* kernel, plait_queue*, void* const* operands, void*) {
  const float* x = static_cast<const float*>(operands[0]);
  float* y = static_cast<float*>(operands[1]);
  for (uint64_t i = 0; i < reinterpret_cast<const Doubled*>(kernel)->n; ++i) y[i] = 2 * x[i];
  return nullptr;
}
void release(plait_kernel* kernel) { delete reinterpret_cast<Doubled*>(kernel); }

plait_error* open_schedule(const plait_host*, const plait_options*, int64_t, void** state) {
  *state = nullptr;
  return nullptr;
}
double factor(const void*, int64_t) { return 1; }
void close_schedule(void*) {}

plait_error* open_dataset(const plait_host*, const plait_options*, void** dataset) {
  *dataset = &items();
  return nullptr;
}
plait_error* info(const void*, plait_dataset_info* out) {
  *out = items().info;
  return nullptr;
}
plait_error* read(const void*, const int64_t* indices, uint64_t n, void* const* outs) {
  for (uint64_t i = 0; i < n; ++i)
    for (uint64_t k = 0; k < 4; ++k) {
      static_cast<float*>(outs[0])[i * 4 + k] = 0.1f * static_cast<float>(indices[i]);
      static_cast<float*>(outs[1])[i * 4 + k] = 1;
    }
  return nullptr;
}
void close_dataset(void*) {}

class Device {
 public:
  static uint32_t threads(const plait::Options&) { return 1; }
  Device(const plait::Host&, const plait::Options&) {}
  void info(plait_device_info& out) const {
    out.host_visible = 1;
    out.threads = 1;
    out.summary = "host memory";
  }
  void* alloc(uint64_t bytes) {
    const uint64_t size = (bytes / 64 + 1) * 64;
    void* p = bytes < uint64_t{1} << 40 ? std::aligned_alloc(64, size) : nullptr;
    if (!p) plait::fail(PLAIT_ERR_MEMORY, "no memory for " + std::to_string(bytes) + " bytes");
    return std::memset(p, 0, size);
  }
  void free(void* p) noexcept { std::free(p); }
  void enter() noexcept {}
};

plait_field field(const char* name, uint32_t role) {
  return {name, role, 0, {PLAIT_F32, 1, {4, 0, 0, 0, 0, 0, 0, 0}}};
}

}  // namespace

Items::Items()
    : options{at_least(opt_real("scale", "1.0", "deviation of the initial weights"), 0),
              opt_choice("mode", "\"plain\"", "plain|other", "does nothing"),
              opt_int("size", "4", "does nothing")},
      attrs{opt_real("factor", "2.0", "does nothing")},
      fields{field("x", PLAIT_FIELD_INPUT), field("y", PLAIT_FIELD_TARGET)},
      info{sizeof info, 16, fields, 2, 0, 0, 7},
      device_info{},
      layer{sizeof layer, "misfit.layer", "2 * x * weight", options, 3, 1, 1, 1, build_layer},
      second(layer),
      loss{sizeof loss, "misfit.loss", "squares", nullptr, 0, 2, 2, 0, build_loss},
      metric{sizeof metric,
             "misfit.metric",
             "sum",
             nullptr,
             0,
             1,
             1,
             1,
             1,
             0,
             build_metric,
             [](const double* state) { return state[0]; }},
      op{sizeof op, "misfit.op", "2 * x", 1, 0, infer, gradient, flops, attrs, 1, 0, shard},
      kernel{sizeof kernel, "misfit.kernel", "misfit.op", "misfit.device", 1, 0,
             select,        prepare,         run,         release,         0, 0,
             nullptr,       nullptr},
      optimizer{},
      schedule{sizeof schedule, "misfit.schedule", "constant", nullptr, 0, 0, open_schedule,
               factor,          close_schedule},
      dataset{sizeof dataset, "misfit.dataset", "16 samples", nullptr,       0,       0,
              open_dataset,   misfit::info,     read,         close_dataset, nullptr, nullptr,
              nullptr},
      device(support::HostDevice<Device>::item("misfit.device", "plain loops", {})),
      comm(plait::comm<comm_threads::ProcessGroup>("misfit.comm", "ranks are threads",
                                                   PLAIT_COMM_REACH_PROCESS, nullptr)),
      plain(support::plain_kernels("misfit.device")),
      added{{PLAIT_KIND_LAYER, &layer},       {PLAIT_KIND_LOSS, &loss},
            {PLAIT_KIND_METRIC, &metric},     {PLAIT_KIND_OP, &op},
            {PLAIT_KIND_KERNEL, &kernel},     {PLAIT_KIND_OPTIMIZER, &optimizer},
            {PLAIT_KIND_SCHEDULE, &schedule}, {PLAIT_KIND_DATASET, &dataset},
            {PLAIT_KIND_DEVICE, &device},     {PLAIT_KIND_COMM, &comm}} {
  optimizer.struct_size = sizeof optimizer;
  optimizer.name = "misfit.optimizer";
  optimizer.help = "momentum";
  optimizer.default_learning_rate = 0.01;
  optimizer.build = build_update;
}

}  // namespace misfit
