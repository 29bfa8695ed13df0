// The wire format of protocol buffers, as far as files of ours need it. What is put is appended.
// Source: protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plait::observe::protobuf {

// A field is (number << 3 | wire type), then its content.
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

inline void put_varint(std::string& out, uint64_t value) {
  char bytes[10];  // seven bits each
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = static_cast<char>(value | 0x80);
  bytes[n++] = static_cast<char>(value);
  out.append(bytes, n);
}

template <class Word>
void put_fixed(std::string& out, Word value) {
  char bytes[sizeof value];
  for (size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<char>(value >> (8 * i) & 0xFF);
  out.append(bytes, sizeof bytes);
}

inline void put_tag(std::string& out, uint32_t number, Wire wire) {
  put_varint(out, number << 3 | wire);
}

inline size_t varint_size(uint64_t value) {
  size_t n = 1;
  for (; value >= 0x80; value >>= 7) ++n;
  return n;
}

// Of a field with a number below 16, whose tag has one byte.
inline size_t bytes_field_size(size_t content) { return 1 + varint_size(content) + content; }

inline void put_bytes(std::string& out, uint32_t number, std::string_view content) {
  put_tag(out, number, kBytes);
  put_varint(out, content.size());
  out += content;
}

inline void put_varint_field(std::string& out, uint32_t number, uint64_t value) {
  put_tag(out, number, kVarint);
  put_varint(out, value);
}

}  // namespace plait::observe::protobuf
