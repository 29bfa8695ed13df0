// What turns a word, a piece of text that no token crosses, into ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plait::subword {

using Ids = std::vector<int32_t>;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;
using TokenIds = TextMap<int32_t>;

inline constexpr int32_t kNoToken = -1;
inline int32_t find_token(const TokenIds& ids, std::string_view text) {
  const auto at = ids.find(text);
  return at == ids.end() ? kNoToken : at->second;
}

// A word could not be written in tokens: the text at hand, for a message.
struct NoToken {
  std::string text;
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the ids of a word, which is valid UTF-8 unless its bytes are tokens, and not empty.
  // Errors: NoToken. [thread: any]
  virtual void encode(std::string_view word, Ids& ids) const = 0;
};

// The ids of the 256 tokens "<0x00>" to "<0xFF>", or nothing if one of them is missing.
std::vector<int32_t> byte_tokens(const TokenIds& ids);

// The ids of words that came before: texts repeat themselves. Belongs to one thread at a time.
class WordCache {
 public:
  // The ids of `word`, by `model`.
  void encode(const Model& model, std::string_view word, Ids& ids);

 private:
  static constexpr size_t kSlots = 1 << 16, kLongest = 64, kIds = 12;
  struct Slot {
    uint64_t hash = 0;
    uint8_t size = 0, n = 0;  // bytes of the word, its ids; size 0: free
    char word[kLongest];
    int32_t ids[kIds];
  };
  std::vector<Slot> slots_;
};

}  // namespace plait::subword
