// The objects behind the driver's handles, and what all entry points share. Everything here is used
// under Call's lock.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_emulator/block.hpp"

namespace emulator {

// Work in a graph, with the indices of the nodes that come before it.
struct Node {
  std::function<CUresult()> run;
  std::set<size_t> after;
  int priority;  // of the stream
};
using Nodes = std::vector<Node>;

// A capture, which may span several streams: the one that it began on, and those that joined it by
// waiting for an event.
struct Capture {
  CUstream origin;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  Nodes nodes;
  bool valid = true;
};

}  // namespace emulator

struct CUctx_st {
  CUdevice device;
  unsigned retained = 0;
};
struct CUstream_st {
  CUcontext context;
  std::shared_ptr<emulator::Capture> capture;  // while it captures
  std::set<size_t> last;                       // nodes of the capture that the next one comes after
  int priority = 0;
};
struct CUevent_st {
  CUcontext context;
  bool timed;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  std::weak_ptr<emulator::Capture> capture;  // that it was recorded in
  std::set<size_t> last;
  bool captured = false;
};
struct CUgraph_st {
  std::shared_ptr<const emulator::Nodes> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const emulator::Nodes> nodes;
};
struct CUmod_st {
  CUcontext context;
  std::map<std::string, emulator::Kernel> kernels;  // added by a loader
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};
struct CUfunc_st {
  CUmodule module;
  const emulator::Kernel* kernel;
  unsigned dynamic_shared = 48 << 10;  // at most, at a launch
  bool loaded = false;
};

namespace emulator {

// An entry point of the driver: its name without the suffix of a version.
struct Entry {
  explicit Entry(const char* name);
  const char* const name;
  uint64_t calls = 0;
};

enum Needs : unsigned {
  kNothing = 0,
  kDriver = 1,     // cuInit() was called
  kContext = 3,    // and the thread has a context, in which nothing has failed for good
  kNoCapture = 4,  // may not be called by a thread while it captures
  kFrees = 8,  // does its work even when it returns an error that was asked for: tests count leaks
};

// One call of an entry point: holds the lock, counts the call, and knows whether it fails at once.
class Call {
 public:
  Call(Entry& entry, unsigned needs);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  // The result to return at once, if stops().
  bool stops() const { return result_ != CUDA_SUCCESS && !frees_; }
  CUresult result() const { return result_; }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  CUresult result_ = CUDA_SUCCESS;
  bool frees_ = false;
};

// ENTER(cuStreamQuery, kContext); begins an entry point.
#define ENTER(name, needs)                   \
  static ::emulator::Entry entry{#name};     \
  const ::emulator::Call call(entry, needs); \
  if (call.stops()) return call.result()

// Memory of the device lies between two areas that nobody can access.
struct Allocation {
  char* mapping;
  size_t mapped;
  size_t bytes;
};

struct Driver {
  std::recursive_mutex mutex;
  bool initialised = false;
  int gpus = 1;
  CUresult failed = CUDA_SUCCESS;  // an error that ended the context
  std::string fail_entry;          // the entry point of which a call fails,
  uint64_t fail_call = 0;          // counted from 1,
  CUresult fail_result = CUDA_SUCCESS;
  std::string message;

  std::map<std::string, Kernel> kernels;
  CUmodule loading = nullptr;
  int (*loader)(const char*) = nullptr;

  std::vector<std::unique_ptr<CUctx_st>> contexts;  // the primary ones, by device
  std::map<uintptr_t, Allocation> memory;
  size_t used = 0;
  std::map<uintptr_t, size_t> pinned;
  std::set<CUstream> streams;
  std::set<CUevent> events;
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> executables;
  std::set<CUmodule> modules;
};
Driver& driver();
extern thread_local CUcontext current_context;

// Writes a line to stderr for whoever looks for the reason of an error, and returns `r`.
CUresult say(CUresult r, const std::string& text);
// An error after which nothing works any more: every later call repeats it.
CUresult fail_for_good(CUresult r, const std::string& text);

// Runs the work, or puts it into the capture of the stream. `stream` may be nullptr.
CUresult submit(CUstream stream, std::function<CUresult()> work);
// The stream is nullptr or lives.
bool is_stream(CUstream stream);
// Marks a capture as broken by a call that it does not allow.
CUresult invalidate(const std::shared_ptr<Capture>& capture, const char* entry);
// The capture of this thread in which `entry` is not allowed, nullptr if none.
std::shared_ptr<Capture> capture_of_thread();

// Whether [p, p + bytes) lies in device memory, or has a byte in it.
bool in_device(const void* p, size_t bytes);
bool touches_device(const void* p, size_t bytes);
// "" if nobody has written around device memory, else what was found.
std::string damaged_guard();

}  // namespace emulator
