// Authenticated connections between the members of a group.
//
// Any process may connect to the port of a rank. Both sides of a connection therefore prove that
// they know the group's secret, each by an HMAC over the nonces of both; whoever does not is
// dropped, and no byte of it reaches Gloo.
//
//   higher rank (connects)                     lower rank (accepts)
//   magic, rank, nonce (32)           ->
//                                     <-       nonce (32), proof (32)
//   proof (32)                        ->
//                                     <-       1 byte: admitted
#pragma once

#include <string>
#include <vector>

#include "plugins/comm/gloo/sockets.hpp"
#include "plugins/comm/members.hpp"

namespace plait::comm_gloo {

struct Connections {
  std::vector<Fd> sockets;  // (R), non-blocking; the entry of this rank is empty
  std::string missing;      // the members that did not connect in time, and why; "": none
  uint64_t dropped;         // connections of others, or that failed, to this rank
  std::string last_drop;    // why the last of them was dropped
};

// Connects to all other members; tries again until `deadline`. `listener`: of this rank, by
// listen_on(). `addresses`: (R), where the members listen. `stop`: a descriptor that becomes
// readable when the connections are no longer wanted: PLAIT_ERR_PEER. Throws PLAIT_ERR_IO, too.
Connections connect_members(const comm_support::Members& members, const std::string& secret,
                            int listener, const std::vector<std::string>& addresses, int stop,
                            Clock::time_point deadline);

}  // namespace plait::comm_gloo
