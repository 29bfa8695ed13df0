// The weights that checkpoints of a run leave out, and are loaded beside: what model.load names
// (checkpoint.save = "trained", precision.frozen = "int8" or "nf4").
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/plan.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::session {

// Owner thread only. Ranks but 0 only tell it what was written, and compare their blocks.
class BaseWeights {
 public:
  BaseWeights(const plan::Plan& plan, FileSystem& files, Log& log)
      : plan_(plan), files_(files), log_(log) {}

  // Whether checkpoints of this run name weights of the model.
  bool names(const config::ModelConfig& model) const;
  // The session reads them from here. hash: of what it reads, and not of what may be there later.
  void read(const config::ModelConfig& model, const std::string& path, const Hash128& hash) {
    read_[model.name] = {path, hash};
  }
  // Before a parameter gets another value, on all ranks: keeps hashes of what model.load gave it
  // here, by which the same is known when it is loaded again.
  void remember(runtime::Executor& executor, const plan::Parameter& p);
  // Whether these bytes of the block are what model.load gave.
  bool is_original(runtime::Executor& executor, const plan::Parameter& p,
                   const plan::LocalBlock& block, std::span<const char> bytes) const;
  // A parameter has got another value, from the host or from a checkpoint. Told on all ranks.
  void written(const plan::Parameter& p);
  // A merge for good has changed it: no file has what it is now, until model.load is read again.
  void merged(const plan::Parameter& p) {
    if (holds(p)) changed_[p.model].insert(p.name);
  }
  // It has the values of model.load again, on all ranks.
  void restored(const plan::Parameter& p) {
    changed_[p.model].erase(p.name);
    written_.erase(p.name);
    told_.erase(p.name);
  }
  // Whether model.load gave the parameter the values that it then keeps.
  bool holds(const plan::Parameter& p) const;
  // One of these that was written, so that no file has the weights; "": there is none.
  std::string changed(const config::ModelConfig& model) const;
  // What checkpoints leave out, and where it is: empty if they hold all parameters. Warns, once for
  // each parameter, of those that were written and are then in neither.
  std::vector<checkpoint::BaseRecord> records();
  // The same of a checkpoint that holds one adapter alone: the frozen weights of its model.
  std::vector<checkpoint::BaseRecord> beside_adapter(const config::ModelConfig& model);
  // Errors: PLAIT_ERR_CONFIG where model.load does not name the weights that the checkpoint needs.
  void check(const checkpoint::Checkpoint& c);

 private:
  struct Read {
    std::string path;
    Hash128 hash;
  };
  checkpoint::BaseRecord record(const config::ModelConfig& model,
                                const std::function<bool(const plan::Parameter&)>& left_out);
  const Read& known(const config::ModelConfig& model);
  void warn_of_written();

  const plan::Plan& plan_;
  FileSystem& files_;
  Log& log_;
  std::map<std::string, Read> read_;                      // by model
  std::set<std::string> written_, told_;                  // parameters
  std::map<std::string, std::set<std::string>> changed_;  // by model, parameters of model.load
  // By parameter: the blocks of this rank as model.load gave them.
  std::map<std::string, std::vector<std::pair<topology::Box, Hash128>>> original_;
};

// Whether a checkpoint leaves a parameter to the weights of model.load.
bool in_base(const checkpoint::RunState& state, const std::string& parameter);

}  // namespace plait::session
