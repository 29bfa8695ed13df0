// Symmetric memory of a group: an equal part of the shared file for each member. Collectives on it
// need no staging buffers: members read and write each other's memory.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace plait::comm_shm {

class SymmetricBuffer {
 public:
  // number: from 1; addresses: (R) address of each member's part, as this rank sees it.
  SymmetricBuffer(uint32_t number, uint64_t bytes, std::vector<char*> addresses, uint32_t own)
      : number_(number), bytes_(bytes), addresses_(std::move(addresses)), own_(addresses_[own]) {}

  uint32_t number() const { return number_; }
  char* own() const { return own_; }
  char* of_rank(uint32_t rank) const { return addresses_[rank]; }
  bool contains(const void* data, uint64_t bytes) const {
    const auto at = reinterpret_cast<uintptr_t>(data), own = reinterpret_cast<uintptr_t>(own_);
    return at >= own && at - own <= bytes_ && bytes <= bytes_ - (at - own);
  }
  uint64_t offset_of(const void* data) const {
    return static_cast<uint64_t>(static_cast<const char*>(data) - own_);
  }

 private:
  uint32_t number_;
  uint64_t bytes_;
  std::vector<char*> addresses_;
  char* own_;
};

}  // namespace plait::comm_shm
