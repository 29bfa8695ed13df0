// Learning-rate schedules of the parameter groups, opened from plugins.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::session {

class Schedules {
 public:
  explicit Schedules(const plan::Plan& plan);
  ~Schedules();
  Schedules(const Schedules&) = delete;
  Schedules& operator=(const Schedules&) = delete;
  // The factor of group g's base rate at a step, which counts from 1.
  double factor(size_t g, int64_t step) const;
  // What a run of so many steps can hardly want of group g's schedule: a rate that is 0 for a
  // quarter of them or more, or that rises until the end. "": nothing.
  std::string doubt(size_t g, int64_t steps) const;

 private:
  struct OpenSchedule {
    const plait_schedule_item* item = nullptr;
    void* state = nullptr;
    const plait_host* host = nullptr;
    std::string plugin = {};
  };
  void close() noexcept;
  std::vector<OpenSchedule> open_;
};

}  // namespace plait::session
