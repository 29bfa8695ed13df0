#include "engine/session/adapters.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/block_access.hpp"

namespace plait::session {

void Adapters::start(const std::function<bool(const plan::AdapterPrograms::Start&)>& wanted) {
  for (const plan::AdapterPrograms::Start& s : c_.plan.adapters.starts) {
    const plan::EntryPoint* entry = c_.plan.find_entry_point(s.entry_point);
    if (!entry || !wanted(s)) continue;
    c_.parameters_changed();
    for (const auto& group : c_.executor.launches(*entry)) c_.executor.launch(group);
  }
  c_.executor.sync();
}

const Adapters::Merge* Adapters::find_merge(const std::string& model,
                                            const std::string& adapter) const {
  const std::vector<Merge>& all = c_.plan.adapters.merges;
  const auto at = std::find_if(all.begin(), all.end(), [&](const Merge& one) {
    return one.model == model && one.adapter == adapter;
  });
  return at != all.end() ? &*at : nullptr;
}

void Adapters::check_can_merge(const Merge* merge) const {
  if (!merge)
    fail_config(
        "[session] merge: the experiment has no adapters; expected [[model.adapters]] to merge");
  if (!merge->refused.empty()) fail_config("[session] merge: " + merge->refused);
  check_not_kept("merge");
}

void Adapters::check_not_kept(const char* call) const {
  if (merged_)
    fail(PLAIT_ERR_STATE,
         std::string("[session] ") + call +
             ": the adapters are merged, and a copy of what they changed is kept; call "
             "plait_session_unmerge() first, or merge with PLAIT_MERGE_FINAL, which keeps none");
}

void Adapters::check_base(const char* call) const {
  if (changed_base_ || kept_changed_base_)
    fail(PLAIT_ERR_STATE,
         std::string("[session] ") + call +
             ": a merge has changed frozen weights, which checkpoints of this run leave out "
             "(checkpoint.save = \"trained\", or precision.frozen); write the model with "
             "plait_session_save_model(), and open a session of it");
}

void Adapters::check_beside_base(const char* call, const config::ModelConfig& model) const {
  for (const plan::Parameter& p : c_.plan.parameters)
    if (p.model == model.name && p.adapter.empty() && !p.frozen && model.trains(p.name))
      fail_config(std::string("[session] ") + call + ": '" + p.name + "' is trained beside it (" +
                  model.path +
                  ".train), and the checkpoint of an adapter does not hold it; save all with "
                  "plait_session_save()");
  if (const std::string name = bases_.changed(model); !name.empty())
    fail(PLAIT_ERR_STATE,
         std::string("[session] ") + call + ": '" + name +
             "' was given other values since the session began, so that " + model.path +
             ".load does not name the weights that adapters lie beside; write the model with "
             "plait_session_save_model(), and open a session of it, or save all with "
             "plait_session_save()");
  check_not_kept(call);
  if (merged_finally_)
    fail(PLAIT_ERR_STATE, std::string("[session] ") + call +
                              ": a merge has changed the weights that adapters lie beside; write "
                              "the model with plait_session_save_model(), and open a session of "
                              "it");
}

void Adapters::drop() {
  if (!merged_ || changed_base_) return check_base("load");
  c_.on_all_ranks("unmerging adapters", [&] {
    put_back();
    forget();
  });
}

// Whether a merge gives this adapter initial values. Where samples choose, the others belong to
// weights that are then no more.
bool Adapters::starts_anew(const Merge& merge, const std::string& model,
                           const std::string& adapter) const {
  if (adapter.empty()) return false;
  if (merge.adapter.empty()) return true;
  return merge.model == model &&
         (merge.adapter == adapter || !c_.plan.experiment.model(model)->adapter_field.empty());
}

void Adapters::keep(const Merge& merge) try {
  kept_.clear();
  for (size_t i = 0; i < c_.plan.parameters.size(); ++i) {
    const plan::Parameter& p = c_.plan.parameters[i];
    if (!starts_anew(merge, p.model, p.adapter) &&
        std::find(merge.changed.begin(), merge.changed.end(), i) == merge.changed.end())
      continue;
    for (const plan::LocalBlock& held : plan::stored_blocks(c_.plan, p)) {
      const int64_t n = topology::elements(held.box);
      const uint64_t bytes = program::bytes_of(n, held.dtype);
      kept_.emplace_back(held, with_memory("session", "keep a copy of the parameter", p.name, bytes,
                                           [&] { return std::vector<char>(bytes); }));
      read_block(c_.executor, held, 0, n, kept_.back().second.data());
    }
  }
} catch (...) {
  kept_.clear();
  throw;
}

void Adapters::put_back() {
  for (const auto& [block, bytes] : kept_)
    write_block(c_.executor, block, 0, topology::elements(block.box), bytes.data());
  c_.executor.sync();
}

void Adapters::merge(bool kept) { merge(find_merge("", ""), kept); }

// The only adapter is merged as all are.
void Adapters::merge(const config::ModelConfig& model, const std::string& adapter, bool kept) {
  const Merge* own = find_merge(model.name, adapter);
  merge(own ? own : find_merge("", ""), kept);
}

void Adapters::merge(const Merge* chosen, bool kept) {
  check_can_merge(chosen);
  const Merge& what = *chosen;
  steps_.drain();
  if (kept)
    c_.on_all_ranks("keeping a copy for unmerge", [&] {
      c_.executor.sync();
      keep(what);
    });
  c_.on_all_ranks("merging adapters", [&] {
    for (const size_t i : what.changed) bases_.remember(c_.executor, c_.plan.parameters[i]);
    c_.state.modified();
    c_.parameters_changed();
    if (const plan::EntryPoint* entry = c_.plan.find_entry_point(what.entry_point))
      for (const auto& group : c_.executor.launches(*entry)) c_.executor.launch(group);
    c_.executor.sync();
    for (const plan::Parameter& p : c_.plan.parameters)
      if (starts_anew(what, p.model, p.adapter)) parameters_.draw(p);
    start([&](const plan::AdapterPrograms::Start& s) {
      return starts_anew(what, s.model, s.adapter);
    });
    merged_ = kept;
    merged_finally_ = merged_finally_ || !kept;
    bool& changed = kept ? kept_changed_base_ : changed_base_;
    for (const size_t i : what.changed) {
      changed = changed || !plan::is_saved(c_.plan, c_.plan.parameters[i]);
      if (!kept) bases_.merged(c_.plan.parameters[i]);
    }
  });
}

// Returns why that failed on a rank, or ""; failed: the error of this one. Nothing is written
// unless all ranks have read their parts.
std::string Adapters::replace(const config::ModelConfig& model, const std::string& adapter,
                              const MakeSource& make, std::exception_ptr& failed) {
  std::vector<AdapterFiles::Block> blocks;
  std::string told;
  try {
    const AdapterSource source = make();
    blocks = AdapterFiles(c_, bases_, source).read(model, adapter);
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error& e) {
    told = e.text();
    failed = std::current_exception();
  }
  for (const std::string& one : c_.ranks.all_gather(told))
    if (!one.empty()) return one;
  c_.state.modified();
  c_.parameters_changed();
  for (const auto& [block, bytes] : blocks)
    write_block(c_.executor, block, 0, topology::elements(block.box), bytes.data());
  c_.executor.sync();
  for (const plan::Parameter& p : c_.plan.parameters)
    if (p.model == model.name && p.adapter == adapter) parameters_.reset_states(p);
  steps_.forget_updates(model.name, adapter);
  return {};
}

void Adapters::load(const config::ModelConfig& model, const std::string& adapter,
                    const MakeSource& make) {
  check_not_kept("load an adapter");
  steps_.drain();
  std::exception_ptr failed;
  const std::string why =
      c_.on_all_ranks("loading an adapter", [&] { return replace(model, adapter, make, failed); });
  if (failed) std::rethrow_exception(failed);
  if (!why.empty()) fail_collective(PLAIT_ERR_PEER, "[session] on another rank: " + why);
}

void Adapters::reset(const config::ModelConfig& model, const std::string& adapter) {
  check_not_kept("reset an adapter");
  steps_.drain();
  c_.on_all_ranks("resetting an adapter", [&] {
    c_.state.modified();
    c_.parameters_changed();
    for (const plan::Parameter& p : c_.plan.parameters)
      if (p.model == model.name && p.adapter == adapter) {
        parameters_.draw(p);
        parameters_.reset_states(p);
      }
    steps_.forget_updates(model.name, adapter);
    c_.executor.sync();
    start([&](const plan::AdapterPrograms::Start& s) {
      return s.model == model.name && s.adapter == adapter;
    });
  });
}

void Adapters::unmerge() {
  if (!merged_)
    fail(PLAIT_ERR_STATE,
         "[session] unmerge: no merge is kept; merge without PLAIT_MERGE_FINAL keeps what it "
         "changes, until a checkpoint is loaded");
  steps_.drain();
  c_.on_all_ranks("unmerging adapters", [&] {
    c_.state.modified();
    c_.parameters_changed();
    put_back();
    forget();
  });
}

}  // namespace plait::session
