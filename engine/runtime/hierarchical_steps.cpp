#include "engine/runtime/hierarchical_steps.hpp"

#include <string>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/program/shape.hpp"
#include "engine/runtime/hierarchical.hpp"

namespace plait::runtime {
namespace {

// Up to this size a tensor is sent as a whole: splitting it costs more than it saves.
constexpr uint64_t kSmall = 16 * 1024;  // bytes
constexpr uint64_t kGranularity = 16;   // elements; shards are whole cache lines

}  // namespace

bool needs_flat_group(uint32_t kind, uint32_t dtype, uint32_t reduction) {
  const bool rounds = reduction == PLAIT_COMM_SUM && (dtype == PLAIT_BF16 || dtype == PLAIT_F16);
  switch (kind) {
    case PLAIT_COMM_SEND:
    case PLAIT_COMM_RECEIVE:
    case PLAIT_COMM_ALL_TO_ALL:  // each row crosses the network once in any case
      return true;
    case PLAIT_COMM_ALL_REDUCE:
    case PLAIT_COMM_REDUCE_SCATTER:
      return rounds;
    default:
      return false;
  }
}

HierarchicalSteps::HierarchicalSteps(const CommSubgroups& subgroups, const plait_comm_desc& desc)
    : groups_(subgroups),
      d_(desc),
      host_(subgroups.hosts.host_of(subgroups.rank)),
      local_index_(subgroups.hosts.local_index_of(subgroups.rank)) {
  try {
    make();
  } catch (...) {
    release();
    throw;
  }
}

HierarchicalSteps::~HierarchicalSteps() { release(); }

void HierarchicalSteps::release() noexcept {
  for (const HierarchicalStep& step : steps_)
    if (step.call)
      call_plugin_noexcept(step.host, {"", "release", "backend", step.item->name},
                           [&] { step.item->release(step.call); });
}

void HierarchicalSteps::make() {
  if (d_.kind == PLAIT_COMM_SEND || d_.kind == PLAIT_COMM_RECEIVE) return message();
  if (d_.kind == PLAIT_COMM_BARRIER) return barrier();
  if (d_.n == 0) return;
  if (needs_flat_group(d_.kind, d_.dtype, d_.reduction)) return on_flat_group();
  // If every host has one member, the inter group contains all members in the same order.
  if (groups_.hosts.count() == groups_.hosts.size())
    return call(groups_.inter, d_.kind, d_.n, d_.in, d_.out, d_.peer);
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
      fail_internal("[runtime] a group cannot execute a call of kind " + std::to_string(d_.kind));
  }
}

void HierarchicalSteps::message() {
  const bool neighbour = groups_.hosts.host_of(d_.peer) == host_ && groups_.intra.item;
  if (neighbour)
    call(groups_.intra, d_.kind, d_.n, d_.in, d_.out, groups_.hosts.local_index_of(d_.peer));
  else
    on_flat_group();
}

void HierarchicalSteps::on_flat_group() {
  if (!groups_.flat.item)
    fail_internal("[runtime] a group was opened without the subgroup that this call needs");
  call(groups_.flat, d_.kind, d_.n, d_.in, d_.out, d_.peer);
}

// A rank that has left the inter group's barrier knows that all members of all hosts have arrived.
void HierarchicalSteps::barrier() {
  call(groups_.intra, PLAIT_COMM_BARRIER, 0, nullptr, nullptr);
  call(groups_.inter, PLAIT_COMM_BARRIER, 0, nullptr, nullptr);
  if (groups_.through_leaders())
    call(groups_.intra_broadcast, PLAIT_COMM_BARRIER, 0, nullptr, nullptr);
}

