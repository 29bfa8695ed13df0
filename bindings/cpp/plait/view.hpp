// plait/view.hpp - memory of a session's device from C++20, over view.h.
//
//   plait::TensorView w = plait::view_of(session, "model.fc.weight", {.stream = stream});
//   ...                                      (work on the stream reads w.tensor())
//   plait::wait_stream(session, stream);     (the session's next step comes behind it)
#pragma once

#include <plait/view.h>
#include <plait/plait.hpp>

#include <string>

namespace plait {
inline namespace embedding {

// See plait_view_options.
struct ViewRequest {
  uint32_t kind = PLAIT_VIEW_PARAMETER;
  bool read_only = false;
  plait_dl_device device{};  // type 0: wherever it lies
  void* stream = nullptr;    // that will read it; nullptr: the call waits
};

// A DLPack tensor in memory of the session's device, which it keeps. It may outlive the session.
using TensorView = ParameterView;

inline TensorView view_of(const Session& session, const std::string& name,
                          const ViewRequest& request = {}) {
  plait_view_options o{};
  o.struct_size = sizeof o;
  o.kind = request.kind;
  o.flags = request.read_only ? PLAIT_DL_READ_ONLY : 0;
  o.device = request.device;
  o.stream = request.stream;
  plait_dl_managed* managed = nullptr;
  host_detail::check(plait_session_view_of(session.get(), name.c_str(), &o, &managed));
  return TensorView(managed);
}

// Later work of the session waits for what is on the stream now.
inline void wait_stream(Session& session, void* stream) {
  host_detail::check(plait_session_wait_stream(session.get(), stream));
}

}  // namespace embedding
}  // namespace plait
