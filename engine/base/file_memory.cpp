#include "engine/base/file_memory.hpp"

#include "engine/base/error.hpp"

namespace plait {

void fail_no_memory(const char* part, const char* action, const std::string& path, uint64_t bytes) {
  fail(PLAIT_ERR_MEMORY, std::string("[") + part + "] cannot " + action + " '" + path + "'" +
                             (bytes == 0 ? "" : " (" + human_bytes(bytes) + ")") +
                             ": out of memory; end other programs, or give this one more memory");
}

}  // namespace plait
