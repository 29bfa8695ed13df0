// PATH.idx of a pair PATH.bin, PATH.idx as Megatron-LM writes it (indexed_dataset.py, version 1):
// 9 bytes magic, u64 version, u8 element type, u64 S sequences, u64 D document starts; i32 (S)
// lengths in tokens, i64 (S) byte offsets in .bin, i64 (D) sequences with which documents start,
// the last one S; perhaps i8 (S) modes. Unaligned.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/support/file_bytes.hpp"

namespace plait::data::tokens {

enum class TokenType : uint8_t { kU8 = 1, kI32 = 4, kI64 = 5, kU16 = 8 };
size_t token_bytes(TokenType type);

// Tokens that lie one behind the other in .bin and belong to one document.
struct Run {
  uint64_t byte = 0;
  int64_t tokens = 0;
  int64_t document = 0;
};

struct Index {
  TokenType type = TokenType::kU16;
  std::vector<Run> runs;  // in the order of the documents; none is empty
  int64_t documents = 0;
  int64_t tokens = 0;
};

// bin_bytes: size of .bin. Errors: PLAIT_ERR_DATA with the place; std::bad_alloc.
Index parse_index(const support::SourceFile& source, std::span<const uint8_t> file,
                  uint64_t bin_bytes);

}  // namespace plait::data::tokens
