#include "plugins/devices/cpu/matmul/quantized_dot.hpp"

#include <algorithm>

#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/pack.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kPart = 1024;  // weights that become f32 on their way to bf16

// Columns of C at a time: so many that their weights, as bf16, stay in the second-level cache.
// Whole blocks of weights, wherever these begin.
int64_t columns_at_once(const QuantizedDesc& d) {
  constexpr int64_t kMultiple = kit::kNf4Block;
  const int64_t fit =
      static_cast<int64_t>(second_level_cache_bytes()) / 2 / (2 * std::max<int64_t>(d.k, 1));
  return std::min(d.n, std::max(fit / kMultiple, int64_t{1}) * kMultiple);
}

uint64_t lines(int64_t bytes) { return (static_cast<uint64_t>(bytes) + 63) / 64 * 64; }
uint64_t weight_bytes(const QuantizedDesc& d) {
  return lines(columns_at_once(d) * d.k * static_cast<int64_t>(sizeof(uint16_t)));
}
uint64_t result_bytes(const QuantizedDesc& d) {
  return lines(columns_at_once(d) * d.m * static_cast<int64_t>(sizeof(float)));
}

MatmulDesc product_of(const QuantizedDesc& d, int64_t columns) {
  MatmulDesc m;
  m.m = d.m, m.n = columns, m.k = d.k;
  m.transpose_b = d.transpose_b;
  m.half_a = m.half_b = Half::bf16;
  m.bias = d.bias;
  m.activation = d.activation;
  m.threads = d.threads;
  return m;
}

float* result_at(const QuantizedDesc& d, void* workspace) {
  return reinterpret_cast<float*>(static_cast<char*>(workspace) + weight_bytes(d));
}

}  // namespace

KernelChoice QuantizedDot::choose(const QuantizedDesc& d) {
  const int64_t columns = columns_at_once(d);
  KernelChoice choice;
  if (d.m == 0 || d.n == 0 || d.k == 0) {
    choice.why = "nothing to multiply";
    return choice;
  }
  choice = choose_dot(product_of(d, columns));
  if (d.n % columns > 0 && !choice.kernel.empty()) {
    const KernelChoice rest = choose_dot(product_of(d, d.n % columns));
    if (rest.kernel.empty()) return rest;
    choice.workspace_bytes = std::max(choice.workspace_bytes, rest.workspace_bytes);
  }
  choice.workspace_bytes += weight_bytes(d) + result_bytes(d);
  return choice;
}

QuantizedDot::QuantizedDot(const QuantizedDesc& d) : desc_(d), row_(d.row()) {
  const QuantizedFunctions f = quantized_avx512();
  widen_ = row_.nf4() ? f.widen_nf4 : f.widen;
  const auto make = [&](int64_t columns) {
    const MatmulDesc m = product_of(d, columns);
    return make_matmul(m, choose_dot(m).kernel);
  };
  const int64_t columns = columns_at_once(d);
  block_ = make(columns);
  if (d.n % columns > 0) rest_ = make(d.n % columns);
}

QuantizedDot::~QuantizedDot() = default;

void QuantizedDot::run(const QuantizedDotArgs& args) const {
  const int64_t at_once = columns_at_once(desc_);
  for (int64_t first = 0; first < desc_.n; first += at_once) {
    const int64_t columns = std::min(at_once, desc_.n - first);
    widen(args, first, columns);
    MatmulArgs m;
    m.a = reinterpret_cast<const float*>(args.a);
    m.b = static_cast<const float*>(args.workspace);
    m.bias = desc_.bias ? args.bias + first : nullptr;
    m.c = result_at(desc_, args.workspace);
    m.workspace = reinterpret_cast<char*>(m.c) + result_bytes(desc_);
    (columns == at_once ? block_ : rest_)->run(m);
    store(args, first, columns);
  }
}

// The weights of some columns of C, as they are stored: rows of k, or k rows of columns.
void QuantizedDot::widen(const QuantizedDotArgs& args, int64_t first, int64_t columns) const {
  const auto narrow = pack_functions(Isa::avx512).narrow;
  const int64_t row = desc_.transpose_b ? first : 0, rows = desc_.transpose_b ? columns : desc_.k;
  const int64_t begin = desc_.transpose_b ? 0 : first, n = desc_.transpose_b ? desc_.k : columns;
  const QuantizedRows weights{args.numbers, args.scales, row_.bytes(), row_.floats(),
                              row_.number_bytes()};
  auto* to = static_cast<uint16_t*>(args.workspace);
  in_parallel(desc_.threads, rows, [&](int64_t from, int64_t end) {
    float wide[kPart];
    for (int64_t i = from; i < end; ++i)
      for (int64_t j = 0; j < n; j += kPart) {
        const int64_t part = std::min(kPart, n - j);
        widen_(weights.row(row + i), begin + j, part, wide);
        narrow(wide, to + i * n + j, part);
      }
  });
}

void QuantizedDot::store(const QuantizedDotArgs& args, int64_t first, int64_t columns) const {
  const PackFunctions pack = pack_functions(Isa::avx512);
  float* from = result_at(desc_, args.workspace);
  in_parallel(desc_.threads, desc_.m, [&](int64_t row, int64_t end) {
    for (; row < end; ++row)
      for (int64_t j = 0; j < columns; j += kPart) {
        const int64_t n = std::min(kPart, columns - j);
        float* part = from + row * columns + j;
        uint16_t* c = args.c + row * desc_.n + first + j;
        if (desc_.accumulate) {
          float before[kPart];
          pack.widen(c, before, n);
          for (int64_t i = 0; i < n; ++i) part[i] += before[i];
        }
        pack.narrow(part, c, n);
      }
  });
}

}  // namespace plait::cpu
