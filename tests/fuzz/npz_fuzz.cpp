// Any bytes as a .npz file: members that lie in the file and unpack to their sizes, or
// PLAIT_ERR_DATA.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "plugins/data/npy/zip_file.hpp"

namespace {

const uint8_t* file_data = nullptr;
size_t file_size = 0;

const plait::support::FileCalls kCalls = {
    [](const char*) { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); },
    [](int, void* to, size_t n, off_t at) -> ssize_t {
      const auto from = static_cast<size_t>(at);
      if (at < 0 || from > file_size || n > file_size - from) abort();
      std::memcpy(to, file_data + from, n);
      return static_cast<ssize_t>(n);
    },
    [](int, uint64_t& bytes) {
      bytes = file_size;
      return 0;
    },
    [](double) { abort(); }};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plait::data::npy;
  file_data = data;
  file_size = size;
  const plait::support::SourceFile source{"fuzz", "path", "x"};
  const plait::support::SteadyFile file(source, "", kCalls);
  try {
    for (const ZipMember& m : read_zip(source, file)) {
      if (m.offset > size || m.packed > size - m.offset) abort();
      try {
        if (read_member(source, file, m).size() != m.size) abort();
      } catch (const plait::Error& e) {
        if (e.code() != PLAIT_ERR_DATA) abort();
      }
    }
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA) abort();
  }
  return 0;
}
