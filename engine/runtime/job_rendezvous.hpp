// The rendezvous of a job and the secret by which its ranks authenticate: reading and checking
// both.
#pragma once

#include <string>

#include "engine/runtime/job.hpp"

namespace plait::runtime {

inline constexpr size_t kMinSecret = 16, kMaxSecret = 4096;  // bytes

// The fault of a rendezvous text, "" if it is valid: expected is "HOST:PORT" (an IPv6 address in
// brackets) or "file:" and an absolute path.
std::string rendezvous_error(const std::string& rendezvous);
bool is_file_rendezvous(const std::string& rendezvous);

// Fills in rendezvous, secret, listen_fd and the timeouts from the PLAIT_* variables. Without
// PLAIT_RENDEZVOUS the rendezvous is a file of this user named after `key`, which must be equal on
// all ranks of the job and different for every other job; only if all ranks share this machine and
// key is not "". Errors: PLAIT_ERR_CONFIG naming the variable; PLAIT_ERR_IO for a folder or file
// that cannot be used.
void configure_rendezvous(Job& job, const std::string& key, const GetEnv& get);

// $XDG_RUNTIME_DIR/plait, else /tmp/plait-<user id>: created if absent, checked to belong to this
// user alone. Errors: PLAIT_ERR_IO.
std::string private_folder(const GetEnv& get);

// Letters, digits, dots and dashes of `text`, with a hash of all of it, for use as a file name.
std::string file_key(const std::string& text);

// A key that only the processes of one MPICH job share: their manager process among the ancestors,
// else the parent process.
std::string ancestor_key();

}  // namespace plait::runtime
