// A system that gives no more threads.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <stdexcept>

namespace plait::test {

// While it exists, a thread that this process starts without attributes of its own fails with
// EAGAIN: no address space has room for its stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_init(&less_);
    pthread_getattr_default_np(&before_);
    if (pthread_attr_setstacksize(&less_, size_t{1} << 50) != 0 ||
        pthread_setattr_default_np(&less_) != 0)
      throw std::runtime_error("the size of stacks cannot be changed");
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
    pthread_attr_destroy(&less_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{}, less_{};
};

}  // namespace plait::test
