#include "plugins/comm/gloo/collectives.hpp"

#include <cstring>

#include "kit/dtype.hpp"
#include "plugins/comm/call.hpp"
#include "plugins/comm/reduce.hpp"

namespace plait::comm_gloo {
namespace {

using comm_support::bytes_of;
using comm_support::ElementRange;
using comm_support::row;
using comm_support::shard_range;
using kit::dtype_bytes;

// Up to here everybody sends everything to everybody: one round of messages in place of two.
constexpr uint64_t kSmall = 16 * 1024;

// The name of a message on a connection. It holds everything two ranks must agree on: calls that do
// not belong together never exchange a byte, and end by their time-out.
uint64_t slot_of(const CallContext& t, uint64_t round) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto add = [&](uint64_t v) {
    hash = (hash ^ v) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 29;
  };
  const plait_comm_desc& d = t.desc;
  const bool message = comm_support::point_to_point(d.kind);
  add(message ? uint64_t{PLAIT_COMM_SEND} : d.kind);
  add(d.dtype);
  add(d.reduction);
  add(d.n);
  add(message ? (d.kind == PLAIT_COMM_SEND ? t.links.members().rank : d.peer) : d.peer);
  add(t.number);
  return (hash & ~uint64_t{0xff}) | round;
}

class Collective {
 public:
  Collective(const CallContext& context, std::vector<char>& scratch)
      : t_(context),
        d_(context.desc),
        rank_(context.links.members().rank),
        size_(context.links.members().size),
        bytes_(bytes_of(context.desc)),
        scratch_(scratch) {}

  void barrier() {
    MessageBatch all(t_.links, t_.what, t_.deadline);
    for_others([&](uint32_t r) {
      all.send(r, slot_of(t_, 0), scratch_.data(), 1);
      all.receive(r, slot_of(t_, 0), scratch_.data() + 1 + r, 1);
    });
    all.wait();
  }

  void all_reduce() {
    if (bytes_ <= kSmall || size_ == 1) return gather_and_reduce();
    // Every rank adds one part of the tensor, then hands it out.
    const ElementRange own = shard_range(d_.n, rank_, size_);
    exchange_rows([&](uint32_t r) { return at(d_.in, shard_range(d_.n, r, size_)); },
                  [&](uint32_t r) { return length(shard_range(d_.n, r, size_)); }, length(own));
    reduce(at(d_.in, own), length(own), at(d_.out, own), own.count);
    MessageBatch parts(t_.links, t_.what, t_.deadline);
    for_others([&](uint32_t r) {
      const ElementRange other = shard_range(d_.n, r, size_);
      parts.receive(r, slot_of(t_, 1), at(d_.out, other), length(other));
      parts.send(r, slot_of(t_, 1), at(d_.out, own), length(own));
    });
    parts.wait();
  }

  void reduce_scatter() {
    exchange_rows([&](uint32_t r) { return row(d_, d_.in, r); }, [&](uint32_t) { return bytes_; },
                  bytes_);
    reduce(row(d_, d_.in, rank_), bytes_, d_.out, d_.n);
  }

  void all_gather() {
    MessageBatch rows(t_.links, t_.what, t_.deadline);
    for_others([&](uint32_t r) {
      rows.receive(r, slot_of(t_, 0), row(d_, d_.out, r), bytes_);
      rows.send(r, slot_of(t_, 0), d_.in, bytes_);
    });
    copy(row(d_, d_.out, rank_), d_.in);
    rows.wait();
  }

  void broadcast() {
    MessageBatch tensor(t_.links, t_.what, t_.deadline);
    if (rank_ == d_.peer) {
      for_others([&](uint32_t r) { tensor.send(r, slot_of(t_, 0), d_.in, bytes_); });
      copy(d_.out, d_.in);
    } else {
      tensor.receive(d_.peer, slot_of(t_, 0), d_.out, bytes_);
    }
    tensor.wait();
  }

