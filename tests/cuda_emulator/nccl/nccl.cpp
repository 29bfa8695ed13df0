// libnccl.so.2 for tests: ranks are processes or threads of one, GPUs are emulated, and exchanges
// go through shared memory. Calls return before they have begun, as in a communicator that does not
// block, and do their work where the stream is.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include "tests/cuda_emulator/nccl/comm.hpp"
#include "tests/cuda_emulator/nccl/faults.hpp"
#include "tests/cuda_emulator/stream.hpp"

using namespace nccl_emulator;

namespace {

struct Faults {
  int version = NCCL_VERSION_CODE;
  int init_rank = -1, init_error = 0, never = -1, hang_rank = -1, hang_at = 0;
  int error_rank = -1, error_at = 0, error = 0;
  std::string entry;  // that fails
  int entry_call = 0, entry_error = 0;
};
std::mutex faults_mutex;

Faults parsed(const char* text) {
  Faults f;
  std::istringstream in(text ? text : "");
  for (std::string word; in >> word;) {
    char entry[64] = "";
    if (std::sscanf(word.c_str(), "fail=%63[A-Za-z]:%d:%d", entry, &f.entry_call, &f.entry_error) ==
        3)
      f.entry = entry;
    else if (std::sscanf(word.c_str(), "version=%d", &f.version) != 1 &&
             std::sscanf(word.c_str(), "init=%d:%d", &f.init_rank, &f.init_error) != 2 &&
             std::sscanf(word.c_str(), "never=%d", &f.never) != 1 &&
             std::sscanf(word.c_str(), "hang=%d:%d", &f.hang_rank, &f.hang_at) != 2 &&
             std::sscanf(word.c_str(), "error=%d:%d:%d", &f.error_rank, &f.error_at, &f.error) !=
                 3) {
      std::fprintf(stderr, "[nccl emulator] '%s' is no fault; see faults.hpp\n", word.c_str());
      std::abort();
    }
  }
  return f;
}

Faults& stored() {
  static Faults f = parsed(std::getenv("PLAIT_NCCL_EMULATOR"));
  return f;
}
Faults faults() {
  const std::lock_guard lock(faults_mutex);
  return stored();
}

// Communicators are never freed: a graph that was not destroyed may refer to one.
ncclComm* keep(std::unique_ptr<ncclComm> comm) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<ncclComm>>;
  const std::lock_guard lock(mutex);
  return all.emplace_back(std::move(comm)).get();
}

// Calls between ncclGroupStart and ncclGroupEnd: messages only.
thread_local int depth = 0;
thread_local std::vector<Message> grouped;
thread_local ncclComm* grouped_comm = nullptr;
thread_local cudaStream_t grouped_stream = nullptr;
thread_local ncclResult_t group_error = ncclSuccess;  // of a call in the group: it does nothing
thread_local std::string last_error;

ncclResult_t refuse(ncclResult_t r, const std::string& why) {
  last_error = why;
  return r;
}

// What an entry point returns at once, ncclSuccess if it is to go on.
ncclResult_t failing(const char* entry) {
  const std::lock_guard lock(faults_mutex);
  Faults& f = stored();
  if (f.entry != entry || --f.entry_call != 0) return ncclSuccess;
  return refuse(static_cast<ncclResult_t>(f.entry_error), "this call was to fail");
}
#define ENTER(name) \
  if (const ncclResult_t fault = failing(#name); fault != ncclSuccess) return fault

// On the stream.
void run(void* data) {
  const Work& w = *static_cast<const Work*>(data);
  ncclComm& c = *w.comm;
  if (c.aborted) return;
  const Faults f = faults();
  static std::mutex mutex;
  static auto& counts = *new std::map<ncclComm*, int>;
  int number = 0;
  {
    const std::lock_guard lock(mutex);
    number = counts[&c]++;
  }
  const int rank = static_cast<int>(c.rank);
  if (f.error_rank == rank && f.error_at == number) c.failed = static_cast<ncclResult_t>(f.error);
  if ((f.hang_rank == rank && f.hang_at == number) || c.failed != ncclSuccess) {
    while (!c.aborted) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return;
  }
  exchange(w);
}

ncclResult_t enqueue(Work work, cudaStream_t stream) {
  ncclComm& c = *work.comm;
  if (!c.joined || c.aborted) return refuse(ncclInvalidUsage, "the communicator is not ready");
  if (c.in_progress > 0) return refuse(ncclInvalidUsage, "a call before the last one has begun");
  if ((work.reduction != ncclSum) && (work.type == ncclFloat32 || work.type == ncclFloat64 ||
                                      work.type == ncclFloat16 || work.type == ncclBfloat16))
    return refuse(ncclInvalidArgument, "a maximum of floats loses NaN");
  ++c.works;
  const auto drop = [](void* object) {
    const std::unique_ptr<Work> dropped(static_cast<Work*>(object));
    --dropped->comm->works;
  };
  if (emulator_enqueue_owned(stream, run, new Work(std::move(work)), drop) != CUDA_SUCCESS)
    return ncclUnhandledCudaError;
  c.in_progress = 2;
  return ncclInProgress;
}

ncclResult_t message(const char* entry, Message m, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t fault = failing(entry); fault != ncclSuccess) {
    if (depth > 0) group_error = fault;
    return fault;
  }
  if (m.peer >= comm->size) return refuse(ncclInvalidArgument, "no such peer");
  if (depth == 0)
    return enqueue({comm, Kind::messages, nullptr, nullptr, 0, ncclUint8, ncclSum, 0, {m}}, stream);
  grouped.push_back(m);
  grouped_comm = comm;
  grouped_stream = stream;
  return ncclSuccess;
}

}  // namespace

