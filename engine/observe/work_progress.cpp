#include "engine/observe/work_progress.hpp"

#include "engine/base/clock.hpp"

namespace plait::observe {
namespace {

constexpr char kEraseLine[] = "\r\x1b[K";

uint64_t nanoseconds(double seconds) { return static_cast<uint64_t>(seconds * 1e9); }

}  // namespace

WorkProgress::WorkProgress(ProgressConfig config, Progress::Sink sink, std::string what,
                           const char* parts, int64_t all, double after_s)
    : config_(config),
      sink_(std::move(sink)),
      what_(std::move(what)),
      parts_(parts),
      all_(all),
      began_(monotonic_ns()),
      due_(began_ + nanoseconds(config.terminal ? after_s : config.plain_every_s)) {}

WorkProgress::WorkProgress(ProgressConfig config, std::string what, const char* parts, int64_t all)
    : WorkProgress(config, stderr_sink(), std::move(what), parts, all) {}

WorkProgress::~WorkProgress() {
  if (shown_) sink_(kEraseLine);
}

void WorkProgress::update(int64_t done) {
  if (!config_.enabled) return;
  const uint64_t now = monotonic_ns();
  if (now < due_) return;
  due_ = now + nanoseconds(config_.terminal ? config_.terminal_every_s : config_.plain_every_s);
  const WorkState state{done, all_, static_cast<double>(now - began_) * 1e-9};
  if (!config_.terminal) return sink_(plain_work_line(what_, parts_, state) + "\n");
  const int columns = config_.measure ? config_.measure() : config_.columns;
  sink_(kEraseLine + work_line(what_, parts_, state, columns, config_.utf8));
  shown_ = true;
}

}  // namespace plait::observe
