#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "kit/dtype.hpp"
#include "plugins/comm/reduce.hpp"
#include "tests/cuda_emulator/nccl/comm.hpp"

namespace nccl_emulator {
namespace {

struct Aborted {};

template <class Done>
void wait(const ncclComm& c, Done&& done) {
  for (int i = 0; !done(); ++i) {
    if (c.aborted) throw Aborted();
    if (i < 100)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void barrier(const ncclComm& c) {
  Header& h = c.segment->header();
  const uint32_t generation = h.generation;
  if (h.arrived.fetch_add(1) + 1 == c.size) {
    h.arrived = 0;
    ++h.generation;
    return;
  }
  wait(c, [&] { return h.generation != generation; });
}

uint32_t dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return PLAIT_F32;
    case ncclFloat64:
      return PLAIT_F64;
    case ncclBfloat16:
      return PLAIT_BF16;
    case ncclFloat16:
      return PLAIT_F16;
    case ncclInt32:
      return PLAIT_I32;
    case ncclInt64:
      return PLAIT_I64;
    default:
      return PLAIT_U8;
  }
}

size_t bytes_of(ncclDataType_t type) { return plait::kit::dtype_bytes(dtype_of(type)); }

uint32_t reduction_of(ncclRedOp_t op) {
  return op == ncclMax ? PLAIT_COMM_MAX : op == ncclMin ? PLAIT_COMM_MIN : PLAIT_COMM_SUM;
}

// All ranks show `bytes` bytes at `from`; then each calls use(slots).
template <class Use>
void show(const ncclComm& c, const char* from, size_t bytes, Use&& use) {
  if (from) std::memcpy(c.segment->slot(c.rank), from, bytes);
  barrier(c);
  use();
  barrier(c);
}

void reduce(const Work& w, const char* in, char* out, bool mine) {
  const ncclComm& c = *w.comm;
  const size_t size = bytes_of(w.type), step = kSlot / size;
  std::vector<const void*> rows;
  for (uint32_t r = 0; r < c.size; ++r) rows.push_back(c.segment->slot(r));
  for (size_t at = 0; at < w.count; at += step) {
    const size_t n = std::min(step, w.count - at);
    show(c, in + at * size, n * size, [&] {
      if (mine)
        plait::comm_support::reduce_rows(dtype_of(w.type), reduction_of(w.reduction), rows.data(),
                                         rows.size(), out + at * size, n);
    });
  }
}

void copy_from(const Work& w, bool gather) {
  const ncclComm& c = *w.comm;
  const size_t bytes = w.count * bytes_of(w.type);
  for (size_t at = 0; at < bytes; at += kSlot) {
    const size_t n = std::min(kSlot, bytes - at);
    const bool shows = gather || c.rank == w.root;
    show(c, shows ? w.in + at : nullptr, n, [&] {
      for (uint32_t r = 0; r < c.size; ++r)
        if (gather)
          std::memcpy(w.out + r * bytes + at, c.segment->slot(r), n);
        else if (r == w.root)
          std::memcpy(w.out + at, c.segment->slot(r), n);
    });
  }
}

// Moves what can be moved. Whether all of it has been.
bool move(const ncclComm& c, Message& m, size_t& done) {
  Ring& ring = m.sends ? c.segment->ring(c.rank, m.peer) : c.segment->ring(m.peer, c.rank);
  char* bytes =
      m.sends ? c.segment->ring_bytes(c.rank, m.peer) : c.segment->ring_bytes(m.peer, c.rank);
  const size_t size = c.segment->ring_size();
  while (done < m.bytes) {
    const uint64_t written = ring.written, read = ring.read;
    const uint64_t at = (m.sends ? written : read) % size;
    const uint64_t room = m.sends ? size - (written - read) : written - read;
    const size_t n = std::min<size_t>({m.bytes - done, room, size - at});
    if (n == 0) return false;
    if (m.sends) {
      std::memcpy(bytes + at, m.data + done, n);
      ring.written = written + n;
    } else {
      std::memcpy(m.data + done, bytes + at, n);
      ring.read = read + n;
    }
    done += n;
  }
  return true;
}

void messages(const Work& w) {
  std::vector<Message> all = w.messages;
  std::vector<size_t> done(all.size());
  wait(*w.comm, [&] {
    bool ended = true;
    for (size_t i = 0; i < all.size(); ++i) ended = move(*w.comm, all[i], done[i]) && ended;
    return ended;
  });
}

}  // namespace

void exchange(const Work& w) {
  try {
    const size_t row = w.count * bytes_of(w.type);
    switch (w.kind) {
      case Kind::all_reduce:
        reduce(w, w.in, w.out, true);
        break;
      case Kind::reduce_scatter:
        for (uint32_t r = 0; r < w.comm->size; ++r)
          reduce(w, w.in + r * row, w.out, r == w.comm->rank);
        break;
      case Kind::all_gather:
        copy_from(w, true);
        break;
      case Kind::broadcast:
        copy_from(w, false);
        break;
      case Kind::messages:
        messages(w);
    }
  } catch (const Aborted&) {
  }
}

}  // namespace nccl_emulator
