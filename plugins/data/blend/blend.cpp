// data-blend: a dataset made of others, each with its share of the samples.
//
// Sample n comes from the part that is furthest below its share; a part gives its samples in their
// order, and begins again behind the last one.
#include <plait/plugin.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kit/dataset_texts.hpp"
#include "kit/dtype.hpp"
#include "plugins/data/blend/mix.hpp"

#include <xxhash.h>

namespace {
using namespace plait;

constexpr size_t kMostParts = 65536, kMostFields = 32;

constexpr plait_option kBlend[] = {
    opt_items("parts", nullptr, PLAIT_KIND_DATASET, "the datasets; their fields are the same"),
    above(opt_reals("weights", "[]",
                    "share of each part, in any unit; empty: by the numbers of their samples"),
          0),
    above(opt_real("alpha", "1.0", "without weights: shares are in proportion to samples^alpha"),
          0),
    above(opt_real("temperature", "1.0",
                   "without weights: shares are in proportion to samples^(1/temperature)"),
          0),
    at_least(
        opt_int("maximum", "0",
                "without weights: samples of a part that count for its share, at most; 0: all"),
        0),
    at_most(
        at_least(opt_int("samples", "0", "samples of the blend; 0: as many as the parts have"), 0),
        4e9),
    opt_text("part_field", "\"\"",
             "name of a further field (), i32: the number of the part, from 0 on, that a sample "
             "comes from; empty: none"),
};

std::string text(int64_t n) { return std::to_string(n); }

[[noreturn]] void refuse(const std::string& what, uint32_t code = PLAIT_ERR_CONFIG) {
  fail(code, "[data.blend] " + what);
}

class Blend {
 public:
  Blend(const Host& host, const Options& o) {
    const std::vector<InnerItem> items = o.items("parts");
    if (items.empty() || items.size() > kMostParts)
      refuse("parts has " + std::to_string(items.size()) + " datasets, expected 1 to " +
             std::to_string(kMostParts) + "; set at " + o.origin("parts"));
    for (const InnerItem& item : items) {
      parts_.emplace_back(host, item);
      sizes_.push_back(parts_.back().info().n_samples);
      if (sizes_.back() < 1)
        refuse("parts[" + std::to_string(parts_.size() - 1) + "] (" + item.type +
                   ") has no samples; leave it out",
               PLAIT_ERR_DATA);
      check_fields(item.type);
      keep_texts(parts_.back(), PLAIT_TEXT_PART, part_texts_);
      keep_texts(parts_.back(), PLAIT_TEXT_TOKENIZER, tokenizer_texts_);
      keep_texts(parts_.back(), PLAIT_TEXT_TOKENIZER_TYPE, tokenizer_types_);
      tokenizer_types_.resize(tokenizer_texts_.size() / 2);  // "": the part does not tell it
    }
    add_part_field(o);
    const std::vector<double> shares = shares_from(o);
    place(data::blend::order_of(shares, n_samples(o)));
    tell_unseen(host);
    make_fingerprint(shares);
  }

  // Of the first part: all have the same fields. What these datasets are parts of, and the
  // tokenizers of their ids, are told of each, and the blend as a whole comes from no file.
  const char* text_of(uint32_t field, uint32_t what, uint64_t index) const noexcept {
    if (what == PLAIT_TEXT_SOURCE) return nullptr;
    const auto of_parts = [index](const std::vector<std::string>& all) {
      return index < all.size() ? all[index].c_str() : nullptr;
    };
    if (what == PLAIT_TEXT_PART) return of_parts(part_texts_);
    if (what == PLAIT_TEXT_TOKENIZER) return of_parts(tokenizer_texts_);
    if (what == PLAIT_TEXT_TOKENIZER_TYPE) return of_parts(tokenizer_types_);
    // Numbers of parts have no texts.
    return field < bytes_.size() ? parts_[0].text_of(field, what, index) : nullptr;
  }

  void info(plait_dataset_info& out) const {
    out.n_samples = static_cast<int64_t>(part_.size());
    out.fields = fields_.data();
    out.n_fields = static_cast<uint32_t>(fields_.size());
    out.host_bytes = part_.capacity() * sizeof part_[0] + sample_.capacity() * sizeof sample_[0];
    for (const HostDataset& part : parts_) out.host_bytes += part.info().host_bytes;
    out.fingerprint = fingerprint_;
  }

