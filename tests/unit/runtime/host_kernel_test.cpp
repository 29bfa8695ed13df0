// Kernels that work on the host (PLAIT_KERNEL_HOST) on a device that records: the engine runs them
// at each launch, between two graphs, when the queue is empty.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/config/document.hpp"
#include "tests/async_device/queue.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;

namespace {

// y = x + the number of runs so far. It keeps a state, so no graph may contain it.
constexpr const char* kTallyOp = "test.tally";

plait_error* tally_infer(const plait_host*, const plait_op_desc* desc, plait_shape* out) {
  out[0] = desc->inputs[0];
  return nullptr;
}
uint32_t tally_select(const plait_op_desc*, plait_choice* choice) {
  choice->workspace = 0;
  return 1;
}

struct Tally {
  async_device::Device& device;
  uint64_t bytes;
  mutable int runs = 0;
};

plait_error* tally_prepare(const plait_host*, plait_device* device, const plait_op_desc* desc,
                           plait_kernel** out) {
  *out = reinterpret_cast<plait_kernel*>(
      new Tally{*reinterpret_cast<async_device::Device*>(device), program::bytes(desc->inputs[0])});
  return nullptr;
}
// The queue is empty: what it computed lies in memory.
plait_error* tally_run(const plait_kernel* kernel, plait_queue*, void* const* operands, void*) {
  const auto& tally = *reinterpret_cast<const Tally*>(kernel);
  const auto at = [&](size_t i) {
    return reinterpret_cast<float*>(
        tally.device.memory.behind(operands[i], tally.bytes, "an operand"));
  };
  ++tally.runs;
  for (size_t i = 0; i < tally.bytes / sizeof(float); ++i)
    at(1)[i] = at(0)[i] + static_cast<float>(tally.runs);
  return nullptr;
}
void tally_release(plait_kernel* kernel) { delete reinterpret_cast<Tally*>(kernel); }

plait_error* tally_open(const plait_host* host, const char*, void**) {
  static constexpr plait_op_item kOp{sizeof kOp, kTallyOp, "",      1, 0, tally_infer,
                                     nullptr,    nullptr,  nullptr, 0, 0, nullptr};
  static constexpr plait_kernel_item kKernel{
      sizeof kKernel, "tally",   kTallyOp,      "async",           0, 0,       tally_select,
      tally_prepare,  tally_run, tally_release, PLAIT_KERNEL_HOST, 0, nullptr, nullptr};
  if (plait_error* e = host->add(host, PLAIT_KIND_OP, &kOp)) return e;
  return host->add(host, PLAIT_KIND_KERNEL, &kKernel);
}

void tally_close(void*) {}
constexpr plait_plugin kPlugin{sizeof kPlugin, PLAIT_ABI_VERSION, 0,          "tally",    "1.0.0",
                               "Apache-2.0",   "a test",          tally_open, tally_close};

// tanh(x), the tally of it, twice that, its tally: two kernels of equal descriptors with a state
// each.
constexpr int64_t kN = 1000;
std::unique_ptr<const plan::Plan> tallies(const std::string& device_options, plan::BufferRef& x,
                                          plan::BufferRef& y) {
  auto plan = std::make_unique<plan::PlanDraft>();
  auto registry = test::load_plugins({"device-async"});
  registry->load_static(kPlugin);
  plan->registry = registry;
  plan->ops = std::make_shared<const program::OpRegistry>(*registry);
  plan->device = "async";
  const plait_device_item& item = registry->device("async");
  config::Problems problems;
  const config::Document document = config::Document::parse(device_options, "test", problems);
  plan->device_options = config::OptionSet::check(document.root, {item.options, item.n_options}, {},
                                                  "device", {}, problems);
  problems.raise_if_any();
  const int32_t segment = plan->storage.add("values", plan::Category::kInputs);
  x = plan->storage.allocate(segment, kN * sizeof(float));
  y = plan->storage.allocate(segment, kN * sizeof(float));
  auto graph = std::make_unique<program::Graph>(plan->ops.get());
  graph->scope = "tallies";
  const plait_shape shape = program::make_shape(PLAIT_F32, {kN});
  program::ValueId v = graph->apply1("tanh", {graph->persistent("x", shape, x)});
  v = graph->apply1(kTallyOp, {v});
  v = graph->apply1("mul", {v, graph->constant(2)});
  v = graph->apply1(kTallyOp, {v});
  graph->bind(graph->apply1("neg", {v}), y);
  plan::EntryPoint step{plan::kTrainStep, "a step", {}};
  step.launches = {{plan->add(plan::compile("tallies", std::move(graph), *plan)), 0, 0, 0}};
  plan->entry_points = {step};
  plan->storage.lay_out();
  plan->transient_bytes = plan->programs[0].transient_bytes;
  return std::make_unique<const plan::Plan>(std::move(*plan));
}

}  // namespace

TEST_CASE("a kernel that works on the host runs at each launch and splits the graph") {
  for (const char* options : {"pinned_only = true\ndelay = 500", "visible = true\ndelay = 500"}) {
    CAPTURE(options);
    plan::BufferRef x, y;
    const std::shared_ptr<const plan::Plan> plan = tallies(options, x, y);
    runtime::Executor executor(plan);
    CHECK(executor.graphs() == 3);
    // tanh, mul, neg, and one tally for each op.
    CHECK(executor.prepared_kernels() == 5);
    std::vector<float> in(kN), out(kN);
    for (int launch = 1; launch <= 4; ++launch) {
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<float>(i) * 0.01F - static_cast<float>(launch);
      executor.write(x, in.data(), in.size() * sizeof(float));
      if (launch % 2)
        executor.launch(executor.launches(plan->entry_points[0])[0]);
      else
        executor.first_non_finite(0);  // op by op
      executor.read(y, out.data(), out.size() * sizeof(float));
      const auto n = static_cast<float>(launch);
      for (size_t i = 0; i < in.size(); ++i)
        CHECK(out[i] == doctest::Approx(-((std::tanh(in[i]) + n) * 2 + n)).epsilon(1e-6));
    }
  }
}
