// PNG and JPEG files as pixels of 8 bits.
//   h rows, w columns, c channels: 1 (grey) or 3 (red, green, blue)
#pragma once

#include "plugins/support/file_bytes.hpp"
#include "plugins/support/steady_file.hpp"

#include <optional>
#include <span>

namespace plait::data::images {

struct Pixels {
  int64_t width = 0, height = 0;
  int channels = 0;
  support::Bytes bytes;  // (h, w, c), row-major
  size_t row_bytes() const { return static_cast<size_t>(width) * static_cast<size_t>(channels); }
};

struct Extent {
  int64_t width = 0, height = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

// Decodes a file into `to`, whose memory is reused. Its first bytes say what it is, not its name.
// Palettes become colours, bits per channel 8 (16 are rounded, 1 to 4 widened), CMYK becomes RGB as
// Adobe stores it; transparency, colour profiles and the orientation of EXIF are left out, and of
// an animation there is the first image. Grey of colours is ITU-R 601. Any thread.
// Errors: PLAIT_ERR_DATA for a file of another kind, a damaged or truncated one, and one with more
// than max_pixels, before memory is taken for them; std::bad_alloc.
void decode(const support::SourceFile& source, std::span<const uint8_t> file, int channels,
            int64_t max_pixels, Pixels& to);

// Width and height from the head of a file, which is all that is read; nullopt where a JPEG file
// has so much before them that only decode() finds them. Errors: as decode(), and those of reading.
std::optional<Extent> extent_of(const support::SourceFile& source, const support::SteadyFile& file,
                                int64_t max_pixels);

// For the two formats, which read the whole file as it is: grey stays grey.
void decode_png(const support::SourceFile& source, std::span<const uint8_t> file,
                int64_t max_pixels, Pixels& to);
void decode_jpeg(const support::SourceFile& source, std::span<const uint8_t> file,
                 int64_t max_pixels, Pixels& to);
// Errors: PLAIT_ERR_DATA for no pixels or more than max_pixels.
void check_pixels(const support::SourceFile& source, int64_t width, int64_t height,
                  int64_t max_pixels);
void allocate(int64_t width, int64_t height, int channels, Pixels& to);

inline constexpr char kRemedy[] = "; fetch the file again or delete it";

}  // namespace plait::data::images
