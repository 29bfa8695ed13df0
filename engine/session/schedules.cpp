#include "engine/session/schedules.hpp"

#include "engine/base/c_error.hpp"
#include "engine/base/plugin_call.hpp"

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
      check_plugin(
          try_plugin({o.plugin, "open", "schedule", item.name}, call), o.plugin,
          "opening schedule '" + g.schedule->type + "' (" + g.schedule->origin.text() + ")");
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
  return call_plugin({o.plugin, "factor", "schedule", o.item->name},
                     [&] { return o.item->factor(o.state, step); });
}

void Schedules::close() noexcept {
  for (OpenSchedule& o : open_)
    if (o.item)
      call_plugin_noexcept(o.host, {"", "close", "schedule", o.item->name},
                           [&] { o.item->close(o.state); });
  open_.clear();
}

}  // namespace plait::session
