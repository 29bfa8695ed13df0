// Accesses outside of memory, which the address sanitizer must find in kernels that fibers run. It
// ends the process, so each is made in a child.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/cuda_emulator/asan.hpp"
#include "tests/cuda_emulator/driver_calls.hpp"

namespace {

using cuda_emulator::Gpu;

constexpr unsigned kBlocks = 2, kThreads = 64, kDynamic = 68;

// What a process that launches the kernel writes, and how it ends: 0, if it outlives the launch.
struct Ended {
  std::string said;
  int status = 0;  // of waitpid()
};
Ended launched_in_child(const char* kernel, int64_t n) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);  // doctest's
    dup2(ends[1], STDERR_FILENO);
    Gpu gpu;
    gpu.launch(kernel, kBlocks, kThreads, n, kDynamic);
    _exit(0);
  }
  close(ends[1]);
  Ended e;
  char piece[4096];
  for (ssize_t got = 0; (got = read(ends[0], piece, sizeof piece)) > 0;)
    e.said.append(piece, static_cast<size_t>(got));
  close(ends[0]);
  REQUIRE(waitpid(child, &e.status, 0) == child);
  return e;
}

TEST_CASE("an access outside of its memory ends a kernel at once, with its name and thread" *
          doctest::skip(!emulator::kAsan)) {
  const struct {
    const char* kernel;
    int64_t inside, outside;
    const char* kind;
  } cases[] = {
      {"test_reads_behind", Gpu::kBytes - 1, Gpu::kBytes, "use-after-poison"},
      {"test_reads_behind", Gpu::kBytes - 1, Gpu::kBytes + 7, "use-after-poison"},
      {"test_reads_behind", Gpu::kBytes - 1, Gpu::kBytes + 100000, "SEGV"},
      {"test_writes_behind", Gpu::kBytes - 1, Gpu::kBytes, "use-after-poison"},
      {"test_reads_in_front", 0, 1, "SEGV"},  // the memory begins with a page
      {"test_reads_behind_dynamic", kDynamic - 1, kDynamic, "use-after-poison"},
      {"test_reads_in_front_of_dynamic", 0, 1, "use-after-poison"},
      {"test_writes_behind_static", 63, 64, "global-buffer-overflow"},
      {"test_writes_behind_local", 7, 8, "stack-buffer-overflow"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.kernel);
    CAPTURE(c.outside);
    const Ended good = launched_in_child(c.kernel, c.inside);
    CHECK(good.said == "");
    CHECK(good.status == 0);
    const Ended bad = launched_in_child(c.kernel, c.outside);
    CAPTURE(bad.said);
    CHECK(bad.status != 0);
    CHECK(bad.said.find(std::string("AddressSanitizer: ") + c.kind) != std::string::npos);
    // Thread 0 of each block of test_writes_behind does it; a seed changes which block is first.
    const bool each = std::string(c.kernel) == "test_writes_behind";
    const std::string of = std::string("[cuda emulator] kernel ") + c.kernel + ", block (";
    const size_t at = bad.said.find(of + (each ? "" : "1, 0, 0), thread (63, 0, 0)"));
    CHECK(at != std::string::npos);
    if (each) CHECK(bad.said.find(", 0, 0), thread (0, 0, 0)", at) == at + of.size() + 1);
  }
}

}  // namespace
