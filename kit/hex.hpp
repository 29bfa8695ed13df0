// Bytes as hexadecimal text.
#pragma once

#include <string>
#include <string_view>

namespace plait::kit {

inline std::string hex(std::string_view bytes) {  // "00ff": two lower-case digits per byte
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes)
    for (const int shift : {4, 0})
      text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 15];
  return text;
}

}  // namespace plait::kit
