// Downloads to a file, resuming an earlier attempt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace plait::cli {

enum class Fetched {
  kDone,
  kNoRange,    // the server cannot resume: remove the partial file and start again
  kTransport,  // no connection, refused, not found, interrupted: another mirror may work
  kLocal,      // this machine: no space, no permission
};

struct FetchResult {
  Fetched outcome = Fetched::kDone;
  std::string reason;  // "" when done
};

// Called from time to time with the bytes received so far and the total, 0 while unknown.
using FetchProgress = std::function<void(uint64_t done, uint64_t total)>;

// Appends the missing rest of `url` (http, https or file) to the file `part`. A failed download
// leaves the received bytes in `part`.
FetchResult fetch(const std::string& url, const std::string& part, const FetchProgress& progress);

// Makes `part` the file `to`, durably: synced, then renamed. Returns "" or the reason of the
// failure.
std::string commit(const std::string& part, const std::string& to);

}  // namespace plait::cli
