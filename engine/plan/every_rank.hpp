// Plans every rank of a job: proves that their calls match and finish, and finds the rank that
// needs the most memory.
//   P pipeline, D data, T tensor: the grid
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/plan/job_calls.hpp"
#include "engine/plan/plan_builder.hpp"
#include "engine/plan/totals.hpp"
#include "engine/plan/verify_job.hpp"

namespace plait::plan {

// What is kept of a rank's plan; where the replicas are equal, of the plans of all ranks with its
// pipeline and tensor coordinate.
//
// Replicas are then planned once, because the data coordinate decides only where things begin: the
// first row of a batch that the replica reads (loader_config) and the first element of each bucket
// that it updates (Bucket::shard_begin). All replicas read equally many rows, as D divides the
// batch, and their shards are equally long, as buckets are padded to D equal parts. So the shapes
// are equal, and with them programs, kernels, calls and memory. Checkpoints are the exception: a
// replica writes its own share without the padding. The pipeline coordinate decides about layers,
// the tensor coordinate about shards that T does not divide evenly: each is planned.
struct PlannedRanks {
  topology::Coordinates at;  // the rank that was planned
  RankCalls calls;
  MemoryUse memory;  // of that rank
  Totals step;
  std::vector<uint64_t>
      checkpoint_copy;  // bytes of the host, of each replica; of one if they differ
};

struct JobPlan {
  std::unique_ptr<const Plan> first;  // of rank 0
  bool equal_replicas = true;
  std::vector<PlannedRanks> planned;  // by rank; with equal replicas, the ranks of data 0 (P * T)
  JobVerdict verdict;
  // What a rank of the grid was planned with.
  const PlannedRanks& of(const topology::Coordinates& at) const;
  // Of one rank.
  MemoryUse memory_of(const topology::Coordinates& at) const;
  // The rank with the largest arena at one pipeline coordinate; of equal ranks the one
  // with most host memory, then the first.
  topology::Coordinates fullest(int32_t pipeline) const;
};

// Plans of all ranks that the topology asks for; context.rank and context.world are not read.
// Defects of the experiment are added to `problems`; null when there are any. The verdict may have
// a fault. Errors: as make_plan().
std::unique_ptr<JobPlan> plan_every_rank(const config::Experiment& experiment,
                                         const PlanContext& context, config::Problems& problems);

// The ranks that the topology asks for, 1 along an axis that follows from them; 1 where that is no
// grid, which planning then says.
int32_t ranks_wanted(const config::TopologyConfig& t);

// The plan of one of `ranks` ranks. Plugins see the place of that rank. As make_plan().
std::unique_ptr<const Plan> plan_of_rank(const config::Experiment& experiment, PlanContext context,
                                         int32_t rank, int32_t ranks, config::Problems& problems);

// JSON for `plait plan --every-rank`. Errors: PLAIT_ERR_PEER when the calls of the ranks do not
// match or do not finish.
std::string describe(const JobPlan& job);

}  // namespace plait::plan
