#include "tests/cuda_emulator/cublaslt/multiply.hpp"

#include <bit>
#include <cmath>
#include <vector>

#include "kit/float8.hpp"
#include "kit/half.hpp"

namespace emulated_lt {
namespace {

double read(const void* data, int32_t type, int64_t i) {
  using namespace plait::kit;
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_16BF:
      return from_bf16(static_cast<const uint16_t*>(data)[i]);
    case CUDA_R_16F:
      return from_f16(static_cast<const uint16_t*>(data)[i]);
    case CUDA_R_8F_E4M3:
      return from_f8<E4m3>(static_cast<const uint8_t*>(data)[i]);
    case CUDA_R_8F_E5M2:
      return from_f8<E5m2>(static_cast<const uint8_t*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

void write(void* data, int32_t type, int64_t i, double v) {
  using namespace plait::kit;
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = v;
      break;
    case CUDA_R_16BF:
      static_cast<uint16_t*>(data)[i] = to_bf16(static_cast<float>(v));
      break;
    case CUDA_R_16F:
      static_cast<uint16_t*>(data)[i] = to_f16(static_cast<float>(v));
      break;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(v);
  }
}

double epilogue(uint32_t kind, double v) {
  if (kind & CUBLASLT_EPILOGUE_RELU) return v < 0 ? 0 : v;
  if (kind & CUBLASLT_EPILOGUE_GELU)
    return 0.5 * v * (1 + std::tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
  return v;
}

// One matrix of a batch as rows of k elements in T, the type of the sums. `by_columns`: the k
// elements of a row lie next to each other.
template <class T>
std::vector<T> rows_of(const void* data, const Layout& l, int64_t batch, int64_t rows, int64_t k,
                       bool by_columns) {
  std::vector<T> out(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i)
      out[static_cast<size_t>(r * k + i)] = static_cast<T>(
          read(data, l.type, batch * l.stride + (by_columns ? r * l.ld + i : i * l.ld + r)));
  return out;
}

// As tensor cores read f32 where they multiply TF32: without the last 13 bits.
void cut_to_tf32(std::vector<float>& values) {
  for (float& v : values)
    v = std::bit_cast<float>(std::bit_cast<uint32_t>(v) & ~((uint32_t{1} << 13) - 1));
}
void cut_to_tf32(std::vector<double>&) {}  // f64 has no such products

// Each algorithm adds in another order, and so rounds otherwise: from the front, from the back, or
// first the even numbers.
template <class T>
T sum_of(const T* row, const T* column, int64_t k, uint32_t algorithm) {
  T sum = 0;
  if (algorithm == 1) {
    for (int64_t x = k; x-- > 0;) sum += row[x] * column[x];
    return sum;
  }
  const int64_t step = algorithm == 2 ? 2 : 1;
  for (int64_t first = 0; first < step; ++first)
    for (int64_t x = first; x < k; x += step) sum += row[x] * column[x];
  return sum;
}

template <class T>
void multiply_one(const Product& p, int64_t batch) {
  const int64_t m = p.m(), n = p.n(), k = p.k();
  const bool ta = p.operation.transpose_a != CUBLAS_OP_N;
  const bool tb = p.operation.transpose_b != CUBLAS_OP_N;
  std::vector<T> a = rows_of<T>(p.a_data, p.a, batch, m, k, ta);
  std::vector<T> b = rows_of<T>(p.b_data, p.b, batch, n, k, !tb);
  if (p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
    cut_to_tf32(a);
    cut_to_tf32(b);
  }
  const auto scale = [&](const void* scales, int64_t row) {
    const int64_t at = p.operation.scales_of_rows() ? row : 0;
    return scales ? double{static_cast<const float*>(scales)[at]} : 1;
  };
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i) {
      const T sum = sum_of(a.data() + i * k, b.data() + j * k, k, p.algorithm);
      const int64_t at = batch * p.d.stride + j * p.d.ld + i;
      double v = p.alpha * static_cast<double>(sum) * scale(p.operation.scale_a, i) *
                 scale(p.operation.scale_b, j);
      if (p.beta != 0) v += p.beta * read(p.c_data, p.d.type, at);
      if (p.operation.epilogue & CUBLASLT_EPILOGUE_BIAS) v += read(p.operation.bias, p.d.type, i);
      write(p.d_data, p.d.type, at, epilogue(p.operation.epilogue, v));
    }
}

}  // namespace

// The workspace is overwritten before and behind the product: data that a caller keeps in it is
// lost, as on a GPU.
void multiply(const Product& p) {
  constexpr int kBefore = 0xE1, kBehind = 0xE2;
  if (p.workspace_bytes > 0) std::memset(p.workspace, kBefore, p.workspace_bytes);
  for (int32_t batch = 0; batch < p.d.batch; ++batch)
    p.operation.compute == CUBLAS_COMPUTE_64F ? multiply_one<double>(p, batch)
                                              : multiply_one<float>(p, batch);
  if (p.workspace_bytes > 0) std::memset(p.workspace, kBehind, p.workspace_bytes);
}

}  // namespace emulated_lt
