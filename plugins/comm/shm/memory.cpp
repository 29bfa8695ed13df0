#include "plugins/comm/shm/memory.hpp"

#include <charconv>

namespace plait::comm_shm {
namespace {

constexpr uint64_t kNowhere = 0;  // of the file, where the control block lies

// What a member lays down: where its memory begins in the file, or "!" and why there is none.
std::string take(File& file, uint64_t bytes, uint64_t* at) {
  try {
    return std::to_string(*at = file.grow_for_tensors(bytes));
  } catch (const Error& e) {
    *at = kNowhere;
    return std::string("!") + e.what();
  }
}

uint64_t place_in(const std::string& told) {
  uint64_t at = 0;
  const auto [end, problem] = std::from_chars(told.data(), told.data() + told.size(), at);
  if (problem != std::errc() || end != told.data() + told.size())
    fail(PLAIT_ERR_PEER, "[shm] a rank names no place of its memory: '" + told + "'");
  return at;
}

}  // namespace

std::unique_ptr<Memory> Memory::make(const Host& host, const Store& store,
                                     const comm_support::Members& members, File& file,
                                     uint32_t number, uint64_t bytes) {
  const auto key = [&](uint32_t r) {
    return "memory." + std::to_string(number) + "." + std::to_string(r);
  };
  const uint64_t whole = round_up(bytes, kGrain);
  uint64_t own = kNowhere;
  const std::string mine = take(file, whole, &own);
  store.set(key(members.rank), mine);
  std::vector<std::string> told;
  for (uint32_t r = 0; r < members.size; ++r)
    told.push_back(r == members.rank ? mine
                                     : store.get<kFailureBytes>(
                                           key(r), members.head() + ": " + members.names[r] +
                                                       " has laid down no shared memory; look "
                                                       "whether it runs"));
  for (const std::string& text : told) {
    if (!text.starts_with("!")) continue;
    if (own != kNowhere) file.give_back(own, whole);
    host.log(PLAIT_LOG_INFO, text.substr(1) + "; the ranks copy what they exchange instead");
    return nullptr;
  }
  auto memory = std::make_unique<Memory>();
  memory->number_ = number;
  memory->own_ = members.rank;
  memory->bytes_ = bytes;
  for (const std::string& text : told) memory->of_.push_back(file.map(place_in(text), whole));
  return memory;
}

}  // namespace plait::comm_shm
