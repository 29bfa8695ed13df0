#include "engine/session/schedules.hpp"

#include <cmath>
#include <limits>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"

namespace plait::session {

Schedules::Schedules(const plan::Plan& plan) {
  try {
    for (const plan::ParameterGroup& g : plan.groups) {
      OpenSchedule& o = open_.emplace_back();
      if (!g.schedule) continue;
      const plait_schedule_item& item = plan.registry->schedule(g.schedule->type);
      o.host = plan.registry->host_of(&item);
      o.plugin = plan.registry->plugin_of(&item);
      const auto call = [&] {
        return item.open(o.host, &g.schedule->options, plan.total_steps, &o.state);
      };
      check_plugin({o.plugin, "open", "schedule", item.name},
                   "opening the schedule of " + g.schedule->origin.text(), call);
      o.item = &item;
    }
  } catch (...) {
    close();
    throw;
  }
}

Schedules::~Schedules() { close(); }

double Schedules::factor(size_t g, int64_t step) const {
  const OpenSchedule& o = open_[g];
  if (!o.item) return 1.0;
  const PluginCall at{o.plugin, "factor", "schedule", o.item->name};
  const double factor = call_plugin(at, [&] { return o.item->factor(o.state, step); });
  // Such a rate would destroy every parameter in one step that itself looks finite.
  if (!std::isfinite(factor) || std::abs(factor) > std::numeric_limits<float>::max())
    fail(PLAIT_ERR_PLUGIN,
         "[plugin " + std::string(o.plugin) + "] " +
             strf("factor() of step %lld is ", static_cast<long long>(step)) +
             real_text(factor, "%g") + " in schedule '" + o.item->name +
             "', expected a finite number; no step was made with it; tell its author");
  return factor;
}

std::string Schedules::doubt(size_t g, int64_t steps) const {
  constexpr int64_t kFewSteps = 8;
  if (!open_[g].item || steps < kFewSteps) return "";
  int64_t ends = steps - steps / 4;  // from here on it is 0
  if (factor(g, ends) == 0 && factor(g, steps) == 0) {
    for (int64_t low = 0; ends - low > 1;) {
      const int64_t middle = low + (ends - low) / 2;
      (factor(g, middle) == 0 ? ends : low) = middle;
    }
    return strf("is 0 from step %lld of %lld on: nothing is learned there",
                static_cast<long long>(ends), static_cast<long long>(steps));
  }
  if (factor(g, steps) <= factor(g, steps - 1) || factor(g, steps) >= 1) return "";
  return strf("still rises at the last step, %lld: the run ends before its warm-up",
              static_cast<long long>(steps));
}

void Schedules::close() noexcept {
  for (OpenSchedule& o : open_)
    if (o.item)
      call_plugin_noexcept(o.host, {"", "close", "schedule", o.item->name},
                           [&] { o.item->close(o.state); });
  open_.clear();
}

}  // namespace plait::session
