#include "engine/observe/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "engine/base/clock.hpp"
#include "engine/base/text.hpp"

namespace plait::observe {

namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

// 950, 12.3k, 4.56M: three digits.
std::string short_number(double v) {
  if (!std::isfinite(v)) return real_text(v);
  const char* suffix = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (std::fabs(v) < 999.5) break;
    v /= 1000;
    suffix = next;
  }
  const double size = std::fabs(v);
  return strf("%.*f%s", *suffix == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, v, suffix);
}

// 0:07, 12:34, 3:02:10, 2d 03:10.
std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const long long s = std::llround(seconds);
  if (s >= 86400) return strf("%lldd %02lld:%02lld", s / 86400, s % 86400 / 3600, s % 3600 / 60);
  if (s >= 3600) return strf("%lld:%02lld:%02lld", s / 3600, s % 3600 / 60, s % 60);
  return strf("%lld:%02lld", s / 60, s % 60);
}

std::string remaining(const ProgressState& s) {
  const int64_t done = s.step - s.first_step;
  if (s.steps <= 0 || done <= 0) return "?";
  return duration(s.elapsed_s / static_cast<double>(done) *
                  static_cast<double>(std::max<int64_t>(s.steps - s.step, 0)));
}

// "12.3k tokens/s, 41 %": of the device's peak.
std::string rate_text(const ProgressState& s) {
  std::string text = s.tokens_per_s > 0 ? short_number(s.tokens_per_s) + " tokens/s"
                                        : short_number(s.samples_per_s) + " samples/s";
  if (s.mfu > 0) text += strf(", %.*f %%", s.mfu < 0.0995 ? 1 : 0, 100 * s.mfu);
  return text;
}

// "1.53 (ppl 4.62)".
std::string evaluation_text(const ProgressState& s) {
  std::string text = real_text(s.evaluation_loss, "%.4g");
  if (s.perplexity > 0) text += " (ppl " + real_text(s.perplexity, "%.4g") + ")";
  return text;
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
  winsize size = {};
  if (config.terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    config.columns = size.ws_col;
  return config;
}

Progress::Progress(ProgressConfig config, Sink sink) : config_(config), sink_(std::move(sink)) {}
Progress::Progress(ProgressConfig config) : Progress(config, write_to_stderr) {}
Progress::~Progress() { finish(); }

std::string Progress::render(const ProgressState& s, int columns, bool bar) {
  std::string head = strf("step %lld", static_cast<long long>(s.step));
  if (s.steps > 0) head += strf("/%lld", static_cast<long long>(s.steps));
  std::string tail = "loss " + real_text(s.loss, "%.4g");
  if (s.evaluated_samples > 0) tail += "  eval " + evaluation_text(s);
  tail += "  lr " + real_text(s.lr, "%.3g") + "  " + rate_text(s);
  if (s.steps > 0) tail += "  ETA " + remaining(s);
  std::string middle = "  ";
  // One column stays free: a full line would wrap on some terminals.
  const int room = columns - 1 - static_cast<int>(head.size() + tail.size()) - 6;
  if (bar && s.steps > 0 && room >= 8) {
    const int width = std::min(room, 40);
    const double share =
        std::clamp(static_cast<double>(s.step) / static_cast<double>(s.steps), 0.0, 1.0);
    const auto filled = static_cast<size_t>(share * width);
    middle = "  [" + std::string(filled, '#') +
             std::string(static_cast<size_t>(width) - filled, '-') + "]  ";
  }
  std::string text = head + middle + tail;
  if (bar && columns > 1 && text.size() > static_cast<size_t>(columns - 1))
    text.resize(static_cast<size_t>(columns - 1));
  return text;
}

void Progress::update(const ProgressState& state) {
  if (!config_.enabled) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (finished_) return;
  state_ = state;
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
  std::string text = render(state_, config_.columns, config_.terminal);
  if (config_.terminal) {
    if (config_.color) {
      const size_t open = text.find('['), close = text.find(']');
      if (open != std::string::npos && close != std::string::npos) {
        text.insert(close, "\x1b[0m");
        text.insert(open + 1, "\x1b[32m");
      }
    }
    sink_(std::string(kEraseLine) + text);
    shown_ = true;
  } else {
    sink_(text + "\n");
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
