// The collectives and messages of a plan's programs.
#pragma once

#include <cstdint>
#include <string>

#include "engine/topology/grid.hpp"

namespace plait::plan {

// One collective, or one message between two ranks, at one point of a program.
struct Collective {
  std::string name;  // "gradients of model.default, bucket 2"
  topology::Axis axis = topology::Axis::kData;
  uint32_t kind = 0, reduction = 0, dtype = 0;  // as plait/comm.h
  uint64_t n = 0;                               // elements, as plait/comm.h counts them
  uint32_t peer = 0;                            // position in the group, for kinds that have one
  uint32_t channel = 0;      // messages of two channels do not wait for each other
  bool slotted = false;      // each slot has a call of its own
  bool own_replica = false;  // for what one replica updates; others have other collectives here
  bool operator==(const Collective&) const = default;
};

// One line, equal for equal collectives.
std::string text(const Collective& collective);

// "all_reduce": of PLAIT_COMM_*.
const char* kind_name(uint32_t kind);

// A message between two members of a group; the other kinds take part of all members.
bool is_message(const Collective& collective);

// Whether the runtime may put off the start of a collective until its result is needed, on all
// members of a group alike; the backend of the group decides whether it does. On one machine
// communication of host memory would compete with compute for the same cores, and ranks that run a
// large collective together find each other's chunks in the caches. In a pipeline a rank must not
// delay its neighbours, so all collectives start at once.
bool may_be_deferred(const topology::Grid& grid, const Collective& collective);

}  // namespace plait::plan
