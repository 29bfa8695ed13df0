// Programs on a device: kernels that are shared, launches that are one, a device that works by
// itself.
#include "engine/runtime/executor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "engine/config/document.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;

namespace {

using program::make_shape;

// A plan on a device: 12 equal layers in programs of 4, made of a product and a hyperbolic tangent.
struct Layers {
  static constexpr int kPrograms = 3, kOfEach = 4, kN = 8;
  std::shared_ptr<plan::PlanDraft> plan = std::make_shared<plan::PlanDraft>();
  plan::BufferRef x, weights;
  size_t calls = 0;

  explicit Layers(const std::string& device, const std::string& options = "") {
    plan->registry = test::load_plugins({"device-" + device});
    plan->ops = std::make_shared<const program::OpRegistry>(*plan->registry);
    plan->device = device;
    const plait_device_item& item = plan->registry->device(device);
    config::Problems problems;
    const config::Document document = config::Document::parse(options, "test", problems);
    plan->device_options = config::OptionSet::check(document.root, {item.options, item.n_options},
                                                    {}, "device", {}, problems);
    problems.raise_if_any();
    const int32_t segment = plan->storage.add("values", plan::Category::kInputs);
    x = plan->storage.allocate(segment, kN * kN * sizeof(float));
    weights = plan->storage.allocate(segment, 12 * kN * kN * sizeof(float));
    plan->entry_points = {{plan::kTrainStep, "a step", {}}};
    for (int p = 0; p < kPrograms; ++p) add_program(p);
    plan->storage.lay_out();
    for (const plan::Program& p : plan->programs)
      plan->transient_bytes = std::max(plan->transient_bytes, p.transient_bytes);
  }

  void add_program(int p) {
    auto graph = std::make_unique<program::Graph>(plan->ops.get());
    graph->scope = "program " + std::to_string(p);
    const plait_shape shape = make_shape(PLAIT_F32, {kN, kN});
    const program::ValueId in = graph->persistent("x", shape, x);
    program::ValueId v = in;
    for (int k = 0; k < kOfEach; ++k) {
      plan::BufferRef at = weights;
      at.offset += static_cast<uint64_t>(p * kOfEach + k) * kN * kN * sizeof(float);
      const program::ValueId w = graph->persistent("w", shape, at);
      v = graph->apply1("softmax", {graph->apply1("matmul", {v, w})});
    }
    graph->assign(in, v);
    const int32_t index = plan->add(plan::compile("p", std::move(graph), *plan));
    plan->entry_points[0].launches.push_back({index, 0, p == 0 ? 0 : -1, 0});
    calls += plan->programs.back().calls.size();
  }

  // The result of all programs, twice: launched as a step, and one by one.
  std::vector<float> run(runtime::Executor& executor) {
    std::vector<float> values(12 * kN * kN), out(kN * kN);
    for (int twice = 0; twice < 2; ++twice) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i % 17) * 0.1F - static_cast<float>(i % 5) * 0.2F;
      executor.write(x, values.data(), kN * kN * sizeof(float));
      executor.write(weights, values.data(), values.size() * sizeof(float));
      if (twice == 0)
        for (const auto& group : executor.launches(plan->entry_points[0])) executor.launch(group);
      else
        for (int32_t p = 0; p < kPrograms; ++p) executor.launch(p);
      std::vector<float> found(out.size());
      executor.read(x, found.data(), found.size() * sizeof(float));
      if (twice == 1) CHECK(found == out);
      out = found;
    }
    return out;
  }
};

}  // namespace

TEST_CASE("12 equal layers prepare one kernel of each kind") {
  for (const char* device : {"reference", "async"}) {
    CAPTURE(device);
    Layers layers(device);
    CHECK(layers.calls == 27);  // a product and a softmax each, and a copy behind each program
    const runtime::Executor executor(layers.plan);
    CHECK(executor.prepared_kernels() == 3);
  }
}

TEST_CASE("an executor whose device has no memory for it closes what it has opened") {
  for (const char* device : {"reference", "async"}) {
    CAPTURE(device);
    Layers layers(device);
    layers.plan->transient_bytes = uint64_t{1} << 62;
    CHECK(test::error_of([&] { const runtime::Executor executor(layers.plan); }, PLAIT_ERR_MEMORY)
              .find("allocating the arena") != std::string::npos);
    layers.plan->transient_bytes = UINT64_MAX;
    CHECK(test::error_of([&] { const runtime::Executor executor(layers.plan); }, PLAIT_ERR_INVALID)
              .find("bytes of the arena") != std::string::npos);
  }
}

