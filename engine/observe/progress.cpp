#include "engine/observe/progress.hpp"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace plait::observe {

namespace {

int columns_of_stderr() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Of the environment's locale, without setlocale(): the process is the host's.
bool locale_is_utf8() {
  const locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr);
  const bool is = locale && std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
  if (locale) freelocale(locale);
  return is;
}

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;  // the terminal is gone; not worth an error
    text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

ProgressConfig progress_config_for_stderr() {
  ProgressConfig config;
  config.terminal = isatty(STDERR_FILENO) == 1;
  const char* term = std::getenv("TERM");
  if (term && std::strcmp(term, "dumb") == 0) config.terminal = false;
  const char* no_color = std::getenv("NO_COLOR");
  config.style.color = config.terminal && (!no_color || !*no_color);
  config.style.utf8 = locale_is_utf8();
  if (config.terminal) config.measure = columns_of_stderr;
  return config;
}

uint64_t ProgressConfig::every_ns() const {
  return static_cast<uint64_t>((terminal ? terminal_every_s : plain_every_s) * 1e9);
}

TerminalStyle ProgressConfig::style_now() const {
  TerminalStyle now = style;
  if (measure) now.columns = measure();
  return now;
}

std::function<void(std::string_view)> stderr_sink() { return write_to_stderr; }

Progress::Progress(ProgressConfig config, Sink sink) : config_(config), sink_(std::move(sink)) {}
Progress::Progress(ProgressConfig config) : Progress(config, write_to_stderr) {}
Progress::~Progress() { finish(); }

// Each loss counts 2 % less than the one after it: an average of about 50 steps.
void Progress::average(double loss) {
  constexpr double kKeep = 0.98;
  if (!std::isfinite(loss)) return;
  weighted_ = kKeep * weighted_ + loss;
  weight_ = kKeep * weight_ + 1;
}

void Progress::update(const ProgressState& state) {
  if (!config_.enabled || finished_) return;
  if (state.step != state_.step || !have_state_) average(state.loss);
  state_ = state;
  state_.average_loss = weight_ > 1 ? weighted_ / weight_ : 0;
  const uint64_t now = config_.clock();
  // The plain form waits for one interval before its first line; the bar appears immediately.
  if (!std::exchange(have_state_, true) && !config_.terminal) due_ = now + config_.every_ns();
  if (now < due_) return;
  due_ = now + config_.every_ns();
  draw();
}

void Progress::draw() {
  line_.clear();
  if (config_.terminal) {
    line_.add(kEraseLine);
    add_terminal_line(line_, state_, config_.style_now());
  } else {
    add_plain_line(line_, state_);
    line_.add("\n");
  }
  sink_(line_.text());
  drawn_step_ = state_.step;
}

void Progress::finish() {
  if (std::exchange(finished_, true) || !config_.enabled || !have_state_) return;
  if (config_.terminal || drawn_step_ != state_.step) draw();
  if (config_.terminal) sink_("\n");
}

}  // namespace plait::observe
