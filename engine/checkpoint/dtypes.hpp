// The element types of the safetensors format.
#pragma once

#include <cstdint>
#include <string_view>

namespace plait::checkpoint {

struct DtypeInfo {
  const char* name;
  unsigned bits;
  uint32_t dtype;  // PLAIT_*; 0: Plait has no such type
};
const DtypeInfo* dtype_info(std::string_view name);  // NULL if the format does not define it
int dtype_order(uint32_t dtype);  // the reference writer's rank; -1 for an unknown id

}  // namespace plait::checkpoint
