// Counting of calls, faults that a test asks for, and the functions for tests.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_emulator/driver.hpp"

namespace emulator {

thread_local CUcontext current_context = nullptr;

namespace {

thread_local unsigned calls_inside = 0;  // of this thread

std::vector<Entry*>& entries() {
  static auto* const all = new std::vector<Entry*>;
  return *all;
}

// "cuLaunchKernel:3:700": the third call of cuLaunchKernel returns 700.
void set_fault(Driver& d, const char* text) {
  d.fail_entry.clear();
  if (!text || !*text) return;
  const char* colon = std::strchr(text, ':');
  unsigned long long call = 0;
  int result = 0;
  if (!colon || std::sscanf(colon, ":%llu:%d", &call, &result) != 2 || call == 0) {
    std::fprintf(stderr,
                 "[cuda emulator] PLAIT_CUDA_EMULATOR_FAIL is '%s'; expected "
                 "<entry point>:<number of the call>:<result>, such as cuLaunchKernel:3:700\n",
                 text);
    std::abort();
  }
  d.fail_entry.assign(text, colon);
  d.fail_call = call;
  d.fail_result = static_cast<CUresult>(result);
}

// Errors of work on the device, after which the context is lost.
bool for_good(CUresult r) {
  return r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_TIMEOUT ||
         r == CUDA_ERROR_ASSERT || r == CUDA_ERROR_ECC_UNCORRECTABLE ||
         (r >= CUDA_ERROR_HARDWARE_STACK_ERROR && r <= CUDA_ERROR_LAUNCH_FAILED);
}

}  // namespace

Driver& driver() {
  static Driver* const d = [] {
    auto* made = new Driver;  // never freed: entry points are called while the process ends
    set_fault(*made, std::getenv("PLAIT_CUDA_EMULATOR_FAIL"));
    if (const char* n = std::getenv("PLAIT_CUDA_EMULATOR_GPUS")) made->gpus = std::atoi(n);
    return made;
  }();
  return *d;
}

Entry::Entry(const char* name_) : name(name_) {
  const std::lock_guard lock(driver().mutex);
  entries().push_back(this);
}

Call::Call(Entry& entry, unsigned needs) : lock_(driver().mutex), frees_(needs & kFrees) {
  Driver& d = driver();
  ++calls_inside;
  ++entry.calls;
  if (!d.fail_entry.empty() && d.fail_entry == entry.name && d.fail_call == entry.calls) {
    result_ = d.fail_result;
    if (for_good(result_)) d.failed = result_;
    return;
  }
  if ((needs & kDriver) && !d.initialised) result_ = CUDA_ERROR_NOT_INITIALIZED;
  if ((needs & kContext) != kContext || result_ != CUDA_SUCCESS) return;
  if (!current_context || current_context->retained == 0)
    result_ = say(CUDA_ERROR_INVALID_CONTEXT, std::string(entry.name) + "() without a context");
  else if (d.failed != CUDA_SUCCESS)
    result_ = d.failed;
  else if (needs & kNoCapture)
    if (const auto capture = capture_of_thread()) {
      frees_ = false;
      result_ = invalidate(capture, entry.name);
    }
}

Call::~Call() { --calls_inside; }

CUresult say(CUresult r, const std::string& text) {
  driver().message = text;
  std::fprintf(stderr, "[cuda emulator] %s\n", text.c_str());
  return r;
}

CUresult fail_for_good(CUresult r, const std::string& text) {
  driver().failed = r;
  return say(r, text);
}

}  // namespace emulator

using namespace emulator;

void emulator_configure(const char* fail, int gpus) {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  set_fault(d, fail);
  d.gpus = gpus;
  d.failed = CUDA_SUCCESS;
  d.message.clear();
  for (Entry* e : entries()) e->calls = 0;
}

void emulator_calls(void (*each)(void*, const char*, uint64_t), void* to) {
  const std::lock_guard lock(driver().mutex);
  for (const Entry* e : entries()) each(to, e->name, e->calls);
}

const char* emulator_live() {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  static std::string text;
  text.clear();
  const auto add = [&](size_t n, const char* what) {
    if (n == 0) return;
    if (!text.empty()) text += ", ";
    text += std::to_string(n) + " " + what + (n > 1 ? "s" : "");
  };
  size_t contexts = 0;
  for (const auto& c : d.contexts) contexts += c->retained > 0;
  add(d.memory.size(), "allocation");
  add(d.pinned.size(), "pinned allocation");
  add(d.streams.size(), "stream");
  add(d.events.size(), "event");
  add(d.graphs.size(), "graph");
  add(d.executables.size(), "executable graph");
  add(d.modules.size(), "module");
  add(contexts, "context");
  return text.c_str();
}

uint64_t emulator_memory() {
  const std::lock_guard lock(driver().mutex);
  return driver().used;
}

bool emulator_inside() { return calls_inside > 0; }

const char* emulator_message() { return driver().message.c_str(); }

CUresult cuGetErrorName(CUresult error, const char** out) {
  switch (error) {
#define NAME(e) \
  case e:       \
    *out = #e;  \
    return CUDA_SUCCESS
    NAME(CUDA_SUCCESS);
    NAME(CUDA_ERROR_INVALID_VALUE);
    NAME(CUDA_ERROR_OUT_OF_MEMORY);
    NAME(CUDA_ERROR_NOT_INITIALIZED);
    NAME(CUDA_ERROR_NO_DEVICE);
    NAME(CUDA_ERROR_INVALID_DEVICE);
    NAME(CUDA_ERROR_INVALID_IMAGE);
    NAME(CUDA_ERROR_INVALID_CONTEXT);
    NAME(CUDA_ERROR_NO_BINARY_FOR_GPU);
    NAME(CUDA_ERROR_ECC_UNCORRECTABLE);
    NAME(CUDA_ERROR_INVALID_HANDLE);
    NAME(CUDA_ERROR_ILLEGAL_STATE);
    NAME(CUDA_ERROR_NOT_FOUND);
    NAME(CUDA_ERROR_NOT_READY);
    NAME(CUDA_ERROR_ILLEGAL_ADDRESS);
    NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    NAME(CUDA_ERROR_LAUNCH_TIMEOUT);
    NAME(CUDA_ERROR_LAUNCH_FAILED);
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NAME(CUDA_ERROR_STREAM_CAPTURE_MERGE);
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    NAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    NAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    NAME(CUDA_ERROR_CAPTURED_EVENT);
    NAME(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    NAME(CUDA_ERROR_UNKNOWN);
#undef NAME
    default:
      *out = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuGetErrorString(CUresult error, const char** out) {
  switch (error) {
    case CUDA_SUCCESS:
      *out = "no error";
      break;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *out = "out of memory";
      break;
    case CUDA_ERROR_NO_DEVICE:
      *out = "no CUDA-capable device is detected";
      break;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      *out = "an illegal memory access was encountered";
      break;
    default:
      return cuGetErrorName(error, out);  // the driver has sentences; these will do
  }
  return CUDA_SUCCESS;
}
