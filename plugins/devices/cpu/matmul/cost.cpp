#include "plugins/devices/cpu/matmul/cost.hpp"

#include <algorithm>
#include <numeric>

#include "plugins/devices/cpu/matmul/isa.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kPanelBytes = 28 * 1024;  // of 32 or 48 KiB; the rest is for P and D
constexpr int64_t kSets = 64;
constexpr int64_t kUsableWays = 7;

}  // namespace

int max_rows(Isa isa, int vecs) {
  const int others = isa == Isa::avx512 ? 1 : 2;
  return (registers_of(isa) - others - vecs) / vecs;
}

int max_vecs(Isa isa) { return isa == Isa::avx512 ? 7 : 4; }

double tile_cycles(Isa isa, int rows, int vecs, int64_t k, const QCost& q) {
  const double products = rows * vecs;
  const double fma = products / 2;
  const double load = (rows + vecs * q.loads) / 2;
  const double issue = (products + rows + vecs + 1) / 5;
  constexpr double kLatency = 4;
  // A limit that is nearly reached has a cost, too.
  const double step = std::max({fma, load, issue, kLatency}) + 0.1 * load + vecs * q.stall;
  // Tall tiles touch more pages of D than the core's TLB holds for stores.
  const double start_and_store = 12 + products * (isa == Isa::avx512 ? 1.5 : 1.0) + rows * 4.0;
  return step * static_cast<double>(k) + start_and_store;
}

double pack_cycles(Isa isa, bool transpose) {
  if (!transpose) return 1.5;
  return isa == Isa::avx512 ? 3.0 : 2.5;
}

int64_t lines_kept(int64_t distance) {
  if (distance % kLineBytes != 0) return kSets * kUsableWays;
  return kSets / std::gcd(distance / kLineBytes, kSets) * kUsableWays;
}

int64_t k_limit(Isa isa, int vecs, int64_t q_k_bytes) {
  const int64_t row_bytes = vecs * lanes_of(isa) * static_cast<int64_t>(sizeof(float));
  int64_t limit = kPanelBytes / row_bytes;
  if (q_k_bytes > 0) {
    const int64_t row_lines = std::max<int64_t>(row_bytes / kLineBytes, 1);
    limit = std::min(limit, std::min(kSets * kUsableWays / row_lines, lines_kept(q_k_bytes)));
  }
  return std::max<int64_t>(limit, 16);
}

}  // namespace plait::cpu