  void all_to_all() {
    MessageBatch rows(t_.links, t_.what, t_.deadline);
    for_others([&](uint32_t r) {
      rows.receive(r, slot_of(t_, 0), row(d_, d_.out, r), bytes_);
      rows.send(r, slot_of(t_, 0), row(d_, d_.in, r), bytes_);
    });
    copy(row(d_, d_.out, rank_), row(d_, d_.in, rank_));
    rows.wait();
  }

  void message() {
    MessageBatch one(t_.links, t_.what, t_.deadline);
    if (d_.kind == PLAIT_COMM_SEND)
      one.send(d_.peer, slot_of(t_, 0), d_.in, bytes_);
    else
      one.receive(d_.peer, slot_of(t_, 0), d_.out, bytes_);
    one.wait();
  }

 private:
  // Starting behind the own rank, so that not everybody begins with rank 0.
  template <class F>
  void for_others(F f) {
    for (uint32_t i = 1; i < size_; ++i) f((rank_ + i) % size_);
  }
  const char* at(const void* base, ElementRange part) const {
    return static_cast<const char*>(base) + part.first * dtype_bytes(d_.dtype);
  }
  char* at(void* base, ElementRange part) const {
    return static_cast<char*>(base) + part.first * dtype_bytes(d_.dtype);
  }
  uint64_t length(ElementRange part) const { return part.count * dtype_bytes(d_.dtype); }
  void copy(void* to, const void* from) const {
    if (to != from && bytes_) std::memcpy(to, from, bytes_);
  }

  // Sends source(r) to each rank r; what comes lies in the scratch, `incoming` bytes a rank.
  template <class Source, class Length>
  void exchange_rows(Source source, Length outgoing, uint64_t incoming) {
    MessageBatch rows(t_.links, t_.what, t_.deadline);
    for_others([&](uint32_t r) {
      rows.receive(r, slot_of(t_, 0), scratch_.data() + r * incoming, incoming);
      rows.send(r, slot_of(t_, 0), source(r), outgoing(r));
    });
    rows.wait();
  }
  // The scratch's rows and, in its place among them, the own one.
  void reduce(const void* own, uint64_t row_bytes, void* out, uint64_t n) {
    std::vector<const void*> rows(size_);
    for (uint32_t r = 0; r < size_; ++r)
      rows[r] = r == rank_ ? own : scratch_.data() + r * row_bytes;
    comm_support::reduce_rows(d_.dtype, d_.reduction, rows.data(), size_, out, n);
  }
  void gather_and_reduce() {
    exchange_rows([&](uint32_t) { return static_cast<const char*>(d_.in); },
                  [&](uint32_t) { return bytes_; }, bytes_);
    reduce(d_.in, bytes_, d_.out, d_.n);
  }

  const CallContext& t_;
  const plait_comm_desc& d_;
  const uint32_t rank_, size_;
  const uint64_t bytes_;
  std::vector<char>& scratch_;
};

}  // namespace

uint64_t scratch_bytes(const plait_comm_desc& desc, uint32_t ranks) {
  switch (desc.kind) {
    case PLAIT_COMM_BARRIER:
      return 1 + uint64_t{ranks};
    case PLAIT_COMM_ALL_REDUCE:
      if (bytes_of(desc) <= kSmall) return bytes_of(desc) * ranks;
      return shard_range(desc.n, 0, ranks).count * dtype_bytes(desc.dtype) * ranks;
    case PLAIT_COMM_REDUCE_SCATTER:
      return bytes_of(desc) * ranks;
    default:
      return 0;
  }
}

void execute(const CallContext& context, std::vector<char>& scratch) {
  Collective call(context, scratch);
  switch (context.desc.kind) {
    case PLAIT_COMM_BARRIER:
      return call.barrier();
    case PLAIT_COMM_ALL_REDUCE:
      return call.all_reduce();
    case PLAIT_COMM_REDUCE_SCATTER:
      return call.reduce_scatter();
    case PLAIT_COMM_ALL_GATHER:
      return call.all_gather();
    case PLAIT_COMM_BROADCAST:
      return call.broadcast();
    case PLAIT_COMM_ALL_TO_ALL:
      return call.all_to_all();
    default:
      return call.message();
  }
}

}  // namespace plait::comm_gloo
