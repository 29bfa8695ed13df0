#include "bindings/cli/data/picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

constexpr int64_t kLeast = 4, kMost = 64;
constexpr int kGreys = 24, kFirstGrey = 232;  // of the 256 colours of terminals
constexpr int kCube = 6, kFirstColor = 16;    // likewise: 6 * 6 * 6 of red, green and blue

using Color = std::array<double, 3>;  // from 0 to 1

class Picture {
 public:
  Picture(std::span<const double> pixels, PictureSize size)
      : pixels_(pixels),
        size_(size),
        step_((std::max(size.rows, size.columns) + kMost - 1) / kMost) {
    const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
    low_ = *low;
    range_ = *high > *low ? *high - *low : 1;
  }
  int64_t rows() const { return (size_.rows + step_ - 1) / step_; }
  int64_t columns() const { return (size_.columns + step_ - 1) / step_; }
  // 0 below the last row.
  Color at(int64_t row, int64_t column) const {
    if (row >= rows()) return {0, 0, 0};
    if (size_.channels == 1) {
      const double v = mean(0, row, column);
      return {v, v, v};
    }
    return {mean(0, row, column), mean(1, row, column), mean(2, row, column)};
  }

 private:
  // Of a square, from 0 to 1.
  double mean(int64_t channel, int64_t row, int64_t column) const {
    double sum = 0;
    int n = 0;
    for (int64_t y = row * step_; y < std::min((row + 1) * step_, size_.rows); ++y)
      for (int64_t x = column * step_; x < std::min((column + 1) * step_, size_.columns); ++x, ++n)
        sum += pixels_[static_cast<size_t>((channel * size_.rows + y) * size_.columns + x)];
    const double v = sum / n;
    return std::isfinite(v) ? std::clamp((v - low_) / range_, 0.0, 1.0) : 0;
  }

  std::span<const double> pixels_;
  PictureSize size_;
  int64_t step_;
  double low_ = 0, range_ = 1;
};

int level(double v, int most) { return static_cast<int>(std::lround(v * most)); }

// What follows 38; (in front) or 48; (behind) in a sequence that sets a colour.
std::string color(const Color& c, bool grey, Colors colors) {
  if (colors == Colors::kAll)
    return strf("2;%d;%d;%d", level(c[0], 255), level(c[1], 255), level(c[2], 255));
  if (grey) return strf("5;%d", kFirstGrey + level(c[0], kGreys - 1));
  const int red = level(c[0], kCube - 1), green = level(c[1], kCube - 1),
            blue = level(c[2], kCube - 1);
  return strf("5;%d", kFirstColor + kCube * (kCube * red + green) + blue);
}

double brightness(const Color& c) { return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2]; }

}  // namespace

PictureSize picture_size(const std::vector<int64_t>& shape) {
  if (shape.size() == 3 && (shape[0] == 1 || shape[0] == 3) && shape[1] >= kLeast &&
      shape[2] >= kLeast)
    return {shape[1], shape[2], shape[0]};
  std::vector<int64_t> axes;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(axes),
               [](int64_t d) { return d != 1; });
  const auto fits = [](int64_t d) { return d >= kLeast && d <= kMost; };
  if (axes.size() != 2 || !fits(axes[0]) || !fits(axes[1])) return {};
  return {axes[0], axes[1]};
}

Colors colors_of_terminal(bool colored) {
  if (!colored) return Colors::kNone;
  const char* more = std::getenv("COLORTERM");
  const std::string_view kind = more ? more : "";
  return kind == "truecolor" || kind == "24bit" ? Colors::kAll : Colors::k256;
}

std::vector<std::string> picture(std::span<const double> pixels, PictureSize size, Colors colors,
                                 bool utf8) {
  constexpr std::array<const char*, 5> kBlocks = {" ", "░", "▒", "▓", "█"};
  constexpr std::array<const char*, 5> kPlain = {" ", ".", "+", "x", "#"};
  const Picture image(pixels, size);
  const bool colored = colors != Colors::kNone && utf8, grey = size.channels == 1;
  std::vector<std::string> lines;
  for (int64_t row = 0; row < image.rows(); row += 2) {
    std::string line;
    for (int64_t column = 0; column < image.columns(); ++column) {
      const Color upper = image.at(row, column), lower = image.at(row + 1, column);
      if (colored) {
        line +=
            "\033[38;" + color(upper, grey, colors) + ";48;" + color(lower, grey, colors) + "m▀";
        continue;
      }
      const auto shade = static_cast<size_t>(level((brightness(upper) + brightness(lower)) / 2, 4));
      line += (utf8 ? kBlocks : kPlain)[shade];
    }
    lines.push_back(line + (colored ? "\033[0m" : ""));
  }
  return lines;
}

}  // namespace plait::cli
