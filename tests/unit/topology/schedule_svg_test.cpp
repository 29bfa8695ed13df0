#include "engine/topology/schedule_svg.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <vector>

#include "engine/base/error.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

std::string picture(ScheduleKind method, const PipelineShape& shape, int64_t micro_batches,
                    const SvgOptions& options = {}) {
  const Schedule schedule = make_schedule(method, shape, micro_batches);
  return draw_svg(schedule, simulate(schedule, durations(schedule, StageCost{})), options);
}

std::vector<std::smatch> found(const std::string& text, const std::string& pattern) {
  const std::regex expected(pattern);
  return std::vector<std::smatch>(std::sregex_iterator(text.begin(), text.end(), expected),
                                  std::sregex_iterator());
}

}  // namespace

TEST_CASE("picture: a box with a tip for each action, a row for each rank, whole tags") {
  for (const ScheduleKind method :
       {ScheduleKind::kForwardOnly, ScheduleKind::kGPipe, ScheduleKind::k1F1B,
        ScheduleKind::kInterleaved, ScheduleKind::kZeroBubble}) {
    const bool chunked = method == ScheduleKind::kInterleaved;
    const std::string svg = picture(method, {4, chunked ? 2 : 1}, 8);
    const size_t kinds = method == ScheduleKind::kForwardOnly  ? 1
                         : method == ScheduleKind::kZeroBubble ? 3
                                                               : 2;
    CHECK(count(svg, "<title>") == 4u * (chunked ? 2 : 1) * 8 * kinds);
    CHECK(count(svg, "<title>") == count(svg, "</title></rect>"));
    CHECK(count(svg, "<text") == count(svg, "</text>"));
    CHECK(count(svg, "<rect") == count(svg, "/>") + count(svg, "</rect>"));
    CHECK(svg.find(">rank 3<") != std::string::npos);
    CHECK(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\"") == 0);
    CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
  }
}

TEST_CASE("picture: legend, shares and numbers") {
  const std::string svg = picture(ScheduleKind::k1F1B, {2, 1}, 3, {"", "ms"});
  CHECK(svg.find(">1f1b, 2 ranks, 3 micro-batches<") != std::string::npos);
  CHECK(picture(ScheduleKind::k1F1B, {2, 1}, 1).find(", 1 micro-batch<") != std::string::npos);
  CHECK(svg.find(">forward<") != std::string::npos);
  CHECK(svg.find(">backward<") != std::string::npos);
  CHECK(svg.find("weight gradients") == std::string::npos);
  CHECK(svg.find(">idle 25.0 %<") != std::string::npos);
  CHECK(svg.find(">idle 25.0 %, holds 2<") != std::string::npos);
  CHECK(svg.find(">B of micro-batch 2 in stage 1, 8 to 10 ms<") != std::string::npos);
  const std::string split = picture(ScheduleKind::kZeroBubble, {2, 1}, 3);
  CHECK(split.find(">input gradients<") != std::string::npos);
  CHECK(split.find(">weight gradients<") != std::string::npos);
  CHECK(picture(ScheduleKind::kInterleaved, {2, 2}, 4).find("shades: virtual stages") !=
        std::string::npos);
}

TEST_CASE("picture: boxes and ticks lie where their times are, ranks below each other") {
  const std::string svg = picture(ScheduleKind::k1F1B, {2, 1}, 3);  // 12 units of time
  const auto rows =
      found(svg, "<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\"[^>]*#eeeeee\"/>");
  REQUIRE(rows.size() == 3);  // the legend's, and one of each rank
  const double left = std::stod(rows[1][1]), unit = std::stod(rows[1][3]) / 12;
  CHECK(std::stod(rows[2][1]) == left);
  CHECK(std::stod(rows[2][2]) > std::stod(rows[1][2]));
  const auto boxes = found(svg,
                           "<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\"[^>]*><title>"
                           "[^<]* in stage ([0-9]), ([0-9.]+) to ([0-9.]+)</title>");
  REQUIRE(boxes.size() == 12);
  for (const std::smatch& box : boxes) {
    CAPTURE(box.str());
    const double begin = std::stod(box[5]), end = std::stod(box[6]);
    CHECK(std::stod(box[1]) == doctest::Approx(left + begin * unit).epsilon(1e-3));
    CHECK(std::stod(box[3]) == doctest::Approx((end - begin) * unit).epsilon(1e-3));
    CHECK(box[2] == rows[1 + std::stoul(box[4])][2]);
  }
  const auto labels =
      found(svg,
            "<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" height=\"([0-9.]+)\"[^>]*>"
            "<title>. of micro-batch ([0-9]) [^<]*</title></rect>\n"
            "<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" text-anchor=\"middle\"[^>]*>([0-9])</text>");
  REQUIRE(labels.size() == 12);
  for (const std::smatch& label : labels) {
    CAPTURE(label.str());
    CHECK(label[8] == label[5]);
    CHECK(std::stod(label[6]) ==
          doctest::Approx(std::stod(label[1]) + std::stod(label[3]) / 2).epsilon(1e-3));
    CHECK(std::stod(label[7]) > std::stod(label[2]));  // the line that letters stand on
    CHECK(std::stod(label[7]) < std::stod(label[2]) + std::stod(label[4]));
  }
  const auto ticks =
      found(svg, "<text x=\"([0-9.]+)\" y=\"[0-9.]+\" text-anchor=\"middle\" fill[^>]*>([0-9.]+)<");
  REQUIRE(ticks.size() == 13);
  for (size_t i = 0; i < ticks.size(); ++i) {
    CHECK(std::stoul(ticks[i][2]) == i);
    CHECK(std::stod(ticks[i][1]) ==
          doctest::Approx(left + static_cast<double>(i) * unit).epsilon(1e-3));
  }
}

TEST_CASE("picture: as wide as asked, or as the actions need, up to a limit") {
  const auto width = [](int64_t micro_batches, const SvgOptions& options) {
    const std::string svg = picture(ScheduleKind::k1F1B, {2, 1}, micro_batches, options);
    return std::stod(found(svg, "width=\"([0-9.]+)\"[^>]*#eeeeee\"/>").at(1)[1]);
  };
  CHECK(width(3, {}) == SvgOptions{}.width);
  CHECK(width(3, {"", "", 300}) == 300);
  CHECK(width(100, {}) == 18 * 200);
  CHECK(width(1000, {}) == kMaxSvgWidth);
  CHECK(width(3, {"", "", 9000}) == 9000);
}

TEST_CASE("picture: texts are escaped") {
  const std::string svg = picture(ScheduleKind::k1F1B, {2, 1}, 2, {"<a & \"b\">\n", "<s>"});
  CHECK(svg.find(">&lt;a &amp; &quot;b&quot;&gt; <") != std::string::npos);
  CHECK(svg.find("<s>") == std::string::npos);
}

TEST_CASE("picture: no time, and another schedule's times") {
  const Schedule schedule = make_schedule(ScheduleKind::k1F1B, {2, 1}, 2);
  const Timeline none = simulate(schedule, durations(schedule, {0, 0, 0}));
  CHECK(none.idle_fraction == 0);
  CHECK(draw_svg(schedule, none).find("nan") == std::string::npos);
  CHECK_THROWS_WITH(draw_svg(make_schedule(ScheduleKind::k1F1B, {3, 1}, 2), none),
                    "[topology] the timeline does not belong to this schedule; simulate it first");
}
