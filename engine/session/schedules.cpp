#include "engine/session/schedules.hpp"

#include "engine/base/c_error.hpp"

namespace plait::session {

Schedules::Schedules(const plan::Plan& plan) {
  try {
    for (const plan::Group& g : plan.groups) {
      open_.push_back({});
      if (!g.schedule) continue;
      const plait_schedule_item& item = plan.registry->schedule(g.schedule->type);
      check_plugin(
          item.open(plan.registry->host_of(&item), &g.schedule->options, plan.total_steps,
                    &open_.back().state),
          plan.registry->plugin_of(&item),
          "opening schedule '" + g.schedule->type + "' (" + g.schedule->origin.text() + ")");
      open_.back().item = &item;
    }
  } catch (...) {
    close();
    throw;
  }
}

Schedules::~Schedules() { close(); }

void Schedules::close() noexcept {
  for (Open& o : open_)
    if (o.item) o.item->close(o.state);
  open_.clear();
}

}  // namespace plait::session
