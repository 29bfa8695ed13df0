#include "plugins/tokenizers/subword/model.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <xxhash.h>

namespace plait::subword {

std::vector<int32_t> byte_tokens(const TokenIds& ids) {
  std::vector<int32_t> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    const int32_t id = find_token(ids, name);
    if (id == kNoToken) return {};
    tokens.push_back(id);
  }
  return tokens;
}

// A word has one slot; the newest word of a slot stays.
void WordCache::encode(const Model& model, std::string_view word, Ids& ids) {
  if (word.size() > kLongest) return model.encode(word, ids);
  if (slots_.empty()) slots_.resize(kSlots);
  const uint64_t hash = XXH3_64bits(word.data(), word.size());
  Slot& slot = slots_[hash % kSlots];
  if (slot.hash == hash && slot.size == word.size() &&
      std::memcmp(slot.word, word.data(), word.size()) == 0) {
    ids.insert(ids.end(), slot.ids, slot.ids + slot.n);
    return;
  }
  const size_t before = ids.size();
  model.encode(word, ids);
  const size_t n = ids.size() - before;
  if (n > kIds) return;
  slot.hash = hash;
  slot.size = static_cast<uint8_t>(word.size());
  slot.n = static_cast<uint8_t>(n);
  std::memcpy(slot.word, word.data(), word.size());
  std::copy_n(ids.begin() + static_cast<ptrdiff_t>(before), n, slot.ids);
}

}  // namespace plait::subword
