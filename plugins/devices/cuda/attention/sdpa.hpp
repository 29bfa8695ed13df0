// Forward attention by cuDNN: softmax(scale * q k^T, masked) v as a fused graph of its operations,
// and the natural logarithm of the sum of exp of each row of scores, as own kernels write it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "plugins/devices/cuda/attention/cudnn.hpp"

namespace plait::cuda {

// q (B,T,H,d), k (B,S,G,d), v (B,S,G,e) -> o (B,T,H,e), lse (B,H,T). No extent is 0, H is a
// multiple of G, and query head h reads key head h*G/H.
struct SdpaDesc {
  int64_t samples = 0, queries = 0, keys = 0, heads = 0, groups = 0, qk = 0, value = 0;
  uint32_t type = 0;  // PLAIT_F16 or PLAIT_BF16, of all but lse, which is f32
  bool causal = false;
  float scale = 1;
  uint64_t workspace = 0;  // bytes that run() gives
};

// Bytes of workspace that a plan may use on any GPU.
uint64_t sdpa_workspace();
// The workspace of run() is aligned to this.
constexpr uint64_t kSdpaAlignment = 256;

struct SdpaOperands {
  const void *q, *k, *v;
  void *o, *lse, *workspace;
};

// A plan of the library. Constant once it is made: several queues may run it.
class Sdpa {
 public:
  // For the GPU whose context is current. The first plan that the library's heuristic names and
  // that repeats to the bit in that workspace: a function of the description, the version of the
  // library and the GPU's model.
  // Errors: PLAIT_ERR_DEVICE with the library's reason, or if no plan is such.
  Sdpa(const CudnnHandle& handle, const SdpaDesc& desc);
  // For a GPU that is described to the library as a text in JSON (CUDNN_ATTR_DEVICEPROP_*): checks
  // a graph where there is none.
  Sdpa(const Cudnn& library, const std::string& device, const SdpaDesc& desc);
  ~Sdpa();
  Sdpa(const Sdpa&) = delete;
  Sdpa& operator=(const Sdpa&) = delete;

  // Enqueues on the handle's stream.
  void run(const CudnnHandle& handle, const SdpaOperands& operands) const;

 private:
  struct Parts;
  Sdpa(const Cudnn& library, const SdpaDesc& desc);
  void choose(dnn::Handle handle, dnn::Descriptor device);
  void try_plan(const CudnnDescriptor& config, dnn::Handle handle, dnn::Descriptor device,
                std::string& why);
  bool repeats(const CudnnDescriptor& config) const;

  const Cudnn& library_;
  SdpaDesc desc_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace plait::cuda
