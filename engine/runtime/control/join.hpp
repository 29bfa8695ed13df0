// How a rank finds rank 0 and both prove to each other that they belong to one job.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/runtime/control/connection.hpp"
#include "engine/runtime/control/rendezvous.hpp"

namespace plait::runtime::control {

struct JoinedServer {
  std::unique_ptr<Connection> connection;
  double server_timeout = 0;  // after how many seconds of silence rank 0 takes a rank for lost
  std::string where;          // "10.0.0.1:29400"
};

// Tries again and again until the deadline. own: what rank 0 knows already of itself. Errors: PLAIT_ERR_PEER when rank 0 does not
// come, with what was tried; PLAIT_ERR_CONFIG or PLAIT_ERR_PEER with rank 0's reason when it refuses this rank; PLAIT_ERR_IO for a
// rendezvous file that is not safe. [blocks: yes]
JoinedServer join(const Job& job, const Rendezvous& rendezvous, const std::optional<JoinInfo>& own,
                  Time deadline);

}  // namespace plait::runtime::control
