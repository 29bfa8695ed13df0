#include "plugins/peft/lora/orthogonal_rows.hpp"

#include <dlfcn.h>
#include <plait/cuda.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace plait::orthogonal_rows {
namespace {

struct Op {
  static constexpr uint32_t kOutputs = 2;

  static std::vector<Shape> infer(const plait_op_desc& desc) {
    const Shape x(desc.n_inputs == 1 ? desc.inputs[0] : plait_shape{});
    if (x.ndim() != 2 || (x.dtype != PLAIT_F32 && x.dtype != PLAIT_F64))
      fail(PLAIT_ERR_INVALID, "[orthogonal_rows] found " + x.typed_text() +
                                  ", expected one matrix (m, n) of f32 or f64");
    return {x, Shape({x.dims[0], x.dims[0]}, x.dtype)};
  }
  static void gradient(const OpUse&) {
    fail(PLAIT_ERR_UNIMPLEMENTED, "[orthogonal_rows] has no gradient");
  }
  // Of ten sweeps over all pairs of rows: three sums and two rotated rows each.
  static double flops(const plait_op_desc& desc) {
    const Shape x(desc.inputs[0]);
    const auto m = static_cast<double>(x.dims[0]), n = static_cast<double>(x.dims[1]);
    return 10 * m * (m - 1) / 2 * (12 * n + 6 * m);
  }
};

// Rotates rows of y (m,n) and, the same way, rows of v (m,m), until all pairs are orthogonal.
class Rotations {
 public:
  Rotations(double* y, double* v, int64_t m, int64_t n) : y_(y), v_(v), m_(m), n_(n) {}

  void run() {
    constexpr int kMostSweeps = 60;  // about six are needed
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      bool rotated = false;
      for (int64_t i = 0; i < m_; ++i)
        for (int64_t j = i + 1; j < m_; ++j) rotated |= rotate(i, j);
      if (!rotated) return;
    }
  }

 private:
  // Blocks of a fixed length become vector instructions without leave to reorder sums.
  static constexpr int64_t kBlock = 8;
  struct Products {
    double aa = 0, bb = 0, ab = 0;
  };
  static Products products(const double* a, const double* b, int64_t n) {
    double aa[kBlock] = {}, bb[kBlock] = {}, ab[kBlock] = {};
    int64_t k = 0;
    for (; k + kBlock <= n; k += kBlock)
      for (int64_t i = 0; i < kBlock; ++i) {
        aa[i] += a[k + i] * a[k + i];
        bb[i] += b[k + i] * b[k + i];
        ab[i] += a[k + i] * b[k + i];
      }
    Products sum;
    for (; k < n; ++k) {
      sum.aa += a[k] * a[k];
      sum.bb += b[k] * b[k];
      sum.ab += a[k] * b[k];
    }
    for (int64_t i = 0; i < kBlock; ++i) {
      sum.aa += aa[i];
      sum.bb += bb[i];
      sum.ab += ab[i];
    }
    return sum;
  }
  static void turn_one(double& a, double& b, double c, double s) {
    const double x = a, z = b;
    a = c * x - s * z;
    b = s * x + c * z;
  }
  static void turn(double* __restrict a, double* __restrict b, int64_t n, double c, double s) {
    int64_t k = 0;
    for (; k + kBlock <= n; k += kBlock)
      for (int64_t i = 0; i < kBlock; ++i) turn_one(a[k + i], b[k + i], c, s);
    for (; k < n; ++k) turn_one(a[k], b[k], c, s);
  }
  // False: the rows are orthogonal within rounding, or one of them is next to nothing.
  bool rotate(int64_t i, int64_t j) {
    double *a = y_ + i * n_, *b = y_ + j * n_;
    const auto [aa, bb, ab] = products(a, b, n_);
    if (!(std::abs(ab) > 1e-15 * std::sqrt(aa * bb))) return false;
    if (aa == 0 || bb == 0) return false;
    const double zeta = (bb - aa) / (2 * ab);
    const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
    const double c = 1 / std::hypot(1.0, t), s = c * t;
    turn(a, b, n_, c, s);
    turn(v_ + i * m_, v_ + j * m_, m_, c, s);
    return true;
  }

  double *y_, *v_;
  int64_t m_, n_;
};

struct Buffers {
  std::vector<double> rows, turns, lengths;
  std::vector<int64_t> order;
};

// x (m,n) → y, u.
template <class T>
void compute(const T* x, T* y, T* u, int64_t m, int64_t n, Buffers& buffers) {
  auto& [rows, turns, lengths, order] = buffers;
  std::copy(x, x + m * n, rows.begin());
  std::fill(turns.begin(), turns.end(), 0.0);
  for (int64_t i = 0; i < m; ++i) turns[static_cast<size_t>(i * m + i)] = 1;
  Rotations(rows.data(), turns.data(), m, n).run();
  for (int64_t i = 0; i < m; ++i) {
    const auto row = rows.begin() + i * n;
    const double length = std::inner_product(row, row + n, row, 0.0);
    // NaN has no order.
    lengths[static_cast<size_t>(i)] = std::isnan(length) ? HUGE_VAL : length;
  }
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double la = lengths[static_cast<size_t>(a)], lb = lengths[static_cast<size_t>(b)];
    return la != lb ? la > lb : a < b;
  });
  for (int64_t i = 0; i < m; ++i) {
    const int64_t from = order[static_cast<size_t>(i)];
    for (int64_t k = 0; k < n; ++k)
      y[i * n + k] = static_cast<T>(rows[static_cast<size_t>(from * n + k)]);
    for (int64_t k = 0; k < m; ++k)
      u[k * m + i] = static_cast<T>(turns[static_cast<size_t>(from * m + k)]);
  }
}

