// A communicator of the emulated NCCL.
#pragma once

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/cuda_emulator/nccl/segment.hpp"

namespace nccl_emulator {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, messages };

struct Message {
  bool sends;
  char* data;
  size_t bytes;
  uint32_t peer;
};

// Work that a stream does: the arguments of a call.
struct Work {
  ncclComm* comm;
  Kind kind;
  const char* in;
  char* out;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  uint32_t root;
  std::vector<Message> messages;
};

// Does the work, with the other ranks; ends early when the communicator is aborted.
void exchange(const Work& work);

}  // namespace nccl_emulator

struct ncclComm {
  uint32_t rank = 0, size = 0;
  std::unique_ptr<nccl_emulator::Segment> segment;
  std::atomic<ncclResult_t> failed{ncclSuccess};
  std::atomic<bool> aborted{false}, joined{false}, warned{false};
  std::atomic<int> in_progress{0};  // how often it is still to be asked until a call has begun
  std::atomic<bool> finalizing{false};
  std::atomic<int> works{0};  // on streams and in graphs
};
