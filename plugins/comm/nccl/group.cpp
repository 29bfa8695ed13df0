#include "plugins/comm/nccl/group.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "plugins/comm/nccl/hello.hpp"
#include "plugins/support/thread.hpp"

namespace plait::comm_nccl {
namespace {

constexpr plait_option kOptions[] = {
    opt_choice(
        "wire", "\"f32\"", "f32|native",
        "type in which sums of bf16 and f16 travel; native: as they are, rounded at every rank "
        "on the way, with half of the bytes"),
    opt_text("interface", "\"\"",
             "network interface of NCCL (NCCL_SOCKET_IFNAME); empty: NCCL chooses"),
    at_least(
        opt_int("max_ctas", "0", "most thread blocks of a collective's kernel; 0: NCCL chooses"),
        0),
    opt_choice("debug", "\"none\"", "none|version|warn|info|trace", "what NCCL logs (NCCL_DEBUG)"),
    opt_text("libraries", "\"\"",
             "folders of libnccl.so.2, separated by colons, searched before the system's")};

constexpr auto kLook = std::chrono::milliseconds(50);  // between two looks of the watching thread
constexpr auto kLeave = std::chrono::seconds(5);       // for the communicators of a failed group

const plait_cuda_device& device_of(const plait_comm_setup& setup) {
  constexpr size_t kSize = offsetof(plait_comm_setup, device) + sizeof setup.device;
  if (setup.struct_size < kSize || !setup.device)
    fail(PLAIT_ERR_INVALID, "[nccl] the group was given no device; NCCL exchanges memory of a GPU");
  return *reinterpret_cast<const plait_cuda_device*>(setup.device);
}

const Library& opened(const Host& host, const Options& options) {
  const Library& nccl = library(std::string(options.text("libraries")));
  const std::string set =
      set_environment({std::string(options.text("interface")), std::string(options.text("debug"))});
  if (!set.empty())
    host.log(PLAIT_LOG_INFO,
             "[nccl] NCCL " + version_text(nccl.version) + " (" + nccl.path + "), with " + set);
  return nccl;
}

std::string gpu_of(const plait_cuda_device& device) {
  CUdevice gpu = 0;
  CUuuid uuid{};
  check(driver().cuDeviceGet(&gpu, device.ordinal), "opening the GPU");
  check(driver().cuDeviceGetUuid(&uuid, gpu), "asking for the UUID of the GPU");
  std::string text;
  for (const char byte : uuid.bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

bool shares_gpus() {
  const char* set = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return set && std::strcmp(set, "1") == 0;
}

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::span<const plait_option> ProcessGroup::options() { return kOptions; }

void ProcessGroup::probe(const Host&, const Options& options, const plait_comm_needs&) {
  library(std::string(options.text("libraries")));
}

ProcessGroup::ProcessGroup(const Host& host, const Options& options, const plait_comm_setup& setup)
    : host_(host),
      members_("nccl", setup),
      timeout_(setup.timeout),
      connect_timeout_(setup.connect_timeout),
      native_(options.text("wire") == "native"),
      store_(host, setup.store),
      device_(device_of(setup)),
      nccl_(opened(host, options)),
      shared_{nccl_,          static_cast<CUcontext>(device_.context),
              failure_,       members_.head(),
              members_.group, static_cast<int>(options.integer("max_ctas"))} {
  const CurrentContext context(shared_.context);
  try {
    kernels_ = std::make_unique<Kernels>();
    barrier_ = std::make_unique<DeviceMemory>(barrier_bytes());
    counts_ = std::make_unique<Counts>();
    collectives_ = std::make_unique<Communicator>(shared_);
    const Clock::time_point deadline = after(connect_timeout_);
    const ncclUniqueId id =
        meet(members_, store_, {nccl_.version, gpu_of(device_), shares_gpus()}, [&] {
          ncclUniqueId made{};
          if (const ncclResult_t r = nccl_.ncclGetUniqueId(&made); r != ncclSuccess)
            fail(code_of(r), members_.head() + ": making an id failed: " + result_text(nccl_, r));
          return made;
        });
    collectives_->connect(id, members_.rank, members_.size, deadline,
                          members_.head() + " did not connect in time; missing: some of " +
                              others() + "; see their errors, or raise topology.connect_timeout");
    warm(deadline);
    watcher_ = support::start_thread(members_.head(), [this] { watch(); });
  } catch (...) {
    release(false);
    throw;
  }
}

// Collectives are connected by a first one, messages (also of all_to_all) by a first one to and
// from each peer.
void ProcessGroup::warm(Clock::time_point deadline) {
  const CUstream stream = collectives_->stream();
  check(driver().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(barrier_->data()), 0,
                                 barrier_bytes(), stream),
        "zeroing memory");
  const std::string late = members_.head() + " did not connect in time: the first exchange with " +
                           others() + " has not ended; see their errors";
  collectives_->exchange_first(deadline, late, [&](ncclComm_t comm) {
    return nccl_.ncclAllReduce(barrier_->data(), barrier_->data(), 1, ncclInt32, ncclSum, comm,
                               stream);
  });
  if (members_.size == 1) return;
  collectives_->exchange_first(deadline, late, [&](ncclComm_t comm) {
    char* const bytes = barrier_->data() + sizeof(int32_t);
    ncclResult_t r = nccl_.ncclGroupStart();
    for (uint32_t s = 0; s < members_.size && r == ncclSuccess; ++s) {
      if (s == members_.rank) continue;
      const int peer = static_cast<int>(s);
      r = nccl_.ncclSend(bytes, 1, ncclUint8, peer, comm, stream);
      if (r == ncclSuccess) r = nccl_.ncclRecv(bytes + 1 + s, 1, ncclUint8, peer, comm, stream);
    }
    const ncclResult_t ended = nccl_.ncclGroupEnd();
    return r == ncclSuccess ? ended : r;
  });
}

ProcessGroup::~ProcessGroup() {
  stop_watching();
  const bool failed = static_cast<bool>(failure_);
  // A link that nobody used may still wait for its other end.
  const auto settled = [](const auto& link) { return link.second->settled(); };
  if (!std::all_of(links_.begin(), links_.end(), settled))
    failure_.set(PLAIT_ERR_PEER, members_.head() + " is closed");
  release(!failed);
}

template <class F>
void ProcessGroup::each(F&& f) {
  if (collectives_) f(*collectives_);
  const std::lock_guard lock(mutex_);
  for (const auto& [key, link] : links_) f(link->raw());
}

// All at once: one after the other may wait for each other.
bool ProcessGroup::end_all() noexcept {
  each([](Communicator& c) { c.end(); });
  const Clock::time_point deadline = Clock::now() + kLeave;
  bool ended = true;
  each([&](Communicator& c) { ended = c.ended_by(deadline) && ended; });
  return ended;
}

void ProcessGroup::release(bool in_peace) noexcept {
  try {
    const CurrentContext context(shared_.context);
    if (in_peace) {
      for (const auto& [key, link] : links_)
        if (link->settled()) link->raw().finalize();
      collectives_->finalize();
    }
    if (!end_all()) {
      // Freeing would wait for kernels that may never end, and they use all of this.
      for (auto& resources : kept_) static_cast<void>(resources.release());
      static_cast<void>(counts_.release());
      static_cast<void>(barrier_.release());
      static_cast<void>(kernels_.release());
      for (const auto& [key, link] : links_) link->leak();
      host_.log(PLAIT_LOG_ERROR, members_.head() + " is closed, and NCCL has not given it up in " +
                                     std::to_string(kLeave.count()) +
                                     " s; what it holds on the GPU is kept until the process ends");
    }
    links_.clear();
    collectives_.reset();
    kept_.clear();
    counts_.reset();
    barrier_.reset();
    kernels_.reset();
  } catch (const std::exception& e) {  // the context has failed, and its objects with it
    host_.log(PLAIT_LOG_WARN, members_.head() + " was not closed in order: " + e.what());
  }
}

void ProcessGroup::status() const {
  if (failure_) failure_.throw_it(host_, members_.head());
}

void ProcessGroup::abort(std::string_view text) noexcept { fail_group(PLAIT_ERR_PEER, text); }

void ProcessGroup::fail_group(uint32_t code, std::string_view text) noexcept {
  failure_.set(code, text, counts_->begun());
  const std::lock_guard lock(watch_mutex_);
  failed_ = true;
  wake_.notify_all();
}

void ProcessGroup::stop_watching() noexcept {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(watch_mutex_);
    leaving_ = true;
    wake_.notify_all();
  }
  watcher_.join();
}

std::string ProcessGroup::others() const {
  return members_.list([&](uint32_t r) { return r != members_.rank; });
}

// Until the group fails or is closed. It calls nothing of the driver, where another thread may
// wait.
void ProcessGroup::watch() noexcept {
  while (!failure_) {
    {
      std::unique_lock lock(watch_mutex_);
      if (wake_.wait_for(lock, kLook, [&] { return leaving_ || failed_; }) && leaving_ && !failed_)
        return;
    }
    try {
      if (const std::string late = counts_->late(timeout_); !late.empty()) {
        char seconds[32];
        std::snprintf(seconds, sizeof seconds, "%.3g", timeout_);
        failure_.set(PLAIT_ERR_PEER,
                     members_.head() + ": " + late + " has not ended " + seconds +
                         " s after this rank began it; the members: " +
                         members_.list([](uint32_t) { return true; }) +
                         "; one of them has stopped or is late: see their errors, or raise "
                         "topology.timeout");
      }
      each([&](Communicator& c) {
        uint32_t code = 0;
        if (const std::string fault = c.fault(code); !fault.empty())
          failure_.set(
              code, members_.head() + " has failed: " + fault + "; see the errors of " + others(),
              counts_->begun());
      });
    } catch (const std::exception&) {
      failure_.set(PLAIT_ERR_MEMORY, "out of memory");
    }
  }
  each([](Communicator& c) { c.end(); });  // the destructor waits, when all graphs are closed
}

// Only the owner of the group adds links.
MessageLink& ProcessGroup::link_of(const plait_comm_desc& desc) {
  const std::pair key{desc.kind, desc.peer};
  if (const auto found = links_.find(key); found != links_.end()) return *found->second;
  // Not under the lock, which the watching thread needs: the driver may block.
  auto link = std::make_unique<MessageLink>(shared_, members_, host_, store_, desc.kind, desc.peer,
                                            connect_timeout_);
  const std::lock_guard lock(mutex_);
  return *links_.emplace(key, std::move(link)).first->second;
}

}  // namespace plait::comm_nccl
