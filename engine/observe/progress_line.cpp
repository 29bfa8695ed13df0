#include "engine/observe/progress_line.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/text.hpp"

namespace plait::observe {
namespace {

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

std::string wide(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// A loss in kReal columns, with the digits that fit: 0.9532, 1.2e-05.
constexpr size_t kReal = 7;
std::string loss_text(double v) {
  std::string text = real_text(v, "%.4g");
  for (const char* format : {"%.3g", "%.2g", "%.1g"}) {
    if (text.size() <= kReal) break;
    text = real_text(v, format);
  }
  return text;
}

// "12.3k tokens/s".
std::string rate_text(const ProgressState& s, size_t width) {
  return s.tokens_per_s > 0 ? wide(short_number(s.tokens_per_s), width) + " tokens/s"
                            : wide(short_number(s.samples_per_s), width) + " samples/s";
}

// Of the device's peak: "41 %".
std::string share_text(const ProgressState& s) {
  return strf("%.*f %%", s.mfu < 0.0995 ? 1 : 0, 100 * s.mfu);
}

// "1.53 (ppl 4.62)".
std::string evaluation_text(const ProgressState& s, size_t width) {
  std::string text = wide(loss_text(s.evaluation_loss), width);
  if (s.perplexity > 0) text += " (ppl " + loss_text(s.perplexity) + ")";
  return text;
}

double done_share(const ProgressState& s) {
  return std::clamp(static_cast<double>(s.step) / static_cast<double>(s.steps), 0.0, 1.0);
}

std::string bar_text(double share, int cells, bool utf8) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(share * cells * 8);
  const int full = eighths / 8, rest = utf8 ? eighths % 8 : 0;
  std::string text = utf8 ? "▕" : "[";
  for (int i = 0; i < full; ++i) text += utf8 ? "█" : "#";
  text += kEighths[rest];
  for (int i = full + (rest > 0 ? 1 : 0); i < cells; ++i) text += utf8 ? " " : "-";
  return text + (utf8 ? "▏" : "]");
}

constexpr int kFewestCells = 10, kMostCells = 30, kFrame = 2, kGap = 2, kFree = 3;

// Fields of a high rank stay the longest. The bar has no text, and kFewestCells at least.
struct Field {
  int rank;
  std::string text;
  bool is_bar = false;
  std::string shorter = {};  // of the step: without their number, which the share stands for
  int width() const { return is_bar ? kFewestCells + kFrame : static_cast<int>(text.size()); }
};

constexpr int kShare = 9;  // rank

std::vector<Field> fields_of(const ProgressState& s) {
  constexpr size_t kRate = 8, kNumber = 5;
  std::vector<Field> all;
  if (s.steps > 0) {
    const std::string steps = strf("%lld", static_cast<long long>(s.steps));
    all.push_back({kShare, wide(strf("%d %%", static_cast<int>(100 * done_share(s))), 5)});
    all.push_back({8, "", true});
    const std::string step = strf("%lld", static_cast<long long>(s.step));
    const std::string padded = wide(step, steps.size());
    all.push_back({11, padded + "/" + steps, false, padded});
  } else {
    all.push_back({11, strf("step %lld", static_cast<long long>(s.step))});
  }
  if (s.epochs > 0) all.push_back({3, strf("epoch %.1f", s.epochs)});
  all.push_back({10, "loss " + wide(loss_text(s.loss), kReal)});
  if (s.average_loss != 0) all.push_back({4, "average " + wide(loss_text(s.average_loss), kReal)});
  if (s.evaluated_samples > 0) all.push_back({6, "eval " + evaluation_text(s, kReal)});
  all.push_back({2, "lr " + wide(real_text(s.lr, "%.3g"), kRate)});
  all.push_back({7, rate_text(s, kNumber)});
  if (s.mfu > 0) all.push_back({1, "mfu " + wide(share_text(s), kNumber)});
  all.push_back({5, wide(duration(s.elapsed_s), kNumber)});
  if (s.steps > 0) all.push_back({12, "ETA " + wide(remaining(s), kNumber)});
  return all;
}

int width_of(const std::vector<Field>& fields) {
  int width = 0;
  for (const Field& f : fields) width += f.width() + kGap;
  return width - kGap;
}

// Makes room for the share of the steps, if that is enough.
bool shorten_step(std::vector<Field>& fields, int room) {
  const auto step =
      std::find_if(fields.begin(), fields.end(), [](const Field& f) { return !f.shorter.empty(); });
  const int less = static_cast<int>(step->text.size() - step->shorter.size());
  if (width_of(fields) - less > room) return false;
  step->text = step->shorter;
  return true;
}

}  // namespace

ProgressLine terminal_line(const ProgressState& s, int columns, bool utf8) {
  std::vector<Field> fields = fields_of(s);
  const auto lower = [](const Field& a, const Field& b) { return a.rank < b.rank; };
  const int room = columns - kFree;
  while (fields.size() > 1 && width_of(fields) > room) {
    const auto least = std::min_element(fields.begin(), fields.end(), lower);
    if (least->rank != kShare || !shorten_step(fields, room)) fields.erase(least);
  }
  const int cells = std::min(kFewestCells + room - width_of(fields), kMostCells);
  ProgressLine line;
  for (const Field& f : fields) {
    std::string& side = line.bar.empty() ? line.before : line.after;
    if (&f != &fields.front()) side += std::string(kGap, ' ');
    if (f.is_bar)
      line.bar = bar_text(done_share(s), cells, utf8);
    else
      side += f.text;
  }
  if (static_cast<int>(line.before.size()) > columns && line.bar.empty())
    line.before.resize(static_cast<size_t>(std::max(columns, 0)));  // a few columns alone
  return line;
}

std::string plain_line(const ProgressState& s) {
  std::string text = strf("step %lld", static_cast<long long>(s.step));
  if (s.steps > 0) text += strf("/%lld", static_cast<long long>(s.steps));
  text += "  loss " + real_text(s.loss, "%.4g");
  if (s.evaluated_samples > 0) text += "  eval " + evaluation_text(s, 0);
  text += "  lr " + real_text(s.lr, "%.3g") + "  " + rate_text(s, 0);
  if (s.mfu > 0) text += ", " + share_text(s);
  if (s.steps > 0) text += "  ETA " + remaining(s);
  return text;
}

namespace {

std::string work_time(const WorkState& s) {
  const double left = s.done > 0 ? s.elapsed_s / static_cast<double>(s.done) *
                                       static_cast<double>(std::max<int64_t>(s.all - s.done, 0))
                                 : std::nan("");
  return duration(s.elapsed_s) + "  ETA " + duration(left);
}

std::string work_count(const WorkState& s, const char* parts) {
  return strf("%lld/%lld ", static_cast<long long>(s.done), static_cast<long long>(s.all)) + parts;
}

}  // namespace

std::string work_line(const std::string& what, const char* parts, const WorkState& s, int columns,
                      bool utf8) {
  const double share =
      s.all > 0 ? std::clamp(static_cast<double>(s.done) / static_cast<double>(s.all), 0.0, 1.0)
                : 1;
  const std::string head = what + strf("  %d %%  ", static_cast<int>(100 * share)),
                    tail = work_count(s, parts) + "  " + work_time(s);
  const int room = std::max(columns - kFree, 0),
            left = room - static_cast<int>(head.size() + tail.size()) - kFrame - kGap;
  if (left >= kFewestCells)
    return head + bar_text(share, std::min(left, kMostCells), utf8) + "  " + tail;
  return (head + tail).substr(0, static_cast<size_t>(room));
}

std::string plain_work_line(const std::string& what, const char* parts, const WorkState& s) {
  return what + " " + work_count(s, parts) + "  " + work_time(s);
}

}  // namespace plait::observe
