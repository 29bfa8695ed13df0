// oneDNN's matmul as a MatmulKernel, of f32 or of bf16 operands. A bias is fused, and relu where
// all is f32; other activations follow as a separate pass over a C of f32, because oneDNN's
// approximations differ from ours; so does relu of bf16, because oneDNN's loses NaN. Builds against
// oneDNN 2.6 and 3.x.

#include <omp.h>

#include <algorithm>
#include <array>
#include <dnnl.hpp>

#include "plugins/devices/cpu/matmul/activation.hpp"
#include "plugins/devices/cpu/matmul/candidates.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/plain.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

using dnnl::memory;

// The most threads that a region of the calling thread gets. Inside of a parallel region, as of a
// host that trains in one, oneDNN uses one.
int granted_threads(int threads) {
  return omp_in_parallel() ? 1 : std::min(threads, omp_get_thread_limit());
}

// oneDNN takes the number of threads from the calling thread's OpenMP setting, both when it
// prepares and when it runs. It divides the work among the threads for which it prepared, and what
// a region of fewer threads leaves out stays unwritten. So it prepares for no more than are
// granted, and OMP_DYNAMIC, which lets a busy machine grant fewer, must not reach it.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads)
      : before_(omp_get_max_threads()), dynamic_(omp_get_dynamic() != 0) {
    set(granted_threads(threads));
    if (dynamic_) omp_set_dynamic(0);
  }
  ~ThreadLimit() {
    set(before_);
    if (dynamic_) omp_set_dynamic(1);
  }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  void set(int threads) const {
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
  }
  const int before_;
  const bool dynamic_;
};

memory::data_type type_of(Half half) {
  return half == Half::none   ? memory::data_type::f32
         : half == Half::bf16 ? memory::data_type::bf16
                              : memory::data_type::f16;
}

memory::desc matrix(const MatmulDesc& d, Half half, int64_t rows, int64_t columns, bool transposed,
                    int64_t batch_stride) {
  const int64_t row = transposed ? 1 : columns;
  const int64_t column = transposed ? rows : 1;
  const auto type = type_of(half);
  if (d.batch == 1) return {memory::dims{rows, columns}, type, memory::dims{row, column}};
  const bool shared = batch_stride == 0;  // a batch of one is repeated for all
  return {memory::dims{shared ? 1 : d.batch, rows, columns}, type,
          memory::dims{shared ? rows * columns : batch_stride, row, column}};
}

memory::desc bias_of(const MatmulDesc& d) {
  constexpr auto kType = memory::data_type::f32;
  if (!d.bias) return {};
  if (d.batch == 1) return {memory::dims{1, d.n}, kType, memory::dims{d.n, 1}};
  return {memory::dims{1, 1, d.n}, kType, memory::dims{d.n, d.n, 1}};
}

bool fuses_relu(const MatmulDesc& d) {
  return d.activation == Activation::relu && d.half_a == Half::none;
}

dnnl::primitive_attr attributes(const MatmulDesc& d) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (d.accumulate) ops.append_sum(1.0f);
  if (fuses_relu(d)) {
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
  }
  attr.set_post_ops(ops);
  return attr;
}

// Throws dnnl::error if oneDNN has no implementation.
dnnl::matmul::primitive_desc describe(const MatmulDesc& d, const dnnl::engine& engine) {
  const ThreadLimit limit(d.threads);
  const memory::desc a = matrix(d, d.half_a, d.m, d.k, d.transpose_a, d.batch_stride_a);
  const memory::desc b = matrix(d, d.half_b, d.k, d.n, d.transpose_b, d.batch_stride_b);
  const memory::desc c = matrix(d, d.half_c, d.m, d.n, false, d.batch_stride_c);
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, bias_of(d), c, attributes(d)};
#else
  return {dnnl::matmul::desc(a, b, bias_of(d), c), attributes(d), engine};
#endif
}

