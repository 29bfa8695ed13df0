// Saving and loading: global tensors by name, independent of the layout that wrote them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/store.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/plan/layout.hpp"
#include "engine/session/background_saver.hpp"
#include "engine/session/base_weights.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"

namespace plait::session {

// Owner thread only; every rank makes the same calls in the same order.
class CheckpointIo {
 public:
  CheckpointIo(SessionContext& context, StepRunner& steps, BaseWeights& bases)
      : c_(context),
        bases_(bases),
        steps_(steps),
        background_collectives_(context.ranks.collectives("background")) {}

  // path "": into the run directory. Returns the checkpoint's path.
  std::string save(const std::string& path);
  // Parameters of the models alone, without adapters and states, as a run of `experiment` (TOML)
  // would save them. Returns the checkpoint's path.
  std::string save_model(const std::string& folder, const std::string& experiment);
  // The same of the parameters of one adapter, beside the weights that model.load names.
  std::string save_adapter(const std::string& folder, const config::ModelConfig& model,
                           const std::string& adapter, const std::string& experiment);
  // Saves into the run directory between two steps; take_saved() tells how that ended. In the
  // background a thread writes a copy, which this call makes, while steps go on.
  void save_between(bool in_background);
  // Allocates that copy, so that there is memory for it before the first step.
  void reserve_copy();
  // Waits for the save in the background, and throws the error that ended it.
  void wait_for_save();
  bool background_save_ended() const { return saver_.ended(); }
  std::optional<SavedCheckpoint> take_saved() { return saver_.take(); }
  // Waits likewise before the session closes; errors are logged.
  void close() noexcept;

  // Returns whether it held every parameter: none was left to model.load.
  bool load(const std::string& path);
  bool load_parameters(const std::string& path);  // only parameters and their step
  // Takes over a checkpoint that is open. Part of a call that all ranks make.
  void restore(const checkpoint::Checkpoint& c);
  // The same of a new run that begins there. position: with the step, the counts that belong to it
  // and the place in the data; otherwise these are as before the first step.
  void begin_from(const checkpoint::Checkpoint& c, bool position);

 private:
  // whole: with the bases of this run, and beside the states of its optimizer
  checkpoint::RunState run_state(bool whole = true);
  using Chosen = std::function<bool(const plan::CheckpointBlock&)>;
  SavedCheckpoint write_in_place(const WriterOf& writer, const checkpoint::RunState& state,
                                 const Chosen& chosen);
  // write_checkpoint(), and a line of the log about it. Any thread, one at a time.
  SavedCheckpoint write_part(ControlCollectives& collectives, const WriterOf& writer,
                             const checkpoint::RunState& state,
                             std::span<const checkpoint::SaveTensor> tensors);
  std::string save_part(const std::string& folder, const checkpoint::RunState& state,
                        const Chosen& chosen);
  void take(const checkpoint::Checkpoint& c, bool position);
  bool load_all(const std::string& path);
  bool load_only_parameters(const std::string& path);
  std::unique_ptr<checkpoint::Checkpoint> open_on_all_ranks(const std::string& path);
  struct LoadedBlock {
    plan::LocalBlock block;
    std::vector<char> bytes;
    const plan::Parameter* parameter;  // NULL of a state
  };
  std::vector<LoadedBlock> read_blocks(const checkpoint::Checkpoint& c, bool parameters_only);
  void note_written(const std::vector<LoadedBlock>& blocks);
  void write_blocks(const std::vector<LoadedBlock>& blocks);

  SessionContext& c_;
  BaseWeights& bases_;
  StepRunner& steps_;
  ControlCollectives background_collectives_;  // of the thread of saver_
  std::unique_ptr<char[]> save_buffer_;        // the copy that it writes
  BackgroundSaver saver_;                      // last: it must end before the others
};

}  // namespace plait::session
