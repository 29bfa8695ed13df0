// Connects a rank to rank 0; both prove to each other that they belong to one job.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/runtime/control/connection.hpp"
#include "engine/runtime/control/rendezvous.hpp"

namespace plait::runtime::control {

struct JoinedServer {
  std::unique_ptr<Connection> connection;
  double server_timeout = 0;  // seconds of silence after which rank 0 treats a rank as lost
  std::string where;          // "10.0.0.1:29400"
};

// Retries until the deadline. own: the connection information on rank 0 itself. Errors:
// PLAIT_ERR_PEER if rank 0 cannot be reached, with the attempts made; PLAIT_ERR_CONFIG or
// PLAIT_ERR_PEER with rank 0's reason if it refuses this rank; PLAIT_ERR_IO for an unsafe
// rendezvous file. [blocks: yes]
JoinedServer join(const Job& job, const Rendezvous& rendezvous, const std::optional<JoinInfo>& own,
                  Time deadline);

}  // namespace plait::runtime::control
