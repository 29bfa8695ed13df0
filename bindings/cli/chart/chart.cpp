#include "bindings/cli/chart/chart.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bindings/cli/terminal/cells.hpp"

namespace plait::cli {
namespace {

constexpr const char* kColors[] = {"36", "33", "35", "32", "31", "34"};  // of a terminal
constexpr const char* kLetters = "*+ox#@";

size_t cycled(size_t i) { return i % std::size(kColors); }

// The ranges of all curves. Values are logarithms where the axis is.
struct Frame {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  int64_t first = INT64_MAX, last = INT64_MIN;
  bool log = false;

  Frame(const std::vector<Curve>& curves, bool logarithmic) : log(logarithmic) {
    for (const Curve& c : curves)
      for (const auto& [step, value] : c.points) {
        if (log && !(value > 0)) continue;
        first = std::min(first, step);
        last = std::max(last, step);
        low = std::min(low, at(value));
        high = std::max(high, at(value));
      }
    if (!empty()) widen(low, high);
  }
  bool empty() const { return first > last; }
  double at(double value) const { return log ? std::log10(value) : value; }
  double value(double at) const { return log ? std::pow(10, at) : at; }
  // From 0 to 1.
  double x(int64_t step) const {
    const auto from = static_cast<double>(first), to = static_cast<double>(last);
    return to > from ? std::clamp((static_cast<double>(step) - from) / (to - from), 0.0, 1.0) : 0.5;
  }
  double y(double value) const { return (at(value) - low) / (high - low); }
};

// Heights of a curve, from 0 to 1, in n places from left to right; NaN where it has none. Between
// points that are further apart than a place it is straight.
std::vector<double> heights(const Curve& c, const Frame& frame, size_t n) {
  std::vector<double> sums(n, 0), counts(n, 0), all(n, std::nan(""));
  for (const auto& [step, value] : c.points) {
    if (frame.log && !(value > 0)) continue;
    const auto i = static_cast<size_t>(std::lround(frame.x(step) * static_cast<double>(n - 1)));
    sums[i] += frame.y(value);
    counts[i] += 1;
  }
  size_t before = n;
  for (size_t i = 0; i < n; ++i) {
    if (counts[i] == 0) continue;
    all[i] = sums[i] / counts[i];
    for (size_t k = before + 1; before < n && k < i; ++k)
      all[k] = all[before] + (all[i] - all[before]) * static_cast<double>(k - before) /
                                 static_cast<double>(i - before);
    before = i;
  }
  return all;
}

// A grid of dots, `across` x `down` in each letter.
class Canvas {
 public:
  Canvas(int columns, int rows, const ChartOptions& options, bool letters)
      : columns_(columns),
        rows_(rows),
        letters_(letters),
        color_(options.color),
        across_(letters ? 1 : 2),
        down_(letters ? 1 : 4),
        dots_(static_cast<size_t>(columns * rows), 0),
        owner_(dots_.size(), -1) {}

  void draw(const Curve& curve, const Frame& frame, size_t which) {
    const int most = rows_ * down_ - 1, places = columns_ * across_;
    const std::vector<double> of = heights(curve, frame, static_cast<size_t>(places));
    int before = -1;
    for (size_t x = 0; x < of.size(); ++x) {
      if (std::isnan(of[x])) continue;
      const int y = most - static_cast<int>(std::lround(of[x] * most));
      const int from = before < 0 ? y : before < y ? before + 1 : before > y ? before - 1 : y;
      for (int at = std::min(from, y); at <= std::max(from, y); ++at)
        set(static_cast<int>(x), at, which);
      before = y;
    }
  }

  std::string row(int r) const {
    std::string text;
    int before = -1, last = columns_;
    while (last > 0 && owner_[index(r, last - 1)] < 0) --last;
    for (int c = 0; c < last; ++c) {
      const size_t i = index(r, c);
      if (owner_[i] < 0) {
        text += ' ';
        continue;
      }
      const size_t which = cycled(static_cast<size_t>(owner_[i]));
      if (color_ && owner_[i] != before) text += std::string("\033[") + kColors[which] + "m";
      before = owner_[i];
      text += letters_ ? std::string(1, kLetters[which]) : braille(dots_[i]);
    }
    return color_ && before >= 0 ? text + "\033[0m" : text;
  }

 private:
  size_t index(int row, int column) const {
    const int i = row * columns_ + column;
    return static_cast<size_t>(i);
  }
  void set(int x, int y, size_t which) {
    // The bits of a Braille letter, by row and column of its dots (Unicode 16, 2800-28FF).
    constexpr int kBits[4][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}};
    const size_t i = index(y / down_, x / across_);
    dots_[i] |= letters_ ? 1 : 1 << kBits[y % 4][x % 2];
    owner_[i] = static_cast<int>(which);
  }
  static std::string braille(int dots) {
    const int code = 0x2800 + dots;
    return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
            static_cast<char>(0x80 | (code & 0x3F))};
  }

