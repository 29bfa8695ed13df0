// What the emulator tells the address sanitizer, which finds an access to memory that is forbidden
// here: nothing, where it is not compiled with it. EMULATOR_ASAN is given to files that are not
// instrumented themselves.
#pragma once

#include <cstddef>

#if defined(EMULATOR_ASAN)
#elif defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif
#ifdef EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

#ifdef EMULATOR_ASAN
constexpr bool kAsan = true;
inline void forbid(const void* p, size_t bytes) { __asan_poison_memory_region(p, bytes); }
// Memory that is unmapped must be allowed before: the sanitizer would forbid what is mapped there
// next.
inline void allow(const void* p, size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
#else
constexpr bool kAsan = false;
inline void forbid(const void*, size_t) {}
inline void allow(const void*, size_t) {}
#endif

}  // namespace emulator