class OneDnnMatmul final : public MatmulKernel {
 public:
  explicit OneDnnMatmul(const MatmulDesc& desc)
      : desc_(desc),
        threads_(granted_threads(desc.threads)),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        description_(describe(desc, engine_)),
        activate_(fuses_relu(desc) ? nullptr
                                   : activation_function(desc.activation, machine_isa())) {
    const ThreadLimit limit(desc.threads);
    primitive_ = dnnl::matmul(description_);
    add_operand(DNNL_ARG_SRC, description_.src_desc());
    add_operand(DNNL_ARG_WEIGHTS, description_.weights_desc());
    add_operand(DNNL_ARG_DST, description_.dst_desc());
    add_operand(DNNL_ARG_SCRATCHPAD, description_.scratchpad_desc());
    if (desc.bias) add_operand(DNNL_ARG_BIAS, bias_of(desc));
  }

  void run(const MatmulArgs& args) const override {
    const ThreadLimit limit(threads_);
    const std::array<const void*, 5> data = {args.a, args.b, args.c, args.workspace, args.bias};
    bool done = granted_threads(threads_) == threads_;
    for (size_t i = 0; i < count_; ++i) {
      // Uses the C functions, because the C++ ones build a map for each call. Inputs are only read.
      done = done && dnnl_memory_set_data_handle(operands_[i].memory, const_cast<void*>(data[i])) ==
                         dnnl_success;
    }
    done = done && dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(count_),
                                          operands_.data()) == dnnl_success;
    // Out of memory inside the library, or in a region that it was not prepared for: slow but
    // correct.
    if (!done && desc_.half_a != Half::none) {
      matmul_plain_bf16(desc_, args);
    } else if (!done) {
      matmul_plain(desc_, args.a, args.b, args.bias, args.c);
    } else if (activate_ != nullptr) {
      activate(args.c);
    }
    if (desc_.squares) *args.squares = plain_squares(desc_, args.c);
  }

  std::string_view name() const override {
    return desc_.half_a == Half::none ? "onednn" : "onednn_bf16";
  }
  size_t workspace_bytes() const override { return description_.scratchpad_desc().get_size(); }

 private:
  void add_operand(int which, const memory::desc& desc) {
    memories_[count_] = memory(desc, engine_, DNNL_MEMORY_NONE);
    operands_[count_] = {which, memories_[count_].get()};
    ++count_;
  }

  void activate(float* c) const {
    const int64_t rows = desc_.batch * desc_.m;
    in_parallel(desc_.threads, rows, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        activate_(c + row / desc_.m * desc_.batch_stride_c + row % desc_.m * desc_.n, desc_.n);
      }
    });
  }

  const MatmulDesc desc_;
  const int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul::primitive_desc description_;
  ActivationFunction activate_;
  dnnl::matmul primitive_;
  std::array<memory, 5> memories_;
  std::array<dnnl_exec_arg_t, 5> operands_{};
  size_t count_ = 0;
};

}  // namespace

namespace {

// The operands' types aside.
Capability capability(const MatmulDesc& desc) {
  if (desc.batch == 0 || desc.m == 0 || desc.n == 0) return {"the result is empty", 0};
  if (desc.k == 0) return {"nothing is summed", 0};
  if (desc.batch > 1 && desc.batch_stride_a == 0 && desc.batch_stride_b == 0) {
    return {"oneDNN can't share both operands of a batch", 0};
  }
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto description = describe(desc, engine);
    if (std::string_view(description.impl_info_str()).starts_with("ref")) {
      return {"oneDNN has only its reference loops for this", 0};
    }
    return {{}, description.scratchpad_desc().get_size()};
  } catch (const dnnl::error& error) {
    return {std::string("oneDNN says ") + error.what(), 0};
  }
}

}  // namespace

Capability onednn_capability(const MatmulDesc& desc) {
  if (desc.half_a != Half::none || desc.half_b != Half::none || desc.half_c != Half::none)
    return {"takes f32 only", 0};
  return capability(desc);
}

Capability onednn_bf16_capability(const MatmulDesc& desc) {
  if (desc.half_a != Half::bf16 || desc.half_b != Half::bf16 || desc.half_c == Half::f16)
    return {"takes two operands of bf16", 0};
  if (desc.half_c != Half::none && (desc.squares || desc.activation != Activation::none))
    return {"activations and sums of squares need a result of f32", 0};
  return capability(desc);
}

std::unique_ptr<MatmulKernel> make_onednn(const MatmulDesc& desc) {
  return std::make_unique<OneDnnMatmul>(desc);
}

}  // namespace plait::cpu
