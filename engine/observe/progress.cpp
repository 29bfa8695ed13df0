#include "engine/observe/progress.hpp"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "engine/base/clock.hpp"

namespace plait::observe {

namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

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
  config.color = config.terminal && (!no_color || !*no_color);
  config.utf8 = locale_is_utf8();
  if (config.terminal) config.measure = columns_of_stderr;
  return config;
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
  if (!config_.enabled) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (finished_) return;
  if (state.step != state_.step || !have_state_) average(state.loss);
  state_ = state;
  state_.average_loss = weight_ > 1 ? weighted_ / weight_ : 0;
  const uint64_t now = monotonic_ns();
  if (!have_state_) {
    have_state_ = true;
    // The plain form waits for one interval before its first line; the bar appears immediately.
    if (!config_.terminal) last_draw_ = now;
  }
  const double every = config_.terminal ? config_.terminal_every_s : config_.plain_every_s;
  if (last_draw_ != 0 && static_cast<double>(now - last_draw_) * 1e-9 < every) return;
  last_draw_ = now;
  draw();
}

void Progress::draw() {
  if (config_.terminal) {
    const int columns = config_.measure ? config_.measure() : config_.columns;
    ProgressLine line = terminal_line(state_, columns, config_.utf8);
    if (config_.color && !line.bar.empty()) line.bar = "\x1b[32m" + line.bar + "\x1b[0m";
    sink_(std::string(kEraseLine) + line.text());
    shown_ = true;
  } else {
    sink_(plain_line(state_) + "\n");
  }
  drawn_step_ = state_.step;
}

void Progress::line(std::string_view text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string out;
  if (shown_) out += kEraseLine;
  out += text;
  out += '\n';
  sink_(out);
  if (shown_ && !finished_) draw();
}

void Progress::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (finished_) return;
  finished_ = true;
  if (!config_.enabled || !have_state_) return;
  if (config_.terminal || drawn_step_ != state_.step) draw();
  if (shown_) sink_("\n");
  shown_ = false;
}

}  // namespace plait::observe
