// Through which backends a group exchanges.
#pragma once

#include <plait/comm.h>

#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/control.hpp"

namespace plait::runtime {

// One backend for all members; or, where that is nearer for some, a composition of those within hosts and one between them.
struct Choice {
  const plait_comm_item* whole;  // reaches all members
  const plait_comm_item* near =
      nullptr;       // reaches those of this rank's host, where there are others
  std::string name;  // of all backends in use, the same on all members
  bool composed() const { return name != whole->name; }
};

// The backend that topology.comm names; with "auto" the nearest. A group is composed unless that brings nothing: when no two
// members share a host, or nothing nearer than the network reaches those that do; nor is it for memory of a device. Errors:
// PLAIT_ERR_CONFIG when no backend reaches all members.
Choice choose(const plan::Plan& plan, const std::vector<Peer>& peers, const topology::Group& group,
              bool host_memory);

// Whether calls of the plan on that group go between pairs; the same on all members.
bool will_need_pairs(const plan::Plan& plan, topology::Axis axis, uint32_t channel);

}  // namespace plait::runtime
