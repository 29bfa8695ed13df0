#include "plugins/data/images/resize.hpp"

#include <algorithm>
#include <cmath>

namespace plait::data::images {
namespace {

constexpr int kBits = 22;

// Half of the space that is left, a half rounded to the even number.
int64_t middle(int64_t whole, int64_t part) {
  const int64_t left = whole - part;
  return left / 2 + (left % 4 == 3 ? 1 : 0);
}

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

uint8_t rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

}  // namespace

Placement place(Extent image, const Target& target) {
  const Extent size = target.size;
  if (target.fit == Fit::kStretch) return {size, 0, 0};
  const int64_t w = image.width, h = image.height;
  Extent whole;
  if (target.shorter > 0)
    whole = w <= h ? Extent{target.shorter, target.shorter * h / w}
                   : Extent{target.shorter * w / h, target.shorter};
  else if (size.width * h >= size.height * w)
    whole = {size.width, size.width * h / w};
  else
    whole = {size.height * w / h, size.height};
  return {whole, middle(whole.width, size.width), middle(whole.height, size.height)};
}

void Resizer::make(Line& line, int64_t from, int64_t to, int64_t begin, int64_t n) {
  if (line.from == from && line.to == to && line.begin == begin && line.n == n) return;
  const double factor = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(factor, 1.0);  // of the filter, to each side
  const auto count = static_cast<size_t>(n);
  line.most = static_cast<size_t>(std::ceil(reach)) * 2 + 1;
  line.first.resize(count);
  line.count.resize(count);
  line.weights.assign(count * line.most, 0);
  std::vector<double> weights(line.most);
  for (size_t i = 0; i < count; ++i) {
    const double center = (static_cast<double>(begin + static_cast<int64_t>(i)) + 0.5) * factor;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(center - reach + 0.5)));
    const auto end =
        std::min<int64_t>(from, static_cast<int64_t>(std::floor(center + reach + 0.5)));
    double sum = 0;
    for (int64_t k = first; k < end; ++k) {
      double& w = weights[static_cast<size_t>(k - first)];
      w = triangle((static_cast<double>(k) - center + 0.5) * (1.0 / reach));
      sum += w;
    }
    line.first[i] = first;
    line.count[i] = end - first;
    for (size_t k = 0; k < static_cast<size_t>(end - first); ++k)
      line.weights[i * line.most + k] =
          static_cast<int32_t>(std::floor(0.5 + weights[k] / sum * (1 << kBits)));
  }
  line.from = from;
  line.to = to;
  line.begin = begin;
  line.n = n;
}

template <int C>
void Resizer::scale(const Pixels& from, bool mirrored, uint8_t* to) {
  const auto width = static_cast<size_t>(target_.size.width),
             height = static_cast<size_t>(target_.size.height);
  const int64_t row_first = rows_.first.front(), row_end = rows_.first.back() + rows_.count.back();
  const size_t row_bytes = width * C;
  narrow_.resize(static_cast<size_t>(row_end - row_first) * row_bytes);
  uint8_t* out = narrow_.data();
  for (int64_t y = row_first; y < row_end; ++y) {
    const uint8_t* row = from.bytes.data() + static_cast<size_t>(y) * from.row_bytes();
    for (size_t x = 0; x < width; ++x, out += C) {
      const uint8_t* at = row + columns_.first[x] * C;
      const int32_t* w = columns_.weights.data() + x * columns_.most;
      int32_t sum[C];
      std::fill_n(sum, C, 1 << (kBits - 1));
      for (int64_t k = 0; k < columns_.count[x]; ++k, at += C)
        for (int c = 0; c < C; ++c) sum[c] += at[c] * w[k];
      for (int c = 0; c < C; ++c) out[c] = rounded(sum[c]);
    }
  }
  std::vector<int32_t> sums(row_bytes);
  for (size_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    const uint8_t* at =
        narrow_.data() + static_cast<size_t>(rows_.first[y] - row_first) * row_bytes;
    const int32_t* w = rows_.weights.data() + y * rows_.most;
    for (int64_t k = 0; k < rows_.count[y]; ++k, at += row_bytes)
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += at[i] * w[k];
    for (size_t x = 0; x < width; ++x)
      for (int c = 0; c < C; ++c)
        to[(static_cast<size_t>(c) * height + y) * width + (mirrored ? width - 1 - x : x)] =
            rounded(sums[x * C + static_cast<size_t>(c)]);
  }
}

void Resizer::operator()(const Pixels& from, bool mirrored, uint8_t* to) {
  const Extent image{from.width, from.height};
  const Placement at = place(image, target_);
  if (at.whole == image && target_.size == image) return to_planes(from, mirrored, to);
  make(columns_, image.width, at.whole.width, at.left, target_.size.width);
  make(rows_, image.height, at.whole.height, at.top, target_.size.height);
  if (from.channels == 1)
    scale<1>(from, mirrored, to);
  else
    scale<3>(from, mirrored, to);
}

void to_planes(const Pixels& from, bool mirrored, uint8_t* to) {
  const auto width = static_cast<size_t>(from.width), height = static_cast<size_t>(from.height),
             channels = static_cast<size_t>(from.channels);
  const uint8_t* at = from.bytes.data();
  for (size_t y = 0; y < height; ++y)
    for (size_t x = 0; x < width; ++x)
      for (size_t c = 0; c < channels; ++c)
        to[(c * height + y) * width + (mirrored ? width - 1 - x : x)] = *at++;
}

}  // namespace plait::data::images
