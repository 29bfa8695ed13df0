// An image of a sample on the terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plait::cli {

// Rows and columns of a shape that a terminal can show as an image, from 4 to 64 each, axes of
// extent 1 left out; {0, 0}: it is none.
struct PictureSize {
  int64_t rows = 0, columns = 0;
};
PictureSize picture_size(const std::vector<int64_t>& shape);

// Lines, each of two rows: half blocks in shades of grey where the terminal has colours, else
// characters that are darker or lighter. From the least of the numbers to the greatest.
std::vector<std::string> picture(std::span<const double> pixels, PictureSize size, bool colored,
                                 bool utf8);

}  // namespace plait::cli
