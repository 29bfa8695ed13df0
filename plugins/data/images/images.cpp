// data-images: folders of PNG and JPEG files, one folder for each class. Fields "image" u8
// (channels, H, W) and "label" i32 (). Files stay on disk and are decoded when they are read.
#include <plait/plugin.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "kit/philox.hpp"
#include "plugins/data/images/decode.hpp"
#include "plugins/data/images/resize.hpp"
#include "plugins/data/images/tree.hpp"

#include <xxhash.h>

namespace {
using namespace plait;
using data::images::Extent;
using data::images::Fit;

constexpr int64_t kMostSide = 65535;
constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;
constexpr int64_t kMostChecked = 4096;  // files whose heads are read when the dataset opens

constexpr plait_option kImages[] = {
    opt_path(
        "path", nullptr,
        "folder with one folder of images for each class; classes are numbered by their sorted "
        "names"),
    opt_ints("size", "[]",
             "[H, W] of the samples, to which images are scaled (bilinear, antialiased); empty: as "
             "the images are, which then must have the same size; [0, 0]: that of the first image, "
             "for a look at images of several sizes"),
    opt_choice("fit", "\"crop\"", "crop|stretch",
               "how other proportions become those of size: crop scales the image until it covers "
               "size and takes the middle, stretch changes its proportions"),
    at_most(
        at_least(opt_int("shorter", "0",
                         "with fit = \"crop\": length of the shorter side before the middle is "
                         "taken, as 256 for a size of [224, 224]; 0: the least that covers size"),
                 0),
        kMostSide),
    at_most(
        at_least(opt_int("channels", "3", "3: red, green, blue; 1: grey, of colours by ITU-R 601"),
                 1),
        3),
    opt_bool("flip", "false",
             "in training, mirror half of the images, left to right; which ones differs from "
             "epoch to epoch, by seed"),
    at_least(opt_int("seed", "0", "another seed flips other images"), 0),
    opt_texts("extensions", "[\"png\", \"jpg\", \"jpeg\"]",
              "endings of the files that are images, in capitals or not; other files are left out"),
    at_most(
        at_least(opt_int("max_pixels", "100000000",
                         "pixels of an image in its file, at most: decoding takes up to 12 bytes "
                         "for each"),
                 1),
        1e10),
};

class Images {
 public:
  Images(const Host& host, const Options& o)
      : tree_(std::string(o.text("path")), endings(o)),
        source_(support::whole_path(std::string(o.text("path")))),
        channels_(static_cast<int>(o.integer("channels"))),
        flip_(o.flag("flip")),
        seed_(static_cast<uint64_t>(o.integer("seed"))),
        max_pixels_(o.integer("max_pixels")) {
    if (channels_ == 2)
      fail(PLAIT_ERR_CONFIG, "[data.images] channels is 2, expected 1 or 3; set at " +
                                 std::string(o.origin("channels")));
    read_target(o);
    const Sizes sizes = check_heads();
    if (as_first_ && sizes.size() > 1)
      host.log(PLAIT_LOG_INFO, source_ + ": " + described(sizes) + looked_at() +
                                   "; all are scaled to " + size_text(target_.size) +
                                   ", that of the first; to train on them set size = [H, W]");
    fields_[0] = {"image", PLAIT_FIELD_INPUT, 0,
                  Shape({channels_, target_.size.height, target_.size.width}, PLAIT_U8).raw()};
    fields_[1] = {"label", PLAIT_FIELD_TARGET, 0, Shape(std::vector<int64_t>{}, PLAIT_I32).raw()};
    if (tree_.other_images() > 0)
      host.log(PLAIT_LOG_WARN, "[data.images] " + std::to_string(tree_.other_images()) +
                                   " files of other formats are left out, such as '" +
                                   tree_.other_image() + "'; convert them to PNG or JPEG");
  }

