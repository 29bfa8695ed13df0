#include "kit/ops/rope.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

namespace plait::kit {
namespace {

// Angles are rounded to f32 after each operation, as the models were trained with: in double they
// would be other angles at late positions.
class Frequencies {
 public:
  Frequencies(const AttrReader& attrs, int64_t channels)
      : kind_(attrs.text("scaling")),
        theta_(static_cast<float>(attrs.real("theta"))),
        factor_(static_cast<float>(attrs.real("factor"))),
        original_(static_cast<double>(attrs.integer("original"))),
        attrs_(attrs),
        pairs_(channels / 2) {
    need(kind_ == "none" || kind_ == "linear" || original_ > 0,
         "scaling '" + kind_ + "' needs `original`, the length of the training");
    for (int64_t j = 0; j < pairs_; ++j) {
      const float exponent = static_cast<float>(2 * j) / static_cast<float>(channels);
      powers_.push_back(static_cast<float>(std::pow(double{theta_}, double{exponent})));
    }
    if (kind_ != "longrope") return;
    for (const char* factors : {"factors", "long_factors"})  // also those that no sample needs yet
      if (!attrs.text(factors).empty()) longrope(factors);
  }

  // Of samples longer than `original`, or of others: longrope alone distinguishes them.
  std::vector<float> all(bool longer) const {
    if (kind_ == "llama3") return llama3();
    if (kind_ == "yarn") return yarn();
    if (kind_ == "longrope") return longrope(longer ? "long_factors" : "factors");
    std::vector<float> f = plain();
    if (kind_ == "linear")
      for (float& each : f) each /= factor_;
    return f;
  }

  // Peng et al. 2023 (YaRN), equation 22; Ding et al. 2024 (LongRoPE), equation 8.
  float amplitude() const {
    if (const double given = attrs_.real("amplitude"); given > 0) return static_cast<float>(given);
    const double factor = attrs_.real("factor");
    if (kind_ == "longrope" && factor > 1)
      return static_cast<float>(std::sqrt(1 + std::log(factor) / std::log(original_)));
    if (kind_ != "yarn") return 1;
    const auto magnitude = [&](double scale) {
      return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
    };
    const double scale = attrs_.real("mscale"), all = attrs_.real("mscale_all_dim");
    return static_cast<float>(scale > 0 && all > 0 ? magnitude(scale) / magnitude(all)
                                                   : magnitude(1));
  }

 private:
  std::vector<float> plain() const {
    std::vector<float> f;
    for (const float p : powers_) f.push_back(1 / p);
    return f;
  }

  std::vector<float> llama3() const {
    const auto low = static_cast<float>(attrs_.real("low")),
               high = static_cast<float>(attrs_.real("high")), old = static_cast<float>(original_);
    need(high > low, "scaling 'llama3' needs `high` above `low`");
    std::vector<float> f = plain();
    for (float& each : f) {
      const float wave = 2 * std::numbers::pi_v<float> / each;
      if (wave < old / high) continue;
      const float blend = (old / wave - low) / (high - low);
      each = wave > old / low ? each / factor_ : (1 - blend) * each / factor_ + blend * each;
    }
    return f;
  }

