#include "engine/observe/progress_line.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace plait::observe {
namespace {

// 950, 12.3k, 4.56M: three digits.
void add_short_number(LineText& to, double v) {
  if (!std::isfinite(v)) return to.add_real(v, "%g");
  const char* suffix = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (std::fabs(v) < 999.5) break;
    v /= 1000;
    suffix = next;
  }
  const double size = std::fabs(v);
  to.addf("%.*f%s", *suffix == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, v, suffix);
}

// 0:07, 12:34, 3:02:10, 2d 03:10.
void add_duration(LineText& to, double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return to.add("?");
  const long long s = std::llround(seconds);
  if (s >= 86400)
    to.addf("%lldd %02lld:%02lld", s / 86400, s % 86400 / 3600, s % 3600 / 60);
  else if (s >= 3600)
    to.addf("%lld:%02lld:%02lld", s / 3600, s % 3600 / 60, s % 60);
  else
    to.addf("%lld:%02lld", s / 60, s % 60);
}

void add_remaining(LineText& to, const ProgressState& s) {
  const int64_t done = s.step - s.first_step;
  if (s.steps <= 0 || done <= 0) return to.add("?");
  add_duration(to, s.elapsed_s / static_cast<double>(done) *
                       static_cast<double>(std::max<int64_t>(s.steps - s.step, 0)));
}

// A loss in kReal columns, with the digits that fit: 0.9532, 1.2e-05.
constexpr size_t kReal = 7;
void add_loss(LineText& to, double v) {
  const size_t from = to.size();
  for (const char* format : {"%.4g", "%.3g", "%.2g", "%.1g"}) {
    to.cut(from);
    to.add_real(v, format);
    if (to.size() - from <= kReal) break;
  }
}

void add_loss(LineText& to, const char* before, double v) {
  to.add(before);
  const size_t from = to.size();
  add_loss(to, v);
  to.pad_left(from, kReal);
}

// "12.3k tokens/s".
void add_rate(LineText& to, const ProgressState& s, size_t width) {
  const size_t from = to.size();
  const bool tokens = s.tokens_per_s > 0;
  add_short_number(to, tokens ? s.tokens_per_s : s.samples_per_s);
  to.pad_left(from, width);
  to.add(tokens ? " tokens/s" : " samples/s");
}

// Of the device's peak: "41 %".
void add_share(LineText& to, const ProgressState& s) {
  to.addf("%.*f %%", s.mfu < 0.0995 ? 1 : 0, 100 * s.mfu);
}

// " (ppl 4.62)".
void add_perplexity(LineText& to, const ProgressState& s) {
  if (!(s.perplexity > 0)) return;  // NaN: of a loss that is not finite
  to.add(" (ppl ");
  add_loss(to, s.perplexity);
  to.add(")");
}

double done_share(const ProgressState& s) {
  return std::clamp(static_cast<double>(s.step) / static_cast<double>(s.steps), 0.0, 1.0);
}

void add_bar(LineText& to, double share, int cells, bool utf8) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(share * cells * 8);
  const int full = eighths / 8, rest = utf8 ? eighths % 8 : 0;
  to.add(utf8 ? "▕" : "[");
  to.repeat(static_cast<size_t>(full), utf8 ? "█" : "#");
  to.add(kEighths[rest]);
  to.repeat(static_cast<size_t>(cells - full - (rest > 0 ? 1 : 0)), utf8 ? " " : "-");
  to.add(utf8 ? "▏" : "]");
}

constexpr int kFewestCells = 10, kMostCells = 30, kFrame = 2, kGap = 2, kFree = 3;

// Fields of a high rank stay the longest. The bar has no text, and kFewestCells at least.
struct Field {
  int rank = 0;
  std::string_view text = {};
  bool is_bar = false;
  std::string_view shorter = {};  // of the step: without their number, which the share stands for
  int width() const { return is_bar ? kFewestCells + kFrame : static_cast<int>(text.size()); }
};

constexpr int kShare = 9, kStep = 11;  // ranks

// The fields that a line has room for.
class Fields {
 public:
  explicit Fields(const ProgressState& s);
  void fit(int room);
  int width() const;
  std::span<const Field> all() const { return {fields_.data(), n_}; }

 private:
  // The text is what was added since the last field.
  void take(int rank, size_t width = 0);
  void take_step(int64_t step, int64_t steps);
  bool shorten_step(int room);

  LineText text_;
  size_t from_ = 0;  // where the text of the next field begins
  std::array<Field, 12> fields_;
  size_t n_ = 0;
};

void Fields::take(int rank, size_t width) {
  text_.pad_left(from_, width);
  fields_[n_++] = {rank, text_.text(from_)};
  from_ = text_.size();
}

void Fields::take_step(int64_t step, int64_t steps) {
  text_.addf("%lld", static_cast<long long>(steps));
  const size_t width = text_.size() - from_;
  text_.cut(from_);
  text_.addf("%lld", static_cast<long long>(step));
  text_.pad_left(from_, width);
  const std::string_view shorter = text_.text(from_);
  text_.addf("/%lld", static_cast<long long>(steps));
  take(kStep);
  fields_[n_ - 1].shorter = shorter;
}

