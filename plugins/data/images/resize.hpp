// Images scaled to a size, as PyTorch's users know it: bilinear with antialiasing.
//   C channels, H rows and W columns of the result
#pragma once

#include "plugins/data/images/decode.hpp"

#include <vector>

namespace plait::data::images {

enum class Fit : uint8_t { kCrop, kStretch };

struct Target {
  Extent size;  // W, H
  Fit fit = Fit::kCrop;
  int64_t shorter = 0;  // with kCrop: length of the shorter side before the crop; 0: see place()
};

// The image when scaled as a whole, and the part of it that is the result.
struct Placement {
  Extent whole;
  int64_t left = 0, top = 0;
};
// kStretch: exactly W x H. kCrop: the shorter side gets its length, or without one the image just
// covers W x H; the other side follows, rounded down; the part is in the middle, a half rounded to
// the even number. A length of the shorter side must be at least W and H.
Placement place(Extent image, const Target& target);

// Scales an image by a triangle filter, whose support grows with the factor of a reduction, first
// along rows, then along columns. Weights have 22 bits behind the point, and each of the two
// results is rounded to u8: the numbers of Pillow's resize(). Only the part is computed.
class Resizer {
 public:
  explicit Resizer(const Target& target) : target_(target) {}
  // to: (C, H, W). mirrored: columns in reverse order.
  void operator()(const Pixels& from, bool mirrored, uint8_t* to);

 private:
  // What each pixel of a line is made of: the weighted sum of neighbours.
  struct Line {
    int64_t from = 0, to = 0, begin = 0, n = 0;  // what it was made for
    std::vector<int64_t> first;                  // (n): the first neighbour
    std::vector<int64_t> count;                  // (n): how many
    std::vector<int32_t> weights;                // (n, most)
    size_t most = 0;
  };
  static void make(Line& line, int64_t from, int64_t to, int64_t begin, int64_t n);
  template <int C>
  void scale(const Pixels& from, bool mirrored, uint8_t* to);

  Target target_;
  Line columns_, rows_;
  support::Bytes narrow_;  // (rows that are read, W, C)
};

// (h, w, c) as (C, H, W), with columns in reverse order if mirrored.
void to_planes(const Pixels& from, bool mirrored, uint8_t* to);

}  // namespace plait::data::images
