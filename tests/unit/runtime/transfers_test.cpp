// Copies between host and device in pieces, and what uses them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/config/document.hpp"
#include "tests/support/folder.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/runtime/allocations.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;

namespace {

constexpr auto kPiece = static_cast<int64_t>(runtime::Transfers::kPiece);
constexpr int64_t kN = 3 * kPiece / 4 + 1000;  // f32: three pieces and a short one

struct Relu {
  std::shared_ptr<plan::PlanDraft> plan = std::make_shared<plan::PlanDraft>();
  plan::BufferRef x, y;

  // names: of its programs, which are equal. n: elements of x and y.
  explicit Relu(const std::string& device, const std::string& options = "",
                const std::vector<std::string>& names = {"relu"}, int64_t n = kN) {
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
    const uint64_t bytes = static_cast<uint64_t>(n) * sizeof(float);
    x = plan->storage.allocate(segment, bytes);
    y = plan->storage.allocate(segment, bytes);
    for (const std::string& name : names) {
      auto graph = std::make_unique<program::Graph>(plan->ops.get());
      graph->scope = "model.relu";
      const plait_shape shape = program::make_shape(PLAIT_F32, {n});
      graph->bind(graph->apply1("relu", {graph->persistent("x", shape, x)}), y);
      plan->add(plan::compile(name, std::move(graph), *plan));
    }
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

TEST_CASE("an executor that has settled asks its device for nothing more") {
  const test::Folder folder;
  const std::string hang = folder / "hang";
  Relu relu("async", "pinned_only = true\nhang = \"" + hang + "\"");
  relu.plan->experiment.run.device_timeout = 10;
  std::optional<Stopwatch> watch;
  {
    runtime::Executor executor(relu.plan);
    executor.launch(0);
    executor.settle();
    FileSystem::posix().open(hang, OpenMode::kCreate)->close();
    watch.emplace();
  }
  CHECK(watch->seconds() < 9);
  FileSystem::posix().remove(hang);
}

TEST_CASE("a device that hangs is given up with the name of the launch that has not ended") {
  const auto hanging = [](const std::function<void(runtime::Executor&)>& before,
                          const std::function<void(runtime::Executor&)>& behind) {
    const test::Folder folder;
    const std::string hang = folder / "hang";
    Relu relu("async", "pinned_only = true\nhang = \"" + hang + "\"", {"first", "second", "third"},
              16);
    std::string text;
    {
      runtime::Executor executor(relu.plan);
      before(executor);
      FileSystem::posix().open(hang, OpenMode::kCreate)->close();
      executor.queue().set_timeout(0.2);
      behind(executor);
      text = test::error_of([&] { executor.sync(); }).text();
    }
    FileSystem::posix().remove(hang);
    return text;
  };
  const auto launch = [](int32_t from, int32_t to) {
    return [=](runtime::Executor& e) {
      for (int32_t i = from; i < to; ++i) e.launch(i % 3);
    };
  };
  const auto finished = [&](int32_t n) {
    return [=](runtime::Executor& e) {
      launch(0, n)(e);
      e.sync();
    };
  };
  CHECK(hanging(finished(1), launch(1, 3))
            .find("not finished program second (launch 2 of this "
                  "session) in") != std::string::npos);
  // More launches than there are events.
  constexpr auto kMany = static_cast<int32_t>(3 * runtime::LaunchMarks::kMarks);
  CHECK(hanging(finished(2), launch(2, kMany))
            .find("not finished program third (launch 3 of this "
                  "session) in") != std::string::npos);
  CHECK(
      hanging(finished(kMany), launch(0, 2)).find(strf("program first (launch %d of", kMany + 1)) !=
      std::string::npos);
  const auto copy = [](runtime::Executor& e) {
    const float value = 1;
    e.write({0, 0}, &value, sizeof value);
  };
  CHECK(hanging([](runtime::Executor&) {}, copy)
            .find("not finished the copies before its first "
                  "launch") != std::string::npos);
  CHECK(hanging(finished(2), copy).find("not finished what follows program second (launch 2 of") !=
        std::string::npos);
}

TEST_CASE("parts of an upload arrive, and what is not theirs stays") {
  constexpr uint64_t kLarge = 128 << 10, kFar = 1 << 20, kBytes = 2 << 20;
  struct {
    uint64_t at, bytes;
    bool own_lines;
  } const parts[] = {
      {0, 16, true},         {64, 100, true},               // a neighbour
      {192, kLarge, true},   {192 + kLarge, kLarge, true},  // one of a large part
      {kFar, 8, false},      {kFar + 64, 8, true},  // what lies between is of another buffer
      {kFar + 128, 0, true}, {kFar + 256, 60, true}};
  for (const char* device : {"async", "reference"}) {
    CAPTURE(device);
    Relu relu(device, std::string(device) == "async" ? "pinned_only = true" : "");
    runtime::Executor executor(relu.plan);
    runtime::Uploads uploads(executor.queue(), 2, 2 * kLarge + 1024);
    for (char round = 1; round < 5; ++round) {
      std::vector<char> before(kBytes, static_cast<char>(-round)), found(kBytes);
      executor.write(relu.x, before.data(), kBytes);
      const std::vector<char> values(kLarge, round);
      uploads.begin();
      for (const auto& p : parts)
        uploads.write(executor.address(relu.x) + p.at, values.data(), p.bytes, p.own_lines);
      uploads.end();
      executor.read(relu.x, found.data(), kBytes);
      uint64_t end = 0;  // of the part before
      for (const auto& p : parts) {
        const auto at = [&](uint64_t i) { return found.begin() + static_cast<int64_t>(i); };
        CHECK(std::count(at(p.at), at(p.at + p.bytes), round) == static_cast<int64_t>(p.bytes));
        CHECK(std::count(at(end), at(p.at), -round) == static_cast<int64_t>(p.at - end));
        end = p.at + (p.own_lines ? (p.bytes + 63) / 64 * 64 : p.bytes);
      }
    }
  }
}
