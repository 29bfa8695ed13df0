// How the members of a group find and authenticate each other.
//
// Gloo listens on one port per pair and takes the first connection for the peer. Neither an address
// nor a port proves that a peer is a member. The proof is an HMAC-SHA256 over the attempt and the
// numbers of both ranks, keyed with a secret that only the group's store hands out; the engine's
// store serves only ranks that have proved to know the secret of the run. Both ends of every
// connection send their proof as the first message; before both proofs are verified, no data of a
// call is sent over the connection and no received data is used.
//
// A stranger that connects first makes the attempt fail, and all ranks try again on other ports
// until connect_timeout has passed. Strangers cannot be prevented from connecting, so attempts are
// cheap: a rank opens its ports only when all members are present, and the first rank that cannot
// connect ends the attempt on all ranks through the store (connect_outcome.hpp). All ranks start an
// attempt together, as soon as each has published its ports, and so agree on its number.
#pragma once

#include <memory>
#include <plait/plugin.hpp>
#include <string>

#include "plugins/comm/gloo/peer_links.hpp"

namespace plait::comm_gloo {

// Connects to all other members; SIGPIPE must be blocked. Throws PLAIT_ERR_PEER naming the missing
// members.
std::unique_ptr<PeerLinks> rendezvous(const comm_support::Members& members, const Host& host,
                                      const Store& store, const std::string& interface,
                                      double connect_timeout, double timeout);

}  // namespace plait::comm_gloo