  void info(plait_dataset_info& out) const {
    out.n_samples = tree_.size();
    out.fields = fields_;
    out.n_fields = 2;
    out.host_bytes = tree_.host_bytes();
    const uint64_t options[] = {
        static_cast<uint64_t>(channels_), static_cast<uint64_t>(target_.size.width),
        static_cast<uint64_t>(target_.size.height), static_cast<uint64_t>(target_.fit),
        static_cast<uint64_t>(target_.shorter)};
    // Without flips: the samples are the same, and parts of them are compared by it.
    out.fingerprint = XXH3_64bits_withSeed(options, sizeof options, tree_.fingerprint());
  }

  void read(std::span<const int64_t> indices, void* const* outs) const {
    read_all(indices, outs, [](int64_t) { return false; });
  }
  void read_epoch(int64_t epoch, std::span<const int64_t> indices, void* const* outs) const {
    read_all(indices, outs, [&](int64_t i) { return flip_ && is_flipped(epoch, i); });
  }

  const char* text_of(uint32_t field, uint32_t what, uint64_t index) const noexcept {
    if (what == PLAIT_TEXT_SOURCE) return index == 0 ? source_.c_str() : nullptr;
    return field == 1 && what == PLAIT_TEXT_CLASS && index < tree_.classes().size()
               ? tree_.classes()[index].c_str()
               : nullptr;
  }

 private:
  static std::vector<std::string> endings(const Options& o) {
    std::vector<std::string> all = o.texts("extensions");
    if (all.empty() || std::any_of(all.begin(), all.end(), [](const auto& one) {
          return one.empty() || one == "." || one.find('/') != std::string::npos;
        }))
      fail(PLAIT_ERR_CONFIG,
           "[data.images] extensions is empty or has one that no file can have, expected endings "
           "such as \"png\"; set at " +
               std::string(o.origin("extensions")));
    return all;
  }

  void read_target(const Options& o) {
    const auto refuse = [&](const char* option, const std::string& what) {
      fail(PLAIT_ERR_CONFIG,
           "[data.images] " + std::string(option) + " " + what + "; set at " + o.origin(option));
    };
    target_.fit = o.text("fit") == "stretch" ? Fit::kStretch : Fit::kCrop;
    target_.shorter = o.integer("shorter");
    const auto size = o.integers("size");
    scaled_ = !size.empty();
    if (!scaled_) {
      if (target_.shorter > 0) refuse("shorter", "needs size = [H, W], what to take of the image");
      return;
    }
    as_first_ = size.size() == 2 && size[0] == 0 && size[1] == 0;
    if (as_first_) {
      if (target_.shorter > 0)
        refuse("shorter", "needs the H and W that size = [0, 0] leaves open");
      return;
    }
    if (size.size() != 2 || *std::min_element(size.begin(), size.end()) < 1 ||
        *std::max_element(size.begin(), size.end()) > kMostSide)
      refuse("size", "is " + Shape({size.begin(), size.end()}).text() +
                         ", expected [H, W], each from 1 to " + std::to_string(kMostSide));
    target_.size = {size[1], size[0]};
    if (target_.shorter == 0) return;
    if (target_.fit == Fit::kStretch)
      refuse("shorter", "belongs to fit = \"crop\", and fit is \"stretch\"; keep one");
    if (target_.shorter < std::max(size[0], size[1]))
      refuse("shorter", "is " + std::to_string(target_.shorter) +
                            ", expected at least H and W of size, " +
                            std::to_string(std::max(size[0], size[1])));
  }

  support::SourceFile source(int64_t image) const {
    return {"data.images", "path", tree_.path(image),
            "is it still there, and may this user read it?"};
  }

  // How many images have each size, (width, height).
  using Sizes = std::map<std::pair<int64_t, int64_t>, int64_t>;

  static std::string size_text(Extent e) {
    return std::to_string(e.width) + " x " + std::to_string(e.height);
  }
  // The sizes that most images have.
  static std::string described(const Sizes& sizes) {
    constexpr size_t kShown = 8;
    std::vector<std::pair<Sizes::key_type, int64_t>> all(sizes.begin(), sizes.end());
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text = "images of " + std::to_string(all.size()) + " sizes, width x height: ";
    for (size_t i = 0; i < std::min(all.size(), kShown); ++i)
      text += (i ? ", " : "") + size_text({all[i].first.first, all[i].first.second}) + " (" +
              std::to_string(all[i].second) + ")";
    return text + (all.size() > kShown ? " and others" : "");
  }

