// A plugin, written without plugin.hpp, whose functions let an exception out, one at a time.
#include <plait/device.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/runtime/executor.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

std::string throws_in;  // "layer.build"
void at(const char* function) {
  if (throws_in == function) throw std::runtime_error("nobody catches me");
}

#define PLAIT_TRY(call) \
  if (plait_error* e = (call)) return e

plait_error* layer_build(plait_builder* b, const plait_options*, const plait_value* in, uint32_t,
                         plait_value* out) {
  at("layer.build");
  return b->table->op(b, "faulty.op", in, 1, nullptr, 0, out, 1);
}
constexpr plait_layer_item kLayer{sizeof kLayer, "faulty_layer", "", nullptr, 0, 1, 1, 1,
                                  layer_build};

plait_error* op_infer(const plait_host*, const plait_op_desc* desc, plait_shape* out) {
  at("op.infer");
  out[0] = desc->inputs[0];
  return nullptr;
}
plait_error* op_gradient(plait_builder*, const plait_op_use* use, plait_value* d_inputs) {
  at("op.gradient");
  d_inputs[0] = use->d_outputs[0];
  return nullptr;
}
double op_flops(const plait_op_desc*) {
  at("op.flops");
  return 1;
}
constexpr plait_op_item kOp{sizeof kOp,  "faulty.op", "",      1, 0, op_infer,
                            op_gradient, op_flops,    nullptr, 0, 0, nullptr};

uint64_t values_of(const plait_op_desc* d) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < d->inputs[0].ndim; ++i) n *= static_cast<uint64_t>(d->inputs[0].dims[i]);
  return n;
}
uint32_t kernel_select(const plait_op_desc*, plait_choice* choice) {
  at("kernel.select");
  choice->workspace = 0;
  return 1;
}
plait_error* kernel_prepare(const plait_host*, plait_device*, const plait_op_desc* d,
                            plait_kernel** out) {
  at("kernel.prepare");
  *out = reinterpret_cast<plait_kernel*>(new uint64_t(values_of(d)));
  return nullptr;
}
plait_error* kernel_run(const plait_kernel* k, plait_queue*, void* const* operands, void*) {
  at("kernel.run");
  const auto n = *reinterpret_cast<const uint64_t*>(k);
  std::copy_n(static_cast<const float*>(operands[0]), n, static_cast<float*>(operands[1]));
  return nullptr;
}
void kernel_release(plait_kernel* k) {
  delete reinterpret_cast<uint64_t*>(k);
  at("kernel.release");
}
constexpr plait_kernel_item kKernel{
    sizeof kKernel, "plain",    "faulty.op",    "reference", 0, 0,       kernel_select,
    kernel_prepare, kernel_run, kernel_release, 0,           0, nullptr, nullptr};

// Σ w·x[0], Σ w.
plait_error* loss_build(plait_builder* b, const plait_options*, const plait_value* in, uint32_t,
                        plait_value* out) {
  at("loss.build");
  plait_value w = 0, column = 0, product = 0;
  PLAIT_TRY(b->table->named(b, "weight", &w));
  const int64_t shape[] = {8, 1};
  const plait_attr to{"shape", PLAIT_OPT_INTS, 2, 0, 0, nullptr, shape};
  PLAIT_TRY(b->table->op(b, "reshape", &w, 1, &to, 1, &column, 1));
  const plait_value both[] = {in[0], column};
  PLAIT_TRY(b->table->op(b, "mul", both, 2, nullptr, 0, &product, 1));
  const int64_t axes[] = {0, 1};
  const plait_attr all[] = {{"axes", PLAIT_OPT_INTS, 2, 0, 0, nullptr, axes},
                            {"keep", PLAIT_OPT_BOOL, 0, 0, 0, nullptr, nullptr}};
  const plait_attr first[] = {{"axes", PLAIT_OPT_INTS, 1, 0, 0, nullptr, axes}, all[1]};
  PLAIT_TRY(b->table->op(b, "reduce", &product, 1, all, 2, &out[0], 1));
  return b->table->op(b, "reduce", &w, 1, first, 2, &out[1], 1);
}
constexpr plait_loss_item kLoss{sizeof kLoss, "faulty_loss", "", nullptr, 0, 2, 2, 0, loss_build};