// Large tensors: each member of a host reduces a shard, reduces it further with its counterparts on
// other hosts, and gathers the shards within the host. So a host sends and receives each element as
// often as one rank would, over as many connections as it has members.
void HierarchicalSteps::all_reduce() {
  if (groups_.through_leaders()) return sum_through_leaders(d_.n, d_.in, d_.out);
  const uint64_t neighbours = groups_.hosts.size_of(host_);
  const uint64_t share = d_.n / neighbours / kGranularity * kGranularity,
                 rest = d_.n - neighbours * share;
  if (bytes(d_.n) <= kSmall || share == 0) {
    call(groups_.intra, PLAIT_COMM_ALL_REDUCE, d_.n, d_.in, d_.out);
    return call(groups_.inter, PLAIT_COMM_ALL_REDUCE, d_.n, d_.out, d_.out);
  }
  char* own = allocate(bytes(share + rest));  // every shard has room for the rest
  char* own_rest = own + bytes(share);
  call(groups_.intra, PLAIT_COMM_REDUCE_SCATTER, share, d_.in, own);
  if (rest > 0)
    call(groups_.intra, PLAIT_COMM_ALL_REDUCE, rest, in_at(neighbours * share), own_rest);
  call(groups_.inter, PLAIT_COMM_ALL_REDUCE, share + rest, own, own);
  call(groups_.intra_broadcast, PLAIT_COMM_ALL_GATHER, share, own, d_.out);
  copy(out_at(neighbours * share), own_rest, bytes(rest));
}

void HierarchicalSteps::sum_through_leaders(uint64_t n, const void* in, void* out) {
  call(groups_.intra, PLAIT_COMM_ALL_REDUCE, n, in, out);
  call(groups_.inter, PLAIT_COMM_ALL_REDUCE, n, groups_.intra.item ? out : in, out);
  call(groups_.intra_broadcast, PLAIT_COMM_BROADCAST, n, out, out);
}

// The rows of each host are summed here and scattered over the local members; then members with
// equal local index do the same between hosts.
void HierarchicalSteps::reduce_scatter() {
  const uint64_t row = bytes(d_.n);
  if (groups_.through_leaders()) {
    char* all = allocate(groups_.hosts.size() * row);
    sum_through_leaders(groups_.hosts.size() * d_.n, d_.in, all);
    return copy(d_.out, all + groups_.rank * row, row);
  }
  char* sums = allocate(groups_.hosts.count() * row);
  char* packed =
      groups_.hosts.all_consecutive() ? nullptr : allocate(groups_.hosts.size_of(host_) * row);
  for (uint32_t h = 0; h < groups_.hosts.count(); ++h) {
    const std::vector<uint32_t>& members = groups_.hosts.members()[h];
    const bool consecutive = groups_.hosts.consecutive(h);
    for (uint32_t i = 0; !consecutive && i < members.size(); ++i)
      copy(packed + i * row, in_at(members[i] * d_.n), row);
    call(groups_.intra, PLAIT_COMM_REDUCE_SCATTER, d_.n,
         consecutive ? in_at(members[0] * d_.n) : packed, sums + h * row);
  }
  call(groups_.inter, PLAIT_COMM_REDUCE_SCATTER, d_.n, sums, d_.out);
}

// The reverse: rows of equal local index are gathered from all hosts, then members of a host
// exchange theirs.
void HierarchicalSteps::all_gather() {
  if (groups_.through_leaders()) return gather_through_leaders();
  const uint64_t row = bytes(d_.n);
  char* rows = allocate(groups_.hosts.count() * row);
  char* packed =
      groups_.hosts.all_consecutive() ? nullptr : allocate(groups_.hosts.size_of(host_) * row);
  call(groups_.inter, PLAIT_COMM_ALL_GATHER, d_.n, d_.in, rows);
  for (uint32_t h = 0; h < groups_.hosts.count(); ++h) {
    const std::vector<uint32_t>& members = groups_.hosts.members()[h];
    const bool consecutive = groups_.hosts.consecutive(h);
    call(groups_.intra_broadcast, PLAIT_COMM_ALL_GATHER, d_.n, rows + h * row,
         consecutive ? out_at(members[0] * d_.n) : packed);
    for (uint32_t i = 0; !consecutive && i < members.size(); ++i)
      copy(out_at(members[i] * d_.n), packed + i * row, row);
  }
}

