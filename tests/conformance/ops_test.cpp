// Every case on every kernel of every plugin: against the reference, over threads, captured, in
// place.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/conformance/runner.hpp"
#include "tests/conformance/slowest.hpp"

namespace conformance {
namespace {

// All checks of one kernel on one case.
void check_kernel(const Device& device, const plait_kernel_item& kernel, const Case& c,
                  const std::vector<Bytes>& wanted) {
  CAPTURE(std::string(kernel.name));
  const auto one = run(device, kernel, c, 1, RunMode::direct);
  CHECK_MESSAGE(difference(c, one, wanted) == "", difference(c, one, wanted));
  if (!bounds())
    CHECK_MESSAGE(run(device, kernel, c, 1, RunMode::captured) == one,
                  "captured and direct runs differ");
  for (uint32_t threads : {2u, 3u}) {
    if (device.threads() == 1) break;  // a device without threads is not asked for several
    if (!select(kernel, Desc(c, threads)).taken) continue;
    const auto many = run(device, kernel, c, threads, RunMode::direct);
    if (!bounds())
      CHECK_MESSAGE(run(device, kernel, c, threads, RunMode::captured) == many,
                    "a second run differs");
    if (c.same_over_threads)
      CHECK_MESSAGE(many == one, threads << " threads change the result");
    else
      CHECK_MESSAGE(difference(c, many, wanted) == "", difference(c, many, wanted));
  }
  if (!c.in_place.empty() && !bounds())
    CHECK_MESSAGE(run(device, kernel, c, 1, RunMode::in_place) == one,
                  "in place the result differs");
}

// A kernel may support a case only with several threads.
bool takes_parallel(const plait_kernel_item& kernel, const Case& c) {
  return !select(kernel, Desc(c, 1)).taken && select(kernel, Desc(c, 2)).taken;
}

TEST_CASE("every kernel agrees with the reference") {
  const Device oracle(reference());
  for (const auto& plugin : plugins()) {
    CAPTURE(plugin->name());
    const Device device(*plugin, {{"threads", "2"}, {"bind", "false"}});
    for (const Case& c : all_cases()) {
      CAPTURE(c.name);
      const Timed timed(c.name);
      const auto wanted = expected(oracle, c);
      int taken = 0;
      for (const auto* kernel : plugin->kernels(c.op)) {
        try {
          if (select(*kernel, Desc(c, 1)).taken) {
            ++taken;
            check_kernel(device, *kernel, c, wanted);
          } else if (takes_parallel(*kernel, c)) {
            CAPTURE(std::string(kernel->name));
            CHECK(difference(c, run(device, *kernel, c, 2, RunMode::direct), wanted) == "");
          }
        } catch (const std::exception& e) {
          FAIL_CHECK(kernel->name << ": " << e.what());
        }
      }
      CHECK_MESSAGE((taken > 0 || !c.permits.empty()), "no kernel takes it");
    }
  }
}

TEST_CASE("every list of kernels ends in a plain one that takes all cases") {
  for (const auto& plugin : plugins())
    for (const Case& c : all_cases()) {
      CAPTURE(plugin->name());
      CAPTURE(c.name);
      const auto list = plugin->kernels(c.op);
      REQUIRE(!list.empty());
      CHECK(list.back()->priority == 0);
      if (!c.permits.empty()) continue;
      const Selection s = select(*list.back(), Desc(c, 1));
      CHECK_MESSAGE(s.taken, s.detail);
    }
}

TEST_CASE("a kernel says what it chose, or why it refuses") {
  for (const auto& plugin : plugins())
    for (const Case& c : all_cases())
      for (const auto* kernel : plugin->kernels(c.op)) {
        CAPTURE(c.name);
        CAPTURE(std::string(kernel->name));
        CHECK(select(*kernel, Desc(c, 2)).detail != "");
      }
}

// One that takes none is not tested, and one that selects nothing any more would not be missed: a
// slower kernel has the same results.
TEST_CASE("every kernel takes a case") {
  const std::vector<Case> cases = all_cases();
  // Or it is for instructions that this machine has not, as it says of itself.
  const auto takes = [](const plait_kernel_item& kernel, const Case& c) {
    const Selection s = select(kernel, Desc(c, 1));
    return s.taken || select(kernel, Desc(c, 2)).taken ||
           s.detail.starts_with("the machine has no") ||
           s.detail.starts_with("the processor has no") ||
           s.detail.ends_with("PLAIT_BF16_PRODUCTS is 0");
  };
  for (const auto& plugin : plugins())
    for (const auto* kernel : plugin->all_kernels()) {
      if (!is_chosen(kernel->op)) continue;
      CAPTURE(plugin->name());
      CAPTURE(std::string(kernel->op));
      CAPTURE(std::string(kernel->name));
      CHECK(std::any_of(cases.begin(), cases.end(),
                        [&](const Case& c) { return c.op == kernel->op && takes(*kernel, c); }));
    }
}

// Whether a kernel has work may depend on the machine, but not for an op alone.
TEST_CASE("kernels of one name take cases of an op and of its gradient, or of neither") {
  const auto takes = [](const plait_kernel_item& kernel) {
    for (const Case& c : all_cases())
      if (c.op == kernel.op && select(kernel, Desc(c, 2)).taken) return true;
    return false;
  };
  // The command line may leave out the cases of one of the two.
  const auto tested = [](std::string_view op) {
    for (const Case& c : all_cases())
      if (c.op == op) return true;
    return false;
  };
  for (const auto& plugin : plugins())
    for (const auto* kernel : plugin->all_kernels())
      for (const auto* grad : plugin->kernels(std::string(kernel->op) + "_grad")) {
        if (std::string_view(grad->name) != kernel->name) continue;
        if (!tested(kernel->op) || !tested(grad->op)) continue;
        CAPTURE(plugin->name());
        CAPTURE(std::string(grad->op));
        CAPTURE(std::string(grad->name));
        CHECK(takes(*kernel) == takes(*grad));
      }
}

// With PLAIT_BF16_PRODUCTS=1 the cpu device must use what is tested so.
TEST_CASE("products of bf16 by oneDNN, where they are asked for") {
  const char* asked = std::getenv("PLAIT_BF16_PRODUCTS");
  if (!asked || !__builtin_cpu_supports("avx512vl")) return;
  const auto all = all_cases();
  const auto is_product = [](const Case& c) { return c.op == "matmul"; };
  if (std::none_of(all.begin(), all.end(), is_product)) return;  // as with --op
  int chosen = 0;
  for (const auto& plugin : plugins())
    for (const Case& c : all)
      for (const auto* kernel : plugin->kernels(c.op)) {
        const Selection s = select(*kernel, Desc(c, 1));
        chosen += s.taken && s.detail.find("onednn_bf16") == 0 ? 1 : 0;
      }
  CHECK((chosen > 0) == (std::string(asked) == "1"));
}

TEST_CASE("a desc that breaks the op's contract is refused with a reason, by every kernel") {
  for (const auto& plugin : plugins())
    for (Case c : all_cases()) {
      CAPTURE(c.name);
      c.outputs.push_back(c.outputs[0]);
      c.outputs.push_back(c.outputs[0]);
      for (const auto* kernel : plugin->kernels(c.op)) {
        const Selection s = select(*kernel, Desc(c, 1));
        CHECK(!s.taken);
        CHECK(s.detail != "");
      }
    }
}

TEST_CASE("kernels of one op and device have different names") {
  for (const auto& plugin : plugins()) {
    std::set<std::string> seen;
    for (const auto* k : plugin->all_kernels())
      CHECK(seen.insert(std::string(k->op) + "/" + k->name).second);
  }
}

}  // namespace
}  // namespace conformance
