// Where the ranks of a job meet, and the secret by which they know each other: reading and checking both.
#pragma once

#include <string>

#include "engine/runtime/job.hpp"

namespace plait::runtime {

inline constexpr size_t kMinSecret = 16, kMaxSecret = 4096;  // bytes

// What is wrong with a rendezvous as a text, "" when nothing is: expected is "HOST:PORT" (an IPv6 address in brackets) or "file:" and
// an absolute path.
std::string rendezvous_error(const std::string& rendezvous);
bool is_file_rendezvous(const std::string& rendezvous);

// Fills in rendezvous, secret, listen_fd and the timeouts from the PLAIT_* variables. Without PLAIT_RENDEZVOUS the ranks meet at a file of
// this user named after `key`, which must be equal on all ranks of the job and on those of no other; only where all ranks share this
// machine and key is not "". Errors: PLAIT_ERR_CONFIG naming the variable; PLAIT_ERR_IO for a folder or file that cannot be used.
void configure_rendezvous(Job& job, const std::string& key, const GetEnv& get);

// $XDG_RUNTIME_DIR/plait, else /tmp/plait-<user id>: made when absent, checked to be ours alone. Errors: PLAIT_ERR_IO.
std::string private_folder(const GetEnv& get);

// Letters, digits, dots and dashes of `text`, with a hash of all of it: names a file.
std::string file_key(const std::string& text);

// What only the processes of one MPICH job share: its manager process among our ancestors, else our parent.
std::string ancestor_key();

}  // namespace plait::runtime