  void read(std::span<const int64_t> indices, void* const* outs) const {
    read_by([&](size_t p, int64_t, auto one, auto to) { parts_[p].read(one, to); }, indices, outs);
  }
  // A part that gives its samples several times in an epoch of the blend has as many epochs in it.
  void read_epoch(int64_t epoch, std::span<const int64_t> indices, void* const* outs) const {
    read_by([&](size_t p, int64_t pass, auto one,
                auto to) { parts_[p].read_epoch(epoch * passes_[p] + pass, one, to); },
            indices, outs);
  }

 private:
  template <class Read>
  void read_by(const Read& read, std::span<const int64_t> indices, void* const* outs) const {
    std::array<void*, kMostFields> at;
    const size_t n_fields = bytes_.size();
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= static_cast<int64_t>(part_.size()))
        refuse("sample " + text(indices[i]) + " was asked for, there are " +
                   std::to_string(part_.size()),
               PLAIT_ERR_INVALID);
      const auto n = static_cast<size_t>(indices[i]);
      for (size_t f = 0; f < n_fields; ++f) at[f] = static_cast<char*>(outs[f]) + i * bytes_[f];
      const size_t p = part_[n];
      const int64_t sample = sample_[n] % sizes_[p];
      if (!part_field_.empty()) static_cast<int32_t*>(outs[n_fields])[i] = static_cast<int32_t>(p);
      read(p, sample_[n] / sizes_[p], std::span(&sample, 1), at.data());
    }
  }

  static uint64_t bytes_of(const plait_field& f) {
    return static_cast<uint64_t>(Shape(f.shape).count()) * kit::dtype_bytes(f.shape.dtype);
  }

  // The fields of a sample: what the parts have, and the number of its part where it is asked for.
  void add_part_field(const Options& o) {
    const auto of_parts = parts_[0].fields();
    fields_.assign(of_parts.begin(), of_parts.end());
    part_field_ = o.text("part_field");
    if (part_field_.empty()) return;
    for (const plait_field& f : of_parts)
      if (part_field_ == f.name)
        refuse("part_field is '" + part_field_ +
               "', which the parts have as a field of their own; choose another name; set at " +
               o.origin("part_field"));
    fields_.push_back({part_field_.c_str(), PLAIT_FIELD_INPUT, 0,
                       Shape(std::vector<int64_t>{}, PLAIT_I32).raw()});
  }

  // The fields of the last part beside those of the first one.
  void check_fields(const std::string& type) {
    const auto own = parts_.back().fields(), first = parts_[0].fields();
    const std::string who = "parts[" + std::to_string(parts_.size() - 1) + "] (" + type + ")";
    if (parts_.size() == 1) {
      if (own.size() > kMostFields)
        refuse(who + " has " + std::to_string(own.size()) + " fields, at most " +
               std::to_string(kMostFields) + " are possible");
      for (const plait_field& f : own) bytes_.push_back(bytes_of(f));
      return;
    }
    if (own.size() != first.size())
      refuse(who + " has " + std::to_string(own.size()) + " fields and parts[0] " +
             std::to_string(first.size()) + "; give all parts the same options");
    for (size_t f = 0; f < own.size(); ++f)
      if (std::strcmp(own[f].name, first[f].name) != 0 || own[f].role != first[f].role ||
          Shape(own[f].shape).typed_text() != Shape(first[f].shape).typed_text())
        refuse("field " + std::to_string(f) + " is '" + own[f].name + "' " +
               Shape(own[f].shape).typed_text() + " in " + who + " and '" + first[f].name + "' " +
               Shape(first[f].shape).typed_text() +
               " in parts[0]; parts need the same fields, as by the same length");
    check_texts(who);
  }
  // Numbers of the last part stand for what those of the first one do.
  void check_texts(const std::string& who) const {
    const auto texts = [](const HostDataset& part, std::string name, uint32_t field) {
      return kit::FieldTexts{std::move(name), [&part, field](uint32_t what, uint64_t index) {
                               return part.text_of(field, what, index);
                             }};
    };
    for (uint32_t f = 0; f < bytes_.size(); ++f) {
      const std::string fault = kit::contradiction(
          parts_[0].fields()[f], texts(parts_.back(), who, f), texts(parts_[0], "parts[0]", f));
      if (!fault.empty()) refuse(fault + "; " + kit::kSameNumbers);
    }
  }

  static void keep_texts(const HostDataset& part, uint32_t what, std::vector<std::string>& to) {
    for (uint64_t i = 0; const char* text = part.text_of(0, what, i); ++i) to.emplace_back(text);
  }

  std::vector<double> shares_from(const Options& o) const {
    const auto weights = o.reals("weights");
    const double alpha = o.real("alpha"), temperature = o.real("temperature");
    const bool by_size = alpha != 1 || temperature != 1 || o.integer("maximum") != 0;
    if (alpha != 1 && temperature != 1)
      refuse("alpha is " + std::to_string(alpha) + " and temperature " +
             std::to_string(temperature) + ", which say the same in two ways (alpha = 1 / " +
             "temperature); keep one; set at " + o.origin("temperature"));
    if (weights.empty())
      return data::blend::shares_by_size(sizes_, alpha / temperature, o.integer("maximum"));
    if (by_size)
      refuse(
          "weights says what the shares are, and alpha, temperature or maximum that they "
          "follow the numbers of samples; keep one; set at " +
          std::string(o.origin("weights")));
    if (weights.size() != parts_.size())
      refuse("weights has " + std::to_string(weights.size()) +
             " numbers, expected one for each of " + std::to_string(parts_.size()) +
             " parts; set at " + o.origin("weights"));
    double sum = 0;
    for (const double w : weights) sum += w;
    if (!std::isfinite(sum))
      refuse("the sum of weights is " + std::to_string(sum) +
             ", expected a finite number; set at " + o.origin("weights"));
    return data::blend::shares_of(weights);
  }

  int64_t n_samples(const Options& o) const {
    if (o.integer("samples") > 0) return o.integer("samples");
    int64_t sum = 0;
    for (const int64_t size : sizes_)
      if (__builtin_add_overflow(sum, size, &sum))
        refuse("the parts have more than 2^63 samples; set samples");
    return sum;
  }

  void place(std::vector<uint16_t> order) {
    part_ = std::move(order);
    sample_.resize(part_.size());
    taken_.assign(parts_.size(), 0);
    for (size_t n = 0; n < part_.size(); ++n) {
      const size_t p = part_[n];
      sample_[n] = taken_[p]++;
    }
    for (size_t p = 0; p < parts_.size(); ++p)
      passes_.push_back(std::max<int64_t>(1, (taken_[p] + sizes_[p] - 1) / sizes_[p]));
  }

  void tell_unseen(const Host& host) const {
    for (size_t p = 0; p < parts_.size(); ++p)
      if (taken_[p] < sizes_[p])
        host.log(PLAIT_LOG_INFO, "[data.blend] parts[" + std::to_string(p) + "] gives " +
                                     text(taken_[p]) + " of its " + text(sizes_[p]) +
                                     " samples; a greater `samples` gives more");
  }

  void make_fingerprint(std::span<const double> shares) {
    const auto hash = [&](const void* p, size_t n) {
      fingerprint_ = XXH3_64bits_withSeed(p, n, fingerprint_);
    };
    hash(shares.data(), shares.size_bytes());
    const uint64_t n = part_.size();
    hash(&n, sizeof n);
    for (const HostDataset& part : parts_)
      hash(&part.info().fingerprint, sizeof part.info().fingerprint);
    if (!part_field_.empty()) hash(part_field_.data(), part_field_.size());
  }

  std::vector<HostDataset> parts_;
  std::vector<int64_t> sizes_;       // samples of each part
  std::vector<uint64_t> bytes_;      // of each field of a sample that parts have
  std::vector<plait_field> fields_;  // of a sample
  std::string part_field_;           // the last of them, of the blend itself; "": none
  std::vector<uint16_t> part_;       // of each sample
  std::vector<int64_t> sample_;      // within its part, counted on when that begins again
  std::vector<int64_t> taken_;       // samples that each part gives
  std::vector<int64_t> passes_;      // how often each part begins
  std::vector<std::string> part_texts_, tokenizer_texts_, tokenizer_types_;  // of all
  uint64_t fingerprint_ = 0;
};
}  // namespace

PLAIT_PLUGIN("data-blend", "0.1.0", "Apache-2.0", "Datasets made of others") {
  static const auto blend =
      dataset<Blend>("blend", "several datasets, each with its share of the samples", kBlend);
  host.add(blend);
}
