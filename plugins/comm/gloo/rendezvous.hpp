// How the members of a group find and recognise each other.
//
// Gloo listens on a port per pair and takes whoever comes first for the peer. What proves that a peer is one of ours is no address
// and no port, but HMAC-SHA256 over the attempt and both ranks' numbers, with a secret that only the group's store hands out: the
// engine's store serves only who has proven to know the secret of the run. Both ends of every connection send theirs as the first
// message; until both are right, no call's data goes over it, and none that came is used.
//
// A stranger who came first costs one attempt, and all ranks try again on other ports until connect_timeout is over. He cannot be
// kept from coming, so attempts are cheap: ports are opened only once all members are there, and the first rank that cannot
// connect ends the attempt for all through the store (connect_outcome.hpp). Ranks begin each attempt together, as soon as all have
// published their ports for it, and so agree on its number.
#pragma once

#include <memory>
#include <plait/plugin.hpp>
#include <string>

#include "plugins/comm/gloo/peer_links.hpp"

namespace plait::comm_gloo {

// Connects to all other members; SIGPIPE must be blocked. Errors: PLAIT_ERR_PEER naming who is missing.
std::unique_ptr<PeerLinks> rendezvous(const comm_support::Members& members, const Host& host,
                                      const Store& store, const std::string& interface,
                                      double connect_timeout, double timeout);

}  // namespace plait::comm_gloo
