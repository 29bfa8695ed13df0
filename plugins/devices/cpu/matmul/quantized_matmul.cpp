#include <algorithm>

#include "plugins/devices/cpu/matmul/candidates.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

// Outputs of a thread come in whole groups and in whole lines of C; of weights (k, n) in whole
// blocks of these.
constexpr int64_t kPart = 4 * kStreamGroup;
constexpr int64_t parts_columns(const QuantizedDesc& d) {
  return d.transpose_b ? kPart : kit::kNf4Block;
}

// With more, it costs less to pack the weights than to read them for each kMostStreamRows rows
// (measured on Zen 4).
constexpr int64_t kMostFewRows = 2 * kMostStreamRows;

int64_t parts_of(const QuantizedDesc& d) { return (d.n + parts_columns(d) - 1) / parts_columns(d); }

int threads_of(const QuantizedDesc& d) {
  // To read a weight, and to multiply it by eight rows.
  constexpr double kNanoseconds = 0.04;
  const double weights = static_cast<double>(d.n) * static_cast<double>(d.k);
  const int64_t passes = (d.m + kMostStreamRows - 1) / kMostStreamRows;
  const auto times = static_cast<double>(passes);
  return choose_num_threads(static_cast<uint32_t>(d.threads), weights * times * kNanoseconds,
                            parts_of(d));
}

uint64_t lines(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Where the rows of 16 bits lie in the workspace, in this order.
struct NarrowBytes {
  uint64_t rows, scales;  // and as many bytes for the sums
  NarrowBytes(int64_t m, int64_t blocks)
      : rows(lines(static_cast<uint64_t>(m * blocks * kWeightBlock) * sizeof(int16_t))),
        scales(lines(static_cast<uint64_t>(m * blocks) * sizeof(float))) {}
  uint64_t all() const { return rows + 2 * scales; }
};

// The blocked product of many rows, whose weights become f32 while they are packed.
MatmulDesc blocked_desc(const QuantizedDesc& d) {
  MatmulDesc m;
  m.m = d.m, m.n = d.n, m.k = d.k;
  m.transpose_b = d.transpose_b;
  m.quantized_b = true;
  m.format_b = d.format;
  m.bias = d.bias;
  m.accumulate = d.accumulate;
  m.activation = d.activation;
  m.threads = threads_of(d);
  return m;
}

// Whether so many rows are rounded to 16 bits.
bool are_narrow(const QuantizedDesc& d, int64_t rows) {
  return d.transpose_b && d.format == kit::QuantFormat::kInt8 && rows <= kMostNarrowRows;
}

// Why the rows of a product are taken a few at a time, each time with all weights; "": they are
// not.
std::string few_rows_reason(const QuantizedDesc& d, Isa isa) {
  if (are_narrow(d, d.m)) return "rows of 16 bits";
  if (d.m <= kMostFewRows) return "rows of f32";
  return blocked_capability(blocked_desc(d), isa).refusal;
}

// How many of `left` rows come next: never so few that they would be rounded, as the others are
// not.
int64_t rows_at_once(int64_t left) {
  if (left <= kMostStreamRows) return left;
  return std::min(kMostStreamRows, std::max(left - kMostNarrowRows - 1, kMostNarrowRows + 1));
}

}  // namespace

KernelChoice QuantizedMatmul::choose(const QuantizedDesc& desc, Isa max_isa) {
  KernelChoice choice;
  const Isa isa = limit_isa(max_isa);
  if (isa == Isa::plain) {
    choice.why = "the machine has no AVX2 with FMA";
    return choice;
  }
  choice.kernel = isa == Isa::avx512 ? "quantized_avx512" : "quantized_avx2";
  choice.why = few_rows_reason(desc, isa);
  if (are_narrow(desc, desc.m)) {
    choice.workspace_bytes = NarrowBytes(desc.m, weight_blocks(desc.k)).all();
  } else if (choice.why.empty()) {
    choice.why = "weights widened to f32 while packed";
    choice.workspace_bytes = blocked_capability(blocked_desc(desc), isa).workspace_bytes;
  }
  return choice;
}

QuantizedMatmul::QuantizedMatmul(const QuantizedDesc& desc, Isa max_isa)
    : desc_(desc), row_(desc.row()), threads_(threads_of(desc)) {
  const Isa isa = limit_isa(max_isa);
  functions_ = isa == Isa::avx512 ? quantized_avx512() : quantized_avx2();
  activate_ = activation_function(desc.activation, isa);
  if (few_rows_reason(desc, isa).empty()) blocked_ = make_blocked(blocked_desc(desc), isa);
}

QuantizedMatmul::~QuantizedMatmul() = default;

