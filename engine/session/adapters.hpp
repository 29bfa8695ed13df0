// The adapters of a session: initial values that depend on weights, their changes merged into the
// model and taken back, and single ones exchanged.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/layout.hpp"
#include "engine/session/adapter_files.hpp"
#include "engine/session/base_weights.hpp"
#include "engine/session/parameters.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"

namespace plait::session {

// Owner thread only; every rank makes the same calls in the same order.
class Adapters {
 public:
  Adapters(SessionContext& context, StepRunner& steps, Parameters& parameters, BaseWeights& bases)
      : c_(context), steps_(steps), parameters_(parameters), bases_(bases) {}

  // Launches start() of the adapters for which `wanted` says so. Part of a call of all ranks.
  void start(const std::function<bool(const plan::AdapterPrograms::Start&)>& wanted);

  // Writes the changes of all adapters into the model; the adapters start anew. keep: unmerge() can
  // take it back. Errors: PLAIT_ERR_CONFIG without adapters, or with one that cannot be merged;
  // PLAIT_ERR_STATE while a merge is kept; PLAIT_ERR_MEMORY for the copy, which is made first.
  void merge(bool keep);
  // Those of one. Where samples choose, all adapters of the model start anew.
  void merge(const config::ModelConfig& model, const std::string& adapter, bool keep);
  // Every byte is what it was before the merge. Errors: PLAIT_ERR_STATE where none is kept.
  void unmerge();

  // See plait_session_load_adapter() and plait_session_reset_adapter().
  // make: reads a format's folder, which may fail on one rank only, as any file.
  void load(const config::ModelConfig& model, const std::string& adapter, const MakeSource& make);
  void reset(const config::ModelConfig& model, const std::string& adapter);

  // Before `call`, which changes what unmerge() would put back. Errors: PLAIT_ERR_STATE while a
  // merge is kept.
  void check_not_kept(const char* call) const;
  // Before `call`, which saves, or loads parameters beside weights of the model: checkpoints of
  // this run may leave out what a merge has changed. Errors: PLAIT_ERR_STATE where they do.
  void check_base(const char* call) const;
  // Before `call`, which writes an adapter beside the weights that model.load names. Errors:
  // PLAIT_ERR_STATE where a merge has changed them, PLAIT_ERR_CONFIG where some are trained.
  void check_beside_base(const char* call, const config::ModelConfig& model) const;
  // Before parameters are loaded, maybe not all: what a kept merge has changed is put back.
  void drop();
  // Every parameter of the model was loaded.
  void loaded_all() { merged_finally_ = false; }

 private:
  using Merge = plan::AdapterPrograms::Merge;
  const Merge* find_merge(const std::string& model, const std::string& adapter) const;
  void merge(const Merge* merge, bool keep);
  void check_can_merge(const Merge* merge) const;
  std::string replace(const config::ModelConfig& model, const std::string& adapter,
                      const MakeSource& make, std::exception_ptr& failed);
  bool starts_anew(const Merge& merge, const std::string& model, const std::string& adapter) const;
  void keep(const Merge& merge);
  void put_back();

  SessionContext& c_;
  StepRunner& steps_;
  Parameters& parameters_;
  BaseWeights& bases_;
  void forget() { kept_.clear(), merged_ = kept_changed_base_ = false; }

  bool merged_ = false;  // and kept
  bool merged_finally_ = false;
  // Parameters are merged that no checkpoint holds: for good, and by the merge that is kept.
  bool changed_base_ = false, kept_changed_base_ = false;
  std::vector<std::pair<plan::LocalBlock, std::vector<char>>> kept_;
};

}  // namespace plait::session
