#include "engine/runtime/composed_steps.hpp"

#include <string>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/program/shape.hpp"
#include "engine/runtime/composed.hpp"

namespace plait::runtime {
namespace {

// Up to here a tensor goes as a whole: cutting it up costs more than it saves.
constexpr uint64_t kSmall = 16 * 1024;  // bytes
constexpr uint64_t kGrain = 16;         // elements; shares are whole cache lines

}  // namespace

bool needs_pairs(uint32_t kind, uint32_t dtype, uint32_t reduction) {
  const bool rounds = reduction == PLAIT_COMM_SUM && (dtype == PLAIT_BF16 || dtype == PLAIT_F16);
  switch (kind) {
    case PLAIT_COMM_SEND:
    case PLAIT_COMM_RECEIVE:
    case PLAIT_COMM_ALL_TO_ALL:  // each row crosses once, however it is done
      return true;
    case PLAIT_COMM_ALL_REDUCE:
    case PLAIT_COMM_REDUCE_SCATTER:
      return rounds;
    default:
      return false;
  }
}

CommSteps::CommSteps(const CommParts& parts, const plait_comm_desc& desc)
    : p_(parts),
      d_(desc),
      host_(parts.hosts.host_of(parts.rank)),
      place_(parts.hosts.place_of(parts.rank)) {
  try {
    make();
  } catch (...) {
    release();
    throw;
  }
}

CommSteps::~CommSteps() { release(); }

void CommSteps::release() noexcept {
  for (const CommStep& step : steps_)
    if (step.call)
      leave_plugin(step.host, {"", "release", "backend", step.item->name},
                   [&] { step.item->release(step.call); });
}

void CommSteps::make() {
  if (d_.kind == PLAIT_COMM_SEND || d_.kind == PLAIT_COMM_RECEIVE) return message();
  if (d_.kind == PLAIT_COMM_BARRIER) return barrier();
  if (d_.n == 0) return;
  if (needs_pairs(d_.kind, d_.dtype, d_.reduction)) return between_pairs();
  // With one member a host those far away are all there are, in the same order.
  if (p_.hosts.count() == p_.hosts.size())
    return call(p_.far, d_.kind, d_.n, d_.in, d_.out, d_.peer);
  switch (d_.kind) {
    case PLAIT_COMM_ALL_REDUCE:
      return all_reduce();
    case PLAIT_COMM_REDUCE_SCATTER:
      return reduce_scatter();
    case PLAIT_COMM_ALL_GATHER:
      return all_gather();
    case PLAIT_COMM_BROADCAST:
      return broadcast();
    default:
      fail_internal("[runtime] a group cannot compose a call of kind " + std::to_string(d_.kind));
  }
}

void CommSteps::message() {
  const bool neighbour = p_.hosts.host_of(d_.peer) == host_ && p_.near.item;
  if (neighbour)
    call(p_.near, d_.kind, d_.n, d_.in, d_.out, p_.hosts.place_of(d_.peer));
  else
    between_pairs();
}

void CommSteps::between_pairs() {
  if (!p_.pairs.item) fail_internal("[runtime] a group was opened without what this call needs");
  call(p_.pairs, d_.kind, d_.n, d_.in, d_.out, d_.peer);
}

// Who is through the one far away knows that all members of all hosts have come.
void CommSteps::barrier() {
  call(p_.near, PLAIT_COMM_BARRIER, 0, nullptr, nullptr);
  call(p_.far, PLAIT_COMM_BARRIER, 0, nullptr, nullptr);
  if (p_.through_leaders()) call(p_.after, PLAIT_COMM_BARRIER, 0, nullptr, nullptr);
}

// Large: each member of a host sums up a share of its own, exchanges that with its like, and hands it to its neighbours. So a host
// sends and receives each element as often as one rank would, over as many connections as it has members.
void CommSteps::all_reduce() {
  if (p_.through_leaders()) return sum_through_leaders(d_.n, d_.in, d_.out);
  const uint64_t neighbours = p_.hosts.size_of(host_);
  const uint64_t share = d_.n / neighbours / kGrain * kGrain, rest = d_.n - neighbours * share;
  if (bytes(d_.n) <= kSmall || share == 0) {
    call(p_.near, PLAIT_COMM_ALL_REDUCE, d_.n, d_.in, d_.out);
    return call(p_.far, PLAIT_COMM_ALL_REDUCE, d_.n, d_.out, d_.out);
  }
  char* own = take(bytes(share + rest));  // the rest travels with every share
  char* own_rest = own + bytes(share);
  call(p_.near, PLAIT_COMM_REDUCE_SCATTER, share, d_.in, own);
  if (rest > 0) call(p_.near, PLAIT_COMM_ALL_REDUCE, rest, in_at(neighbours * share), own_rest);
  call(p_.far, PLAIT_COMM_ALL_REDUCE, share + rest, own, own);
  call(p_.after, PLAIT_COMM_ALL_GATHER, share, own, d_.out);
  copy(out_at(neighbours * share), own_rest, bytes(rest));
}

void CommSteps::sum_through_leaders(uint64_t n, const void* in, void* out) {
  call(p_.near, PLAIT_COMM_ALL_REDUCE, n, in, out);
  call(p_.far, PLAIT_COMM_ALL_REDUCE, n, p_.near.item ? out : in, out);
  call(p_.after, PLAIT_COMM_BROADCAST, n, out, out);
}

// For each host its rows are summed up here and scattered over the places; then those of one place do the same between hosts.
void CommSteps::reduce_scatter() {
  const uint64_t row = bytes(d_.n);
  if (p_.through_leaders()) {
    char* all = take(p_.hosts.size() * row);
    sum_through_leaders(p_.hosts.size() * d_.n, d_.in, all);
    return copy(d_.out, all + p_.rank * row, row);
  }
  char* sums = take(p_.hosts.count() * row);
  char* packed = p_.hosts.all_consecutive() ? nullptr : take(p_.hosts.size_of(host_) * row);
  for (uint32_t h = 0; h < p_.hosts.count(); ++h) {
    const std::vector<uint32_t>& members = p_.hosts.members()[h];
    const bool together = p_.hosts.consecutive(h);
    for (uint32_t i = 0; !together && i < members.size(); ++i)
      copy(packed + i * row, in_at(members[i] * d_.n), row);
    call(p_.near, PLAIT_COMM_REDUCE_SCATTER, d_.n, together ? in_at(members[0] * d_.n) : packed,
         sums + h * row);
  }
  call(p_.far, PLAIT_COMM_REDUCE_SCATTER, d_.n, sums, d_.out);
}

// The other way round: rows of one place come from all hosts, then neighbours hand each other what they have.
void CommSteps::all_gather() {
  if (p_.through_leaders()) return gather_through_leaders();
  const uint64_t row = bytes(d_.n);
  char* rows = take(p_.hosts.count() * row);
  char* packed = p_.hosts.all_consecutive() ? nullptr : take(p_.hosts.size_of(host_) * row);
  call(p_.far, PLAIT_COMM_ALL_GATHER, d_.n, d_.in, rows);
  for (uint32_t h = 0; h < p_.hosts.count(); ++h) {
    const std::vector<uint32_t>& members = p_.hosts.members()[h];
    const bool together = p_.hosts.consecutive(h);
    call(p_.after, PLAIT_COMM_ALL_GATHER, d_.n, rows + h * row,
         together ? out_at(members[0] * d_.n) : packed);
    for (uint32_t i = 0; !together && i < members.size(); ++i)
      copy(out_at(members[i] * d_.n), packed + i * row, row);
  }
}

// Rows lie host by host until the end; where that is the order of the group, in `out` itself.
void CommSteps::gather_through_leaders() {
  const uint64_t row = bytes(d_.n);
  const bool together = p_.hosts.all_consecutive();
  char* all = together ? out_at(0) : take(p_.hosts.size() * row);
  std::vector<char*> blocks;
  for (const std::vector<uint32_t>& members : p_.hosts.members()) {
    blocks.push_back(all);
    all += members.size() * row;
  }
  all = blocks[0];
  if (p_.near.item)
    call(p_.near, PLAIT_COMM_ALL_GATHER, d_.n, d_.in, blocks[host_]);
  else
    copy(blocks[host_], d_.in, row);
  for (uint32_t h = 0; h < p_.hosts.count(); ++h)
    call(p_.far, PLAIT_COMM_BROADCAST, p_.hosts.size_of(h) * d_.n, blocks[h], blocks[h], h);
  call(p_.after, PLAIT_COMM_BROADCAST, p_.hosts.size() * d_.n, all, all);
  for (uint32_t h = 0; !together && h < p_.hosts.count(); ++h)
    for (const uint32_t member : p_.hosts.members()[h])
      copy(out_at(member * d_.n), blocks[h] + p_.hosts.place_of(member) * row, row);
}

// From the root to its host's member that has others far away, unless that is the root itself; to the other hosts; to the
// neighbours there.
void CommSteps::broadcast() {
  const uint32_t root = d_.peer, root_host = p_.hosts.host_of(root),
                 root_place = p_.hosts.place_of(root);
  const uint32_t gate = p_.through_leaders() ? 0 : root_place;
  const bool there_first = host_ == root_host && root_place != gate;
  const void* source = p_.rank == root ? d_.in : d_.out;
  if (there_first) call(p_.near, PLAIT_COMM_BROADCAST, d_.n, source, d_.out, root_place);
  if (place_ == gate) call(p_.far, PLAIT_COMM_BROADCAST, d_.n, source, d_.out, root_host);
  if (!there_first) call(p_.after, PLAIT_COMM_BROADCAST, d_.n, d_.out, d_.out, gate);
}

void CommSteps::call(const CommPart& part, Kind kind, uint64_t n, const void* in, void* out,
                     uint32_t peer) {
  if (!part.item) return;
  plait_comm_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = kind;
  desc.dtype = d_.dtype;
  desc.reduction =
      kind == PLAIT_COMM_ALL_REDUCE || kind == PLAIT_COMM_REDUCE_SCATTER ? d_.reduction : 0;
  desc.peer = peer;
  desc.n = n;
  desc.in = in;
  desc.out = out;
  CommStep& step = steps_.emplace_back();
  step.item = part.item;
  step.host = part.host;
  const auto prepare = [&] { return part.item->prepare(part.comm, &desc, &step.call); };
  if (plait_error* e = try_plugin({"", "prepare", "backend", part.item->name}, prepare))
    throw from_c(e);
}

void CommSteps::copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0 || to == from) return;
  CommStep& step = steps_.emplace_back();
  step.to = to;
  step.from = from;
  step.bytes = bytes;
}

char* CommSteps::take(uint64_t bytes) {
  return memory_.emplace_back(std::make_unique<char[]>(bytes)).get();
}

uint64_t CommSteps::bytes(uint64_t n) const { return n * program::dtype_bytes(d_.dtype); }
const char* CommSteps::in_at(uint64_t element) const {
  return static_cast<const char*>(d_.in) + bytes(element);
}
char* CommSteps::out_at(uint64_t element) const {
  return static_cast<char*>(d_.out) + bytes(element);
}

}  // namespace plait::runtime
