// Memory of a group: as much of the shared file for each member as for the others. What lies in it is exchanged without a copy into
// rooms: members read and write each other's.
#pragma once

#include <memory>
#include <plait/plugin.hpp>
#include <vector>

#include "plugins/comm/shm/file.hpp"

namespace plait::comm_shm {

class Memory {
 public:
  // All members call it together, with the same number and bytes. NULL on all of them where one gets too little; `host` then learns
  // why. Throws PLAIT_ERR_PEER when a member does not come.
  static std::unique_ptr<Memory> make(const Host& host, const Store& store,
                                      const comm_support::Members& members, File& file,
                                      uint32_t number, uint64_t bytes);

  uint32_t number() const { return number_; }  // from 1
  char* of(uint32_t rank) const { return of_[rank]; }
  bool holds(const void* data, uint64_t bytes) const {
    const auto at = reinterpret_cast<uintptr_t>(data), own = reinterpret_cast<uintptr_t>(of_[own_]);
    return at >= own && at - own <= bytes_ && bytes <= bytes_ - (at - own);
  }
  uint64_t offset_of(const void* data) const {
    return static_cast<uint64_t>(static_cast<const char*>(data) - of_[own_]);
  }

 private:
  uint32_t number_ = 0, own_ = 0;
  uint64_t bytes_ = 0;
  std::vector<char*> of_;  // (R), as this rank sees them
};

}  // namespace plait::comm_shm
