// The IDX format of MNIST: two zero bytes, a type code, the number of dimensions R, R big-endian
// u32 extents, then the values, row-major.
#pragma once

#include "plugins/support/file_bytes.hpp"
#include "plugins/support/steady_file.hpp"

#include <vector>

namespace plait::data::idx {

// The contents of a header, checked against the size of the values. Values are u8.
struct Header {
  std::vector<int64_t> dims;
  size_t offset = 0;   // of the first value
  uint64_t total = 0;  // header and values, in bytes
};

// Reads the header at the start of `head`, which may be longer than the header. Errors:
// PLAIT_ERR_DATA.
Header read_header(const support::SourceFile& source, std::span<const uint8_t> head);

// The bytes of a plain or gzip-compressed file, unpacked, and their header; sizes are exact.
// Unpacking stops at the first byte beyond the size that the header declares.
struct File {
  Header header;
  support::Bytes bytes;
};
File open(const support::SourceFile& source);
// Of a file that is read by position: whether it is packed, and the header of a plain one, checked
// against the size of the file. Errors: PLAIT_ERR_DATA.
bool is_packed(const support::SteadyFile& file);
Header header_of(const support::SourceFile& source, const support::SteadyFile& file);
// Of a packed one, of which no more is read; its values are not checked.
Header packed_header_of(const support::SourceFile& source, const support::SteadyFile& file);
File parse(const support::SourceFile& source, support::Bytes raw);

}  // namespace plait::data::idx
