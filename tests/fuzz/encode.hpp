// What the fuzz targets of tokenizers have in common.
#pragma once

#include <plait/plugin.hpp>

#include <string_view>
#include <vector>

namespace plait::fuzz {

// The ids of a text, with begin and end tokens.
template <class Tokenizer>
std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> all;
  IdWriter to(
      [](void* user, const int32_t* ids, uint64_t n) -> uint32_t {
        auto& list = *static_cast<std::vector<int32_t>*>(user);
        list.insert(list.end(), ids, ids + n);
        return 0;
      },
      &all);
  tokenizer.encode(text, PLAIT_ENCODE_WRAP, to);
  to.flush();
  return all;
}

}  // namespace plait::fuzz
