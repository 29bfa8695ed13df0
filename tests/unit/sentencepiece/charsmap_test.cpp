// Damaged tables of normalization of SentencePiece, which its library reads without a check.
#include "plugins/tokenizers/sentencepiece/charsmap.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

using plait::sentencepieces::check_charsmaps;

constexpr uint32_t kBlock = 256;        // nodes
constexpr uint32_t kNoByte = 1u << 31;  // no byte leads to the node
constexpr uint32_t kHasText = 0x100;
constexpr uint32_t kFar = 0x200;  // the offset of its children counts blocks
constexpr uint32_t children(uint32_t offset) { return offset << 10; }

std::string word(uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

struct Map {
  explicit Map(uint32_t blocks = 1) : nodes(blocks * kBlock, kNoByte) { nodes[0] = children(1); }
  std::string bytes() const {
    std::string all = word(static_cast<uint32_t>(4 * nodes.size()));
    for (const uint32_t node : nodes) all += word(node);
    return all + texts;
  }
  std::vector<uint32_t> nodes;
  std::string texts{"a\0bc\0", 5};
};

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string field(uint64_t number, const std::string& content) {
  return varint(number << 3 | 2) + varint(content.size()) + content;
}
std::string in_model(const std::string& map) { return field(3, field(2, map)); }

std::string error_of(const std::string& file) {
  try {
    check_charsmaps({"tokenizer.sentencepiece", "path", "m.model"},
                    {reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  } catch (const plait::Error& e) {
    return e.what();
  }
  return "";
}
std::string fault_of(const std::string& map) {
  const std::string text = error_of(in_model(map)), begin = "precompiled_charsmap is damaged: ";
  const size_t at = text.find(begin);
  if (at == text.npos) return text;
  return text.substr(at + begin.size(), text.find(';', at) - at - begin.size());
}
std::string fault_of(const Map& map) { return fault_of(map.bytes()); }

}  // namespace

TEST_CASE("a table: the size of its trie, and replacements that end") {
  CHECK(fault_of(std::string()) == "");
  CHECK(fault_of(Map()) == "");
  CHECK(fault_of(Map(3)) == "");
  CHECK(fault_of(std::string(3, '\0')) == "it has no size of its trie");
  const std::string size = "the size of its trie does not fit";
  CHECK(fault_of(word(0)) == size);
  CHECK(fault_of(word(0) + std::string(2000, '\0')) == size);
  CHECK(fault_of(word(1020) + std::string(2000, '\0')) == size);
  CHECK(fault_of(word(1024) + std::string(1023, '\0')) == size);
  const std::string end = "its last replacement does not end";
  CHECK(fault_of(word(1024) + std::string(1024, '\0')) == end);
  Map map;
  map.texts += "d";
  CHECK(fault_of(map) == end);
}

TEST_CASE("nodes of the trie: children and replacements lie inside") {
  const std::string outside = "a node of its trie has children outside of it";
  Map map;
  map.nodes[0] = children(255);
  CHECK(fault_of(map) == "");
  map.nodes[0] = children(256);
  CHECK(fault_of(map) == outside);
  map.nodes[0] = children(1) | kFar;  // 256
  CHECK(fault_of(map) == outside);
  map.nodes[0] = children(1) | kNoByte;  // the root is always read
  CHECK(fault_of(map) == outside);
  map.nodes[0] = children(1);
  map.nodes[255] = children(256) | kNoByte;
  CHECK(fault_of(map) == "");
  for (const uint32_t far : {256u, 1u << 20}) {
    map.nodes[255] = children(far);
    CHECK(fault_of(map) == outside);
  }
  Map large(3);
  large.nodes[0] = children(2) | kFar;
  large.nodes[512] = children(768);  // offsets and nodes are combined bit by bit: 256
  CHECK(fault_of(large) == "");
  large.nodes[256] = children(512);  // 768
  CHECK(fault_of(large) == outside);
}

TEST_CASE("replacements of the trie begin inside of the texts") {
  Map map;
  map.nodes[0] = children(7) | kHasText;
  for (const uint32_t at : {0u, 4u}) {
    map.nodes[7] = kNoByte | at;
    CHECK(fault_of(map) == "");
  }
  map.nodes[7] = kNoByte | 5;
  CHECK(fault_of(map) == "a replacement lies outside of it");
  map.nodes[0] = children(7);  // it has none
  CHECK(fault_of(map) == "");
}

TEST_CASE("fields of a model: the tables of both directions are found among others") {
  const std::string bad(3, '\0'), good = Map().bytes();
  const std::string others = varint(4 << 3) + varint(300) + varint(6 << 3 | 1) + "12345678" +
                             field(1, "piece") + varint(7 << 3 | 5) + "1234";
  CHECK(error_of(others) == "");
  CHECK(error_of(field(1, std::string(128, 'p')) + others) == "");
  CHECK(error_of(others + field(3, others + field(2, good)) + others) == "");
  CHECK(error_of(field(4, field(2, bad)) + field(3, field(3, bad))) == "");
  for (const uint64_t number : {3, 5}) {
    const std::string before = others + field(number, field(2, good));
    const std::string error = error_of(before + others + field(number, others + field(2, bad)));
    CAPTURE(error);
    const size_t at = before.size() + 2 * others.size() + 4;
    CHECK(error.starts_with("[tokenizer.sentencepiece] path 'm.model', offset " +
                            std::to_string(at) +
                            ": SentencePiece cannot read it as a model: its "
                            "precompiled_charsmap is damaged: it has no size of its trie"));
  }
}

TEST_CASE("fields that are none") {
  const auto has = [](const std::string& file, const std::string& part) {
    CAPTURE(error_of(file));
    CHECK(error_of(file).find(part) != std::string::npos);
  };
  const std::string one = field(1, "piece");
  for (const uint64_t type : {3, 4, 6, 7})
    has(one + varint(1 << 3 | type),
        "offset 7: SentencePiece cannot read it as a model: a field "
        "of an unknown type");
  has(one + varint(0) + varint(5),
      "offset 7: SentencePiece cannot read it as a model: a field "
      "with an impossible number");
  const uint64_t greatest = UINT32_MAX >> 3;
  CHECK(error_of(varint(greatest << 3) + varint(5)) == "");
  has(varint((greatest + 1) << 3) + varint(5), "a field with an impossible number");
  has(varint(1 << 3 | 2) + varint(6) + "piece", "a field that is longer than what holds it");
  has(varint(1 << 3 | 5) + "123", "a field that is longer than what holds it");
  has(varint(1 << 3 | 1) + "1234567", "a field that is longer than what holds it");
  has(varint(1 << 3), "offset 1: SentencePiece cannot read it as a model: a number without an end");
  has(varint(1 << 3) + "\xff", "a number without an end");
  CHECK(error_of(varint(1 << 3) + std::string(9, '\xff') + "\x01") == "");
  has(varint(1 << 3) + std::string(10, '\xff') + "\x01", "a number without an end");
}
