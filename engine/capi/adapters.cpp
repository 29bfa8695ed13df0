// adapters.h.
#include <plait/adapters.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/capi/objects.hpp"
#include "engine/config/bind.hpp"

using namespace plait;
using namespace plait::capi;

namespace {

// The experiment of the models alone, whose checkpoint is complete: it needs no base.
config::Experiment without_adapters(const plan::Plan& plan) {
  config::Experiment e = plan.experiment;
  for (auto& [path, keys] : e.sections)
    if (path == "checkpoint") keys.set_text("save", "all", keys.origin("save"));
  for (config::ModelConfig& model : e.models) {
    model.adapters.clear();
    model.keys.set_text("load", "", model.keys.origin("load"));
    for (const char* key : {"load_names", "load_missing", "load_unexpected"})
      model.keys.set_texts(key, {}, model.keys.origin(key));
    if (!model.optimizer) continue;
    std::vector<std::string> names;
    for (const plan::Parameter& p : plan.parameters)
      if (p.model == model.name && p.adapter.empty()) names.push_back(p.name);
    const auto fits_none = [&](const std::string& pattern) {
      return std::none_of(names.begin(), names.end(),
                          [&](const std::string& name) { return glob_match(pattern, name); });
    };
    std::erase_if(model.optimizer->groups, [&](const config::GroupConfig& group) {
      return std::any_of(group.match.begin(), group.match.end(), fits_none);
    });
  }
  return e;
}

}  // namespace

extern "C" {

plait_error* plait_session_merge(plait_session* session, uint32_t flags) {
  return guard_c([&] {
    require(session, "session");
    if (flags & ~PLAIT_MERGE_FINAL)
      fail_invalid(strf(
          "[capi] plait_session_merge: flags is %u, expected 0 or PLAIT_MERGE_FINAL (1)", flags));
    const ApiCall call(*session, "plait_session_merge", "session");
    session->session->merge((flags & PLAIT_MERGE_FINAL) == 0);
  });
}

plait_error* plait_session_unmerge(plait_session* session) {
  return guard_c([&] {
    require(session, "session");
    const ApiCall call(*session, "plait_session_unmerge", "session");
    session->session->unmerge();
  });
}

plait_error* plait_session_save_model(plait_session* session, const char* path) {
  return guard_c([&] {
    require(session, "session");
    const ApiCall call(*session, "plait_session_save_model", "session");
    const plan::Plan& plan = session->session->plan();
    session->session->save_model(text_argument(path, PLAIT_NTS, "path"),
                                 config::bind(without_adapters(plan), *plan.registry, true));
  });
}

}  // extern "C"
