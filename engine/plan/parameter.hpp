// The parameters of a plan, and the groups in whose flat memory they lie.
//   N elements of a flat group
#pragma once

#include <plait/tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.hpp"
#include "engine/plan/storage.hpp"
#include "engine/program/graph.hpp"
#include "engine/topology/box.hpp"

namespace plait::plan {

using program::BufferRef;

// An optimizer's state of one parameter, which it updates as a whole (PLAIT_SCOPE_TENSOR).
struct TensorState {
  std::string name;
  double initial = 0;
  plait_shape shape{};     // global
  int32_t shard_dim = -1;  // each tensor rank holds a shard along this dimension; -1: replicated
  BufferRef at;            // unset on ranks that do not update the parameter
};

// One logical parameter, identified by its name in all plans and checkpoints.
struct Parameter {
  std::string name;  // "model.linear1.weight"
  std::string model;
  std::string adapter;  // the name of the model's adapter that it belongs to, or ""
  plait_shape shape{};
  uint32_t init = 0;
  double init_a = 0, init_b = 0;
  int32_t shard_dim = -1;
  int64_t shard_unit = 1;  // indices along shard_dim that stay together
  bool frozen = false;
  uint32_t flags = 0;    // PLAIT_PARAMETER_*
  uint32_t scope = 0;    // PLAIT_SCOPE_* of its optimizer's rule
  int32_t setting = -1;  // index of the group in its optimizer; -1: the default
  std::vector<int32_t>
      holders;                  // pipeline ranks that hold it, ascending; more than one: it is tied
  int32_t chunk = 0;            // first stage of this rank that reads it
  int32_t group = -1;           // index into Plan::groups, -1: frozen
  int32_t frozen_group = -1;    // index into Plan::frozen_groups, -1: trained, or not divided
  topology::Box box;            // the block of the global tensor on this rank
  bool sharded = false;         // each tensor rank holds a shard along `shard_dim`
  int64_t stored_elements = 0;  // elements in memory, including padding behind the box
  int32_t bucket = 0;           // its bucket in the group
  int64_t flat_offset = 0;      // of its first element in the group, in elements
  BufferRef value, gradient;    // unset if ZeRO leaves no full tensor on this rank
  BufferRef squares;            // Σ g², where the forward_backward program leaves it
  bool read_low = false;        // a program casts it to Precision::low
  BufferRef low;                // its copy in that type; unset: there is none
  BufferRef rest;               // the bits that the copy lacks; unset: it lies whole, at `value`
  // Format of op `quantize`: in place of all of these it has numbers and scales, see
  // frozen_numbers.hpp. "": it lies as floats.
  std::string format;
  BufferRef numbers, scales;
  std::vector<TensorState> states;  // of PLAIT_SCOPE_TENSOR; else its group has them
  bool is_split() const { return rest.segment >= 0; }  // see halves.hpp
  bool is_quantized() const { return !format.empty(); }
  bool held_by(int32_t pipeline) const {
    return std::find(holders.begin(), holders.end(), pipeline) != holders.end();
  }
};

// An optimizer's state tensor of a group: one flat segment.
struct OptimizerState {
  std::string name;
  double initial = 0;
  FlatBuffer values;
};

// A range of a group's flat memory whose gradients the replicas reduce in one collective. With ZeRO
// it is also the unit of sharding: each replica updates its own shard. Starts and ends between
// parameters. All figures count elements.
struct Bucket {
  int64_t begin = 0, elements = 0;              // of the group; padding included
  int64_t shard_begin = 0, shard_elements = 0;  // this rank's shard; the whole bucket without ZeRO
  int64_t state_begin = 0;                      // of this rank's shard, in the state segments
  int32_t gradient_collective = -1;             // collective of its gradients; -1: none
  int32_t chunk = 0;                            // stage of this rank with the last gradient
  // The replica that updates the bucket's one parameter as a whole: its shard is the bucket, those
  // of the others are empty. -1: the bucket is sharded evenly, or ZeRO is off.
  int32_t owner = -1;
};

// Parameters with the same optimizer settings, one after another; parameters and gradients have the
// same offsets.
struct ParameterGroup {
  std::string name;           // "model.default", "model.groups[0]"
  bool sharded = false;       // its parameters are sharded over the tensor ranks; the others of the
                              // same settings form a second group
  uint32_t scope = 0;         // PLAIT_SCOPE_* of all its parameters
  std::vector<int32_t> tied;  // pipeline ranks that all hold these parameters; empty: not tied
  int32_t model = 0;
  int32_t setting = -1;  // as of its parameters
  std::string adapter;   // whose these parameters are where samples choose their adapter; or ""
  size_t norm = 0;       // of its gradients: index into Model::norms
  double learning_rate = 0, weight_decay = 0;
  std::optional<config::ItemConfig> schedule;  // none: constant
  int64_t elements = 0;                        // N, padding included
  int64_t shard_elements = 0;                  // with states on this rank: the sum over buckets
  std::vector<Bucket> buckets;
  bool read_low = false;  // so are all its parameters
  bool rounds = false;    // all are weights of 16 bits, which updates round
  // States of the shape of their parameter are kept in 16 bits: see round_weights.hpp.
  bool low_states = false;
  FlatBuffer parameters, gradients;
  FlatBuffer low;  // (N) copies of the parameters in Precision::low; may not exist
  // (2 N) bytes that the copies lack, in place of `parameters`: see halves.hpp. May not exist.
  FlatBuffer rest;
  bool is_split() const { return rest.exists(); }
  std::vector<OptimizerState> states;
  BufferRef learning_rate_at, schedule_factor_at;  // in Plan::scalars, written before each step
};

}  // namespace plait::plan