plait_error* metric_build(plait_builder* b, const plait_options*, const plait_value*, uint32_t,
                          plait_value* state) {
  at("metric.build");
  plait_value w = 0;
  PLAIT_TRY(b->table->named(b, "weight", &w));
  const int64_t axis = 0;
  const plait_attr axes{"axes", PLAIT_OPT_INTS, 1, 0, 0, nullptr, &axis};
  return b->table->op(b, "reduce", &w, 1, &axes, 1, state, 1);
}
double metric_finish(const double* state) {
  at("metric.finish");
  return state[0];
}
constexpr plait_metric_item kMetric{sizeof kMetric, "faulty_metric", "", nullptr, 0, 2, 2, 1, 1, 0,
                                    metric_build,   metric_finish};

plait_error* optimizer_build(plait_builder*, const plait_options*, const plait_update* u,
                             plait_value* out) {
  at("optimizer.build");
  *out = u->parameter;
  return nullptr;
}
constexpr plait_optimizer_item kOptimizer{
    sizeof kOptimizer, "faulty_optimizer", "", nullptr, 0, 0, 0.1, 0, optimizer_build, nullptr};

plait_error* schedule_open(const plait_host*, const plait_options*, int64_t, void** state) {
  at("schedule.open");
  *state = nullptr;
  return nullptr;
}
double said_factor = 1;
double schedule_factor(const void*, int64_t) {
  at("schedule.factor");
  return said_factor;
}
void schedule_close(void*) { at("schedule.close"); }
constexpr plait_schedule_item kSchedule{
    sizeof kSchedule, "faulty_schedule", "", nullptr, 0, 0, schedule_open,
    schedule_factor,  schedule_close};

constexpr plait_option kDataOptions[] = {
    {sizeof(plait_option), "samples", PLAIT_OPT_INT, 0, "60", 0, 0, nullptr, nullptr, ""},
    {sizeof(plait_option), "shape", PLAIT_OPT_INTS, 0, "[6]", 0, 0, nullptr, nullptr, ""},
    {sizeof(plait_option), "classes", PLAIT_OPT_INT, 0, "4", 0, 0, nullptr, nullptr, ""}};
constexpr plait_field kFields[] = {{"x", PLAIT_FIELD_INPUT, 0, {PLAIT_F32, 1, {6}}},
                                   {"y", PLAIT_FIELD_TARGET, 0, {PLAIT_I32, 0, {}}}};
plait_error* data_open(const plait_host*, const plait_options*, void** out) {
  at("dataset.open");
  static int one;
  *out = &one;
  return nullptr;
}
plait_error* data_info(const void*, plait_dataset_info* out) {
  at("dataset.info");
  out->n_samples = 60;
  out->fields = kFields;
  out->n_fields = 2;
  return nullptr;
}
plait_error* data_read(const void*, const int64_t*, uint64_t n, void* const* outs) {
  at("dataset.read");
  std::fill_n(static_cast<float*>(outs[0]), n * 6, 0.5f);
  std::fill_n(static_cast<int32_t*>(outs[1]), n, 1);
  return nullptr;
}
void data_close(void*) { at("dataset.close"); }
constexpr plait_dataset_item kDataset{
    sizeof kDataset, "faulty_data", "",         kDataOptions, 3,       0,      data_open,
    data_info,       data_read,     data_close, nullptr,      nullptr, nullptr};

// A function that only throws.
template <class R, class... A>
auto thrower(R (*)(A...)) {
  return +[](A...) -> R { throw std::runtime_error("nobody catches me"); };
}

