// data-split: a part of another dataset, for training, validation or a test. A sample is in one
// part, by a hash of its index or of a field: also after samples were appended.
#include <plait/plugin.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "kit/dtype.hpp"
#include "plugins/data/split/parts.hpp"

#include <xxhash.h>

namespace {
using namespace plait;
using data::split::Part;

constexpr size_t kMostFields = 32;
constexpr size_t kAtOnce = 256;  // samples

constexpr plait_option kSplit[] = {
    opt_item("dataset", nullptr, PLAIT_KIND_DATASET, "the dataset that is split"),
    opt_choice("part", nullptr, "train|validation|test", "the part to take"),
    below(at_least(opt_real("validation", "0.1", "share of the samples that is for validation"), 0),
          1),
    below(at_least(opt_real("test", "0.0", "share of the samples that is for a test"), 0), 1),
    at_least(opt_int("seed", "0", "another seed makes other parts"), 0),
    opt_text("by", "\"\"",
             "field by which samples are split: those with equal values are in one part, whatever "
             "their order (\"key\" of a csv, \"input\"); empty: by their index"),
};

class Split {
 public:
  Split(const Host& host, const Options& o) : whole_(host, only(o)) {
    for (const plait_field& f : whole_.fields())
      bytes_.push_back(static_cast<uint64_t>(Shape(f.shape).count()) *
                       kit::dtype_bytes(f.shape.dtype));
    if (bytes_.size() > kMostFields)
      refuse("the dataset has " + std::to_string(bytes_.size()) + " fields, at most " +
             std::to_string(kMostFields) + " are possible");
    const data::split::Shares shares{o.real("validation"), o.real("test"),
                                     static_cast<uint64_t>(o.integer("seed"))};
    if (shares.validation + shares.test >= 1)
      refuse("validation and test are " + std::to_string(shares.validation + shares.test) +
             " together, expected less than 1; set at " + o.origin("validation"));
    const std::string_view name = o.text("part");
    const Part part = name == "validation" ? Part::kValidation
                      : name == "test"     ? Part::kTest
                                           : Part::kTrain;
    choose(shares, part, o);
    if (samples_.empty())
      refuse("part \"" + std::string(name) + "\" has none of " +
                 std::to_string(whole_.info().n_samples) +
                 " samples; set a greater share; set at " + o.origin("part"),
             PLAIT_ERR_DATA);
    host.log(PLAIT_LOG_INFO, "part '" + std::string(name) +
                                 "': " + std::to_string(samples_.size()) + " of " +
                                 std::to_string(whole_.info().n_samples) + " samples");
    keep_texts(o, name);
    fingerprint_ = XXH3_64bits_withSeed(samples_.data(), samples_.size() * sizeof samples_[0],
                                        whole_.info().fingerprint);
  }

  const char* text_of(uint32_t field, uint32_t what, uint64_t index) const noexcept {
    if (what == PLAIT_TEXT_SOURCE) return nullptr;  // of which it has a part alone
    if (what != PLAIT_TEXT_PART) return whole_.text_of(field, what, index);
    return index < texts_.size() ? texts_[index].c_str() : nullptr;
  }

  void info(plait_dataset_info& out) const {
    out.n_samples = static_cast<int64_t>(samples_.size());
    out.fields = whole_.info().fields;
    out.n_fields = whole_.info().n_fields;
    out.host_bytes = whole_.info().host_bytes + samples_.capacity() * sizeof samples_[0];
    out.fingerprint = fingerprint_;
  }

  void read(std::span<const int64_t> indices, void* const* outs) const {
    read_by([&](auto... all) { whole_.read(all...); }, indices, outs);
  }
  // As the whole has them in that epoch.
  void read_epoch(int64_t epoch, std::span<const int64_t> indices, void* const* outs) const {
    read_by([&](auto... all) { whole_.read_epoch(epoch, all...); }, indices, outs);
  }

 private:
  template <class Read>
  void read_by(const Read& read, std::span<const int64_t> indices, void* const* outs) const {
    std::array<int64_t, kAtOnce> whole;
    std::array<void*, kMostFields> at;
    for (size_t first = 0; first < indices.size(); first += kAtOnce) {
      const size_t n = std::min(kAtOnce, indices.size() - first);
      for (size_t i = 0; i < n; ++i) whole[i] = sample(indices[first + i]);
      for (size_t f = 0; f < bytes_.size(); ++f)
        at[f] = static_cast<char*>(outs[f]) + first * bytes_[f];
      read(std::span<const int64_t>(whole.data(), n), at.data());
    }
  }

