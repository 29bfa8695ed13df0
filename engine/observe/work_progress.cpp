#include "engine/observe/work_progress.hpp"

namespace plait::observe {

WorkProgress::WorkProgress(ProgressConfig config, Progress::Sink sink, std::string what,
                           const char* parts, int64_t all, double after_s)
    : config_(config),
      sink_(std::move(sink)),
      what_(std::move(what)),
      parts_(parts),
      all_(all),
      began_(config.clock()),
      due_(began_ + (config.terminal ? static_cast<uint64_t>(after_s * 1e9) : config.every_ns())) {}

WorkProgress::WorkProgress(ProgressConfig config, std::string what, const char* parts, int64_t all)
    : WorkProgress(config, stderr_sink(), std::move(what), parts, all) {}

WorkProgress::~WorkProgress() {
  if (shown_) sink_(kEraseLine);
}

void WorkProgress::update(int64_t done) {
  if (!config_.enabled) return;
  const uint64_t now = config_.clock();
  if (now < due_) return;
  due_ = now + config_.every_ns();
  const WorkState state{done, all_, static_cast<double>(now - began_) * 1e-9};
  LineText line;
  if (config_.terminal) {
    line.add(kEraseLine);
    add_work_line(line, what_, parts_, state, config_.style_now());
    shown_ = true;
  } else {
    add_plain_work_line(line, what_, parts_, state);
    line.add("\n");
  }
  sink_(line.text());
}

}  // namespace plait::observe