void nccl_emulator_configure(const char* text) {
  const std::lock_guard lock(faults_mutex);
  stored() = parsed(text);
}

bool nccl_emulator_has_failed() {
  const std::lock_guard lock(faults_mutex);
  return !stored().entry.empty() && stored().entry_call <= 0;
}

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  ENTER(ncclGetVersion);
  *version = faults().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  ENTER(ncclGetUniqueId);
  std::memset(id, 0, sizeof *id);
  std::random_device random;
  std::snprintf(id->internal, sizeof id->internal, "/plait-nccl-%d-%08x%08x", getpid(), random(),
                random());
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t r) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return static_cast<size_t>(r) < std::size(kTexts) ? kTexts[r] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *out = nullptr;
  ENTER(ncclCommInitRankConfig);
  if (!config || config->magic != 0xcafebeef || config->blocking != 0)
    return refuse(ncclInvalidArgument, "the emulator knows only configurations that do not block");
  CUcontext current = nullptr;
  if (cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current) return ncclUnhandledCudaError;
  auto comm = std::make_unique<ncclComm>();
  comm->rank = static_cast<uint32_t>(rank);
  comm->size = static_cast<uint32_t>(size);
  const Faults f = faults();
  try {
    comm->segment = std::make_unique<Segment>(id.internal, comm->size);
  } catch (const std::exception& e) {
    return refuse(ncclSystemError, e.what());
  }
  if (f.init_rank == rank) comm->failed = static_cast<ncclResult_t>(f.init_error);
  if (comm->failed == ncclSuccess && f.never != rank &&
      comm->segment->header().joined.fetch_add(1) + 1 == comm->size)
    comm->segment->unlink();
  *out = keep(std::move(comm));
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* out) {
  ENTER(ncclCommGetAsyncError);
  if (c->failed != ncclSuccess) {
    *out = c->failed;
  } else if (!c->joined) {
    c->joined = c->segment->header().joined == c->size;
    *out = c->joined ? ncclSuccess : ncclInProgress;
  } else if (c->in_progress > 0) {
    --c->in_progress;
    *out = ncclInProgress;
  } else if (c->finalizing && c->works > 0) {
    *out = ncclInProgress;
  } else {
    *out = ncclSuccess;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c) {
  ENTER(ncclCommFinalize);
  ++c->segment->header().left;
  c->finalizing = true;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
  ENTER(ncclCommDestroy);
  c->aborted = true;
  return ncclSuccess;
}

// NCCL returns when its work has ended, and the graphs that hold some have been destroyed.
ncclResult_t ncclCommAbort(ncclComm_t c) {
  c->aborted = true;
  while (c->works > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (!c->joined) c->segment->unlink();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  ENTER(ncclAllReduce);
  return enqueue({comm,
                  Kind::all_reduce,
                  static_cast<const char*>(in),
                  static_cast<char*>(out),
                  count,
                  type,
                  op,
                  0,
                  {}},
                 stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  ENTER(ncclReduceScatter);
  return enqueue({comm,
                  Kind::reduce_scatter,
                  static_cast<const char*>(in),
                  static_cast<char*>(out),
                  count,
                  type,
                  op,
                  0,
                  {}},
                 stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  ENTER(ncclAllGather);
  return enqueue({comm,
                  Kind::all_gather,
                  static_cast<const char*>(in),
                  static_cast<char*>(out),
                  count,
                  type,
                  ncclSum,
                  0,
                  {}},
                 stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  ENTER(ncclBroadcast);
  return enqueue({comm,
                  Kind::broadcast,
                  static_cast<const char*>(in),
                  static_cast<char*>(out),
                  count,
                  type,
                  ncclSum,
                  static_cast<uint32_t>(root),
                  {}},
                 stream);
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return message(
      "ncclSend",
      {true, static_cast<char*>(const_cast<void*>(in)), count, static_cast<uint32_t>(peer)}, comm,
      stream);
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return message("ncclRecv", {false, static_cast<char*>(out), count, static_cast<uint32_t>(peer)},
                 comm, stream);
}

ncclResult_t ncclGroupStart() {
  ENTER(ncclGroupStart);
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  const ncclResult_t fault = failing("ncclGroupEnd");
  if (fault != ncclSuccess) group_error = fault;
  if (--depth > 0) return fault;
  if (const ncclResult_t error = std::exchange(group_error, ncclSuccess); error != ncclSuccess) {
    grouped.clear();
    return error;
  }
  if (grouped.empty()) return ncclSuccess;
  return enqueue({grouped_comm, Kind::messages, nullptr, nullptr, 0, ncclUint8, ncclSum, 0,
                  std::exchange(grouped, {})},
                 grouped_stream);
}

}  // extern "C"
