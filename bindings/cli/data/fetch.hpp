// Downloading to a file, going on where an earlier attempt stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace plait::cli {

enum class Fetched {
  kDone,
  kNoRange,  // the server cannot go on in the middle of the file: remove what there is and begin again
  kTransport,  // no connection, refused, not found there, broken off: another mirror may do
  kLocal,      // this machine: no space, no permission
};

struct FetchResult {
  Fetched outcome = Fetched::kDone;
  std::string reason;  // "" when done
};

// Called now and then with the bytes that are there and the total, 0 while unknown.
using FetchProgress = std::function<void(uint64_t done, uint64_t total)>;

// Appends what is missing of `url` (http, https or file) to the file `part`. What has arrived stays there when it fails.
FetchResult fetch(const std::string& url, const std::string& part, const FetchProgress& progress);

// Makes `part` the file `to`, durably: synced, then renamed. Returns "" or the reason of the failure.
std::string commit(const std::string& part, const std::string& to);

}  // namespace plait::cli