Fields::Fields(const ProgressState& s) {
  constexpr size_t kRate = 8, kNumber = 5;
  const auto number = [this](int rank, const char* before, size_t width, auto&& add) {
    text_.add(before);
    const size_t from = text_.size();
    add();
    text_.pad_left(from, width);
    take(rank);
  };
  if (s.steps > 0) {
    text_.addf("%d %%", static_cast<int>(100 * done_share(s)));
    take(kShare, kNumber);
    fields_[n_++] = {.rank = 8, .is_bar = true};
    take_step(s.step, s.steps);
  } else {
    text_.addf("step %lld", static_cast<long long>(s.step));
    take(kStep);
  }
  if (s.epochs > 0) number(3, "epoch ", 0, [&] { text_.addf("%.1f", s.epochs); });
  add_loss(text_, "loss ", s.loss);
  take(10);
  if (s.average_loss != 0) {
    add_loss(text_, "average ", s.average_loss);
    take(4);
  }
  if (s.evaluated_samples > 0) {
    add_loss(text_, "eval ", s.evaluation_loss);
    add_perplexity(text_, s);
    take(6);
  }
  number(2, "lr ", kRate, [&] { text_.add_real(s.lr, "%.3g"); });
  add_rate(text_, s, kNumber);
  take(7);
  if (s.mfu > 0) number(1, "mfu ", kNumber, [&] { add_share(text_, s); });
  number(5, "", kNumber, [&] { add_duration(text_, s.elapsed_s); });
  if (s.steps > 0) number(12, "ETA ", kNumber, [&] { add_remaining(text_, s); });
}

int Fields::width() const {
  int width = 0;
  for (const Field& f : all()) width += f.width() + kGap;
  return width - kGap;
}

// Makes room for the share of the steps, if that is enough.
bool Fields::shorten_step(int room) {
  const auto step = std::find_if(fields_.begin(), fields_.begin() + n_,
                                 [](const Field& f) { return !f.shorter.empty(); });
  const int less = static_cast<int>(step->text.size() - step->shorter.size());
  if (width() - less > room) return false;
  step->text = step->shorter;
  return true;
}

void Fields::fit(int room) {
  const auto lower = [](const Field& a, const Field& b) { return a.rank < b.rank; };
  while (n_ > 1 && width() > room) {
    const auto end = fields_.begin() + n_, least = std::min_element(fields_.begin(), end, lower);
    if (least->rank == kShare && shorten_step(room)) continue;
    std::copy(least + 1, end, least);
    --n_;
  }
}

}  // namespace

void add_terminal_line(LineText& to, const ProgressState& s, const TerminalStyle& style) {
  const size_t from = to.size();
  const int room = style.columns - kFree;
  Fields fields(s);
  fields.fit(room);
  const int cells = std::min(kFewestCells + room - fields.width(), kMostCells);
  bool has_bar = false;
  for (const Field& f : fields.all()) {
    if (to.size() > from) to.repeat(kGap, " ");
    if (!f.is_bar) {
      to.add(f.text);
      continue;
    }
    has_bar = true;
    if (style.color) to.add("\x1b[32m");
    add_bar(to, done_share(s), cells, style.utf8);
    if (style.color) to.add("\x1b[0m");
  }
  if (!has_bar) to.cut(from + static_cast<size_t>(std::max(style.columns, 0)));  // a few columns
}

void add_plain_line(LineText& to, const ProgressState& s) {
  to.addf("step %lld", static_cast<long long>(s.step));
  if (s.steps > 0) to.addf("/%lld", static_cast<long long>(s.steps));
  to.add("  loss ");
  to.add_real(s.loss, "%.4g");
  if (s.evaluated_samples > 0) {
    to.add("  eval ");
    add_loss(to, s.evaluation_loss);
    add_perplexity(to, s);
  }
  to.add("  lr ");
  to.add_real(s.lr, "%.3g");
  to.add("  ");
  add_rate(to, s, 0);
  if (s.mfu > 0) {
    to.add(", mfu ");
    add_share(to, s);
  }
  if (s.steps <= 0) return;
  to.add("  ETA ");
  add_remaining(to, s);
}

namespace {

// "45/100 batches  0:04  ETA 0:05".
void add_work(LineText& to, const char* parts, const WorkState& s) {
  const double left = s.done > 0 ? s.elapsed_s / static_cast<double>(s.done) *
                                       static_cast<double>(std::max<int64_t>(s.all - s.done, 0))
                                 : std::nan("");
  to.addf("%lld/%lld %s  ", static_cast<long long>(s.done), static_cast<long long>(s.all), parts);
  add_duration(to, s.elapsed_s);
  to.add("  ETA ");
  add_duration(to, left);
}

}  // namespace

void add_work_line(LineText& to, std::string_view what, const char* parts, const WorkState& s,
                   const TerminalStyle& style) {
  const double share =
      s.all > 0 ? std::clamp(static_cast<double>(s.done) / static_cast<double>(s.all), 0.0, 1.0)
                : 1;
  const size_t from = to.size();
  LineText work;
  add_work(work, parts, s);
  to.add(what);
  to.addf("  %d %%  ", static_cast<int>(100 * share));
  const int room = std::max(style.columns - kFree, 0),
            left = room - static_cast<int>(to.size() - from + work.size()) - kFrame - kGap;
  if (left >= kFewestCells) {
    add_bar(to, share, std::min(left, kMostCells), style.utf8);
    to.repeat(kGap, " ");
  }
  to.add(work.text());
  if (left < kFewestCells) to.cut(from + static_cast<size_t>(room));
}

void add_plain_work_line(LineText& to, std::string_view what, const char* parts,
                         const WorkState& s) {
  to.add(what);
  to.add(" ");
  add_work(to, parts, s);
}

}  // namespace plait::observe
