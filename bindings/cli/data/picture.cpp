#include "bindings/cli/data/picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "bindings/cli/terminal.hpp"

namespace plait::cli {
namespace {

constexpr int64_t kLeast = 4, kMost = 64;
constexpr int kGreys = 24, kFirstGrey = 232;  // of the 256 colours of terminals

class Picture {
 public:
  Picture(std::span<const double> pixels, PictureSize size) : pixels_(pixels), size_(size) {
    const auto [low, high] = std::minmax_element(pixels.begin(), pixels.end());
    low_ = *low;
    range_ = *high > *low ? *high - *low : 1;
  }
  // From 0 to 1; 0 below the last row.
  double at(int64_t row, int64_t column) const {
    if (row >= size_.rows) return 0;
    const double v = pixels_[static_cast<size_t>(row * size_.columns + column)];
    return std::isfinite(v) ? std::clamp((v - low_) / range_, 0.0, 1.0) : 0;
  }

 private:
  std::span<const double> pixels_;
  PictureSize size_;
  double low_ = 0, range_ = 1;
};

int grey(double v) { return kFirstGrey + static_cast<int>(std::lround(v * (kGreys - 1))); }

}  // namespace

PictureSize picture_size(const std::vector<int64_t>& shape) {
  std::vector<int64_t> axes;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(axes),
               [](int64_t d) { return d != 1; });
  const auto fits = [](int64_t d) { return d >= kLeast && d <= kMost; };
  if (axes.size() != 2 || !fits(axes[0]) || !fits(axes[1])) return {};
  return {axes[0], axes[1]};
}

std::vector<std::string> picture(std::span<const double> pixels, PictureSize size, bool colored,
                                 bool utf8) {
  constexpr std::array<const char*, 5> kBlocks = {" ", "░", "▒", "▓", "█"};
  constexpr std::array<const char*, 5> kPlain = {" ", ".", "+", "x", "#"};
  const Picture image(pixels, size);
  std::vector<std::string> lines;
  for (int64_t row = 0; row < size.rows; row += 2) {
    std::string line;
    for (int64_t column = 0; column < size.columns; ++column) {
      const double upper = image.at(row, column), lower = image.at(row + 1, column);
      if (colored && utf8) {
        line += strf("\033[38;5;%d;48;5;%dm▀", grey(upper), grey(lower));
        continue;
      }
      const auto shade = static_cast<size_t>(std::lround((upper + lower) / 2 * 4));
      line += (utf8 ? kBlocks : kPlain)[shade];
    }
    lines.push_back(line + (colored && utf8 ? "\033[0m" : ""));
  }
  return lines;
}

}  // namespace plait::cli