// The functions of the CUDA driver that copy, in the library that the device has opened.
struct Copies {
  using Function = int (*)(void* to, const void* from, size_t bytes, void* stream);
  // The driver's device addresses are integers as wide as pointers.
  Function to_host = nullptr, to_device = nullptr;
  int (*wait)(void* stream) = nullptr;

  Copies() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
    to_host = reinterpret_cast<Function>(dlsym(library, "cuMemcpyDtoHAsync_v2"));
    to_device = reinterpret_cast<Function>(dlsym(library, "cuMemcpyHtoDAsync_v2"));
    wait = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuStreamSynchronize"));
    dlclose(library);  // the device keeps it open
  }
  bool complete() const { return to_host && to_device && wait; }
};

// On a device whose memory the host reads. Runs are ordered by their queue, and every call has a
// kernel of its own.
template <class T>
class OnHost {
 public:
  static bool select(const plait_op_desc& desc, plait_choice&, std::string& why) {
    why = "Jacobi rotations in f64";
    return desc.inputs[0].dtype == (sizeof(T) == 4 ? PLAIT_F32 : PLAIT_F64);
  }
  OnHost(plait_device*, const plait_op_desc& desc)
      : m_(desc.inputs[0].dims[0]),
        n_(desc.inputs[0].dims[1]),
        buffers_{std::vector<double>(static_cast<size_t>(m_ * n_)),
                 std::vector<double>(static_cast<size_t>(m_ * m_)),
                 std::vector<double>(static_cast<size_t>(m_)),
                 std::vector<int64_t>(static_cast<size_t>(m_))} {}
  void run(plait_queue*, void* const* operands, void*) const {
    at(static_cast<const T*>(operands[0]), static_cast<T*>(operands[1]),
       static_cast<T*>(operands[2]));
  }

 protected:
  void at(const T* x, T* y, T* u) const { compute(x, y, u, m_, n_, buffers_); }
  int64_t m_, n_;

 private:
  mutable Buffers buffers_;
};

template <class T>
class OnCuda : public OnHost<T> {
 public:
  OnCuda(plait_device* device, const plait_op_desc& desc)
      : OnHost<T>(device, desc),
        x_(static_cast<size_t>(this->m_ * this->n_)),
        u_(static_cast<size_t>(this->m_ * this->m_)) {
    if (!copies_.complete())
      fail(PLAIT_ERR_DEVICE, "[orthogonal_rows] the CUDA driver has no functions that copy");
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    void* stream = reinterpret_cast<const plait_cuda_queue*>(queue)->stream;
    const size_t x_bytes = x_.size() * sizeof(T), u_bytes = u_.size() * sizeof(T);
    check(copies_.to_host(x_.data(), operands[0], x_bytes, stream));
    check(copies_.wait(stream));
    this->at(x_.data(), x_.data(), u_.data());
    check(copies_.to_device(operands[1], x_.data(), x_bytes, stream));
    check(copies_.to_device(operands[2], u_.data(), u_bytes, stream));
    check(copies_.wait(stream));
  }

 private:
  static void check(int code) {
    if (code != 0)
      fail(PLAIT_ERR_DEVICE,
           "[orthogonal_rows] copying matrices failed, CUDA error " + std::to_string(code));
  }
  Copies copies_;
  mutable std::vector<T> x_, u_;
};

template <class K>
plait_kernel_item on_host(const char* name, const char* device) {
  plait_kernel_item item = kernel<K>(name, kOp, device, 0);
  item.flags = PLAIT_KERNEL_HOST;
  return item;
}

}  // namespace

void add(const Host& host) {
  static const plait_op_item op =
      op_item<Op>(kOp, "turns rows of a matrix until they are orthogonal");
  static const plait_kernel_item kernels[] = {
      on_host<OnHost<float>>("orthogonal_rows_f32", "cpu"),
      on_host<OnHost<double>>("orthogonal_rows_f64", "cpu"),
      on_host<OnHost<float>>("orthogonal_rows_f32", "reference"),
      on_host<OnHost<double>>("orthogonal_rows_f64", "reference"),
      on_host<OnCuda<float>>("orthogonal_rows_f32", "cuda"),
      on_host<OnCuda<double>>("orthogonal_rows_f64", "cuda")};
  host.add(op);
  for (const plait_kernel_item& one : kernels) host.add(one);
}

}  // namespace plait::orthogonal_rows