  int columns_, rows_;
  bool letters_, color_;
  int across_, down_;
  std::vector<int> dots_, owner_;
};

// Dots cannot be told apart without color.
bool draws_letters(const ChartOptions& options, bool several) {
  return !options.utf8 || (several && !options.color);
}

std::string legend_mark(size_t i, const ChartOptions& options, bool letters) {
  const std::string mark = letters ? std::string(1, kLetters[cycled(i)]) : options.utf8 ? "━" : "-";
  return options.color ? std::string("\033[") + kColors[cycled(i)] + "m" + mark + "\033[0m" : mark;
}

// The names of all curves in one line. If they are too long, each has the same room; those of runs
// differ at their end. If that is too little for a name, some curves have none.
std::string legend(const std::vector<Curve>& curves, const ChartOptions& options, bool letters,
                   int columns) {
  constexpr int kMark = 2, kBetween = 3, kLeast = 6;
  std::vector<size_t> named;
  int used = -kBetween;
  for (size_t i = 0; i < curves.size(); ++i) {
    if (curves[i].name.empty()) continue;
    named.push_back(i);
    used += kMark + columns_of(curves[i].name, options.utf8) + kBetween;
  }
  if (named.empty()) return "";
  const int most = std::max((columns + kBetween) / (kMark + kLeast + kBetween), 1);
  named.resize(std::min(named.size(), used > columns ? static_cast<size_t>(most) : named.size()));
  const auto n = static_cast<int>(named.size());
  const int room = used > columns ? (columns + kBetween) / n - kMark - kBetween : columns;
  std::string text;
  for (const size_t i : named)
    text += (text.empty() ? "" : "   ") + legend_mark(i, options, letters) + " " +
            cell(curves[i].name, std::max(room, 1), options.utf8, Cut::kBegin);
  return text;
}

std::string label(double value) { return strf("%.4g", value); }

}  // namespace

std::string chart_mark(size_t i, const ChartOptions& options, bool several) {
  return legend_mark(i, options, draws_letters(options, several));
}

ChartOptions chart_options(const Terminal& terminal) {
  ChartOptions options;
  if (const int columns = terminal.columns(); columns > 0) options.columns = columns;
  options.utf8 = terminal.utf8();
  options.color = terminal.colored();
  return options;
}

void widen(double& low, double& high) {
  if (high - low > 1e-9 * std::max(std::fabs(low), std::fabs(high))) return;
  const double room = low == 0 ? 1 : std::fabs(low) / 10;
  low -= room;
  high += room;
}

std::string chart_text(const std::vector<Curve>& curves, const ChartOptions& options) {
  const Frame frame(curves, options.log);
  if (frame.empty()) return "";
  const bool letters = draws_letters(options, curves.size() > 1);
  const bool named = std::any_of(curves.begin(), curves.end(),
                                 [](const Curve& curve) { return !curve.name.empty(); });
  const int rows = std::max(options.rows - 2 - (named ? 1 : 0), 2);
  std::vector<std::string> labels(static_cast<size_t>(rows));
  for (const int r : {0, (rows - 1) / 2, rows - 1})
    labels[static_cast<size_t>(r)] =
        label(frame.value(frame.high - (frame.high - frame.low) * r / std::max(rows - 1, 1)));
  size_t wide = 0;
  for (const std::string& text : labels) wide = std::max(wide, text.size());
  const int columns = std::max(options.columns - static_cast<int>(wide) - 3, 8);
  Canvas canvas(columns, rows, options, letters);
  for (size_t i = 0; i < curves.size(); ++i) canvas.draw(curves[i], frame, i);
  std::string text;
  for (int r = 0; r < rows; ++r) {
    const std::string& mark = labels[static_cast<size_t>(r)];
    text += std::string(wide - mark.size(), ' ') + mark;
    text += mark.empty() ? (options.utf8 ? " │" : " |") : (options.utf8 ? " ┤" : " +");
    text += canvas.row(r) + "\n";
  }
  const std::string first = std::to_string(frame.first), last = std::to_string(frame.last);
  text += std::string(wide + 1, ' ') + (options.utf8 ? "└" : "+");
  for (int c = 0; c < columns; ++c) text += options.utf8 ? "─" : "-";
  const auto used = static_cast<int>(first.size() + last.size());
  text += "\n" + std::string(wide + 2, ' ') + "step " + first +
          std::string(static_cast<size_t>(std::max(columns - used - 5, 1)), ' ') + last + "\n";
  if (!named) return text;
  return text + std::string(wide + 2, ' ') + legend(curves, options, letters, columns) + "\n";
}

}  // namespace plait::cli
