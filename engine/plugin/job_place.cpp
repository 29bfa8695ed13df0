#include "engine/plugin/job_place.hpp"

namespace plait::plugin {
namespace {
thread_local const JobPlace* innermost = nullptr;
}

JobScope::JobScope(const JobPlace& place) : place_(place), outer_(innermost) {
  innermost = &place_;
}

JobScope::~JobScope() { innermost = outer_; }

const JobPlace* JobScope::current() { return innermost; }

}  // namespace plait::plugin
