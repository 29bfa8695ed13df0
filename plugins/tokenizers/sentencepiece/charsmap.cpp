#include "plugins/tokenizers/sentencepiece/charsmap.hpp"

namespace plait::sentencepieces {
namespace {

// Numbers of fields in sentencepiece_model.proto.
constexpr uint64_t kNormalizer = 3, kDenormalizer = 5;  // of ModelProto
constexpr uint64_t kCharsmap = 2;                       // precompiled_charsmap of NormalizerSpec
// Wire types of protobuf.
enum : uint64_t { kVarint = 0, kEightBytes = 1, kLengthAndBytes = 2, kFourBytes = 5 };

// The fields of a message, which begins at `begin` of the file.
class Message {
 public:
  Message(const support::SourceFile& file, std::span<const uint8_t> bytes, size_t begin, size_t end)
      : file_(file), bytes_(bytes), at_(begin), end_(end) {}

  // Moves to the next field; false at the end. content: of a field with bytes, else empty.
  bool next(uint64_t& number, size_t& content_begin, size_t& content_end) {
    if (at_ == end_) return false;
    const size_t start = at_;
    const uint64_t tag = varint();
    number = tag >> 3;
    uint64_t size = 0;
    switch (tag & 7) {
      case kVarint:
        varint();
        break;
      case kEightBytes:
        size = 8;
        break;
      case kLengthAndBytes:
        size = varint();
        break;
      case kFourBytes:
        size = 4;
        break;
      default:
        bad(start, "a field of an unknown type");
    }
    if (tag > UINT32_MAX || number == 0) bad(start, "a field with an impossible number");
    if (size > end_ - at_) bad(start, "a field that is longer than what holds it");
    content_begin = at_;
    content_end = at_ += static_cast<size_t>(size);
    if ((tag & 7) != kLengthAndBytes) content_begin = content_end;
    return true;
  }
  [[noreturn]] void bad(size_t offset, const std::string& what) const {
    file_.bad(offset, "SentencePiece cannot read it as a model: " + what +
                          "; is the file complete? copy it again");
  }

 private:
  uint64_t varint() {
    const size_t start = at_;
    uint64_t value = 0;
    for (unsigned shift = 0; at_ < end_ && shift < 64; shift += 7) {
      const uint8_t byte = bytes_[at_++];
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    bad(start, "a number without an end");
  }

  const support::SourceFile& file_;
  std::span<const uint8_t> bytes_;
  size_t at_, end_;
};

uint32_t word_at(std::span<const uint8_t> bytes, size_t at) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// A charsmap: the size of a trie in bytes (4 bytes); the trie, a double array of 4 bytes a node
// (Aoe 1989, as darts-clone stores it) from byte sequences to positions in what follows;
// replacements, each ending with a zero. Returns what is wrong with it, or nullptr.
const char* fault_of(std::span<const uint8_t> map) {
  constexpr uint32_t kBlock = 256;  // the children of a node lie in one
  if (map.empty()) return nullptr;
  if (map.size() < 4) return "it has no size of its trie";
  const uint32_t size = word_at(map, 0);
  if (size == 0 || size % (4 * kBlock) != 0 || size > map.size() - 4)
    return "the size of its trie does not fit";
  const std::span<const uint8_t> trie = map.subspan(4, size), texts = map.subspan(4 + size);
  if (texts.empty() || texts.back() != 0) return "its last replacement does not end";
  const uint32_t nodes = size / 4;
  for (uint32_t i = 0; i < nodes; ++i) {
    const uint32_t node = word_at(trie, size_t{i} * 4);
    const bool position = (node >> 31) != 0;  // no byte leads there, but the root is always read
    if (position && i > 0) continue;
    const uint32_t children = i ^ ((node >> 10) << ((node & 0x200) >> 6));
    if (children >= nodes) return "a node of its trie has children outside of it";
    const bool has_text = (node & 0x100) != 0;
    if (has_text && (word_at(trie, size_t{children} * 4) & 0x7FFFFFFF) >= texts.size())
      return "a replacement lies outside of it";
  }
  return nullptr;
}

}  // namespace

void check_charsmaps(const support::SourceFile& file, std::span<const uint8_t> bytes) {
  Message model(file, bytes, 0, bytes.size());
  uint64_t field = 0;
  size_t begin = 0, end = 0;
  while (model.next(field, begin, end)) {
    if (field != kNormalizer && field != kDenormalizer) continue;
    Message normalizer(file, bytes, begin, end);
    size_t map_begin = 0, map_end = 0;
    while (normalizer.next(field, map_begin, map_end)) {
      if (field != kCharsmap) continue;
      if (const char* fault = fault_of(bytes.subspan(map_begin, map_end - map_begin)))
        normalizer.bad(map_begin, std::string("its precompiled_charsmap is damaged: ") + fault);
    }
  }
}

}  // namespace plait::sentencepieces
