// Which process of a job plugins work for: the host extension "plait.job/1".
#pragma once

#include <cstdint>

namespace plait::plugin {

struct JobPlace {
  uint32_t rank = 0, world = 1;
  uint32_t local_rank = 0, local_size = 1;  // among the processes of this machine
};

// While it lives, calls into plugins from this thread see this place. The innermost counts.
class JobScope {
 public:
  explicit JobScope(const JobPlace& place);
  ~JobScope();
  JobScope(const JobScope&) = delete;
  JobScope& operator=(const JobScope&) = delete;
  static const JobPlace* current();  // of the calling thread; nullptr outside

 private:
  const JobPlace place_;
  const JobPlace* const outer_;
};

}  // namespace plait::plugin