plait_device_item device_item() {
  plait_device_item d{};
  d.struct_size = sizeof d;
  d.name = "faulty_device";
  d.help = "";
  d.priority = -1;
  d.threads = thrower(d.threads);
  d.open = thrower(d.open);
  d.close = thrower(d.close);
  d.info = thrower(d.info);
  d.alloc = thrower(d.alloc);
  d.free = thrower(d.free);
  d.queue_open = thrower(d.queue_open);
  d.queue_close = thrower(d.queue_close);
  d.enqueue = thrower(d.enqueue);
  d.copy = thrower(d.copy);
  d.sync = thrower(d.sync);
  d.event_open = thrower(d.event_open);
  d.event_close = thrower(d.event_close);
  d.event_record = thrower(d.event_record);
  d.event_wait = thrower(d.event_wait);
  d.event_query = thrower(d.event_query);
  d.capture_begin = thrower(d.capture_begin);
  d.capture_end = thrower(d.capture_end);
  d.graph_launch = thrower(d.graph_launch);
  d.graph_close = thrower(d.graph_close);
  return d;
}

plait_error* open_plugin(const plait_host* host, const char*, void** state) {
  static const plait_device_item device = device_item();
  *state = nullptr;
  PLAIT_TRY(host->add(host, PLAIT_KIND_LAYER, &kLayer));
  PLAIT_TRY(host->add(host, PLAIT_KIND_OP, &kOp));
  PLAIT_TRY(host->add(host, PLAIT_KIND_KERNEL, &kKernel));
  PLAIT_TRY(host->add(host, PLAIT_KIND_LOSS, &kLoss));
  PLAIT_TRY(host->add(host, PLAIT_KIND_METRIC, &kMetric));
  PLAIT_TRY(host->add(host, PLAIT_KIND_OPTIMIZER, &kOptimizer));
  PLAIT_TRY(host->add(host, PLAIT_KIND_SCHEDULE, &kSchedule));
  PLAIT_TRY(host->add(host, PLAIT_KIND_DATASET, &kDataset));
  return host->add(host, PLAIT_KIND_DEVICE, &device);
}
constexpr plait_plugin kPlugin{sizeof kPlugin, PLAIT_ABI_VERSION, 0,           "faulty",    "1.0.0",
                               "Apache-2.0",   "throws",          open_plugin, [](void*) {}};

struct Loaded {
  explicit Loaded(const std::string& function) {
    throws_in = function;
    extra_plugin = &kPlugin;
  }
  ~Loaded() {
    throws_in.clear();
    extra_plugin = nullptr;
  }
};

// An experiment of nothing but this plugin's items.
const std::vector<std::string> kAllFaulty = {
    "run.device=reference",
    "data.train.type=faulty_data",
    "loss.type=faulty_loss",
    "optimizer.type=faulty_optimizer",
    "optimizer.schedule.type=faulty_schedule",
    "model.metrics=[{type = \"faulty_metric\"}]",
    "data.eval={type = \"faulty_data\"}",
    "model.layers=[{type = \"linear\", out = 4}, {type = \"faulty_layer\"}]"};

Outcome run(const std::string& function) {
  const Loaded loaded(function);
  const Folder folder;
  return run_all(kAllFaulty, 1, folder / "run",
                 [](int) -> FileSystem& { return FileSystem::posix(); })[0];
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("no step is made with a factor of the learning rate that is no finite number of f32") {
  const float greatest = std::numeric_limits<float>::max();
  for (const auto& [factor, text] : {std::pair(double{INFINITY}, "inf"),
                                     {std::nan(""), "nan"},
                                     {-2.0 * greatest, "-6.80565e+38"},
                                     {double{greatest}, ""}}) {
    said_factor = factor;
    const Outcome o = run("");
    said_factor = 1;
    const std::string refusal = "[plugin faulty] factor() of step 1 is " + std::string(text) +
                                " in schedule 'faulty_schedule', expected a finite number; no step "
                                "was made with it; tell its author";
    CAPTURE(o.error);
    CHECK(has(o.error, refusal) == (*text != '\0'));
    if (*text) CHECK(o.code == PLAIT_ERR_PLUGIN);
  }
}

}  // namespace

