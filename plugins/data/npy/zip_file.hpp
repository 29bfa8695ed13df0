// Members of a zip file, as numpy.savez writes it: stored or deflated, also beyond 4 GiB (zip64).
// After PKWARE's APPNOTE.TXT 6.3.3, parts 4.3 and 4.5.3. Nothing is believed that the file's size
// does not allow: every member lies in the file, and memory grows with what is really unpacked.
#pragma once

#include "plugins/support/file_bytes.hpp"
#include "plugins/support/steady_file.hpp"

#include <string>
#include <vector>

namespace plait::data::npy {

struct ZipMember {
  std::string name;
  bool deflated = false;
  uint64_t offset = 0;  // of its data in the file
  uint64_t packed = 0;  // bytes there
  uint64_t size = 0;    // of the member
  uint32_t crc = 0;
};

// Reads the directory. Errors: PLAIT_ERR_DATA with the offset in the file; PLAIT_ERR_IO.
std::vector<ZipMember> read_zip(const support::SourceFile& source, const support::SteadyFile& file);
// All of a member; its checksum is verified. Errors: as above; std::bad_alloc.
support::Bytes read_member(const support::SourceFile& source, const support::SteadyFile& file,
                           const ZipMember& member);

}  // namespace plait::data::npy
