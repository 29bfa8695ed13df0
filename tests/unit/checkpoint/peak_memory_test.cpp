// The memory that readers take at their peak: of a hostile file at most 8 times its size and
// 16 MiB; of a large checkpoint that is verified, compared or rewritten a fixed amount.
#include <fcntl.h>
#include <plait/base.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "engine/base/error.hpp"
#include "engine/checkpoint/compare.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/rewrite.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/checkpoint/verify.hpp"
#include "tests/unit/checkpoint/hostile.hpp"
#include "tests/unit/checkpoint/sharded.hpp"

namespace {

using namespace plait::checkpoint;

// Sanitizers keep what was freed, and shadow what is used: the sizes are not compared there, and a
// report of theirs ends the child.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSizeIsOurs = false;
#else
constexpr bool kSizeIsOurs = true;
#endif
#ifdef __SANITIZE_THREAD__
constexpr bool kThreadsInChild = false;  // it ends a child of a process that had threads
#else
constexpr bool kThreadsInChild = true;
#endif

uint64_t kib_of(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key))
      return std::strtoull(line.c_str() + std::string(key).size(), nullptr, 10);
  return 0;
}

// The memory in bytes that f() adds to this process at its peak, in a child of it; an error of the
// file is as good as success.
uint64_t peak_of(const std::function<void()>& f) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int reset = ::open("/proc/self/clear_refs", O_WRONLY);  // the peak is the size now
    uint64_t bytes = UINT64_MAX;
    if (reset >= 0 && ::write(reset, "5", 1) == 1) {
      const uint64_t before = kib_of("VmHWM:");
      try {
        f();
      } catch (const plait::Error&) {
        // Refused.
      }
      bytes = (kib_of("VmHWM:") - before) * 1024;
    }
    _exit(::write(ends[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 1);
  }
  ::close(ends[1]);
  uint64_t bytes = UINT64_MAX;
  CHECK(::read(ends[0], &bytes, sizeof bytes) == sizeof bytes);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  return bytes;
}

bool within(uint64_t peak, uint64_t most) { return !kSizeIsOurs || peak <= most; }

void check(const HostileFile& file, const std::function<void()>& read) {
  const uint64_t peak = peak_of(read);
  MESSAGE(file.what << ": " << file.bytes.size() << " bytes, " << peak << " at the peak");
  CHECK(within(peak, 8 * file.bytes.size() + (16u << 20)));
}

}  // namespace

TEST_CASE("hostile manifests take memory in proportion to their size" *
          doctest::skip(!kThreadsInChild)) {
  for (const HostileFile& file : hostile_manifests())
    check(file, [&] { parse_manifest(file.bytes, "m"); });
}

TEST_CASE("hostile headers of safetensors take memory in proportion to their size" *
          doctest::skip(!kThreadsInChild)) {
  for (const HostileFile& file : hostile_headers())
    check(file, [&] { parse_safetensors(file.bytes, file.bytes.size(), "f"); });
}

namespace {

struct Scratch {
  std::string path = "/tmp/plait-test-XXXXXX";
  Scratch() { REQUIRE(::mkdtemp(path.data())); }
  ~Scratch() { plait::FileSystem::posix().remove_all(path); }
};

}  // namespace

TEST_CASE("a checkpoint that is looked at takes no memory of its size" *
          doctest::skip(!kThreadsInChild)) {
  const Scratch folder;
  plait::FileSystem& files = plait::FileSystem::posix();
  Lines lines;
  const Sample sample(1, 7 * 1'000'000);
  const std::string one = CheckpointWriter(files, folder.path + "/one", 0, lines.log)
                              .save(sample.state(), sample.tensors());
  const std::string four = save_sharded(files, folder.path + "/four", 0, lines.log, sample, 4);
  constexpr uint64_t kMost = 16u << 20;  // of 53 MiB in each
  CHECK(within(peak_of([&] {
                 if (!verify_checkpoint(files, four, {}).faults.empty()) _exit(2);
               }),
               kMost));
  CHECK(within(peak_of([&] {
                 const Checkpoint a(files, one, Checkpoint::Verify::kLater);
                 const Checkpoint b(files, four, Checkpoint::Verify::kLater);
                 if (!compare_checkpoints(a, b, Compared::kEverything, {}).equal()) _exit(2);
               }),
               kMost));
  CHECK(within(peak_of([&] {
                 const Checkpoint from(files, four, Checkpoint::Verify::kLater);
                 rewrite_checkpoint(files, from, folder.path + "/out", {}, {});
               }),
               kMost));
  CHECK(sample.equals(Checkpoint(files, folder.path + "/out")));
}
