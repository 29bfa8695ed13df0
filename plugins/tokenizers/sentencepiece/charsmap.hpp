// The tables of normalization in a .model file, which SentencePiece reads without a check: a
// damaged one makes it read outside of its memory.
#pragma once

#include "plugins/support/file_bytes.hpp"

#include <span>

namespace plait::sentencepieces {

// Checks each precompiled_charsmap of the file, a message of protobuf.
// Errors: PLAIT_ERR_DATA with the offset.
void check_charsmaps(const support::SourceFile& file, std::span<const uint8_t> bytes);

}  // namespace plait::sentencepieces
