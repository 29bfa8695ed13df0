// Gloo's writes raise SIGPIPE when the peer has died. The host must not see the signal: it is
// blocked while a thread is inside Gloo, and a pending one is consumed before the old mask is
// restored, whatever the host does with signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <ctime>

namespace plait::comm_gloo {

class SigpipeBlock {
 public:
  // kAll blocks every signal, for threads started meanwhile: they inherit the mask and leave
  // signals to the host's threads.
  enum class What { kSigpipe, kAll };
  explicit SigpipeBlock(What what = What::kSigpipe) {
    sigset_t pending;
    sigpending(&pending);
    had_one_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, what == What::kAll ? &all : &set_, &old_);
  }
  ~SigpipeBlock() {
    const timespec now{};
    if (!had_one_)
      while (sigtimedwait(&set_, nullptr, &now) == SIGPIPE) {
      }
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  sigset_t set_, old_;
  bool had_one_;
};

}  // namespace plait::comm_gloo