// Rows are ordered by host until the end; if that is the order of the group, in `out` itself.
void HierarchicalSteps::gather_through_leaders() {
  const uint64_t row = bytes(d_.n);
  const bool consecutive = groups_.hosts.all_consecutive();
  char* all = consecutive ? out_at(0) : allocate(groups_.hosts.size() * row);
  std::vector<char*> blocks;
  for (const std::vector<uint32_t>& members : groups_.hosts.members()) {
    blocks.push_back(all);
    all += members.size() * row;
  }
  all = blocks[0];
  if (groups_.intra.item)
    call(groups_.intra, PLAIT_COMM_ALL_GATHER, d_.n, d_.in, blocks[host_]);
  else
    copy(blocks[host_], d_.in, row);
  for (uint32_t h = 0; h < groups_.hosts.count(); ++h)
    call(groups_.inter, PLAIT_COMM_BROADCAST, groups_.hosts.size_of(h) * d_.n, blocks[h], blocks[h],
         h);
  call(groups_.intra_broadcast, PLAIT_COMM_BROADCAST, groups_.hosts.size() * d_.n, all, all);
  for (uint32_t h = 0; !consecutive && h < groups_.hosts.count(); ++h)
    for (const uint32_t member : groups_.hosts.members()[h])
      copy(out_at(member * d_.n), blocks[h] + groups_.hosts.local_index_of(member) * row, row);
}

// From the root to the member of its host that is in the inter group, unless that is the root
// itself; to the other hosts; to the other members there.
void HierarchicalSteps::broadcast() {
  const uint32_t root = d_.peer, root_host = groups_.hosts.host_of(root),
                 root_index = groups_.hosts.local_index_of(root);
  const uint32_t entry = groups_.through_leaders() ? 0 : root_index;
  const bool intra_first = host_ == root_host && root_index != entry;
  const void* source = groups_.rank == root ? d_.in : d_.out;
  if (intra_first) call(groups_.intra, PLAIT_COMM_BROADCAST, d_.n, source, d_.out, root_index);
  if (local_index_ == entry)
    call(groups_.inter, PLAIT_COMM_BROADCAST, d_.n, source, d_.out, root_host);
  if (!intra_first)
    call(groups_.intra_broadcast, PLAIT_COMM_BROADCAST, d_.n, d_.out, d_.out, entry);
}

void HierarchicalSteps::call(const CommSubgroup& subgroup, CommKind kind, uint64_t n,
                             const void* in, void* out, uint32_t peer) {
  if (!subgroup.item) return;
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
  HierarchicalStep& step = steps_.emplace_back();
  step.item = subgroup.item;
  step.host = subgroup.host;
  const auto prepare = [&] { return subgroup.item->prepare(subgroup.comm, &desc, &step.call); };
  if (plait_error* e = try_plugin({"", "prepare", "backend", subgroup.item->name}, prepare))
    throw from_c(e);
}

void HierarchicalSteps::copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0 || to == from) return;
  HierarchicalStep& step = steps_.emplace_back();
  step.to = to;
  step.from = from;
  step.bytes = bytes;
}

char* HierarchicalSteps::allocate(uint64_t bytes) {
  return memory_.emplace_back(std::make_unique<char[]>(bytes)).get();
}

uint64_t HierarchicalSteps::bytes(uint64_t n) const { return n * program::dtype_bytes(d_.dtype); }
const char* HierarchicalSteps::in_at(uint64_t element) const {
  return static_cast<const char*>(d_.in) + bytes(element);
}
char* HierarchicalSteps::out_at(uint64_t element) const {
  return static_cast<char*>(d_.out) + bytes(element);
}

}  // namespace plait::runtime
