#include "plugins/comm/nccl/group.hpp"

namespace plait::comm_nccl {
namespace {

Wire wire_of(const plait_comm_desc& d, bool native) {
  const bool half = d.dtype == PLAIT_BF16 || d.dtype == PLAIT_F16;
  if (!comm_support::reduces(d.kind)) return Wire::as_is;
  if (d.reduction == PLAIT_COMM_SUM) return half && !native ? Wire::f32 : Wire::as_is;
  return half || d.dtype == PLAIT_F32 || d.dtype == PLAIT_F64 ? Wire::keys : Wire::as_is;
}

// What NCCL reduces.
ncclDataType_t type_of(const plait_comm_desc& d, Wire wire) {
  if (wire == Wire::f32) return ncclFloat32;
  if (wire == Wire::keys) return d.dtype == PLAIT_F64 ? ncclInt64 : ncclInt32;
  switch (d.dtype) {
    case PLAIT_F32:
      return ncclFloat32;
    case PLAIT_F64:
      return ncclFloat64;
    case PLAIT_BF16:
      return ncclBfloat16;
    case PLAIT_F16:
      return ncclFloat16;
    case PLAIT_I32:
      return ncclInt32;
    case PLAIT_I64:
      return ncclInt64;
    default:
      return ncclUint8;
  }
}

ncclRedOp_t reduction_of(const plait_comm_desc& d) {
  return d.reduction == PLAIT_COMM_MAX   ? ncclMax
         : d.reduction == PLAIT_COMM_MIN ? ncclMin
                                         : ncclSum;
}

uint64_t wire_bytes(const plait_comm_desc& d, Wire wire) {
  return wire == Wire::as_is ? 0 : d.dtype == PLAIT_F64 ? 8 : 4;
}

}  // namespace

ProcessGroup::Resources::Resources(ProcessGroup& group, const plait_comm_desc& desc,
                                   const std::string& what, Wire wire, uint64_t scratch_bytes)
    : convert(group.kernels_->conversions(wire, desc.dtype, desc.reduction)),
      scratch(scratch_bytes),
      counts(group.counts_->take(what)) {}

ProcessGroup::Call::Call(ProcessGroup& group, const plait_comm_desc& desc)
    : group_(group),
      desc_(comm_support::checked(group.members_, desc)),
      what_(group.members_.describe_call(desc_)),
      wire_(wire_of(desc_, group.native_)),
      link_(comm_support::point_to_point(desc_.kind) ? &group.link_of(desc_) : nullptr) {
  const CurrentContext context(group.shared_.context);
  held_ = std::make_unique<Resources>(group, desc_, what_, wire_,
                                      in_elements() * wire_bytes(desc_, wire_));
}

ProcessGroup::Call::~Call() {
  if (started_ && !empty())
    group_.fail_group(PLAIT_ERR_PEER,
                      group_.shared_.head + ": " + what_ + " was destroyed before it finished");
  wait_until_over();
  Counts::Slot& counts = held_->counts;
  if (group_.failure_) {
    // Freeing memory may wait for kernels of any call, which end with the communicators.
    try {
      group_.kept_.push_back(std::move(held_));
    } catch (const std::exception&) {
      static_cast<void>(held_.release());
    }
  } else {
    try {
      const CurrentContext context(group_.shared_.context);
      held_.reset();
    } catch (const std::exception&) {
      static_cast<void>(held_.release());  // the context is gone, and its objects with it
    }
  }
  group_.counts_->put(counts);
}

// Whether the GPU still works on it, in a graph, too.
bool ProcessGroup::Call::under_way() const {
  switch (driver().cuEventQuery(held_->end.raw())) {
    case CUDA_ERROR_NOT_READY:
      return true;
    case CUDA_SUCCESS:
    case CUDA_ERROR_CAPTURED_EVENT:
      return !incomplete_ && Counts::under_way(held_->counts);
    default:
      return false;  // the context has failed: nothing works in it
  }
}

// NCCL uses the operands until then. It ends when the group fails, if not before; what has not
// ended long after that never will.
void ProcessGroup::Call::wait_until_over() noexcept {
  constexpr auto kLong = std::chrono::seconds(5);
  try {
    const CurrentContext context(group_.shared_.context);
    while (under_way() && !(group_.failure_ && Clock::now() > group_.failure_.since() + kLong))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
    // The context is gone.
  }
}

uint64_t ProcessGroup::Call::in_elements() const {
  return desc_.kind == PLAIT_COMM_REDUCE_SCATTER ? desc_.n * group_.members_.size : desc_.n;
}

void ProcessGroup::Call::start(plait_queue* queue) {
  group_.failure_.check();
  if (started_)
    fail(PLAIT_ERR_STATE,
         group_.shared_.head + ": " + what_ + " is started again before finish(); finish it first");
  if (!empty()) {
    const CurrentContext context(group_.shared_.context);
    Communicator& on = link_ ? link_->connected() : *group_.collectives_;
    check(driver().cuEventRecord(held_->begin.raw(), stream_of(queue)), "recording an event");
    check(driver().cuStreamWaitEvent(on.stream(), held_->begin.raw(), 0), "waiting for an event");
    try {
      enqueue(on);
      check(driver().cuEventRecord(held_->end.raw(), on.stream()), "recording an event");
    } catch (const Error& e) {  // a part of it may be under way
      incomplete_ = true;
      driver().cuEventRecord(held_->end.raw(), on.stream());
      group_.fail_group(e.code(), e.what());
      throw;
    }
  }
  started_ = true;
}

void ProcessGroup::Call::finish(plait_queue* queue) {
  if (!started_)
    fail(PLAIT_ERR_STATE,
         group_.shared_.head + ": " + what_ + " is finished without start(); start it first");
  if (!empty()) {
    const CurrentContext context(group_.shared_.context);
    check(driver().cuStreamWaitEvent(stream_of(queue), held_->end.raw(), 0),
          "waiting for an event");
  }
  group_.failure_.check();
  started_ = false;
}

void ProcessGroup::Call::enqueue(Communicator& on) {
  const CUstream stream = on.stream();
  group_.kernels_->count(held_->counts.begun, stream);
  if (held_->convert.before)
    Kernels::convert(held_->convert.before, desc_.in, held_->scratch.data(), in_elements(), stream);
  const Clock::time_point deadline =
      Clock::now() +
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(group_.timeout_));
  on.enqueue(what_, deadline, [&](ncclComm_t comm) { return exchange(comm, stream); });
  if (held_->convert.after) {
    const uint64_t first =
        desc_.kind == PLAIT_COMM_REDUCE_SCATTER ? desc_.n * group_.members_.rank : 0;
    Kernels::convert(held_->convert.after, held_->scratch.data() + first * wire_bytes(desc_, wire_),
                     desc_.out, desc_.n, stream);
  }
  group_.kernels_->count(held_->counts.ended, stream);
}

