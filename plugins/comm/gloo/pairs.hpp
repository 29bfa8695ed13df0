// Gloo's pairs over sockets that are connected already.
//
// Gloo would accept connections on a thread of its own and let exceptions leave it: a process that
// connects to a rank's port and resets the connection at once would end the rank. Gloo therefore
// never sees a connection that is not authenticated (handshake.hpp).
#pragma once

#include <gloo/transport/context.h>

#include <memory>
#include <vector>

#include "plugins/comm/gloo/sockets.hpp"

namespace plait::comm_gloo {

// A context of rank `rank` whose pair with rank r uses sockets[r]; (R), the entry of `rank` is
// empty. Gloo's thread starts here and inherits the signal mask and the scheduling class. Throws
// PLAIT_ERR_IO and Gloo's exceptions.
std::shared_ptr<::gloo::transport::Context> pairs_over(const std::vector<Fd>& sockets, int rank);

}  // namespace plait::comm_gloo
