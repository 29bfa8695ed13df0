// Reads that fail on request, in every library of the process: calls of the system on the files of
// one folder, open, stat, fstat, read, pread, mmap, fdopendir and close.
#pragma once

#include <cstdint>
#include <string>

namespace faults {

enum class Kind {
  kError,        // the call fails with an error number; close() has closed nevertheless
  kEnd,          // read and pread find the end of the file
  kPart,         // they return half of what is there
  kInterrupted,  // open, read and pread fail once with EINTR
  kClose,        // close() alone fails, with the error number
};

// The n-th call that `kind` concerns fails, from 1; with `folder` or something in it. Reads behind
// the end of a file are not counted.
void arm(const std::string& folder, Kind kind, int number, int64_t n);
// Stops that. The file whose call has failed; "": none.
std::string disarm();

}  // namespace faults
