// Copies of large tensors that bypass the caches: the destination is not read before it is written.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace plait::comm_shm {

// Call it before telling other ranks of data that stream() has written.
inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

inline void stream(void* to, const void* from, uint64_t bytes) {
#if defined(__SSE2__)
  constexpr uint64_t kLine = 64;
  auto* t = static_cast<char*>(to);
  const auto* f = static_cast<const char*>(from);
  const uint64_t head = -reinterpret_cast<uintptr_t>(t) % kLine;
  if (bytes < head + kLine) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(t, f, head);
  uint64_t at = head;
  for (; at + kLine <= bytes; at += kLine)
    for (uint64_t i = 0; i < kLine; i += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(t + at + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(f + at + i)));
  std::memcpy(t + at, f + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace plait::comm_shm
