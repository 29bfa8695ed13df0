// The mesh of a plan: the axes of the grid along which programs are sharded, as a table. The data
// and pipeline axes are not among them: replicas divide the batch before a program is traced, and
// stages are programs of their own.
#pragma once

#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/program/shard.hpp"

namespace plait::plan {

struct MeshRow {
  program::MeshAxis axis;
  topology::Axis group = topology::Axis::kTensor;  // whose members run its collectives
  // How a parameter lies along the axis.
  program::Placement (*placement)(const Parameter&) = nullptr;
};
using Mesh = std::vector<MeshRow>;

// Rows with more than one rank.
Mesh mesh_of(const Plan& plan);
program::Placements placements_of(const Mesh& mesh, const Parameter& parameter);

}  // namespace plait::plan
