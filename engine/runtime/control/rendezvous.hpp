// The rendezvous of the ranks: an address, or a file that rank 0 writes and only its user can read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "engine/runtime/job.hpp"

namespace plait::runtime::control {

struct Rendezvous {
  std::string text;  // as the user gave it
  std::string path;  // of the file; else ""
  std::string host;
  uint16_t port = 0;
};
// Errors: PLAIT_ERR_INVALID for a job with invalid numbers, rendezvous or secret.
Rendezvous parse_rendezvous(const Job& job);

// The information that a rank needs to join.
struct JoinInfo {
  std::string host;
  uint16_t port = 0;
  kit::Secret secret;  // (32) if it comes from a file
  std::string run;     // (16); "" if only the server knows it
};

// Rank 0's file; deleted when this is destroyed.
class RendezvousFile {
 public:
  // Replaces the file of an earlier run of this user. Errors: PLAIT_ERR_IO for a folder that other
  // users may write, a file of another type with that name, or a failure of the system.
  RendezvousFile(std::string path, const JoinInfo& join_info);
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t node_ = 0;
};

// The content of the file; nothing if it does not exist. Errors: PLAIT_ERR_IO for a file or folder
// that others may write, or a file that others may read; PLAIT_ERR_DATA for invalid content.
std::optional<JoinInfo> read_rendezvous_file(const std::string& path);

// Converts to and from the text of the file.
std::string encode(const JoinInfo& join_info);
JoinInfo decode_join_info(const std::string& path, const std::string& text);

}  // namespace plait::runtime::control
