#include "engine/topology/schedule_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::topology {

namespace {

constexpr double kLeft = 70, kTop = 64, kRow = 30, kBox = 24, kRight = 150, kBottom = 40;
constexpr double kDigit = 6.5;  // width of a digit in a box

// Colours that are distinct with any colour vision (Okabe and Ito 2008): sky blue, orange, green.
constexpr std::array<std::array<int, 3>, 3> kColours = {
    {{86, 180, 233}, {230, 159, 0}, {0, 158, 115}}};
constexpr std::array<const char*, 3> kMeaning = {"forward", "backward", "weight gradients"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out;
}

std::string number(double value) { return real_text(value, "%.2f"); }
std::string brief(double value) { return real_text(value, "%.6g"); }

// Later chunks are mixed with white, up to 60 %.
std::string colour(ActionKind kind, int32_t chunk, int32_t chunks) {
  const double white = chunks > 1 ? 0.6 * chunk / (chunks - 1) : 0;
  std::string text = "#";
  for (const int part : kColours[static_cast<size_t>(kind)])
    text += strf("%02x", static_cast<unsigned>(std::lround(part + white * (255 - part))));
  return text;
}

class Picture {
 public:
  Picture(const Schedule& schedule, const Timeline& timeline, const SvgOptions& options)
      : schedule_(schedule), timeline_(timeline), options_(options) {
    const size_t most =
        std::max_element(schedule.actions.begin(), schedule.actions.end(),
                         [](const auto& a, const auto& b) { return a.size() < b.size(); })
            ->size();
    width_ = std::clamp(18.0 * static_cast<double>(most), options.width,
                        std::max(options.width, kMaxSvgWidth));
    scale_ = timeline.total > 0 ? width_ / timeline.total : 0;
  }

  std::string draw_svg() {
    const double rows = kRow * schedule_.shape.ranks;
    const double height = kTop + rows + kBottom, width = kLeft + width_ + kRight;
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
           number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n";
    rect(0, 0, width, height, "#ffffff");
    text(kLeft, 20, "start", title(), " font-size=\"15\" font-weight=\"bold\"");
    legend();
    for (int32_t rank = 0; rank < schedule_.shape.ranks; ++rank) row(rank);
    axis(kTop + rows);
    return out_ + "</svg>\n";
  }

 private:
  void rect(double x, double y, double w, double h, const std::string& fill,
            const std::string& more = "/>") {
    out_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(w) +
            "\" height=\"" + number(h) + "\" fill=\"" + fill + "\"" + more + "\n";
  }
  void text(double x, double y, const char* anchor, const std::string& words,
            const std::string& more = "") {
    out_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\"" +
            more + ">" + escaped(words) + "</text>\n";
  }

  std::string title() const {
    if (!options_.title.empty()) return options_.title;
    std::string words = std::string(schedule_name(schedule_.method)) + ", " +
                        std::to_string(schedule_.shape.ranks) + " ranks";
    if (schedule_.shape.chunks > 1)
      words += ", " + std::to_string(schedule_.shape.chunks) + " virtual stages";
    return words + ", " + std::to_string(schedule_.micro_batches) +
           (schedule_.micro_batches == 1 ? " micro-batch" : " micro-batches");
  }

  void legend() {
    double x = kLeft;
    const int32_t chunks = schedule_.shape.chunks;
    const int kinds = schedule_.method == ScheduleKind::kForwardOnly ? 1
                      : schedule_.split_backward                     ? 3
                                                                     : 2;
    for (int kind = 0; kind < kinds; ++kind) {
      for (int32_t c = 0; c < std::min(chunks, 8); ++c, x += 14)
        rect(x, 32, 14, 14, colour(static_cast<ActionKind>(kind), c, chunks));
      const bool inputs_alone =
          schedule_.split_backward && static_cast<ActionKind>(kind) == ActionKind::kBackward;
      const std::string words =
          inputs_alone ? "input gradients" : kMeaning[static_cast<size_t>(kind)];
      text(x + 6, 44, "start", words);
      x += 24 + kDigit * static_cast<double>(words.size());
    }
    rect(x, 32, 14, 14, "#eeeeee");
    std::string words = "idle " + real_text(100 * timeline_.idle_fraction, "%.1f") + " %";
    if (chunks > 1) words += "; shades: virtual stages, first to last";
    text(x + 20, 44, "start", words);
  }

  void row(int32_t rank) {
    const size_t r = static_cast<size_t>(rank);
    const double y = kTop + kRow * rank;
    text(kLeft - 8, y + 17, "end", "rank " + std::to_string(rank));
    rect(kLeft, y, width_, kBox, "#eeeeee");
    for (size_t i = 0; i < schedule_.actions[r].size(); ++i)
      box(rank, schedule_.actions[r][i], timeline_.spans[r][i], y);
    text(kLeft + width_ + 8, y + 17, "start",
         "idle " + real_text(100 * timeline_.idle[r], "%.1f") + " %, holds " +
             std::to_string(timeline_.live[r].peak));
  }

  void box(int32_t rank, const Action& action, const Span& span, double y) {
    const double x = kLeft + span.begin * scale_, w = (span.end - span.begin) * scale_;
    const std::string tip = describe(schedule_, rank, action) + ", " + brief(span.begin) + " to " +
                            brief(span.end) + (options_.unit.empty() ? "" : " " + options_.unit);
    rect(x, y, w, kBox, colour(action.kind, action.chunk, schedule_.shape.chunks),
         " stroke=\"#ffffff\" stroke-width=\"0.5\"><title>" + escaped(tip) + "</title></rect>");
    const std::string label = std::to_string(action.micro);
    if (w >= kDigit * static_cast<double>(label.size()) + 2)
      text(x + w / 2, y + 16, "middle", label, " font-size=\"11\" pointer-events=\"none\"");
  }

  // Ticks at 1, 2 or 5 times a power of ten, about ten of them.
  void axis(double y) {
    if (timeline_.total <= 0) return;
    const double rough = timeline_.total / 10, power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough / power < 1.5   ? 1
                                 : rough / power < 3.5 ? 2
                                 : rough / power < 7.5 ? 5
                                                       : 10);
    const int ticks = static_cast<int>(timeline_.total / step + 1e-9);
    for (int i = 0; i <= ticks; ++i) {
      const double x = kLeft + i * step * scale_;
      rect(x, y, 1, 5, "#555555");
      text(x, y + 18, "middle", brief(i * step), " fill=\"#555555\"");
    }
    if (!options_.unit.empty())
      text(kLeft + width_ + 8, y + 18, "start", options_.unit, " fill=\"#555555\"");
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  const SvgOptions& options_;
  double width_ = 0, scale_ = 0;
  std::string out_;
};

}  // namespace

std::string draw_svg(const Schedule& schedule, const Timeline& timeline,
                     const SvgOptions& options) {
  bool same = !schedule.actions.empty() && timeline.spans.size() == schedule.actions.size();
  for (size_t r = 0; same && r < schedule.actions.size(); ++r)
    same = timeline.spans[r].size() == schedule.actions[r].size();
  if (!same)
    fail_invalid("[topology] the timeline does not belong to this schedule; simulate it first");
  return Picture(schedule, timeline, options).draw_svg();
}

}  // namespace plait::topology
