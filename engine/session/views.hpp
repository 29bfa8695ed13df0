// What a host may look at where it lies: parameters, outputs, results of the last step.
#pragma once

#include <plait/tensor.h>
#include <plait/view.h>

#include <memory>
#include <string>

#include "engine/runtime/device.hpp"
#include "engine/session/parameters.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"

namespace plait::session {

struct ViewRequest {
  uint32_t kind = PLAIT_VIEW_PARAMETER;
  bool read_only = false;
  plait_dl_device device{};  // where the host can use it; type 0: wherever it is
  void* stream = nullptr;    // that reads it; nullptr: the call waits, unless it must not
  bool waits = true;
};

// Valid as long as `arena` is held.
struct View {
  void* data = nullptr;
  plait_shape shape{};
  plait_dl_device device{};
  bool read_only = false;
  std::shared_ptr<runtime::Arena> arena;
  std::shared_ptr<void> share;  // of a parameter that may be written: see share_parameters()
};

// Errors: as plait_session_view_of().
View view_of(SessionContext& c, StepRunner& steps, const Parameters& parameters,
             const std::string& name, const ViewRequest& request);

}  // namespace plait::session
