// plait/adapters.hpp - adapters from C++20, over adapters.h: merged into their model, and exchanged
// one by one, in a session and in checkpoints.
//
//   plait::merge(session);    // the model alone computes what both did
//   plait::unmerge(session);  // every byte is what it was
#pragma once

#include <plait/adapters.h>
#include <plait/plait.hpp>

#include <string>

namespace plait {
inline namespace embedding {

// flags: 0 or PLAIT_MERGE_FINAL.
inline void merge(Session& session, uint32_t flags = 0) {
  host_detail::check(plait_session_merge(session.get(), flags));
}
// One of them. model: "": the only one with adapters.
inline void merge_adapter(Session& session, const std::string& name, uint32_t flags = 0,
                          const std::string& model = "") {
  host_detail::check(plait_session_merge_adapter(
      session.get(), model.empty() ? nullptr : model.c_str(), name.c_str(), flags));
}
inline void unmerge(Session& session) { host_detail::check(plait_session_unmerge(session.get())); }
// The models alone, as a checkpoint in that folder.
inline void save_model(Session& session, const std::string& path) {
  host_detail::check(plait_session_save_model(session.get(), path.c_str()));
}

// JSON: see plait_session_adapters().
inline std::string adapters(const Session& session) {
  return host_detail::text_of(
      [&](plait_text** t) { return plait_session_adapters(session.get(), t); });
}
// model: "": the only one with adapters.
inline void load_adapter(Session& session, const std::string& name, const std::string& path,
                         const std::string& from = "", const std::string& format = "",
                         const std::string& model = "") {
  plait_adapter_source source{};
  source.struct_size = sizeof source;
  source.path = path.c_str();
  source.from = from.empty() ? nullptr : from.c_str();
  source.format = format.empty() ? nullptr : format.c_str();
  host_detail::check(plait_session_load_adapter(
      session.get(), model.empty() ? nullptr : model.c_str(), name.c_str(), &source));
}
inline void reset_adapter(Session& session, const std::string& name,
                          const std::string& model = "") {
  host_detail::check(plait_session_reset_adapter(
      session.get(), model.empty() ? nullptr : model.c_str(), name.c_str()));
}
inline void save_adapter(Session& session, const std::string& name, const std::string& path,
                         const std::string& model = "") {
  host_detail::check(plait_session_save_adapter(
      session.get(), model.empty() ? nullptr : model.c_str(), name.c_str(), path.c_str()));
}

// JSON: see plait_checkpoint_adapters().
inline std::string checkpoint_adapters(const Engine& engine, const std::string& place) {
  return host_detail::text_of(
      [&](plait_text** t) { return plait_checkpoint_adapters(engine.get(), place.c_str(), t); });
}
// JSON: see plait_checkpoint_add_adapter().
inline std::string add_adapter(const Engine& engine, const std::string& checkpoint,
                               const std::string& name, const std::string& other,
                               const std::string& out, const std::string& model = "") {
  return host_detail::text_of([&](plait_text** t) {
    return plait_checkpoint_add_adapter(engine.get(), checkpoint.c_str(),
                                        model.empty() ? nullptr : model.c_str(), name.c_str(),
                                        other.c_str(), out.c_str(), t);
  });
}
inline std::string remove_adapter(const Engine& engine, const std::string& checkpoint,
                                  const std::string& name, const std::string& out,
                                  const std::string& model = "") {
  return host_detail::text_of([&](plait_text** t) {
    return plait_checkpoint_remove_adapter(engine.get(), checkpoint.c_str(),
                                           model.empty() ? nullptr : model.c_str(), name.c_str(),
                                           out.c_str(), t);
  });
}

}  // namespace embedding
}  // namespace plait