ncclResult_t ProcessGroup::Call::exchange(ncclComm_t comm, CUstream stream) const {
  const Library& nccl = group_.nccl_;
  const uint64_t n = desc_.n, bytes = comm_support::bytes_of(desc_);
  const bool converted = wire_ != Wire::as_is;
  const void* in = converted ? held_->scratch.data() : desc_.in;
  char* out = converted ? held_->scratch.data() : static_cast<char*>(desc_.out);
  const ncclDataType_t type = type_of(desc_, wire_);
  switch (desc_.kind) {
    case PLAIT_COMM_BARRIER:
      return nccl.ncclAllReduce(group_.barrier_->data(), group_.barrier_->data(), 1, ncclInt32,
                                ncclSum, comm, stream);
    case PLAIT_COMM_ALL_REDUCE:
      return nccl.ncclAllReduce(in, out, n, type, reduction_of(desc_), comm, stream);
    case PLAIT_COMM_REDUCE_SCATTER:
      if (converted) out += group_.members_.rank * n * wire_bytes(desc_, wire_);
      return nccl.ncclReduceScatter(in, out, n, type, reduction_of(desc_), comm, stream);
    case PLAIT_COMM_ALL_GATHER:
      return nccl.ncclAllGather(in, out, bytes, ncclUint8, comm, stream);
    case PLAIT_COMM_BROADCAST:
      return nccl.ncclBroadcast(group_.members_.rank == desc_.peer ? in : out, out, bytes,
                                ncclUint8, static_cast<int>(desc_.peer), comm, stream);
    case PLAIT_COMM_ALL_TO_ALL:
      return all_to_all(comm, stream);
    case PLAIT_COMM_SEND:
      return nccl.ncclSend(in, bytes, ncclUint8, 1, comm, stream);
    default:
      return nccl.ncclRecv(out, bytes, ncclUint8, 0, comm, stream);
  }
}

ncclResult_t ProcessGroup::Call::all_to_all(ncclComm_t comm, CUstream stream) const {
  const Library& nccl = group_.nccl_;
  const uint64_t bytes = comm_support::bytes_of(desc_);
  ncclResult_t r = nccl.ncclGroupStart();
  for (uint32_t s = 0; s < group_.members_.size && r == ncclSuccess; ++s) {
    r = nccl.ncclSend(comm_support::row(desc_, desc_.in, s), bytes, ncclUint8, static_cast<int>(s),
                      comm, stream);
    if (r == ncclSuccess)
      r = nccl.ncclRecv(comm_support::row(desc_, desc_.out, s), bytes, ncclUint8,
                        static_cast<int>(s), comm, stream);
  }
  const ncclResult_t ended = nccl.ncclGroupEnd();
  return r == ncclSuccess ? ended : r;
}

}  // namespace plait::comm_nccl
