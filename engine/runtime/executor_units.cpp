// The units of the executor: planning, capture, launch.
#include <algorithm>
#include <cstdio>

#include "engine/base/clock.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::runtime {

void Executor::plan_units() {
  for (const plan::EntryPoint& e : plan_->entry_points) entry_points_.push_back(group(e.launches));
  // Other programs are launched one by one; on a device that runs kernels at each launch, any
  // program may be.
  std::vector<bool> in_turns(programs_.size(), false);
  for (const plan::EntryPoint& e : plan_->entry_points)
    for (const plan::Launch& t : e.launches)
      if (t.program >= 0) in_turns[static_cast<size_t>(t.program)] = true;
  for (size_t i = 0; i < programs_.size(); ++i) {
    if (device_->records() && in_turns[i]) continue;
    LoadedProgram& p = programs_[i];
    for (size_t slot = 0; slot < p.units.size(); ++slot)
      p.units[slot] = static_cast<int32_t>(
          unit_of({{static_cast<int32_t>(i), p.program->first_slot + static_cast<int32_t>(slot)}}));
  }
}

// Launches that another entry point has as a group are not captured again inside a longer one.
std::vector<Executor::LaunchGroup> Executor::group(const std::vector<plan::Launch>& launch_list) {
  const size_t own = units_.size();
  const auto is_of_others = [&](const auto& launches) {
    const auto at = known_units_.find(launches);
    return at != known_units_.end() && at->second < own;
  };
  std::vector<LaunchGroup> groups;
  for (size_t i = 0; i < launch_list.size();) {
    std::vector<std::pair<int32_t, int32_t>> launches;
    const size_t first = i;
    do {
      if (launch_list[i].program >= 0)
        launches.emplace_back(launch_list[i].program, launch_list[i].slot);
      ++i;
    } while (device_->records() && i < launch_list.size() && launch_list[i].feed < 0 &&
             !is_of_others(launches));
    groups.push_back({&launch_list[first], unit_of(std::move(launches))});
  }
  return groups;
}

size_t Executor::unit_of(std::vector<std::pair<int32_t, int32_t>> launches) {
  const auto [at, fresh] = known_units_.try_emplace(launches, units_.size());
  if (!fresh) return at->second;
  Unit& unit = units_.emplace_back();
  for (const auto& [program, slot] : launches) {
    const std::string& name = plan_->programs[static_cast<size_t>(program)].name;
    unit.name += (unit.name.empty() ? "program " : ", ") + name;
  }
  unit.launches = std::move(launches);
  return at->second;
}

namespace {

// Checks that starts and ends of one collective alternate, each pair inside one graph.
struct Pairing {
  bool open = false, broken = false;
  size_t segment = 0;
  void see(bool starts, size_t at) {
    broken = broken || open == starts || (open && at != segment);
    open = starts;
    segment = at;
  }
};

}  // namespace

// The calls of a unit in order; `eager`: no graph may contain the call.
std::vector<Executor::Entry> Executor::entries_of(const Unit& unit) const {
  std::vector<Entry> all;
  for (const auto& [program, slot] : unit.launches) {
    const LoadedProgram& p = programs_[static_cast<size_t>(program)];
    for (const PreparedKernel& call : p.calls)
      all.push_back({&p, &call, static_cast<size_t>(slot - p.program->first_slot)});
  }
  if (!device_->records()) return all;
  for (Entry& e : all)
    e.eager = e.call->collective
                  ? device_->replays_calls() || !Communicators::can_be_recorded(*e.bound().kernel)
                  : works_on_host(*e.call->item);
  // A collective that starts and ends in different graphs is eager, too; that may split the pairs
  // of others.
  for (bool changed = true; changed;) {
    changed = false;
    std::map<const plait_kernel*, Pairing> pairs;
    size_t segment = 0;
    for (const Entry& e : all) {
      if (e.eager)
        ++segment;
      else if (e.call->collective)
        pairs[e.bound().kernel].see(e.call->starts, segment);
    }
    for (Entry& e : all) {
      if (e.eager || !e.call->collective) continue;
      const Pairing& pair = pairs.at(e.bound().kernel);
      if (!pair.broken && !pair.open) continue;
      e.eager = changed = true;
    }
  }
  return all;
}

void Executor::capture(Unit& unit) {
  const std::vector<Entry> entries = entries_of(unit);
  const Entry* const end = entries.data() + entries.size();
  for (const Entry* at = entries.data(); at != end;) {
    if (at->eager) {
      unit.steps.emplace_back().entry = *at++;
      continue;
    }
    const Entry* const stop = std::find_if(at, end, [](const Entry& e) { return e.eager; });
    record(unit.steps.emplace_back(), at, stop);
    at = stop;
  }
}

void Executor::record(Step& into, const Entry* begin, const Entry* end) {
  queue_->call("capture_begin", [&] { return device_->item().capture_begin(queue_->raw()); });
  for (const Entry* e = begin; e != end; ++e) {
    if (!device_->records() || !e->call->collective) {
      enqueue(*e);
      continue;
    }
    const plait_kernel& collective = *e->bound().kernel;
    if (e->call->starts) into.collectives.push_back(&collective);
    report(e->call->starts ? Communicators::record_start(collective, queue_->raw())
                           : Communicators::record_wait(collective, queue_->raw()),
           *e);
  }
  queue_->call("capture_end",
               [&] { return device_->item().capture_end(queue_->raw(), &into.graph); });
  if (!into.graph)
    fail(PLAIT_ERR_PLUGIN, "[plugin " + device_->plugin() + "] capture_end() of device '" +
                               device_->item().name + "' gave no graph; tell its author");
}

