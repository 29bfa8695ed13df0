// plait/adapters.hpp - adapters merged into their model from C++20, over adapters.h.
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
inline void unmerge(Session& session) { host_detail::check(plait_session_unmerge(session.get())); }
// The models alone, as a checkpoint in that folder.
inline void save_model(Session& session, const std::string& path) {
  host_detail::check(plait_session_save_model(session.get(), path.c_str()));
}

}  // namespace embedding
}  // namespace plait
