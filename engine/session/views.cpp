#include "engine/session/views.hpp"

#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/shape.hpp"
#include "engine/session/evaluator.hpp"

namespace plait::session {
namespace {

struct Place {
  plan::BufferRef at;
  plait_shape shape{};
};

Place parameter(const SessionContext& c, const Parameters& parameters, const std::string& name) {
  const plan::Parameter& p = parameters.find(name);
  if (!plan::is_fully_local(c.plan, p))
    fail(PLAIT_ERR_UNIMPLEMENTED, "[session] parameter '" + name +
                                      "' lies in parts on several ranks, so there is no view of "
                                      "it; read() puts it together");
  if (p.is_split())
    fail(PLAIT_ERR_UNIMPLEMENTED, "[session] parameter '" + name +
                                      "' lies as two halves of 16 bits (precision.split_master), "
                                      "so there is no view of its f32; read() and write() copy it");
  if (p.is_quantized())
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[session] parameter '" + name + "' lies as numbers of " + p.format +
             " (precision.frozen), so there is no view of its floats; read() and write() copy it");
  return {p.value, p.shape};
}

// Results of the last step by their names.
std::vector<std::pair<std::string, Place>> results_of(const plan::Plan& plan) {
  const plait_shape scalar = program::make_shape(plan.results.dtype, {});
  std::vector<std::pair<std::string, Place>> all;
  const auto add = [&](const std::string& name, plan::BufferRef at, const plait_shape& shape) {
    all.push_back({name, {at, shape}});
  };
  for (const plan::Model& m : plan.models) {
    if (!m.trained) continue;  // no step computes its loss
    add(m.name + ".loss", m.loss, scalar);
    add(m.name + ".grad_norm", m.norm, scalar);
    for (const plan::GradientNorm& norm : m.norms)
      if (!norm.adapter.empty()) add(m.name + ".grad_norm." + norm.adapter, norm.norm, scalar);
  }
  for (const plan::Metric& m : plan.train_metrics)
    add(m.name, m.state, program::make_shape(plan.results.dtype, {m.n_state()}));
  return all;
}

Place result(const plan::Plan& plan, const std::string& name) {
  std::vector<std::string> names;
  for (auto& [known, place] : results_of(plan)) {
    if (known == name) return place;
    names.push_back(std::move(known));
  }
  fail_not_found("[session] a step has no result '" + name + "'" +
                 did_you_mean(nearest(name, names)) + "; there are: " + join(names));
}

Place find(const SessionContext& c, const Parameters& parameters, const std::string& name,
           uint32_t kind) {
  if (kind == PLAIT_VIEW_PARAMETER) return parameter(c, parameters, name);
  if (kind == PLAIT_VIEW_RESULT) return result(c.plan, name);
  if (kind != PLAIT_VIEW_OUTPUT)
    fail_invalid(
        strf("[session] a view of kind %u is not known; expected PLAIT_VIEW_PARAMETER (0), "
             "PLAIT_VIEW_OUTPUT (1) or PLAIT_VIEW_RESULT (2)",
             kind));
  const plan::Output& output = output_of(c.plan, name);
  return {output.buffer, output.shape};
}

// Where the memory of the session is: on its device, and where the host sees that, in host memory
// as well. Errors: if the host cannot use it where it wants.
plait_dl_device place_of(const runtime::Device& device, const std::string& name,
                         const plait_dl_device& wanted) {
  constexpr int32_t kHost = 1;  // of DLPack
  const plait_dl_device own = device.dl_device();
  if (wanted.type == kHost && wanted.id == 0 && device.host_visible()) return wanted;
  if (own.type == 0)
    fail(PLAIT_ERR_UNIMPLEMENTED, std::string("[session] device '") + device.item().name +
                                      "' does not say where its memory is in DLPack's terms, so "
                                      "there is no view of '" +
                                      name + "'; read() copies parameters");
  if (wanted.type == 0 || (wanted.type == own.type && wanted.id == own.id)) return own;
  fail(PLAIT_ERR_UNIMPLEMENTED,
       "[session] '" + name + "' lies in memory of " + runtime::text_of(own) +
           ", and a view of it was asked for in " + runtime::text_of(wanted) +
           "; plait_session_view_of() shows it where it is, read() and predict() copy it");
}

}  // namespace

View view_of(SessionContext& c, StepRunner& steps, const Parameters& parameters,
             const std::string& name, const ViewRequest& request) {
  const Place place = find(c, parameters, name, request.kind);
  const runtime::Device& device = c.executor.device();
  View view;
  view.device = place_of(device, name, request.device);
  if (request.waits) {
    steps.drain();
    if (request.stream)
      c.executor.queue().order(PLAIT_STREAM_AFTER_QUEUE, request.stream);
    else
      c.executor.sync();
  }
  view.data = c.executor.address(place.at);
  view.shape = place.shape;
  view.read_only = request.read_only || request.kind != PLAIT_VIEW_PARAMETER;
  view.arena = c.executor.arena();
  if (view.read_only) return view;
  c.state.modified();
  view.share = c.share_parameters();
  return view;
}

}  // namespace plait::session
