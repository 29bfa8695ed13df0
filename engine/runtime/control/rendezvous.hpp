// Where the ranks meet: an address, or a file that rank 0 writes and only its user can read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "engine/runtime/job.hpp"

namespace plait::runtime::control {

struct Rendezvous {
  std::string text;  // as the user gave it
  std::string path;  // of a file; else "", and
  std::string host;
  uint16_t port = 0;
};
// Errors: PLAIT_ERR_INVALID for a job whose numbers, rendezvous or secret make no sense.
Rendezvous parse_rendezvous(const Job& job);

// What a rank needs to join.
struct JoinInfo {
  std::string host;
  uint16_t port = 0;
  std::string secret;  // (32) in a file
  std::string run;     // (16); "" where only the server knows
};

// Rank 0's file, there while this lives.
class RendezvousFile {
 public:
  // Replaces what an earlier run of this user left. Errors: PLAIT_ERR_IO for a folder that others may write, something else of that
  // name, or whatever the system refuses.
  RendezvousFile(std::string path, const JoinInfo& join_info);
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t node_ = 0;
};

// What the file says; nothing while there is none. Errors: PLAIT_ERR_IO for a file or folder that others may write, or a file that
// others may read; PLAIT_ERR_DATA for a text that makes no sense.
std::optional<JoinInfo> read_rendezvous_file(const std::string& path);

// The text of a file, and back.
std::string encode(const JoinInfo& join_info);
JoinInfo decode_join_info(const std::string& path, const std::string& text);

}  // namespace plait::runtime::control
