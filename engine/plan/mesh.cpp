#include "engine/plan/mesh.hpp"

namespace plait::plan {
namespace {

program::Placement along_tensor(const Parameter& p) {
  return p.sharded ? program::shard_along(p.shard_dim) : program::kReplicated;
}

}  // namespace

Mesh mesh_of(const Plan& plan) {
  const Mesh table = {
      {{"tensor", plan.grid.tensor(), plan.at.tensor, plan.experiment.topology.sequence},
       topology::Axis::kTensor,
       along_tensor}};
  Mesh mesh;
  for (const MeshRow& row : table)
    if (row.axis.ranks > 1) mesh.push_back(row);
  return mesh;
}

program::Placements placements_of(const Mesh& mesh, const Parameter& parameter) {
  program::Placements all;
  for (const MeshRow& row : mesh) all.push_back(row.placement(parameter));
  return all;
}

}  // namespace plait::plan
