// Contents of files that several tests read.
#pragma once

#include <doctest/doctest.h>
#include <zlib.h>

#include <string>

#include "tests/unit/data_plugins/dataset_bench.hpp"

namespace file_bytes {

// Of version 1, row-major. type: as "<f4"; shape: as "(2, 3)".
inline std::string npy(const std::string& type, const std::string& shape,
                       const std::string& values) {
  const std::string head =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + "}\n";
  return "\x93NUMPY" + std::string("\1\0", 2) + plait::fake::little(head.size(), 2) + head + values;
}

inline std::string gzip(const std::string& text) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace file_bytes
