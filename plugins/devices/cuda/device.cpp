#include "plugins/devices/cuda/device.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "plugins/devices/cuda/attention/cudnn.hpp"
#include "plugins/devices/cuda/map/compiler.hpp"
#include "plugins/devices/cuda/matmul/cublaslt.hpp"
#include "plugins/devices/cuda/queue.hpp"

namespace plait::cuda {
namespace {

constexpr plait_option kOptions[] = {
    at_least(opt_int("index", "-1",
                     "index of the GPU among those this process sees; -1: the rank's index on its "
                     "machine, or the only one"),
             -1),
    opt_text("libraries", "\"\"",
             "folders of CUDA's libraries, separated by colons, searched before the system's"),
    opt_text("cache", "\"auto\"",
             "folder for compiled kernels and tuned products; auto: plait/cuda in the user's cache "
             "folder; empty: none"),
    opt_bool("graphs", "true",
             "launch steps as CUDA graphs; false: call by call, for debuggers and profilers")};

plait_job_place job_place(const plait_host* host) {
  plait_job_place place{sizeof(plait_job_place), 0, 1, 0, 1};
  const auto* job =
      host->extension
          ? static_cast<const plait_job_table*>(host->extension(host, PLAIT_EXTENSION_JOB))
          : nullptr;
  if (job) job->get(host, &place);
  return place;
}

int count_devices() {
  int n = 0;
  const CUresult r = driver().cuDeviceGetCount(&n);
  if (r != CUDA_ERROR_NO_DEVICE) check(r, "counting GPUs");
  return n;
}

std::string visible_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible ? "CUDA_VISIBLE_DEVICES is '" + std::string(visible) + "'"
                 : "CUDA_VISIBLE_DEVICES is not set";
}

// The index of the rank's GPU. Without device.index, a machine that has fewer GPUs than ranks is
// too small for all of its ranks, so that all of them say so.
int choose(const plait_host* host, int64_t index) {
  const int n = count_devices();
  if (n == 0)
    fail(PLAIT_ERR_DEVICE, "[cuda] the driver sees no GPU (" + visible_devices() +
                               "); check with nvidia-smi, or set run.device = \"cpu\"");
  const std::string sees = ", but this process sees " + std::to_string(n) +
                           (n == 1 ? " GPU (" : " GPUs (") + visible_devices() + "); ";
  if (index >= n)
    fail(PLAIT_ERR_CONFIG, "[cuda] device.index is " + std::to_string(index) + sees +
                               "set device.index to " +
                               (n == 1 ? "0" : "at most " + std::to_string(n - 1)) +
                               ", or let CUDA_VISIBLE_DEVICES name more GPUs");
  if (index >= 0) return static_cast<int>(index);
  const plait_job_place place = job_place(host);
  const uint32_t ranks = std::max(place.local_size, place.local_rank + 1);
  if (n > 1 && ranks > static_cast<uint32_t>(n))
    fail(PLAIT_ERR_CONFIG, "[cuda] rank " + std::to_string(place.rank) + " is one of " +
                               std::to_string(ranks) + " ranks of its machine" + sees +
                               "run at most " + std::to_string(n) +
                               " ranks there, or let CUDA_VISIBLE_DEVICES name more GPUs");
  return n == 1 ? 0 : static_cast<int>(place.local_rank);
}

// Ranks that share a GPU are slow, and large models have too little memory.
void warn_of_sharing(const plait_host* host) {
  const plait_job_place place = job_place(host);
  if (place.local_size < 2 || place.local_rank != 0 || count_devices() != 1 ||
      std::getenv("CUDA_VISIBLE_DEVICES"))
    return;
  Host(host).log(PLAIT_LOG_WARN,
                 "[cuda] " + std::to_string(place.local_size) +
                     " ranks of this machine see one GPU each, and CUDA_VISIBLE_DEVICES is not "
                     "set: unless the system gives each another one, they share its memory and "
                     "time; run one rank for each GPU");
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "asking for a property of the GPU");
  return value;
}