  [[noreturn]] static void refuse(const std::string& what, uint32_t code = PLAIT_ERR_CONFIG) {
    fail(code, "[data.split] " + what);
  }
  static InnerItem only(const Options& o) {
    const std::vector<InnerItem> items = o.items("dataset");
    if (items.size() != 1)
      refuse(std::string("dataset is missing, expected {type = ...}; set at ") +
             o.origin("dataset"));
    return items[0];
  }
  int64_t sample(int64_t index) const {
    if (index < 0 || index >= static_cast<int64_t>(samples_.size()))
      refuse("sample " + std::to_string(index) + " was asked for, there are " +
                 std::to_string(samples_.size()),
             PLAIT_ERR_INVALID);
    return samples_[static_cast<size_t>(index)];
  }

  void keep_texts(const Options& o, std::string_view part) {
    texts_[0] = what_is_divided();
    texts_[1] = "validation = " + text_of_share(o.real("validation")) +
                ", test = " + text_of_share(o.real("test")) +
                ", seed = " + std::to_string(o.integer("seed")) + ", by = \"" +
                std::string(o.text("by")) + "\"" + what_decides(o);
    texts_[2] = part;
  }
  // In two lines: as many samples of one file are the same, whichever columns of it are read, and
  // a copy of the file has the same hash of its content.
  std::string what_is_divided() const {
    const plait_dataset_info& whole = whole_.info();
    const std::string n = std::to_string(whole.n_samples) + " samples ";
    const char* file = whole_.text_of(0, PLAIT_TEXT_SOURCE, 0);
    std::string path = file ? file : "";
    std::replace(path.begin(), path.end(), '\n', ' ');
    // A dataset that was opened for its metadata has no hash.
    const std::string content = whole.fingerprint ? n + std::to_string(whole.fingerprint) : "";
    if (path.empty()) return content;
    return n + "of " + path + (content.empty() ? "" : "\n" + content);
  }
  // The columns of the field, or the number of the samples: lines that were left out move the index
  // of those behind them.
  std::string what_decides(const Options& o) const {
    if (o.text("by").empty())
      return " (the index among " + std::to_string(whole_.info().n_samples) + " samples)";
    std::string columns;
    const auto by = static_cast<uint32_t>(field(o));
    for (uint64_t i = 0; const char* name = whole_.text_of(by, PLAIT_TEXT_COLUMN, i); ++i)
      columns += (i ? ", '" : " (of '") + std::string(name) + "'";
    return columns.empty() ? "" : columns + ")";
  }
  // With all its digits.
  static std::string text_of_share(double share) {
    std::array<char, 32> text;
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), share).ptr};
  }

  void choose(const data::split::Shares& shares, Part part, const Options& o) {
    const int64_t n = whole_.info().n_samples;
    if (o.text("by").empty()) {
      for (int64_t i = 0; i < n; ++i)
        if (data::split::part_of(shares, i) == part) samples_.push_back(i);
    } else {
      choose_by(field(o), shares, part);
    }
    samples_.shrink_to_fit();
  }

  size_t field(const Options& o) const {
    std::string names;
    for (size_t f = 0; f < bytes_.size(); ++f) {
      const char* name = whole_.fields()[f].name;
      if (o.text("by") == name) return f;
      names += (f ? ", '" : "'") + std::string(name) + "'";
    }
    refuse("by names field '" + std::string(o.text("by")) + "', which does not exist; there are " +
           names + "; set at " + o.origin("by"));
  }

  // Reads all samples once.
  void choose_by(size_t key, const data::split::Shares& shares, Part part) {
    std::vector<std::vector<uint8_t>> rows;
    std::vector<void*> outs;
    for (const uint64_t size : bytes_) {
      rows.emplace_back(size * kAtOnce);
      outs.push_back(rows.back().data());
    }
    std::array<int64_t, kAtOnce> indices;
    const int64_t n = whole_.info().n_samples;
    for (int64_t first = 0; first < n; first += static_cast<int64_t>(kAtOnce)) {
      const auto count = static_cast<size_t>(std::min<int64_t>(kAtOnce, n - first));
      for (size_t i = 0; i < count; ++i) indices[i] = first + static_cast<int64_t>(i);
      whole_.read({indices.data(), count}, outs.data());
      for (size_t i = 0; i < count; ++i) {
        const std::span<const uint8_t> value(rows[key].data() + i * bytes_[key], bytes_[key]);
        if (data::split::part_of(shares, value) == part) samples_.push_back(indices[i]);
      }
    }
  }

  HostDataset whole_;
  std::vector<uint64_t> bytes_;       // of each field of a sample
  std::vector<int64_t> samples_;      // of the whole dataset, in their order
  std::array<std::string, 3> texts_;  // PLAIT_TEXT_PART
  uint64_t fingerprint_ = 0;
};
}  // namespace

PLAIT_PLUGIN("data-split", "0.1.0", "Apache-2.0", "Parts of a dataset") {
  static const auto split =
      dataset<Split>("split", "a part of a dataset, for training, validation or a test", kSplit);
  host.add(split);
}