TEST_CASE("a plugin whose functions keep their exceptions to themselves trains") {
  const Outcome o = run("");
  INFO(o.error);
  CHECK(o.code == PLAIT_OK);
  CHECK(o.last.step == 12);
}

TEST_CASE("an exception out of a plugin says plugin, function and item") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"layer.build", "[plugin faulty] build() of layer 'faulty_layer'"},
      {"op.infer", "[plugin faulty] infer() of op 'faulty.op'"},
      {"op.gradient", "[plugin faulty] gradient() of op 'faulty.op'"},
      {"op.flops", "[plugin faulty] flops() of op 'faulty.op'"},
      {"kernel.select", "[plugin faulty] select() of kernel 'plain'"},
      {"kernel.prepare", "[plugin faulty] prepare() of kernel 'plain'"},
      {"kernel.run", "run() of kernel 'plain' of op 'faulty.op'"},
      {"loss.build", "[plugin faulty] build() of loss 'faulty_loss'"},
      {"metric.build", "[plugin faulty] build() of metric 'faulty_metric'"},
      {"metric.finish", "[plugin faulty] finish() of metric 'faulty_metric'"},
      {"optimizer.build", "[plugin faulty] build() of optimizer 'faulty_optimizer'"},
      {"schedule.open", "[plugin faulty] open() of schedule 'faulty_schedule'"},
      {"schedule.factor", "[plugin faulty] factor() of schedule 'faulty_schedule'"},
      {"dataset.open", "[plugin faulty] open() of dataset 'faulty_data'"},
      {"dataset.info", "[plugin faulty] info() of dataset 'faulty_data'"},
      {"dataset.read", "[plugin faulty] read() of dataset 'faulty_data'"},
  };
  for (const auto& one : cases) {
    const std::string &function = one.first, &text = one.second;
    CAPTURE(function);
    const Outcome o = run(function);
    CAPTURE(o.error);
    CHECK((o.code == PLAIT_ERR_PLUGIN || o.code == PLAIT_ERR_CONFIG));  // of an entry of the file
    CHECK(has(o.error, text + " threw: nobody catches me; no exception may leave a plugin: tell "
                              "its author"));
  }
}

TEST_CASE("an exception when something is closed is a line in the log, and the run is well") {
  for (const std::string function : {"kernel.release", "schedule.close", "dataset.close"}) {
    CAPTURE(function);
    CHECK(run(function).code == PLAIT_OK);
  }
  static std::string line;
  line.clear();
  plait_host host{};
  host.log = [](const plait_host*, uint32_t level, const char* text, uint64_t size) {
    line = std::to_string(level) + " " + std::string(text, size);
  };
  call_plugin_noexcept(&host, {"", "close", "dataset", "mine"},
                       [] { throw std::runtime_error("no"); });
  CHECK(line == std::to_string(PLAIT_LOG_ERROR) +
                    " close() of dataset 'mine' threw: no; no exception may leave a plugin: tell "
                    "its author");
  call_plugin_noexcept(nullptr, {"", "close", "dataset", "mine"}, [] { throw 1; });
}

TEST_CASE("a device that throws is an error, too") {
  const Loaded loaded("");
  const Folder folder;
  const auto files = [](int) -> FileSystem& { return FileSystem::posix(); };
  const Outcome planned = run_all({"run.device=faulty_device"}, 1, folder / "device", files)[0];
  CHECK(planned.code == PLAIT_ERR_PLUGIN);
  CHECK(has(planned.error, "[plugin faulty] threads() of device 'faulty_device' threw: nobody"));

  const auto registry = load_plugins({});
  registry->load_static(kPlugin);
  std::string text;
  try {
    const runtime::Device device(registry, "faulty_device", {});
  } catch (const Error& e) {
    text = e.full_text();
  }
  CHECK(has(text, "[plugin faulty] open() of device 'faulty_device' threw: nobody catches me"));
}
