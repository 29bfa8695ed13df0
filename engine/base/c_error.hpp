// The plait_error object of the C ABI, and its conversion to and from plait::Error.
#pragma once

#include <plait/base.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/error.hpp"

// One link of an error chain. Immutable. Freed with free_c_error().
struct plait_error {
  uint32_t code = PLAIT_ERR_INTERNAL;
  std::string text;
  std::unique_ptr<plait_error> cause;
  bool collective = false;   // created by a collective of the engine, which a device passes on
  mutable std::string full;  // the whole chain as one text, built on first use
};

namespace plait {

// Never NULL: when memory is short it returns one static error (PLAIT_ERR_MEMORY), which
// free_c_error() recognises.
plait_error* new_c_error(uint32_t code, const char* text, uint64_t size,
                         plait_error* cause) noexcept;
plait_error* to_c(const Error& error) noexcept;
// Sets plait_error::collective; does nothing to the static error.
void mark_collective(plait_error* error) noexcept;
void free_c_error(plait_error* error) noexcept;  // NULL is fine

// Consumes the error.
Error from_c(plait_error* error);

// An error that a plugin makes: PLAIT_OK and PLAIT_ERR_INTERNAL, which only the engine may use,
// become PLAIT_ERR_PLUGIN, and an error without a text says so.
plait_error* new_plugin_error(uint32_t code, const char* text, uint64_t size,
                              plait_error* cause) noexcept;

// Runs f() and converts an exception to a plait_error. For the bodies of C functions.
template <class F>
plait_error* guard_c(F&& f) noexcept;

// The exception in flight as a plait_error. Only inside a catch block.
plait_error* current_c_error() noexcept;

template <class F>
plait_error* guard_c(F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (...) {
    return current_c_error();
  }
}

}  // namespace plait
