#include "plugins/devices/cuda/attention/cudnn.hpp"

#include <mutex>
#include <plait/plugin.hpp>

#include "plugins/support/cuda/libraries.hpp"

namespace plait::cuda {
namespace {

std::mutex mutex;
const Cudnn* opened = nullptr;  // for ever; written under `mutex`

// Not by the major version of CUDA, as other libraries are: one name serves 12 and 13.
constexpr const char* kSoname = "libcudnn.so.9";

std::string remedy() {
  return "install cuDNN " + cudnn_version_text(kOldestCudnn) +
         " or newer (pip install nvidia-cudnn-cu" + std::to_string(major_version()) +
         "), name its folder in device.libraries or "
         "PLAIT_CUDA_LIBRARIES, or set precision.library_attention = false";
}

Cudnn open_cudnn(const std::string& folders) {
  const Search found = Search::of(kSoname, folders);
  if (!found.library)
    fail(PLAIT_ERR_DEVICE, std::string("[cuda] ") + kSoname + " was not found (tried " +
                               found.tried + "); " + remedy());
  Cudnn library;
#define PLAIT_CUDNN_LOAD(name, result, parameters)                                      \
  library.name = reinterpret_cast<decltype(library.name)>(found.library.symbol(#name)); \
  if (!library.name)                                                                    \
    fail(PLAIT_ERR_DEVICE,                                                              \
         "[cuda] " + found.library.path() + " has no function " #name "; " + remedy());
  PLAIT_CUDNN(PLAIT_CUDNN_LOAD)
#undef PLAIT_CUDNN_LOAD
  library.version = library.cudnnGetVersion();
  if (library.version < kOldestCudnn)
    fail(PLAIT_ERR_DEVICE, "[cuda] " + found.library.path() + " is cuDNN " +
                               cudnn_version_text(library.version) + ", expected " +
                               cudnn_version_text(kOldestCudnn) + " or newer; " + remedy());
  return library;
}

}  // namespace

const Cudnn& cudnn(const std::string& folders) {
  const std::lock_guard lock(mutex);
  if (!opened) opened = new Cudnn(open_cudnn(folders));
  return *opened;
}

std::string cudnn_version_text(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void check(const Cudnn& library, dnn::Status s, std::string_view doing) {
  if (s == 0) return;
  char last[512] = "";
  library.cudnnGetLastErrorString(last, sizeof last);
  const char* text = library.cudnnGetErrorString(s);
  fail(PLAIT_ERR_DEVICE, "[cuda] " + std::string(doing) +
                             " failed: " + (text ? text : "unknown error") + " (" +
                             std::to_string(s) + ", cuDNN " + cudnn_version_text(library.version) +
                             ")" + (*last ? std::string(": ") + last : ""));
}

CudnnHandle::CudnnHandle(const Cudnn& library, dnn::Stream stream) : library_(library) {
  check(library, library.cudnnCreate(&handle_),
        "opening cuDNN " + cudnn_version_text(library.version) + " on the GPU");
  const dnn::Status s = stream ? library.cudnnSetStream(handle_, stream) : 0;
  if (s == 0) return;
  library.cudnnDestroy(handle_);
  check(library, s, "giving cuDNN a stream");
}

CudnnDescriptor::CudnnDescriptor(const Cudnn& library, dnn::Kind kind, const char* what)
    : library_(&library), what_(what) {
  const dnn::Status s = library.cudnnBackendCreateDescriptor(kind, &raw_);
  if (s != 0) check(library, s, std::string("describing ") + what + " to cuDNN");
}

void CudnnDescriptor::set(dnn::Attribute name, dnn::Type type, const void* values, int64_t count) {
  const dnn::Status s = library_->cudnnBackendSetAttribute(raw_, name, type, count, values);
  if (s != 0)
    check(*library_, s,
          std::string("describing ") + what_ + " to cuDNN, attribute " +
              std::to_string(static_cast<int32_t>(name)) + ",");
}

void CudnnDescriptor::finalize() {
  const dnn::Status s = library_->cudnnBackendFinalize(raw_);
  if (s != 0) check(*library_, s, std::string("describing ") + what_ + " to cuDNN");
}

int64_t CudnnDescriptor::get(dnn::Attribute name, dnn::Type type, void* values,
                             int64_t most) const {
  int64_t count = 0;
  const dnn::Status s = library_->cudnnBackendGetAttribute(raw_, name, type, most, &count, values);
  if (s != 0)
    check(*library_, s,
          std::string("asking cuDNN for attribute ") + std::to_string(static_cast<int32_t>(name)) +
              " of " + what_);
  return count;
}

}  // namespace plait::cuda