  std::string looked_at() const {
    return tree_.size() <= kMostChecked
               ? ""
               : " of the " + std::to_string(kMostChecked) + " that were looked at";
  }

  // Of all images, or of many at even distances.
  Sizes check_heads() {
    Sizes sizes;
    const int64_t n = tree_.size(), checked = std::min(n, kMostChecked);
    for (int64_t k = 0; k < checked; ++k) {
      const int64_t i = k * n / checked;
      const support::SourceFile name = source(i);
      const support::SteadyFile file(name, "");
      const auto extent = data::images::extent_of(name, file, max_pixels_);
      if (!extent) continue;
      ++sizes[{extent->width, extent->height}];
      if (target_.size == Extent{}) target_.size = *extent;
      if (!scaled_) check_same(name, *extent);
    }
    if (target_.size == Extent{})
      fail(PLAIT_ERR_DATA, source(0).text() + ": the head does not tell the size of the image" +
                               data::images::kRemedy);
    return sizes;
  }
  void check_same(const support::SourceFile& name, Extent found) const {
    if (found != target_.size)
      fail(PLAIT_ERR_DATA, name.text() + ": the image has " + size_text(found) +
                               " pixels, expected " + size_text(target_.size) +
                               " as the first one; set size = [H, W], to which all are scaled");
  }

  bool is_flipped(int64_t epoch, int64_t image) const {
    // The high word of the counter separates this use of the seed from others.
    constexpr uint64_t kPurpose = 0x666C697000000000u;  // "flip"
    const auto word = kit::philox(static_cast<uint64_t>(image),
                                  kPurpose + static_cast<uint64_t>(epoch), seed_)[0];
    return (word & 1) != 0;
  }

  template <class Flipped>
  void read_all(std::span<const int64_t> indices, void* const* outs, const Flipped& flipped) const {
    data::images::Resizer resize(target_);
    data::images::Pixels pixels;
    support::Bytes bytes;
    auto* image = static_cast<uint8_t*>(outs[0]);
    auto* label = static_cast<int32_t*>(outs[1]);
    const size_t size = static_cast<size_t>(channels_ * target_.size.width * target_.size.height);
    for (size_t k = 0; k < indices.size(); ++k, image += size) {
      const int64_t i = indices[k];
      if (k > 0 && i == indices[k - 1]) {  // the empty places of a batch
        std::copy_n(image - size, size, image);
        label[k] = label[k - 1];
        continue;
      }
      if (i < 0 || i >= tree_.size())
        fail(PLAIT_ERR_INVALID, "[data.images] sample " + std::to_string(i) +
                                    " was asked for, there are " + std::to_string(tree_.size()));
      const support::SourceFile name = source(i);
      support::in_memory(
          name,
          [&] {
            take(name, bytes);
            data::images::decode(name, bytes.span(), channels_, max_pixels_, pixels);
            if (!scaled_) check_same(name, {pixels.width, pixels.height});
            resize(pixels, flipped(i), image);
          },
          "shrink the image");
      label[k] = tree_.label(i);
    }
  }
  static void take(const support::SourceFile& name, support::Bytes& bytes) {
    const support::SteadyFile file(name, "");
    if (file.size() > kMostFileBytes)
      name.bad(kMostFileBytes, "the file has " + std::to_string(file.size()) +
                                   " bytes, expected at most " + std::to_string(kMostFileBytes) +
                                   "; is it an image?");
    bytes.resize(file.size());
    file.read(0, bytes.data(), bytes.size());
  }

  data::images::Tree tree_;
  std::string source_;
  int channels_;
  bool flip_, scaled_ = false, as_first_ = false;  // as_first_: scaled to the size of the first
  uint64_t seed_;
  int64_t max_pixels_;
  data::images::Target target_;
  plait_field fields_[2] = {};
};
}  // namespace

PLAIT_PLUGIN("data-images", "0.1.0", "Apache-2.0", "Folders of PNG and JPEG images") {
  static const auto images =
      dataset<Images>("images", "PNG and JPEG files in one folder for each class", kImages);
  host.add(images);
}
