// What NVRTC makes of generated sources. It needs no GPU and no driver.
#include <doctest/doctest.h>

#include <thread>

#include "plugins/devices/cuda/map/compiler.hpp"
#include "tests/cuda_map/cases.hpp"

namespace cuda_map {
namespace {

using plait::cuda::map::Compiler;

// nullptr, with a line that says so, where there is no NVRTC.
const Compiler* compiler() {
  static const Compiler opened(CUDA_MAP_LIBRARIES);
  if (!opened) MESSAGE("skipped: ", opened.why());
  return opened ? &opened : nullptr;
}

int64_t count(const std::string& text, const std::string& part) {
  int64_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// The log of all sources for one architecture, compiled in programs of 32 by two threads.
std::string log_of(const Compiler& c, const std::vector<Generated>& all,
                   const std::string& target) {
  auto options = Compiler::options(target);
  options.push_back("--ptxas-options=-v");
  std::string logs[2];
  const auto compile = [&](size_t part) {
    constexpr size_t kProgram = 32;
    for (size_t first = part * kProgram; first < all.size(); first += 2 * kProgram) {
      std::string text;
      for (size_t i = first; i < std::min(first + kProgram, all.size()); ++i)
        text += all[i].source.text;
      try {
        const auto made = c.compile(text, options);
        logs[part] += made.log;
        if (made.image.substr(0, 4) != "\177ELF") logs[part] += "error: no cubin\n";
      } catch (const std::exception& e) {
        logs[part] += e.what();
      }
    }
  };
  std::thread second(compile, 1);
  compile(0);
  second.join();
  return logs[0] + logs[1];
}

}  // namespace

TEST_SUITE_BEGIN("nvrtc");

TEST_CASE("every source compiles for every architecture, without messages or local memory") {
  const Compiler* c = compiler();
  if (!c) return;
  for (const char* target : {"sm_80", "sm_90a", "sm_100a"}) {
    // All random expressions for one architecture: the compiler takes 30 ms for each.
    const auto all = all_sources(target == std::string("sm_90a") ? kRandomCases : 60);
    CAPTURE(target);
    const std::string log = log_of(*c, all, target);
    const auto kernels = static_cast<int64_t>(all.size());
    CHECK(count(log, "Function properties for map_") == kernels);
    CHECK(count(log, "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") ==
          kernels);
    for (const char* word : {"error", "warning"}) {
      const size_t at = log.find(word);
      CHECK_MESSAGE(at == std::string::npos, log.substr(at == std::string::npos ? 0 : at, 600));
    }
  }
}

TEST_CASE("loads and stores are of 16 bytes") {
  const Compiler* c = compiler();
  if (!c) return;
  const auto ptx = [&](uint32_t type, const std::vector<int64_t>& y,
                       const std::vector<int64_t>& x) {
    Case one{"",
             "map",
             {{conformance::shape(type, y)}, {conformance::shape(type, x)}},
             {conformance::shape(type, y)}};
    one.map = {{{PLAIT_MAP_ADD, 0, 1, 0, 0}}, {2}};
    const std::string text = generate({one})[0].source.text;
    return c->compile(text, Compiler::options("compute_90")).image;
  };
  const auto check = [&](const std::string& code, const char* part, int64_t loads) {
    CAPTURE(code);
    CHECK(count(code, std::string("ld.global.") + part) == loads);
    CHECK(count(code, std::string("st.global.") + part) == 1);
  };
  check(ptx(PLAIT_F32, {1000}, {1000}), "v4", 2);
  check(ptx(PLAIT_F64, {1000}, {1000}), "v2", 2);
  check(ptx(PLAIT_BF16, {1000}, {1000}), "v4", 2);
  check(ptx(PLAIT_F32, {100, 8}, {8}), "v4", 2);       // a row vector
  check(ptx(PLAIT_F32, {100, 8}, {100, 1}), "v4", 1);  // a column vector: one element
  check(ptx(PLAIT_F32, {100, 9}, {9}), "v4", 1);       // vectors cross the ends of rows
  check(ptx(PLAIT_F32, {1000}, {}), "v4", 1);
}

TEST_CASE("the target is the newest architecture whose code the GPU runs") {
  const Compiler* c = compiler();
  if (!c) return;
  CHECK(c->version() / 1000 >= 12);
  CHECK(c->target(80) == "sm_80");
  CHECK(c->target(90) == "sm_90");
  CHECK(c->target(100) == "sm_100");
  CHECK(c->target(109).substr(0, 5) == "sm_10");  // the newest of its family
  CHECK(c->target(990).substr(0, 8) == "compute_");
}

TEST_CASE("what does not compile is an error with the compiler's messages") {
  const Compiler* c = compiler();
  if (!c) return;
  try {
    c->compile("__global__ void f() { nothing(); }", Compiler::options("sm_90"));
    FAIL("compiled");
  } catch (const std::exception& e) {
    CHECK(std::string(e.what()).find("\"nothing\" is undefined") != std::string::npos);
  }
}

TEST_CASE("a missing library is told with the places that were searched") {
  const Compiler none("/nowhere");
  if (none) return;  // the system has one
  CHECK(none.why().find("/nowhere/libnvrtc.so.") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace cuda_map
