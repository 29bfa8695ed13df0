// Errors of malformed maps, and the choice of the kernel.
#include <doctest/doctest.h>

#include <plait/plugin.hpp>

#include "tests/unit/cpu_map/map_case.hpp"

namespace plait::cpu::testing {
namespace {

MapTensor tensor(std::initializer_list<int64_t> dims, uint32_t dtype = PLAIT_F32) {
  MapTensor t;
  t.dtype = dtype;
  for (const int64_t d : dims) t.dims[t.ndim++] = d;
  return t;
}

std::string message(const plait_map* map, std::vector<MapTensor> in, std::vector<MapTensor> out,
                    const char* kernel = nullptr, uint32_t code = PLAIT_ERR_INVALID) {
  const MapDesc desc{map, in, out, 1};
  try {
    kernel ? make_map(desc, kernel) : make_map(desc);
  } catch (const plait::Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "no error";
}

Exprs sum_of_two() {
  Exprs e(2);
  e.output(e.op(PLAIT_MAP_ADD, 0, 1));
  return e;
}

}  // namespace

TEST_CASE("cpu map: malformed expressions are refused with the place") {
  const MapTensor t = tensor({4});
  CHECK(message(nullptr, {t}, {t}) == "[cpu.map] the expression is null");

  Exprs none(1);
  plait_map map = none.map();
  CHECK(message(&map, {t}, {}) == "[cpu.map] the expression has no output");

  Exprs unknown(1);
  unknown.output(unknown.op(99, 0));
  map = unknown.map();
  CHECK(message(&map, {t}, {t}) == "[cpu.map] instruction 0 has unknown op 99");

  Exprs forward(1);
  forward.op(PLAIT_MAP_NEG, 0);
  forward.output(forward.op(PLAIT_MAP_ADD, 1, 2));
  map = forward.map();
  CHECK(message(&map, {t}, {t}) ==
        "[cpu.map] instruction 1 (add) reads register 2, only 2 exist by then");

  Exprs output(1);
  output.output(7);
  map = output.map();
  CHECK(message(&map, {t}, {t}) == "[cpu.map] output 0 is register 7, only 1 exist");

  const Exprs sum = sum_of_two();
  map = sum.map();
  CHECK(message(&map, {t}, {t}) ==
        "[cpu.map] got 1 inputs and 1 outputs, the expression has 2 and 1");
  map.instrs = nullptr;
  CHECK(message(&map, {t, t}, {t}) ==
        "[cpu.map] the expression's instruction or output list is null");
}

TEST_CASE("cpu map: shapes that don't fit are refused with both") {
  const Exprs sum = sum_of_two();
  const plait_map map = sum.map();
  CHECK(message(&map, {tensor({4}), tensor({3})}, {tensor({2, 4})}) ==
        "[cpu.map] input 1 of shape [3] does not broadcast to the outputs' [2,4]");
  CHECK(message(&map, {tensor({2, 4}), tensor({4})}, {tensor({4})}) ==
        "[cpu.map] input 0 of shape [2,4] does not broadcast to the outputs' [4]");
  CHECK(message(&map, {tensor({4}), tensor({4}, 42)}, {tensor({4})}) ==
        "[cpu.map] input 1 has unknown dtype 42");
  CHECK(message(&map, {tensor({}), tensor({})}, {tensor({-1})}) ==
        "[cpu.map] negative extent in [-1]");
  const int64_t huge = int64_t{1} << 40;
  CHECK(message(&map, {tensor({}), tensor({})}, {tensor({huge, huge})})
            .ends_with("has more elements than memory can hold"));
  MapTensor deep = tensor({});
  deep.ndim = 9;
  CHECK(message(&map, {deep, deep}, {deep}) == "[cpu.map] input 0 has ndim 9, expected 0 to 8");

  Exprs two(1);
  two.output(0);
  two.output(0);
  const plait_map pair = two.map();
  CHECK(message(&pair, {tensor({4})}, {tensor({4}), tensor({2, 2})}) ==
        "[cpu.map] output 1 has shape [2,2], output 0 has [4]");
}

TEST_CASE("cpu map: the choice says why, and a named kernel is never replaced silently") {
  const Exprs sum = sum_of_two();
  const plait_map map = sum.map();
  const MapTensor t = tensor({100}), d = tensor({100}, PLAIT_F64);
  CHECK(message(&map, {t, t}, {t}, "jit_sse", PLAIT_ERR_UNIMPLEMENTED) ==
        "[cpu.map] no kernel is named \"jit_sse\"; there are \"jit_avx512\", \"jit_avx2\" and "
        "\"interpreter\"");

  const MapTensor in[] = {d, t};
  const MapDesc desc{&map, in, {&t, 1}, 1};
  const MapChoice choice = choose_map(desc);
  CHECK(choice.kernel == "interpreter");
  CHECK(choice.why.find("jit_avx2") != std::string::npos);
  CHECK(choice.workspace_bytes == make_map(desc)->workspace_bytes());
  CHECK(choice.workspace_bytes > 0);

  Exprs endless(1);
  uint32_t r = 0;
  for (int i = 0; i < 300; ++i) r = endless.op(PLAIT_MAP_ADD, r, 0);
  endless.output(r);
  const plait_map long_map = endless.map();
  const MapChoice slow = choose_map({&long_map, {&t, 1}, {&t, 1}, 1});
  CHECK(slow.kernel == "interpreter");
  CHECK(!slow.why.empty());
  Tensor x(PLAIT_F32, {9}), y(PLAIT_F32, {9});
  x.fill({0.5});
  run_map(endless, "interpreter", {&x}, {&y});
  CHECK(y.get(8) == 150.5);

  const MapTensor plain[] = {t, t};
  const MapDesc fast{&map, plain, {&t, 1}, 1};
  CHECK(choose_map(fast).kernel == make_map(fast)->name());
  CHECK(choose_map(fast).workspace_bytes == make_map(fast)->workspace_bytes());
}

}  // namespace plait::cpu::testing