void Executor::launch_unit(const Unit& unit) {
  queue_->begin_launch(unit.name);
  for (const Step& step : unit.steps) {
    if (!step.graph) {
      run_eagerly(step.entry);
      continue;
    }
    for (const plait_kernel* collective : step.collectives) Communicators::launched(*collective);
    queue_->call("graph_launch",
                 [&] { return device_->item().graph_launch(step.graph, queue_->raw()); });
  }
  queue_->end_launch();
}

// A path of its own, so that the other one does not ask for each call whether it is measured.
void Executor::launch_timed(const Unit& unit) {
  queue_->sync();  // what was launched before counts for nobody
  queue_->begin_launch(unit.name);
  for (const auto& [program, slot] : unit.launches) {
    const LoadedProgram& p = programs_[static_cast<size_t>(program)];
    const auto k = static_cast<size_t>(slot - p.program->first_slot);
    for (size_t i = 0; i < p.calls.size(); ++i) {
      const uint64_t begin = monotonic_ns();
      run_eagerly({&p, &p.calls[i], k});
      if (device_->records()) queue_->sync();
      timed_->push_back({p.program, i, slot, begin, monotonic_ns()});
    }
  }
  queue_->end_launch();
}

void Executor::launch(int32_t program, int32_t slot) {
  if (program < 0) return;
  const LoadedProgram& p = programs_[static_cast<size_t>(program)];
  const auto k = static_cast<size_t>(slot - p.program->first_slot);
  if (p.units[k] >= 0) return launch_unit(units_[static_cast<size_t>(p.units[k])]);
  queue_->begin_launch(p.program->name);
  for (const PreparedKernel& call : p.calls) run_eagerly({&p, &call, k});
  queue_->end_launch();
}

void Executor::enqueue(const Entry& entry) {
  const SlotKernel& bound = entry.bound();
  report(try_plugin({device_->plugin(), "enqueue", "device", device_->item().name},
                    [&] {
                      return device_->item().enqueue(
                          queue_->raw(), entry.call->item, bound.kernel, bound.operands.data(),
                          static_cast<uint32_t>(bound.operands.size()), entry.call->workspace);
                    }),
         entry);
}

// On a device that records, the queue must be empty before the host takes part.
void Executor::run_eagerly(const Entry& entry) {
  if (device_->records()) {
    const bool host = entry.call->collective ? Communicators::on_host(*entry.bound().kernel)
                                             : works_on_host(*entry.call->item);
    if (host) queue_->sync();
  }
  enqueue(entry);
}

void Executor::report(plait_error* e, const Entry& entry) const {
  if (!e) return;
  const auto index = static_cast<size_t>(entry.call - entry.program->calls.data());
  const plan::Program& program = *entry.program->program;
  const auto& op = program.graph->ops()[static_cast<size_t>(program.calls[index].op)];
  queue_->check(e, "enqueue", "running " + op.name + " of " + op.scope);
}

void Executor::settle() noexcept {
  wait_until_idle();
  const plait_device_item& device = device_->item();
  for (Unit& unit : units_)
    for (Step& step : unit.steps)
      if (step.graph && !device_->keeps(step.graph))
        call_plugin_noexcept(device_->host(), {"", "graph_close", "device", device.name},
                             [&] { device.graph_close(step.graph); });
  units_.clear();
  if (queue_) queue_->forget_names();
}

void Executor::wait_until_idle() noexcept {
  constexpr double kPatience = 0.2, kLong = 10;
  if (!queue_ || settled_ || !device_->records() || device_->given_up()) return;
  settled_ = true;
  queue_->watch({});  // the groups close next
  if (queue_->idle_within(kPatience)) return;
  // Work that waits for other ranks ends soon after an abort; other work may take its time.
  double seconds = queue_->timeout();
  if (communicators_) {
    try {
      communicators_->abort("this rank has closed its session");
    } catch (const std::bad_alloc&) {
      communicators_->abort({});
    }
    seconds = std::min(kLong, seconds);
  }
  if (queue_->idle_within(seconds)) return;
  device_->give_up({});
  char text[256];
  const int size = std::snprintf(
      text, sizeof text,
      "[runtime] device '%s' still works %.3g seconds after its session was closed; its memory is "
      "kept until the process ends; look at the device",
      device_->item().name, seconds);
  device_->host()->log(device_->host(), PLAIT_LOG_ERROR, text,
                       std::min(static_cast<size_t>(std::max(size, 0)), sizeof text - 1));
}

size_t Executor::graphs() const {
  size_t n = 0;
  for (const Unit& unit : units_)
    n += static_cast<size_t>(
        std::count_if(unit.steps.begin(), unit.steps.end(), [](const Step& s) { return s.graph; }));
  return n;
}

}  // namespace plait::runtime
