#include "bindings/cli/data/stop_request.hpp"

namespace plait::cli {
namespace {

volatile sig_atomic_t stop_asked = 0;

void ask(int) { stop_asked = 1; }

}  // namespace

StopRequest::StopRequest() {
  stop_asked = 0;
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = ask;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(kStopSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kStopSignals[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &before_[i], nullptr);
}

bool StopRequest::asked() const { return stop_asked != 0; }

}  // namespace plait::cli
