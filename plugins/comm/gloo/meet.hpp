// How the members of a group find and recognise each other.
//
// Gloo listens on a port per pair and takes whoever comes first for the peer. So ports are opened only once all members are there,
// both ends of a connection prove that they know the group's secret before it counts, and where a stranger came first everybody
// tries again on other ports.
#pragma once

#include <memory>
#include <plait/plugin.hpp>
#include <string>

#include "plugins/comm/gloo/wire.hpp"

namespace plait::comm_gloo {

// Connects to all other members; SIGPIPE must be blocked. Errors: PLAIT_ERR_PEER naming who is missing.
std::unique_ptr<Wire> meet(const comm_support::Members& members, const Store& store,
                           const std::string& interface, double connect_timeout, double timeout);

}  // namespace plait::comm_gloo
