// Sequences that a generator draws, and how their tokens are shown: what answers to prompts and
// conversations have in common.
#pragma once

#include <cstdint>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <plait/generate.hpp>
#include <string>
#include <vector>

#include "bindings/cli/generate/placeholders.hpp"
#include "bindings/cli/generate/prompts.hpp"

namespace plait::cli {

struct Sequence {
  std::string prompt, text;
  std::vector<int32_t> ids;
  uint32_t finish = PLAIT_FINISH_NONE;
};

// The greatest numbers of tokens: of a sequence with its prompt, and after its prompt; 0: any.
struct SequenceLimits {
  int64_t length = 0, max_tokens = 0;
};

class Sequences {
 public:
  // All must outlive it. values: of the experiment, as Experiment::describe() tells them.
  Sequences(Context& context, const GenerateArguments& arguments, const Session& session,
            Generator& generator, const Json& values);

  // A prompt of an adapter, "": that of --adapter. Its ids are placeholders, where the adapter
  // wants some; they are valid until the next call.
  plait_prompt prompt_of(const std::string& adapter);
  // The same with ids behind the placeholders.
  plait_prompt prompt_of(const std::vector<int32_t>& ids);
  // Tells of placeholders that nobody asked for.
  void tell_placeholders() const;

  // How sequences ended: a signal came, or 0; the first error, or null.
  struct End {
    int signal = 0;
    std::exception_ptr failed;
  };
  // Until all sequences are finished. One whose token cannot be drawn does not end the others.
  End run_out();
  std::string end_of(const Sequence& s) const;

  Context& context;
  Terminal& terminal;
  const GenerateArguments& arguments;
  Generator& generator;
  const SequenceLimits limits;
  std::vector<Sequence> all;  // in the order in which the generator got them
  bool streams = false;       // one sequence, to a person, as it is drawn

 private:
  void on_token(const plait_token& t);

  const Session& session_;
  const Placeholders placeholders_;
  std::vector<int32_t> front_;  // of the prompt that is added
};

}  // namespace plait::cli
