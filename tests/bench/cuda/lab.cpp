#include "tests/bench/cuda/lab.hpp"

#include <plait/cuda.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>

#include "kit/half.hpp"
#include "plugins/support/cuda/libraries.hpp"

namespace cuda_bench {

using conformance::check;
using conformance::Device;
using plait::cuda::driver;

namespace {

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)  // after the macros of CUDA's header
// Milliseconds between two events, which the plugin does not ask for.
float elapsed_time(CUevent begin, CUevent end) {
  static const auto ask = reinterpret_cast<decltype(&::cuEventElapsedTime)>(
      plait::cuda::Search::of("libcuda.so.1", "").library.symbol(TEXT(cuEventElapsedTime)));
  if (!ask) throw std::runtime_error("the driver has no " TEXT(cuEventElapsedTime));
  float time = 0;
  plait::cuda::check(ask(&time, begin, end), "reading a time");
  return time;
}

// Bytes of each memory, at most; of a small GPU parts.
constexpr uint64_t kFloats = 3ull << 30, kResults = 4ull << 30, kWorkspace = 2ull << 30;
constexpr uint64_t kIntegers = 4 << 20;
uint64_t at_most(uint64_t bytes, const Device& device) {
  constexpr uint64_t kPart = 10;
  plait_device_info info{};
  info.struct_size = sizeof info;
  check(device.item().info(device.get(), &info));
  return std::min(bytes, info.memory_bytes / kPart);
}
constexpr uint64_t kAligned = 256;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

Pool::Pool(const Device& device, uint64_t bytes) : device_(device), bytes_(bytes) {
  check(device.item().alloc(device.get(), bytes, &memory_));
}

Pool::~Pool() { device_.item().free(device_.get(), memory_); }

void* Pool::take(uint64_t bytes) {
  if (bytes > bytes_)
    throw std::runtime_error("an operand of " + std::to_string(bytes) + " bytes is too large");
  if (next_ + bytes > bytes_) next_ = 0;
  void* at = static_cast<char*>(memory_) + next_;
  next_ += (bytes + kAligned - 1) / kAligned * kAligned;
  return at;
}

void Pool::fill(const void* block, uint64_t bytes) {
  const auto copy = [&](uint32_t direction, uint64_t to, const void* from, uint64_t n) {
    check(
        device_.item().copy(device_.queue(), direction, static_cast<char*>(memory_) + to, from, n));
  };
  uint64_t filled = std::min(bytes, bytes_);
  copy(PLAIT_COPY_TO_DEVICE, 0, block, filled);
  while (filled < bytes_) {
    const uint64_t n = std::min(filled, bytes_ - filled);
    copy(PLAIT_COPY_ON_DEVICE, filled, memory_, n);
    filled += n;
  }
  check(device_.item().sync(device_.queue()));
}

Lab::Lab(const Device& device)
    : device_(device),
      stream_(
          static_cast<CUstream>(reinterpret_cast<const plait_cuda_queue*>(device.queue())->stream)),
      floats_(device, at_most(kFloats, device)),
      integers_(device, kIntegers),
      results_(device, at_most(kResults, device)),
      started_(now()) {
  workspace_bytes_ = at_most(kWorkspace, device);
  check(device.item().alloc(device.get(), workspace_bytes_, &workspace_));
  constexpr size_t kBlock = 16 << 20;
  std::mt19937 random(1);
  std::vector<uint16_t> numbers(kBlock);
  for (uint16_t& v : numbers) {
    const auto bits = static_cast<int32_t>(random());
    v = plait::kit::to_bf16(static_cast<float>(bits) * 0x1p-31f);
  }
  floats_.fill(numbers.data(), numbers.size() * sizeof(uint16_t));
  std::vector<int32_t> rows(kBlock / 16);
  for (int32_t& v : rows) v = static_cast<int32_t>(random() % 50000);
  integers_.fill(rows.data(), rows.size() * sizeof(int32_t));
  plait::cuda::check(driver().cuEventCreate(&begin_, CU_EVENT_DEFAULT), "creating an event");
  plait::cuda::check(driver().cuEventCreate(&end_, CU_EVENT_DEFAULT), "creating an event");
}

Lab::~Lab() {
  driver().cuEventDestroy(begin_);
  driver().cuEventDestroy(end_);
  device_.item().free(device_.get(), workspace_);
}

double Lab::elapsed() const { return now() - started_; }

void* Lab::workspace(uint64_t bytes) const {
  if (bytes > workspace_bytes_)
    throw std::runtime_error("a workspace of " + std::to_string(bytes) + " bytes is too large");
  return workspace_;
}

Lab::Recorded Lab::record(const Work& work, int repeats) {
  Recorded r;
  r.repeats = repeats;
  check(device_.item().capture_begin(device_.queue()));
  try {
    for (int i = 0; i < repeats; ++i) work();
  } catch (...) {
    plait_graph* broken = nullptr;
    conformance::take(device_.item().capture_end(device_.queue(), &broken));
    if (broken) device_.item().graph_close(broken);
    throw;
  }
  check(device_.item().capture_end(device_.queue(), &r.graph));
  return r;
}

// Run once without a graph, to load what is loaded late, then timed.
Lab::Recorded Lab::record_for(const Work& work) {
  constexpr double kMilliseconds = 2, kMost = 100;
  work();
  check(device_.item().sync(device_.queue()));
  const Recorded once = record(work, 1);
  launch(once);
  const double time = launch(once);
  const double repeats = std::clamp(kMilliseconds / std::max(time, 1e-3), 1.0, kMost);
  if (repeats < 2) return once;
  device_.item().graph_close(once.graph);
  const Recorded r = record(work, static_cast<int>(repeats));
  launch(r);
  return r;
}

double Lab::timed(const Work& work) {
  plait::cuda::check(driver().cuEventRecord(begin_, stream_), "recording an event");
  work();
  plait::cuda::check(driver().cuEventRecord(end_, stream_), "recording an event");
  check(device_.item().sync(device_.queue()));
  return static_cast<double>(elapsed_time(begin_, end_));
}

double Lab::once(const Work& work) {
  work();
  return timed(work);
}

double Lab::launch(const Recorded& r) {
  const auto work = [&] { check(device_.item().graph_launch(r.graph, device_.queue())); };
  return timed(work) / r.repeats;
}

double Lab::milliseconds(const Work& work, int launches) { return compare({work}, launches)[0]; }

std::vector<double> Lab::compare(const std::vector<Work>& works, int launches) {
  std::vector<Recorded> recorded;
  for (const Work& work : works) recorded.push_back(record_for(work));
  std::vector<std::vector<double>> times(works.size());
  for (int i = 0; i < launches; ++i)
    for (size_t w = 0; w < works.size(); ++w) times[w].push_back(launch(recorded[w]));
  for (const Recorded& r : recorded) device_.item().graph_close(r.graph);
  std::vector<double> medians;
  for (const auto& of : times) medians.push_back(median(of));
  return medians;
}

bool Report::wants(const std::string& section, const std::string& name) const {
  return only_.empty() || (section + " " + name).find(only_) != std::string::npos;
}

void Report::line(const std::string& section, const std::string& name,
                  const std::vector<Field>& fields, const std::string& note) {
  std::printf("%-8s %-52s", section.c_str(), name.c_str());
  std::string json = "{\"section\":\"" + escaped(section) + "\",\"name\":\"" + escaped(name) + "\"";
  for (const Field& f : fields) {
    std::printf("  %s %8.4g", f.name.c_str(), f.value);
    char number[32];
    std::snprintf(number, sizeof number, "%.6g", f.value);
    json += ",\"" + f.name + "\":" + number;
  }
  std::printf("  %s\n", note.c_str());
  std::fflush(stdout);
  json_.push_back(json + ",\"note\":\"" + escaped(note) + "\"}");
}

void Report::skipped(const std::string& section, const std::string& name, const std::string& why) {
  line(section, name, {}, "skipped: " + why);
}

void Report::print_json() const {
  for (const std::string& line : json_) std::printf("%s\n", line.c_str());
}

}  // namespace cuda_bench