// "79.6 GiB".
std::string gibibytes(uint64_t bytes) {
  const uint64_t tenths = bytes * 10 >> 30;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

constexpr int kOldest = 80;  // the oldest architecture that kernels are compiled for

int architecture_of(CUdevice device) {
  return attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
         attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

std::string name_of(CUdevice device) {
  char name[256] = "";
  check(driver().cuDeviceGetName(name, sizeof name, device), "asking for the name of the GPU");
  return name;
}

// The libraries whose versions decide bits: "cuBLASLt 13.1.0, NVRTC 13.0". A missing one is no
// error of open(): a program without products does without cuBLASLt, and without NVRTC element-wise
// ops are interpreted.
std::string library_versions(const std::string& folders) {
  std::string text = "no cuBLASLt";
  try {
    text = "cuBLASLt " + cublaslt_version_text(cublaslt(folders).version);
  } catch (const std::exception&) {
  }
  const map::Compiler compiler(folders);
  return text + (compiler ? ", NVRTC " + version_text(compiler.version()) : ", no NVRTC");
}

// The GPU for this rank, one on which kernels run.
CUdevice usable_device(const plait_host* host, const Options& options) {
  set_library_path(std::string(options.text("libraries")));
  require_own_process();
  require_new_driver();
  const int ordinal = choose(host, options.integer("index"));
  CUdevice device = 0;
  check(driver().cuDeviceGet(&device, ordinal), "opening GPU " + std::to_string(ordinal));
  const int found = architecture_of(device);
  if (found < kOldest)
    fail(PLAIT_ERR_DEVICE, "[cuda] " + name_of(device) + " has compute capability " +
                               std::to_string(found / 10) + "." + std::to_string(found % 10) +
                               ", expected 8.0 (Ampere) or newer; set run.device = \"cpu\"");
  return device;
}

}  // namespace

std::span<const plait_option> Device::options() { return kOptions; }

// cuBLASLt is opened, not only looked for: nothing else tells whether the system has it. A session
// would open it, too. It is no condition of open(): a program without products does without.
bool Device::probe(const plait_host* host, const Options& options, std::string& why) {
  try {
    const CUdevice device = usable_device(host, options);
    cublaslt(std::string(options.text("libraries")));
    const int n = count_devices();
    why = std::to_string(n) + (n == 1 ? " GPU: " : " GPUs, this rank's: ") + name_of(device);
    return true;
  } catch (const std::exception& e) {
    why = e.what();
    return false;
  }
}

Device::Device(const plait_host* host, const Options& options)
    : host_(host),
      libraries_(options.text("libraries")),
      cache_(options.text("cache")),
      graphs_(options.flag("graphs")),
      world_(job_place(host).world),
      device_(usable_device(host, options)) {
  if (options.integer("index") < 0) warn_of_sharing(host);
  describe();
  open_context();
  handle_ = {{sizeof(plait_cuda_device), device_, 0, context_}, this};
}

void Device::open_context() {
  check(driver().cuDevicePrimaryCtxRetain(&context_, device_), "opening a context on " + name_);
  try {
    thread_.emplace(context_);
    check(driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
          "creating a stream");
  } catch (...) {
    thread_.reset();
    driver().cuDevicePrimaryCtxRelease(device_);
    throw;
  }
}

Device::~Device() {
  const Driver& d = driver();
  {
    const CurrentContext current(context_, std::nothrow);
    shared_.clear();
    for (const auto& [name, module] : modules_) d.cuModuleUnload(module);
    for (CUmodule module : made_) d.cuModuleUnload(module);
    d.cuStreamDestroy(stream_);
  }
  thread_.reset();
  d.cuDevicePrimaryCtxRelease(device_);
}

void Device::describe() {
  size_t bytes = 0;
  check(driver().cuDeviceTotalMem(&bytes, device_), "asking for the memory of the GPU");
  name_ = name_of(device_);
  memory_ = bytes;
  architecture_ = architecture_of(device_);
  multiprocessors_ = attribute(device_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  identity_ = name_ + ", " + std::to_string(multiprocessors_) + " SMs, sm_" +
              std::to_string(architecture_) + ", driver for CUDA " +
              version_text(driver().version) + ", " + library_versions(libraries_);
  summary_ = identity_ + ", " + gibibytes(memory_);
}

void Device::info(plait_device_info& out) const {
  plait_device_info all{};
  all.struct_size = out.struct_size;
  all.threads = 1;
  all.memory_bytes = memory_;
  {
    const std::lock_guard lock(mutex_);
    all.summary = (longer_summaries_.empty() ? summary_ : longer_summaries_.back()).c_str();
  }
  all.dl_type = 2;
  all.dl_id = handle_.native.ordinal;
  all.records = 1;
  all.identity = identity_.c_str();
  all.by_calls = graphs_ ? 0 : 1;
  // An engine that does not know by_calls would record collectives, which a list of calls makes
  // once, and not at each launch.
  const bool knows = out.struct_size >= offsetof(plait_device_info, by_calls) + sizeof all.by_calls;
  if (!graphs_ && !knows && world_ > 1)
    fail(PLAIT_ERR_CONFIG,
         "[cuda] device.graphs is false in a job of several ranks, which this version of Plait "
         "cannot do; set it to true, run one rank, or install a newer Plait");
  std::memcpy(&out, &all, std::min(out.struct_size, sizeof all));
}

void Device::describe_more(const std::string& part) {
  const std::lock_guard lock(mutex_);
  const std::string& last = longer_summaries_.empty() ? summary_ : longer_summaries_.back();
  if (last.find(", " + part) == std::string::npos) longer_summaries_.push_back(last + ", " + part);
}

void Device::warn_once(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (warned_.insert(text).second) host().log(PLAIT_LOG_WARN, text);
}

const Cudnn& Device::open_cudnn() {
  const std::lock_guard lock(mutex_);
  if (cudnn_) return *cudnn_;
  const Cudnn& library = cudnn(libraries_);
  const CurrentContext current(context_);
  for (Queue* queue : queues_) queue->open_cudnn(library);
  cudnn_ = &library;
  return library;
}

void Device::add(Queue& queue) {
  const std::lock_guard lock(mutex_);
  if (cudnn_) queue.open_cudnn(*cudnn_);
  queues_.insert(&queue);
}

void Device::remove(Queue& queue) {
  const std::lock_guard lock(mutex_);
  queues_.erase(&queue);
}

// f32 and f64 from the number of units; the tensor cores' rates from NVIDIA's data sheets, dense
// (without sparsity), for the names that they list. Tensor cores of sm_80 and sm_90 compute f64 as
// fast as the other units f32.
double Device::peak_flops(uint32_t dtype) const {
  if (dtype == PLAIT_F32 || dtype == PLAIT_F64) {
    const double units = architecture_ == 80 ? 64 : 128;  // f32 multiply-adds a clock in each SM
    const double clock = 1e3 * attribute(device_, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    const double f32 = multiprocessors_ * units * 2 * clock;
    if (dtype == PLAIT_F32 || architecture_ == 80 || architecture_ == 90) return f32;
    return f32 / (architecture_ == 100 ? 2 : 64);
  }
  if (dtype != PLAIT_BF16 && dtype != PLAIT_F16) return 0;
  const auto named = [&](const char* part) { return name_.find(part) != std::string::npos; };
  if (named("MIG") || named("NVL")) return 0;  // parts of a GPU, or slower ones
  if (named("H200") || (named("H100") && named("HBM3"))) return 989.4e12;
  if (named("A100")) return 312e12;
  return 0;
}

void* Device::alloc(uint64_t bytes) {
  CUdeviceptr p = 0;
  const std::string doing = "allocating " + std::to_string(bytes) + " bytes on " + name_;
  const uint64_t size = std::max<uint64_t>(bytes, 1);
  if (size > memory_)
    fail(PLAIT_ERR_MEMORY, "[cuda] " + doing + " failed: it has " + gibibytes(memory_) +
                               "; use a smaller batch or model, or more ranks");
  check(driver().cuMemAlloc(&p, size), doing);
  try {
    check(driver().cuMemsetD8Async(p, 0, size, stream_), "zeroing memory");
    check(driver().cuStreamSynchronize(stream_), "zeroing memory");
  } catch (...) {
    driver().cuMemFree(p);
    throw;
  }
  return reinterpret_cast<void*>(p);
}

void Device::free(void* memory) noexcept {
  if (!memory) return;
  driver().cuMemFree(pointer(memory));
}

void* Device::host_alloc(uint64_t bytes) {
  void* p = nullptr;
  const uint64_t size = std::max<uint64_t>(bytes, 1);
  check(driver().cuMemHostAlloc(&p, size, CU_MEMHOSTALLOC_PORTABLE),
        "allocating " + std::to_string(bytes) + " bytes of pinned host memory");
  std::memset(p, 0, size);
  return p;
}

void Device::host_free(void* memory) noexcept {
  if (!memory) return;
  driver().cuMemFreeHost(memory);
}

CUmodule Device::embedded(const std::string& module) {
  const auto known = modules_.find(module);
  if (known != modules_.end()) return known->second;
  const void* image = embedded_module(module);
  if (!image) fail(PLAIT_ERR_INTERNAL, "[cuda] no module is called '" + module + "'");
  CUmodule loaded = nullptr;
  check(driver().cuModuleLoadData(&loaded, image), "loading the kernels of '" + module + "'");
  return modules_[module] = loaded;
}

CUfunction Device::function(const std::string& module, const std::string& name,
                            unsigned dynamic_shared) {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(context_);
  return function(embedded(module), name, dynamic_shared);
}

CUmodule Device::load(const void* image, const std::string& what) {
  const CurrentContext current(context_);
  CUmodule loaded = nullptr;
  check(driver().cuModuleLoadData(&loaded, image), "loading " + what);
  const std::lock_guard lock(mutex_);
  made_.push_back(loaded);
  return loaded;
}

// A function is loaded when it is first launched, which a capture does not allow: so it is loaded
// here. Kernels prepared for several shapes share one function, and the last limit that was set is
// in force: a smaller one must not replace a larger one.
CUfunction Device::function(CUmodule module, const std::string& name, unsigned dynamic_shared) {
  const CurrentContext current(context_);
  CUfunction f = nullptr;
  check(driver().cuModuleGetFunction(&f, module, name.c_str()), "finding the kernel " + name);
  check(driver().cuFuncLoad(f), "loading the kernel " + name);
  if (dynamic_shared == 0) return f;
  const auto property = [&](CUfunction_attribute which) {
    int value = 0;
    check(driver().cuFuncGetAttribute(&value, which, f), "asking for a property of " + name);
    return value;
  };
  constexpr int kUsual = 48 << 10;  // static and dynamic; more needs the function's consent
  const auto dynamic = static_cast<int>(dynamic_shared);
  if (property(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) + dynamic <= kUsual) return f;
  const int most = std::max(dynamic, property(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  check(driver().cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most),
        "giving " + std::to_string(dynamic_shared) + " bytes of shared memory to " + name);
  return f;
}

}  // namespace plait::cuda
