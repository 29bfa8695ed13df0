// Scaled images beside the results of torchvision's transforms, number by number.
#include <doctest/doctest.h>

#include <algorithm>

#include "plugins/data/images/resize.hpp"
#include "tests/unit/data_images/golden_images.hpp"

using namespace images_test;
using namespace plait::data::images;

namespace {

Target target_of(const json& one) {
  const json& size = one.at("size");
  return {{size[1], size[0]},
          one.at("fit") == "stretch" ? Fit::kStretch : Fit::kCrop,
          one.at("shorter")};
}

Values scaled(Resizer& resize, const Pixels& from, Extent size, bool mirrored = false) {
  Values to(static_cast<size_t>(size.width * size.height * from.channels), 77);
  resize(from, mirrored, to.data());
  return to;
}

bool same(const Placement& a, const Placement& b) {
  return a.whole == b.whole && a.left == b.left && a.top == b.top;
}

}  // namespace

TEST_CASE("crops and stretched images are the library's, to the bit") {
  REQUIRE(golden().at("scale").size() == 13);
  for (const json& one : golden().at("scale")) {
    CAPTURE(one.at("file").get<std::string>());
    CAPTURE(one.at("size").dump());
    const Target target = target_of(one);
    const Pixels from = decoded(content_of(one.at("file")), one.at("channels"));
    Resizer resize(target);
    const Values expected = values_of(one.at("values"));
    CHECK(scaled(resize, from, target.size) == expected);
    CHECK(scaled(resize, from, target.size) == expected);  // with what the first call left
  }
}

TEST_CASE("a mirrored image has its columns in reverse order, and nothing else changes") {
  for (const char* name : {"rgb.png", "wide.png"}) {
    const Pixels from = decoded(content_of(name), 3);
    const Target target{{5, 7}, Fit::kStretch, 0};
    Resizer resize(target);
    Values plain = scaled(resize, from, target.size);
    const Values mirrored = scaled(resize, from, target.size, true);
    CHECK(plain != mirrored);
    for (size_t row = 0; row < 7 * 3; ++row)
      std::reverse(plain.begin() + static_cast<ptrdiff_t>(5 * row),
                   plain.begin() + static_cast<ptrdiff_t>(5 * (row + 1)));
    CHECK(plain == mirrored);
  }
}

TEST_CASE("one resizer takes images of different sizes") {
  const Target target{{6, 6}, Fit::kCrop, 0};
  Resizer shared(target);
  for (const char* name : {"wide.png", "rgb.png", "tall.png", "wide.png", "plain.jpg"}) {
    const Pixels from = decoded(content_of(name), 3);
    Resizer own(target);
    CHECK(scaled(shared, from, target.size) == scaled(own, from, target.size));
  }
}

TEST_CASE("where the middle lies") {
  // 500 x 375 to 224: 298 x 224, of which 37 columns are left out on each side.
  CHECK(same(place({500, 375}, {{224, 224}, Fit::kCrop, 0}), {{298, 224}, 37, 0}));
  CHECK(same(place({375, 500}, {{224, 224}, Fit::kCrop, 256}), {{256, 341}, 16, 58}));
  CHECK(same(place({375, 500}, {{10, 20}, Fit::kStretch, 0}), {{10, 20}, 0, 0}));
  CHECK(same(place({100, 100}, {{30, 10}, Fit::kCrop, 0}), {{30, 30}, 0, 10}));
  CHECK(same(place({100, 100}, {{10, 30}, Fit::kCrop, 0}), {{30, 30}, 10, 0}));
  // A half is rounded to the even number: 1 → 0, 3 → 2, 5 → 2.
  for (const auto& [width, left] : {std::pair{11, 0}, {12, 1}, {13, 2}, {15, 2}, {17, 4}})
    CHECK(place({width, 10}, {{10, 10}, Fit::kCrop, 0}).left == left);
  // One pixel by many: only the part is computed.
  const Target tiny{{4, 4}, Fit::kCrop, 0};
  Pixels from;
  allocate(1, 60000, 1, from);
  std::fill_n(from.bytes.data(), from.bytes.size(), uint8_t{9});
  Resizer resize(tiny);
  CHECK(scaled(resize, from, tiny.size) == Values(16, 9));
}
