// cuDNN, opened when the first attention is prepared that may use it (precision.library_attention).
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "plugins/devices/cuda/attention/cudnn_types.hpp"

namespace plait::cuda {

// The oldest version that is used, as cudnnGetVersion() names it: 9.8.0.
constexpr size_t kOldestCudnn = 90800;

struct Cudnn {
#define PLAIT_CUDNN_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  PLAIT_CUDNN(PLAIT_CUDNN_MEMBER)
#undef PLAIT_CUDNN_MEMBER
  size_t version = 0;  // 91900 is 9.19.0
};

// The opened library; the same object each time. Any thread. folders: where to look for it first, a
// list separated by colons; only the first call that succeeds uses them.
// Errors: PLAIT_ERR_DEVICE with the places that were searched, and the remedy.
const Cudnn& cudnn(const std::string& folders);
// "9.19.0" of 91900.
std::string cudnn_version_text(size_t version);

// Throws PLAIT_ERR_DEVICE unless s is success, with what the library says. doing: "opening cuDNN".
void check(const Cudnn& library, dnn::Status s, std::string_view doing);

// A handle, for one stream. Made and destroyed where the device's context is current, and not while
// a stream is recorded.
class CudnnHandle {
 public:
  CudnnHandle(const Cudnn& library, dnn::Stream stream);
  ~CudnnHandle() { library_.cudnnDestroy(handle_); }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  const Cudnn& library() const { return library_; }
  dnn::Handle get() const { return handle_; }

 private:
  const Cudnn& library_;
  dnn::Handle handle_ = nullptr;
};

// A descriptor of the library: attributes are set, then it is finalized, and others may refer to
// it as long as it lives. Errors: PLAIT_ERR_DEVICE with the description.
class CudnnDescriptor {
 public:
  // what: for messages, a literal.
  CudnnDescriptor(const Cudnn& library, dnn::Kind kind, const char* what);
  ~CudnnDescriptor() { destroy(); }
  CudnnDescriptor(CudnnDescriptor&& from) noexcept
      : library_(from.library_), what_(from.what_), raw_(std::exchange(from.raw_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  // `count` values of the type, that lie at `values`.
  void set(dnn::Attribute name, dnn::Type type, const void* values, int64_t count);
  template <class T>
  void set(dnn::Attribute name, dnn::Type type, const T& value) {
    set(name, type, &value, 1);
  }
  void finalize();
  // Returns how many there are, which may be more than fit.
  int64_t get(dnn::Attribute name, dnn::Type type, void* values, int64_t most) const;
  dnn::Descriptor raw() const { return raw_; }

 private:
  void destroy() {
    if (raw_) library_->cudnnBackendDestroyDescriptor(raw_);
  }
  const Cudnn* library_;
  const char* what_;
  dnn::Descriptor raw_ = nullptr;
};

}  // namespace plait::cuda
