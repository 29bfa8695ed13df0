// Generation of tokens with a KV cache: what a plan decides, and its two entry points.
//   N slots, S tokens of a slot, B sequences of a launch, t tokens of each, V vocabulary
#pragma once

#include <plait/dataset.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/config/problem.hpp"
#include "engine/plan/entry_point.hpp"

namespace plait::plan {

struct PlanDraft;
struct EntryPointSource;
class Tracer;

inline constexpr const char* kPrefill = "prefill";  // tokens of a prompt, of one slot
inline constexpr const char* kDecode = "decode";    // one token of each slot

// Where the host writes what a launch is fed: one block of words of 32 bits, i32 but where it says
// otherwise, the parts in this order.
struct GenerationInputs {
  int64_t samples = 0, tokens = 0;  // B, t
  BufferRef ids;                    // (B, t)
  BufferRef at;                     // (B, t): the place in the sequence; -1: no token
  BufferRef positions;              // (B, t): `at`, 0 where that is -1
  BufferRef slot;                   // (B)
  BufferRef lengths;                // (B): the tokens of the sequence, its whole prompt included
  BufferRef adapter;                // (B): the number of its adapter; -1: none. Unset without
                                    // model.adapter_field
  BufferRef settings;               // (B, 3) f32, and
  BufferRef numbers;                // (B, 8): of draw_tokens; unset where it is not in the program
  uint64_t bytes = 0;               // from `ids` on
};

// A parameter whose rows products read as numbers of 8 bits: see quantized_weights.hpp.
struct QuantizedWeight {
  size_t parameter = 0;                         // of the plan
  plait_shape shape{};                          // of what this rank has of it, (n, k)
  plait_shape numbers_shape{}, scales_shape{};  // (n, k) u8, (n, ceil(k/32)) f32
  BufferRef numbers, scales;
};

struct Generation {
  std::string model;
  int64_t slots = 0;       // N; 0: the plan generates nothing
  int64_t length = 0;      // S
  int64_t vocabulary = 0;  // V
  GenerationInputs prefill, decode;
  BufferRef logits;  // (N, V) f32, of the last decode
  // The ids (N) i32 that decode has drawn, and behind them their log-probabilities (N) f32: see the
  // op draw_tokens. Unset where the device has no kernel for it: then the host draws.
  BufferRef drawn, drawn_log_probabilities;
  bool draws() const { return drawn.segment >= 0; }
  std::vector<BufferRef> caches;    // in the order of the programs; each (N, S, heads, channels)
  std::vector<IndexRange> ids;      // what the layers that read token ids accept
  std::set<int64_t> length_limits;  // a sequence that gets longer than one is cached anew
  // Whether what is cached of a sequence is the same for both lengths.
  bool same_cache(int64_t length, int64_t other) const {
    return length_limits.lower_bound(length) == length_limits.lower_bound(other);
  }
  std::vector<QuantizedWeight> quantized;  // in the order of the programs
  int32_t quantized_segment = -1;          // -1: none is
};

// The data fields of models that generate: as training has them, but S numbers of a sample where
// there is one for each token.
struct GenerationFields {
  std::vector<std::string> names;  // of those with a number for each token
  std::vector<plait_field> fields;
};
inline constexpr const char* kPositionsField = "positions";  // places of the tokens

// Reads [generate] into the draft, before its models are traced. Errors are problems of the file.
void choose_generation(PlanDraft& plan, config::Problems& problems);
// Traces the models for B samples. problems: see Tracer.
std::shared_ptr<const Tracer> trace_generation(PlanDraft& plan, int64_t samples,
                                               config::Problems* problems);

// The field that the models read as token ids. Throws PLAIT_ERR_CONFIG if they read none.
std::string tokens_field(const PlanDraft& plan, const Tracer& tracer);

// One chunk of the prompt of one slot: fills the caches. Nothing is computed that these do not
// need.
EntryPoint write_prefill(const EntryPointSource& from);
// The next token of each slot: logits, and a token that is drawn. Behind write_prefill().
EntryPoint write_decode(const EntryPointSource& from);

}  // namespace plait::plan