  std::vector<float> yarn() const {
    const double r = 2 * static_cast<double>(pairs_), theta = attrs_.real("theta");
    const auto at = [&](const char* beta) {
      return r * std::log(original_ / (attrs_.real(beta) * 2 * std::numbers::pi)) /
             (2 * std::log(theta));
    };
    const double low = std::max(std::floor(at("beta_fast")), 0.0);
    double high = std::min(std::ceil(at("beta_slow")), r - 1);
    if (low == high) high += 0.001;
    std::vector<float> f;
    for (size_t j = 0; j < powers_.size(); ++j) {
      const auto ramp = std::clamp(
          (static_cast<float>(j) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
          1.0f);
      const float keep = 1 - ramp;
      f.push_back(1 / (factor_ * powers_[j]) * (1 - keep) + 1 / powers_[j] * keep);
    }
    return f;
  }

  std::vector<float> longrope(const std::string& factors) const {
    const std::vector<float> divisors = numbers(attrs_.text(factors), factors);
    need(divisors.size() == powers_.size(),
         "scaling 'longrope' has " + std::to_string(divisors.size()) + " numbers in `" + factors +
             "`, expected " + std::to_string(powers_.size()) + ", one for each pair of channels");
    std::vector<float> f;
    for (size_t j = 0; j < powers_.size(); ++j) f.push_back(1 / (divisors[j] * powers_[j]));
    return f;
  }

  // "1.0, 1.25": numbers above 0.
  static std::vector<float> numbers(const std::string& text, const std::string& factors) {
    std::vector<float> all;
    for (const char *at = text.data(), *end = at + text.size(); at != end;) {
      if (*at == ',' || *at == ' ') {
        ++at;
        continue;
      }
      double v = 0;
      const auto [next, error] = std::from_chars(at, end, v);
      need(error == std::errc() && std::isfinite(v) && v > 0,
           "`" + factors + "` has no number above 0 at its character " +
               std::to_string(at - text.data()));
      all.push_back(static_cast<float>(v));
      at = next;
    }
    return all;
  }

  std::string kind_;
  float theta_, factor_;
  double original_;
  const AttrReader& attrs_;
  int64_t pairs_;
  std::vector<float> powers_;  // theta^(2j/r)
};

// Positions (B, ..) of samples whose lengths are (B).
int64_t sample_tokens(const plait_op_desc& d, int64_t tokens) {
  const plait_shape &positions = d.inputs[0], &lengths = d.inputs[1];
  need_index(lengths, "lengths");
  need(positions.ndim > 1 && lengths.ndim == 1 && lengths.dims[0] == positions.dims[0],
       "lengths are " + text(lengths) + " and positions " + text(positions) +
           ", expected one length for each sample, (B) beside (B, ..)");
  return positions.dims[0] > 0 ? tokens / positions.dims[0] : 0;
}

}  // namespace

RopeTable parse_rope_table(const plait_op_desc& d) {
  need_operands(d, std::min(d.n_inputs, 2u), 2);
  const AttrReader attrs(d, kRopeTableAttrs);
  RopeTable t;
  const int64_t channels = attrs.integer("channels");
  need(channels % 2 == 0,
       "`channels` is " + std::to_string(channels) + ", expected an even number");
  t.has_positions = d.n_inputs > 0;
  t.has_lengths = d.n_inputs > 1;
  if (t.has_positions) {
    need_index(d.inputs[0], "positions");
    t.out.assign(d.inputs[0].dims, d.inputs[0].dims + d.inputs[0].ndim);
  } else {
    t.out = {attrs.integer("length")};
  }
  t.tokens = 1;
  for (const int64_t n : t.out) t.tokens *= n;
  t.sample = t.has_lengths ? sample_tokens(d, t.tokens) : t.tokens;
  t.out.push_back(channels / 2);
  const Frequencies frequencies(attrs, channels);
  t.original = attrs.integer("original");
  t.frequency = frequencies.all(!t.has_lengths && attrs.integer("length") > t.original);
  if (t.has_lengths) t.long_frequency = frequencies.all(true);
  t.amplitude = frequencies.amplitude();
  if (!has_outputs(d)) return t;
  for (uint32_t i = 0; i < 2; ++i) {
    const plait_shape& y = d.outputs[i];
    need(y.dtype == PLAIT_F32, "the table is f32, found " + text(y));
    need_count(y, t.tokens * (channels / 2), "a table");
  }
  return t;
}

Rope parse_rope(const plait_op_desc& d) {
  need_operands(d, 3, 1);
  const plait_shape &x = d.inputs[0], &cos = d.inputs[1];
  const AttrReader attrs(d, kRopeAttrs);
  need(x.ndim == 4 && is_float(x.dtype),
       "x is " + text(x) + ", expected floats (samples, tokens, heads, channels)");
  Rope r{x.dims[0], x.dims[1], x.dims[2], x.dims[3]};
  r.adjacent = attrs.text("pairs") == "adjacent";
  r.inverse = attrs.flag("inverse");
  need(cos.dtype == PLAIT_F32 && (cos.ndim == 2 || cos.ndim == 3),
       "cos is " + text(cos) + ", expected f32 (tokens, pairs) or (samples, tokens, pairs)");
  need_same(cos, d.inputs[2]);
  r.by_sample = cos.ndim == 3;
  r.pairs = cos.dims[cos.ndim - 1];
  need(cos.dims[cos.ndim - 2] == r.tokens && (!r.by_sample || cos.dims[0] == r.samples) &&
           2 * r.pairs <= r.channels,
       "cos is " + text(cos) + ", which does not fit x, " + text(x));
  if (has_outputs(d)) need_same(d.outputs[0], x);
  return r;
}

}  // namespace plait::kit
