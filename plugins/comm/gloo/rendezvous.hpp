// How the members of a group find and authenticate each other.
//
// Each rank listens on one port and publishes its address in the group's store. The higher rank of
// a pair connects to the lower one, and both prove that they know a secret which only the group's
// store hands out (handshake.hpp); the engine's store serves only ranks that have proved to know
// the secret of the run. Whoever does not know it is dropped: strangers cost time, no attempt. The
// connected sockets are then given to Gloo (pairs.hpp), to which no stranger can speak.
//
// The first rank that fails tells the others through the store (connect_outcome.hpp), and all
// agree on the outcome.
#pragma once

#include <memory>
#include <plait/plugin.hpp>
#include <string>

#include "plugins/comm/gloo/peer_links.hpp"

namespace plait::comm_gloo {

// Connects to all other members; SIGPIPE must be blocked. Throws PLAIT_ERR_PEER naming the missing
// members, PLAIT_ERR_CONFIG of the interface, PLAIT_ERR_IO.
std::unique_ptr<PeerLinks> rendezvous(const comm_support::Members& members, const Host& host,
                                      const Store& store, const std::string& interface,
                                      double connect_timeout, double timeout);

}  // namespace plait::comm_gloo
