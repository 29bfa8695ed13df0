#include "plugins/data/images/decode.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace plait::data::images {
namespace {

constexpr std::array<uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
constexpr std::array<uint8_t, 3> kJpeg = {0xFF, 0xD8, 0xFF};

template <size_t N>
bool begins(std::span<const uint8_t> file, const std::array<uint8_t, N>& with) {
  return file.size() >= N && std::equal(with.begin(), with.end(), file.begin());
}
bool begins(std::span<const uint8_t> file, std::string_view with, size_t at = 0) {
  return file.size() >= at + with.size() &&
         std::equal(with.begin(), with.end(), file.begin() + static_cast<ptrdiff_t>(at));
}

// Other formats by the bytes that they begin with, to name what was found.
const char* other_format(std::span<const uint8_t> file) {
  if (begins(file, "GIF8")) return "GIF";
  if (begins(file, "BM")) return "BMP";
  if (begins(file, "RIFF") && begins(file, "WEBP", 8)) return "WebP";
  if (begins(file, "II*") || begins(file, "MM")) return "TIFF";
  if (begins(file, "ftyp", 4)) return "HEIC, AVIF or a film";
  if (begins(file, "P5") || begins(file, "P6")) return "PNM";
  if (begins(file, "<")) return "a text: HTML, XML or SVG";
  if (begins(file, "PK")) return "a zip archive";
  if (begins(file, "version https://git-lfs")) return "a pointer of Git LFS, not the file itself";
  return nullptr;
}

[[noreturn]] void refuse_format(const support::SourceFile& source, std::span<const uint8_t> file) {
  if (file.empty())
    source.bad(0, std::string("the file is empty, expected a PNG or JPEG image") + kRemedy);
  std::string found;
  for (size_t i = 0; i < std::min<size_t>(file.size(), 4); ++i) {
    char byte[8];
    std::snprintf(byte, sizeof byte, "%s%02x", i ? " " : "", file[i]);
    found += byte;
  }
  const char* known = other_format(file);
  source.bad(0, "the file begins with " + found + (known ? std::string(" (") + known + ")" : "") +
                    ", expected a PNG or JPEG image; convert it, delete it, or leave its ending " +
                    "out of extensions");
}

void to_grey(Pixels& p) {
  const size_t n = static_cast<size_t>(p.width) * static_cast<size_t>(p.height);
  uint8_t* at = p.bytes.data();
  for (size_t i = 0; i < n; ++i) {
    // 0.299, 0.587 and 0.114 of ITU-R 601, in units of 2^-16.
    const uint32_t sum = at[3 * i] * 19595u + at[3 * i + 1] * 38470u + at[3 * i + 2] * 7471u;
    at[i] = static_cast<uint8_t>((sum + 0x8000u) >> 16);
  }
  p.bytes.resize(n);
  p.channels = 1;
}
void to_colors(Pixels& p) {
  const size_t n = static_cast<size_t>(p.width) * static_cast<size_t>(p.height);
  p.bytes.resize(3 * n);
  uint8_t* at = p.bytes.data();
  for (size_t i = n; i-- > 0;) at[3 * i] = at[3 * i + 1] = at[3 * i + 2] = at[i];
  p.channels = 3;
}

uint32_t big_endian(const uint8_t* p, int n) {
  uint32_t v = 0;
  for (int i = 0; i < n; ++i) v = v << 8 | p[i];
  return v;
}

// The segments in front of the frame header, of which only the heads are read.
std::optional<Extent> jpeg_extent(const support::SourceFile& source,
                                  const support::SteadyFile& file) {
  constexpr int kMostSegments = 1000;
  uint64_t at = 2;
  for (int i = 0; i < kMostSegments; ++i) {
    std::array<uint8_t, 9> head{};
    if (at + head.size() > file.size())
      source.bad(file.size(),
                 std::string("the JPEG data is truncated: it ends before the size of the image") +
                     kRemedy);
    file.read(at, head.data(), head.size());
    const uint8_t marker = head[1];
    if (head[0] != 0xFF) return std::nullopt;  // decode() reports it, or can do without
    if (marker == 0xFF) {                      // padding
      ++at;
      continue;
    }
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {  // without a length
      at += 2;
      continue;
    }
    const bool is_frame =
        marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (is_frame) return Extent{big_endian(&head[7], 2), big_endian(&head[5], 2)};
    if (marker == 0xDA || marker == 0xD9) return std::nullopt;  // pixels, or the end
    at += 2 + big_endian(&head[2], 2);
  }
  return std::nullopt;
}

}  // namespace

void check_pixels(const support::SourceFile& source, int64_t width, int64_t height,
                  int64_t max_pixels) {
  if (width < 1 || height < 1)
    source.bad(0, "the image has " + std::to_string(width) + " x " + std::to_string(height) +
                      " pixels, expected at least one" + kRemedy);
  constexpr int64_t kMostSide = 1'000'000;  // scaling keeps one side of an image, or weights for it
  if (std::max(width, height) > kMostSide)
    source.bad(0, "the image has " + std::to_string(width) + " x " + std::to_string(height) +
                      " pixels, expected at most " + std::to_string(kMostSide) +
                      " on a side; cut it into several");
  if (width > max_pixels / height)
    source.bad(0, "the image has " + std::to_string(width) + " x " + std::to_string(height) +
                      " pixels, expected at most " + std::to_string(max_pixels) +
                      " together; shrink it, or set max_pixels to more");
}

void allocate(int64_t width, int64_t height, int channels, Pixels& to) {
  to.width = width;
  to.height = height;
  to.channels = channels;
  to.bytes.resize(to.row_bytes() * static_cast<size_t>(height));
}

void decode(const support::SourceFile& source, std::span<const uint8_t> file, int channels,
            int64_t max_pixels, Pixels& to) {
  if (begins(file, kPng))
    decode_png(source, file, max_pixels, to);
  else if (begins(file, kJpeg))
    decode_jpeg(source, file, max_pixels, to);
  else
    refuse_format(source, file);
  if (channels == 1 && to.channels == 3) to_grey(to);
  if (channels == 3 && to.channels == 1) to_colors(to);
}

std::optional<Extent> extent_of(const support::SourceFile& source, const support::SteadyFile& file,
                                int64_t max_pixels) {
  std::array<uint8_t, 24> head{};
  const auto n = static_cast<size_t>(std::min<uint64_t>(file.size(), head.size()));
  file.read(0, head.data(), n);
  const std::span<const uint8_t> found(head.data(), n);
  std::optional<Extent> extent;
  if (begins(found, kPng)) {
    if (n < head.size() || !begins(found, "IHDR", 12))
      source.bad(std::min<size_t>(n, 12),
                 std::string("damaged PNG data: the size of the image is missing") + kRemedy);
    extent = Extent{big_endian(&head[16], 4), big_endian(&head[20], 4)};
  } else if (begins(found, kJpeg)) {
    extent = jpeg_extent(source, file);
  } else {
    refuse_format(source, found);
  }
  if (extent) check_pixels(source, extent->width, extent->height, max_pixels);
  return extent;
}

}  // namespace plait::data::images
