// Entry points: what a session can run of a plan. Each is a row of Plan::entry_points with a name,
// the samples that it is fed and the programs that it launches. Memory, verification, reports and
// captured graphs follow from the table.
//   B samples of a micro-batch
#pragma once

#include <plait/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::plan {

using program::BufferRef;

// The integers [least, end) of a field that an op accepts: others make its result NaN.
struct IndexRange {
  int64_t least = 0, end = 0;
  bool labels = false;  // targets of a loss; no output of a model depends on them
  std::string reader;   // scope of the op: "model.cross_entropy"
  std::string maker;    // layer with `end` rows or classes: "model.linear3"
  std::string allowed;  // what they are, where they are no rows of a layer: "-1 for none, ..."
};

// A data field that a program reads: (B, sample shape).
struct Field {
  uint32_t index = 0;       // among the dataset's fields without the weight field
  uint32_t feed_index = 0;  // among the fields of EntryPoint::feed
  std::string name;
  plait_shape shape{};
  BufferRef buffer;
  uint64_t sample_bytes = 0;
  std::vector<IndexRange> index_ranges = {};  // only in EntryPoint::feed
};

// The inputs of the programs that run one micro-batch of a dataset.
struct Feed {
  int64_t batch = 0;  // B of one rank
  std::vector<Field> fields;
  BufferRef weight;   // (B) of data::kWeightType
  BufferRef counter;  // i64 (2): step, first sample of the micro-batch
};

// One launch of a program.
struct Launch {
  int32_t program = -1;  // index into Plan::programs
  int32_t slot = 0;
  int32_t feed = -1;  // of EntryPoint::stage_feeds, written before the launch; -1: nothing
  int64_t micro = 0;  // micro-batch of the step; -1: before the first, accumulation: after the last
  bool operator==(const Launch&) const = default;
};

// Which calls of a rank to its groups may be under way behind the last launch.
enum class OpenCalls : uint8_t {
  kNone,      // no call of any entry point
  kOthers,    // messages of entry points that ran before; all that it started has ended
  kMessages,  // messages that it sent: what reuses their memory waits for them
};

struct EntryPoint {
  std::string name;  // "train_step"
  std::string call;  // in messages: "a step", "a batch of an evaluation"
  Feed feed;         // all fields that its programs read; B 0: it is fed no samples
  // By stage of this rank, the fields that it reads; then those that count_weights reads.
  std::vector<Feed> stage_feeds = {};
  std::vector<Launch> launches = {};  // in order
  OpenCalls leaves = OpenCalls::kOthers;

  // Its programs, each once, in the order of their first launches.
  std::vector<int32_t> programs() const;
};

// The entry points of every plan.
inline constexpr const char* kTrainStep = "train_step";
inline constexpr const char* kEvaluate = "evaluate";  // one batch
inline constexpr const char* kPredict = "predict";    // one batch, whose outputs all ranks receive
// The end of an evaluation; only with several ranks.
inline constexpr const char* kReduceMetrics = "reduce_metrics";
// Behind any change of parameters but an update; only with low copies of them (low_copies.hpp).
inline constexpr const char* kRefreshLow = "refresh_low";
// Figures of tensors behind a step; only with statistics.every.
inline constexpr const char* kStatistics = "statistics";
// Behind any change of parameters, before tokens; only with weights of 8 bits
// (quantized_weights.hpp).
inline constexpr const char* kQuantize = "quantize";
// On demand; only with adapters (adapter_programs.hpp).
inline constexpr const char* kMergeAdapters = "merge_adapters";  // of one: "merge_MODEL.ADAPTER"

}  // namespace plait::plan
