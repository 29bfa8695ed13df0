// CRC-32C, eight bytes at a time (slicing by 8: Kounavis and Berry, "A Systematic Approach to
// Building High Performance Software-Based CRC Generators", 2005).
#include <array>
#include <cstddef>

#include "engine/observe/tensorboard.hpp"

namespace plait::observe {

namespace {

using Table = std::array<uint32_t, 256>;

// [k][b]: the checksum of a byte b with k bytes of 0 behind it.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? 0x82F63B78u ^ (c >> 1) : c >> 1;
    tables[0][i] = c;
  }
  for (size_t k = 1; k < tables.size(); ++k)
    for (size_t i = 0; i < 256; ++i) {
      const uint32_t before = tables[k - 1][i];
      tables[k][i] = tables[0][before & 0xFF] ^ (before >> 8);
    }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

uint32_t crc32c(const void* data, size_t size, uint32_t crc) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint32_t next = 0;
    for (size_t i = 0; i < 4; ++i)
      next ^= kTables[7 - i][((crc >> 8 * i) ^ bytes[i]) & 0xFF] ^ kTables[3 - i][bytes[4 + i]];
    crc = next;
  }
  for (; size > 0; --size) crc = kTables[0][(crc ^ *bytes++) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

// Stored masked, so that the checksum of data that contains checksums remains useful.
uint32_t masked_crc32c(const void* data, size_t size) {
  const uint32_t crc = crc32c(data, size);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

}  // namespace plait::observe
