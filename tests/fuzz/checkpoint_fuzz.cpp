// Arbitrary bytes as a safetensors file: a header or PLAIT_ERR_DATA, and every tensor of a header
// lies inside the file.
#include <plait/base.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/checkpoint/safetensors.hpp"

namespace {

void parse(std::string_view bytes, uint64_t file_size) {
  try {
    const auto header = plait::checkpoint::parse_safetensors(bytes, file_size, "fuzz");
    uint64_t at = header.data_start;
    for (const auto& t : header.tensors) {
      if (t.end < t.begin || header.data_start + t.end > file_size) abort();
      if (!header.find(t.name)) abort();
      at += t.bytes();
    }
    if (at != file_size) abort();
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  parse(bytes, size);
  // Once more with a valid header size, since most inputs would otherwise fail at the first check.
  if (size >= 10) {
    std::string framed(8, '\0');
    const uint64_t header = data[0] | static_cast<uint64_t>(data[1]) << 8;
    const uint64_t claimed = header < size - 10 ? header : size - 10;
    for (size_t i = 0; i < 8; ++i) framed[i] = static_cast<char>(claimed >> (8 * i) & 0xFF);
    framed.append(bytes.substr(10));
    parse(framed, framed.size());
  }
  return 0;
}
