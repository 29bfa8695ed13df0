// Copies between host and device in pieces, and what uses them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/config/document.hpp"
#include "tests/support/folder.hpp"
#include "tests/unit/runtime/allocations.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;

namespace {

constexpr auto kPiece = static_cast<int64_t>(runtime::Transfers::kPiece);
constexpr int64_t kN = 3 * kPiece / 4 + 1000;  // f32: three pieces and a short one

struct Relu {
  std::shared_ptr<plan::PlanDraft> plan = std::make_shared<plan::PlanDraft>();
  plan::BufferRef x, y;

  explicit Relu(const std::string& device, const std::string& options = "") {
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
    x = plan->storage.allocate(segment, kN * sizeof(float));
    y = plan->storage.allocate(segment, kN * sizeof(float));
    auto graph = std::make_unique<program::Graph>(plan->ops.get());
    graph->scope = "model.relu";
    const plait_shape shape = program::make_shape(PLAIT_F32, {kN});
    graph->bind(graph->apply1("relu", {graph->persistent("x", shape, x)}), y);
    plan->add(plan::compile("relu", std::move(graph), *plan));
    plan->storage.lay_out();
    plan->transient_bytes = plan->programs[0].transient_bytes;
  }
};

}  // namespace

TEST_CASE("the search for a value that is not finite holds a few pieces of host memory at most") {
  for (const char* device : {"async", "reference"}) {
    CAPTURE(device);
    Relu relu(device, std::string(device) == "async" ? "pinned_only = true" : "");
    runtime::Executor executor(relu.plan);
    std::vector<float> values(kN, 1.0F);
    for (const int64_t at : {int64_t{-1}, int64_t{0}, kPiece / 4 - 1, kPiece / 4, kN - 1}) {
      CAPTURE(at);
      std::fill(values.begin(), values.end(), 1.0F);
      if (at >= 0) values[static_cast<size_t>(at)] = std::numeric_limits<float>::infinity();
      executor.write(relu.x, values.data(), values.size() * sizeof(float));
      executor.sync();
      const test::LargestAllocation watch;
      const auto found = executor.first_non_finite(0);
      CHECK(watch.bytes() < runtime::Transfers::kPiece);
      CHECK(found.text.empty() == (at < 0));
      if (at >= 0) CHECK(found.text.find("model.relu") != std::string::npos);
    }
  }
}

TEST_CASE("pieces of a tensor come in order and stop when they are told to") {
  Relu relu("async", "pinned_only = true");
  runtime::Executor executor(relu.plan);
  std::vector<float> values(kN);
  std::iota(values.begin(), values.end(), 0.0F);
  executor.write(relu.x, values.data(), values.size() * sizeof(float));
  runtime::Transfers transfers(executor.queue());
  std::vector<char> got;
  const auto visit = [&](uint64_t most) {
    got.clear();
    transfers.each_piece(executor.address(relu.x), kN * sizeof(float),
                         [&](const char* piece, uint64_t size) {
                           CHECK(size <= runtime::Transfers::kPiece);
                           got.insert(got.end(), piece, piece + size);
                           return got.size() < most;
                         });
    CHECK(std::equal(got.begin(), got.end(), reinterpret_cast<const char*>(values.data())));
  };
  visit(UINT64_MAX);
  CHECK(got.size() == kN * sizeof(float));
  visit(runtime::Transfers::kPiece + 1);
  CHECK(got.size() == 2 * runtime::Transfers::kPiece);
}

TEST_CASE("an executor that closes does not wait for a device that hangs") {
  const test::Folder folder;
  const std::string hang = folder / "hang";
  Relu relu("async", "pinned_only = true\nhang = \"" + hang + "\"");
  relu.plan->experiment.run.device_timeout = 0.3;
  const std::vector<float> values(1000, 1.0F);
  const Stopwatch watch;
  {
    runtime::Executor executor(relu.plan);
    executor.sync();
    FileSystem::posix().open(hang, OpenMode::kCreate)->close();
    executor.write(relu.x, values.data(), values.size() * sizeof(float));
    executor.launch(0);
  }
  CHECK(watch.seconds() < 5);
  FileSystem::posix().remove(hang);
}
