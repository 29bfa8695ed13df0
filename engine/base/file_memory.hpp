// Readers of files when memory is short: the error names the file.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

namespace plait {

// PLAIT_ERR_MEMORY: "[part] cannot <action> '<path>' (12.00 MiB): out of memory; ..."; 0 bytes are
// not named.
[[noreturn]] void fail_no_memory(const char* part, const char* action, const std::string& path,
                                 uint64_t bytes);

// Returns f(). If it runs out of memory: fail_no_memory(). part: "checkpoint". action: "read" for
// "[checkpoint] cannot read 'path'". bytes: the size of what is read.
template <class F>
auto with_memory(const char* part, const char* action, const std::string& path, uint64_t bytes,
                 F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    fail_no_memory(part, action, path, bytes);
  } catch (const std::length_error&) {
    fail_no_memory(part, action, path, bytes);
  }
}

}  // namespace plait
