// NumPy's .npy format, versions 1 to 3: magic, version, length of the header, the header (a Python
// dict), then the values.
#pragma once

#include "plugins/support/file_bytes.hpp"

#include <vector>

namespace plait::data::npy {

// The contents of a header, checked against the size of the file.
struct Header {
  uint32_t dtype = 0;  // of the values in the file; bool is PLAIT_U8
  std::vector<int64_t> dims;
  size_t offset = 0;       // of the first value
  bool by_column = false;  // the first axis varies fastest ("fortran_order")
};

// The longest header, with what is before it.
constexpr size_t kMaxHead = 12 + (1 << 20);
// Reads the header of a little-endian file of f2, f4, f8, i4, i8, u1 or b1 that has `size`
// bytes, of which `head` are the first, kMaxHead or all. Errors: PLAIT_ERR_DATA.
Header parse(const support::SourceFile& source, std::span<const uint8_t> head, uint64_t size);
// The values of a file by_column in the order of rows, alone: the header becomes that of the
// result. Errors: std::bad_alloc.
support::Bytes by_row(Header& header, std::span<const uint8_t> file);

}  // namespace plait::data::npy
