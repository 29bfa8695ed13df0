#include "plugins/comm/shm/symmetric_memory.hpp"

#include "plugins/comm/shm/free_memory.hpp"

namespace plait::comm_shm {
namespace {

constexpr uint64_t kNoMemory = 0;  // the control block is at offset 0

}  // namespace

// Symmetric memory only makes calls faster, so it must leave space for what calls require: staging
// buffers and rings, also of other groups of the machine that allocate at the same time.
bool SymmetricMemory::has_space(const Host& host, uint64_t bytes) {
  const comm_support::Members& members = endpoint_.members();
  const FreeMemory found = free_memory();
  const uint64_t free = found.bytes;
  if (bytes <= free / 4 / members.size) return true;
  if (members.rank == 0)
    host.log(PLAIT_LOG_WARN,
             members.head() + ": using the slower copying path: reducing in place needs " +
                 std::to_string(members.size) + " times " + in_mib(bytes) +
                 ", more than a quarter of the " + in_mib(free) +
                 (found.of_control_group ? " left in the control group of this process"
                                         : " available on this machine"));
  return false;
}

// Groups that allocated at the same time may have used all of it. kNoMemory: none is left.
uint64_t SymmetricMemory::allocate(const Host& host, uint64_t bytes) {
  File& file = endpoint_.file();
  try {
    const uint64_t at = file.grow_for_tensors(bytes);
    if (free_memory().bytes / endpoint_.members().size >= bytes) return at;
    file.give_back(at, bytes);
  } catch (const Error& e) {
    host.log(PLAIT_LOG_WARN, e.what());
  }
  return kNoMemory;
}

void* SymmetricMemory::make(const Host& host, uint64_t bytes) {
  const comm_support::Members& members = endpoint_.members();
  const std::string what = "memory of " + std::to_string(bytes) + " bytes";
  const bool wanted = bytes > 0 && all_.size() < UINT16_MAX && has_space(host, bytes);
  // Asked before any member allocates, so that all members see about the same free space.
  const std::vector<uint64_t> requests = gather_(what, bytes, wanted);
  bool all = true;
  for (uint32_t r = 0; r < members.size; ++r) {
    if (requests[2 * r] != bytes)
      endpoint_.fail_here(members.names[members.rank] + " asks for " + what + ", but " +
                          members.names[r] + " asks for " + std::to_string(requests[2 * r]) +
                          "; all ranks must ask for the same");
    all = all && requests[2 * r + 1];
  }
  if (!all) return nullptr;

  File& file = endpoint_.file();
  const uint64_t whole = round_up(bytes, kGranularity);
  const uint64_t own = allocate(host, whole);
  const std::vector<uint64_t> places = gather_(what, own, 0);
  for (uint32_t r = 0; r < members.size; ++r) all = all && places[2 * r] != kNoMemory;
  if (!all) {
    if (own != kNoMemory) file.give_back(own, whole);
    if (members.rank == 0)
      host.log(PLAIT_LOG_WARN, members.head() +
                                   ": using the slower copying path: there is no memory for " +
                                   what + " per rank");
    return nullptr;
  }
  std::vector<char*> addresses;
  for (uint32_t r = 0; r < members.size; ++r) addresses.push_back(file.map(places[2 * r], whole));
  all_.push_back(std::make_unique<SymmetricBuffer>(static_cast<uint32_t>(all_.size() + 1), bytes,
                                                   std::move(addresses), members.rank));
  return all_.back()->own();
}

const SymmetricBuffer* SymmetricMemory::of(const void* data, uint64_t bytes) const {
  for (const auto& memory : all_)
    if (memory->contains(data, bytes)) return memory.get();
  return nullptr;
}

}  // namespace plait::comm_shm