void QuantizedMatmul::run(const QuantizedArgs& args) const {
  if (desc_.m == 0 || desc_.n == 0) return;
  if (blocked_ == nullptr) {
    for (int64_t row = 0, rows; row < desc_.m; row += rows) {
      rows = rows_at_once(desc_.m - row);
      desc_.transpose_b ? few_rows(args, row, rows) : few_sums(args, row, rows);
    }
    return;
  }
  MatmulArgs m;
  m.a = args.a;
  m.b = reinterpret_cast<const float*>(args.numbers);
  m.scales_b = args.scales;
  m.bias = args.bias;
  m.c = args.c;
  m.workspace = args.workspace;
  blocked_->run(m);
}

namespace {

void set_weights(QuantizedRows& to, const QuantizedArgs& args, const kit::QuantRow& row) {
  to.numbers = args.numbers;
  to.scales = args.scales;
  to.bytes = row.bytes(), to.floats = row.floats(), to.codes = row.number_bytes();
}

}  // namespace

// `rows` rows from `row` on.
void QuantizedMatmul::few_rows(const QuantizedArgs& args, int64_t row, int64_t rows) const {
  QuantizedCall call;
  set_weights(call, args, row_);
  call.rows = args.a + row * desc_.k;
  call.k = desc_.k;
  call.blocks = row_.blocks();
  if (are_narrow(desc_, rows)) {
    const NarrowBytes bytes(rows, call.blocks);
    auto* at = static_cast<char*>(args.workspace);
    auto* narrow = reinterpret_cast<int16_t*>(at);
    auto* scales = reinterpret_cast<float*>(at + bytes.rows);
    auto* sums = reinterpret_cast<float*>(at + bytes.rows + bytes.scales);
    for (int64_t r = 0; r < rows; ++r)
      functions_.narrow(call.rows + r * desc_.k, desc_.k, narrow + r * call.blocks * kWeightBlock,
                        scales + r * call.blocks, sums + r * call.blocks);
    call.narrow = narrow;
    call.narrow_scales = scales;
    call.narrow_sums = sums;
  }
  const auto dots = (row_.nf4() ? functions_.dots_nf4 : functions_.dots)[rows - 1];
  in_parallel(threads_, parts_of(desc_), [&](int64_t first_part, int64_t last_part) {
    float sums[kMostStreamRows * kStreamGroup];
    QuantizedCall own = call;
    own.sums = sums;
    const int64_t last = std::min(last_part * kPart, desc_.n);
    for (int64_t j = first_part * kPart; j < last; j += kStreamGroup) {
      own.numbers = args.numbers + j * call.bytes;
      own.scales = args.scales + j * call.floats;
      own.outputs = std::min(kStreamGroup, last - j);
      dots(own);
      store(args, sums, row, rows, j, own.outputs);
    }
  });
}

// The same of weights (k, n), of which a thread takes columns. Sums are made where c is.
void QuantizedMatmul::few_sums(const QuantizedArgs& args, int64_t row, int64_t rows) const {
  QuantizedSumsCall call;
  set_weights(call, args, row_);
  call.rows = args.a + row * desc_.k;
  call.sums = args.c + row * desc_.n;
  call.k = desc_.k;
  call.stride = desc_.n;
  const auto sums = (row_.nf4() ? functions_.sums_nf4 : functions_.sums)[rows - 1];
  in_parallel(threads_, parts_of(desc_), [&](int64_t first_part, int64_t last_part) {
    QuantizedSumsCall own = call;
    own.first = first_part * parts_columns(desc_);
    own.last = std::min(last_part * parts_columns(desc_), desc_.n);
    if (own.first >= own.last) return;
    for (int64_t r = 0; r < rows && !desc_.accumulate; ++r) {
      float* c = call.sums + r * desc_.n;
      if (desc_.bias)
        std::copy(args.bias + own.first, args.bias + own.last, c + own.first);
      else
        std::fill(c + own.first, c + own.last, 0.0f);
    }
    sums(own);
    for (int64_t r = 0; r < rows && activate_ != nullptr; ++r)
      activate_(call.sums + r * desc_.n + own.first, own.last - own.first);
  });
}

// `rows` rows of a group of outputs from `first` on.
void QuantizedMatmul::store(const QuantizedArgs& args, const float* sums, int64_t row, int64_t rows,
                            int64_t first, int64_t outputs) const {
  for (int64_t r = 0; r < rows; ++r) {
    const float* sum = sums + r * kStreamGroup;
    float* c = args.c + (row + r) * desc_.n + first;
    for (int64_t j = 0; j < outputs; ++j)
      c[j] = desc_.accumulate ? c[j] + sum[j] : desc_.bias ? sum[j] + args.bias[first + j] : sum[j];
    if (activate_ != nullptr) activate_(c, outputs);
  }
}

}  // namespace plait::cpu
