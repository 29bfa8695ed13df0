// An image of a sample on the terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plait::cli {

// What a terminal can show as an image: (rows, columns) from 4 to 64 each, axes of extent 1 left
// out, or (channels, rows, columns) with 1 or 3 channels, from 4 on; {0, 0}: it is none.
struct PictureSize {
  int64_t rows = 0, columns = 0, channels = 1;
};
PictureSize picture_size(const std::vector<int64_t>& shape);

// The colours that can be seen: none, the 256 of most terminals, or those of 24 bits.
enum class Colors : uint8_t { kNone, k256, kAll };
// colored: whether there is a terminal that has some. Which, the variable COLORTERM says.
Colors colors_of_terminal(bool colored);

// Lines, each of two rows: half blocks in colours or shades of grey where the terminal has colours,
// else characters that are darker or lighter. From the least of the numbers to the greatest. A
// larger image is reduced to 64 rows and columns at most, by the means of squares.
// pixels: (channels, rows, columns).
std::vector<std::string> picture(std::span<const double> pixels, PictureSize size, Colors colors,
                                 bool utf8);

}  // namespace plait::cli
