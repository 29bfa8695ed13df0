// Registers of generated code: the body has as many as it needs, outer values have the rest.
#include "plugins/devices/cpu/map/jit/allocate.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

namespace plait::cpu::jit {
namespace {

// The sum of x_i * c_i, of n values of each vector, all of them read first, and n of the call.
Code products(int n) {
  std::vector<Level> levels(static_cast<size_t>(n), Level::kBody);
  levels.resize(2 * levels.size(), Level::kCall);
  Builder b(Isa::kAvx512, levels);
  std::vector<Value> x, c;
  for (int i = 0; i < n; ++i) x.push_back(b.load(static_cast<uint8_t>(i)));
  for (int i = n; i < 2 * n; ++i) c.push_back(b.load(static_cast<uint8_t>(i)));
  Value sum = b.mul(x[0], c[0]);
  for (size_t i = 1; i < x.size(); ++i) sum = b.add(sum, b.mul(x[i], c[i]));
  b.store(static_cast<uint8_t>(2 * n), sum);
  return std::move(b).finish();
}

TEST_CASE("cpu map: outer values are held in registers that the body does not need") {
  for (const int n : {9, 12, 15, 16}) {
    CAPTURE(n);
    const Program p = allocate(products(n), 16);
    CHECK(p.n_spills == 0);
    CHECK(p.call_hoists.size() == static_cast<size_t>(16 - n));
    CHECK(p.row_hoists.empty());
    for (const Step& s : p.call_hoists) CHECK(s.to >= n);
  }
  CHECK(allocate(products(12), 32).call_hoists.size() == 12);  // all
  // The body has 8 in any case.
  CHECK(allocate(products(10), 8).call_hoists.empty());
  CHECK(allocate(products(10), 8).n_spills == 2);
  CHECK(allocate(products(3), 16).call_hoists.size() == 3);
  CHECK(allocate(products(9), 10).call_hoists.size() == 1);
}

}  // namespace
}  // namespace plait::cpu::jit
