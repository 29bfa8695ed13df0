// A graph over the engine's own ops, for tests of the graph and of passes.
#pragma once

#include "engine/base/files.hpp"
#include "engine/program/op_registry.hpp"

namespace plait::program {

struct GraphFixture {
  Log log;
  plugin::Registry registry{log, FileSystem::posix(), {}};
  OpRegistry ops{registry};
  Graph g{&ops};

  ValueId in(Dims dims, uint32_t dtype = PLAIT_F32) {
    return g.persistent("x", make_shape(dtype, dims), {0, 0});
  }
};

}  // namespace plait::program