TEST_CASE("an entry point that begins like another one launches the graphs of that one") {
  for (const char* device : {"reference", "async"}) {
    CAPTURE(device);
    Layers layers(device);
    const size_t alone = runtime::Executor(layers.plan).graphs();
    plan::EntryPoint longer = layers.plan->entry_points[0];
    longer.name = "longer";
    longer.launches.push_back({0, 0, -1, 0});
    layers.plan->entry_points.push_back(std::move(longer));
    const runtime::Executor executor(layers.plan);
    const auto& first = executor.launches(layers.plan->entry_points[0]);
    const auto& second = executor.launches(layers.plan->entry_points[1]);
    REQUIRE(second.size() == first.size() + 1);
    for (size_t i = 0; i < first.size(); ++i) CHECK(second[i].unit == first[i].unit);
    const bool records = executor.device().records();
    CHECK(first.size() == (records ? 1 : Layers::kPrograms));
    CHECK(executor.graphs() == alone + (records ? 1 : 0));
  }
}

TEST_CASE("what a kernel is prepared for is all of its descriptor") {
  const plait_shape shape = make_shape(PLAIT_F32, {2, 3});
  const plait_attr attr{"axis", PLAIT_OPT_INT, 0, 1, 0, nullptr, nullptr};
  const plait_map_instr instr{PLAIT_MAP_CONST, 0, 0, 0, 1.0};
  const uint32_t reg = 0;
  const plait_map map{sizeof(plait_map), 0, 1, 1, 0, &instr, &reg};
  const int32_t on_input = 0;
  const plait_op_desc first{
      sizeof(plait_op_desc), "map", 1, 1, 1, 1, &shape, &shape, &attr, nullptr, &map};
  std::set<std::string> seen{runtime::signature_of(first)};
  const auto differs = [&](auto&& change) {
    plait_op_desc d = first;
    change(d);
    CHECK(seen.insert(runtime::signature_of(d)).second);
  };
  CHECK(!seen.insert(runtime::signature_of(first)).second);
  const plait_shape wider = make_shape(PLAIT_F32, {2, 4}), other = make_shape(PLAIT_F64, {2, 3});
  const plait_attr two{"axis", PLAIT_OPT_INT, 0, 2, 0, nullptr, nullptr};
  const plait_map_instr half{PLAIT_MAP_CONST, 0, 0, 0, 0.5};
  const plait_map other_map{sizeof(plait_map), 0, 1, 1, 0, &half, &reg};
  differs([&](plait_op_desc& d) { d.op = "maps"; });
  differs([&](plait_op_desc& d) { d.threads = 2; });
  differs([&](plait_op_desc& d) { d.inputs = &wider; });
  differs([&](plait_op_desc& d) { d.outputs = &wider; });
  differs([&](plait_op_desc& d) { d.inputs = &other; });
  differs([&](plait_op_desc& d) { d.n_attrs = 0; });
  differs([&](plait_op_desc& d) { d.attrs = &two; });
  differs([&](plait_op_desc& d) { d.alias = &on_input; });
  differs([&](plait_op_desc& d) { d.map = nullptr; });
  differs([&](plait_op_desc& d) { d.map = &other_map; });
}

TEST_CASE("launches with no host write between them are one graph where the device records") {
  Layers host("reference"), records("async", "pinned_only = true");
  runtime::Executor a(host.plan), b(records.plan);
  CHECK(a.launches(host.plan->entry_points[0]).size() == 3);
  CHECK(a.graphs() == 3);
  CHECK(b.launches(records.plan->entry_points[0]).size() == 1);
  CHECK(b.graphs() == 1);
  CHECK(host.run(a) == records.run(b));
}

#ifdef __SANITIZE_THREAD__
constexpr bool kReportsRaces = true;  // also the one that this case makes on purpose
#else
constexpr bool kReportsRaces = false;
#endif
TEST_CASE("what a device that works by itself gets wrong comes out at the next sync" *
          doctest::skip(kReportsRaces)) {
  Layers layers("async");
  runtime::Executor executor(layers.plan);
  const runtime::Device& device = executor.device();
  auto memory = std::make_unique<runtime::HostMemory>(executor.queue().shared_device(), 1 << 16);
  std::memset(memory->data(), 1, memory->bytes());
  executor.queue().copy(PLAIT_COPY_TO_DEVICE, executor.address(layers.x), memory->data(), 256);
  memory->data()[0] = 2;  // too early, unless the queue has been very fast
  std::string text;
  for (int i = 0; text.empty() && i < 1000; ++i) try {
      executor.queue().copy(PLAIT_COPY_TO_DEVICE, executor.address(layers.x), memory->data(), 256);
      memory->data()[0] = static_cast<char>(i);
      executor.sync();
    } catch (const Error& e) {
      text = e.full_text();
    }
  CHECK(text.find("host memory was changed before the queue had copied it") != std::string::npos);
  CHECK(device.records());
}
