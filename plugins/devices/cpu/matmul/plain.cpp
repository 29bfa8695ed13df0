#include "plugins/devices/cpu/matmul/plain.hpp"

#include <cmath>

#include "kit/half.hpp"

namespace plait::cpu {

template <typename T>
T activate_plain(Activation activation, T x) {
  constexpr T kSqrtHalf = T(0.70710678118654752440);
  constexpr T kSqrtTwoOverPi = T(0.79788456080286535588);
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < T(0) ? T(0) : x;
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return T(1) / (T(1) + std::exp(-x));
    case Activation::gelu:
      return T(0.5) * x * std::erfc(-x * kSqrtHalf);
    case Activation::gelu_tanh:  // x * sigmoid(2u): no cancellation for negative x
      return x / (T(1) + std::exp(T(-2) * kSqrtTwoOverPi * (x + T(0.044715) * x * x * x)));
    case Activation::silu:
      return x / (T(1) + std::exp(-x));
  }
  return x;
}

template <typename T>
void matmul_plain(const MatmulDesc& d, const T* a, const T* b, const T* bias, T* c) {
  const int64_t a_i = d.transpose_a ? 1 : d.k;
  const int64_t a_p = d.transpose_a ? d.m : 1;
  const int64_t b_p = d.transpose_b ? 1 : d.n;
  const int64_t b_j = d.transpose_b ? d.k : 1;
  for (int64_t item = 0; item < d.batch; ++item) {
    const T* a_item = a + item * d.batch_stride_a;
    const T* b_item = b + item * d.batch_stride_b;
    T* c_item = c + item * d.batch_stride_c;
    for (int64_t i = 0; i < d.m; ++i) {
      for (int64_t j = 0; j < d.n; ++j) {
        T sum = 0;
        for (int64_t p = 0; p < d.k; ++p)
          sum += a_item[i * a_i + p * a_p] * b_item[p * b_p + j * b_j];
        if (d.bias) sum += bias[j];
        T& out = c_item[i * d.n + j];
        out = d.accumulate ? out + sum : activate_plain(d.activation, sum);
      }
    }
  }
}

void matmul_plain_bf16(const MatmulDesc& d, const MatmulArgs& args) {
  const auto at = [](const float* of, int64_t i) -> double {
    return kit::from_bf16(reinterpret_cast<const uint16_t*>(of)[i]);
  };
  const int64_t a_i = d.transpose_a ? 1 : d.k, a_p = d.transpose_a ? d.m : 1;
  const int64_t b_p = d.transpose_b ? 1 : d.n, b_j = d.transpose_b ? d.k : 1;
  for (int64_t item = 0; item < d.batch; ++item)
    for (int64_t i = 0; i < d.m; ++i)
      for (int64_t j = 0; j < d.n; ++j) {
        double sum = d.bias ? args.bias[j] : 0;
        for (int64_t p = 0; p < d.k; ++p)
          sum += at(args.a, item * d.batch_stride_a + i * a_i + p * a_p) *
                 at(args.b, item * d.batch_stride_b + p * b_p + j * b_j);
        const int64_t c = item * d.batch_stride_c + i * d.n + j;
        const bool narrow = d.half_c != Half::none;
        if (d.accumulate) sum += narrow ? at(args.c, c) : args.c[c];
        const auto value = static_cast<float>(activate_plain(d.activation, sum));
        if (narrow)
          reinterpret_cast<uint16_t*>(args.c)[c] = kit::to_bf16(value);
        else
          args.c[c] = value;
      }
}

namespace {

// Sixteen partial sums, which compilers vectorise; double, because rows are long.
template <class F>
double sum_of(const float* values, int64_t count, F&& term) {
  constexpr int64_t kSums = 16;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int64_t s = 0; s < kSums; ++s) sums[s] += term(values[i + s]);
  for (int64_t s = 0; i < count; ++i, ++s) sums[s] += term(values[i]);
  double all = 0;
  for (const double sum : sums) all += sum;
  return all;
}

}  // namespace

float plain_sum(const float* values, int64_t count) {
  return static_cast<float>(sum_of(values, count, [](double v) { return v; }));
}

float plain_squares(const MatmulDesc& d, const float* c) {
  double all = 0;
  for (int64_t item = 0; item < d.batch; ++item)
    all += sum_of(c + item * d.batch_stride_c, d.m * d.n, [](double v) { return v * v; });
  return static_cast<float>(all);
}

template float activate_plain(Activation, float);
template double activate_plain(Activation, double);
template void matmul_plain(const MatmulDesc&, const float*, const float*, const float*, float*);
template void matmul_plain(const MatmulDesc&, const double*, const double*, const double*, double*);

}  // namespace plait::cpu
