// cache_write and attention_cached; engine/program/ops/attention_cached.cpp has the formulas.
#include "kit/ops/attention_cached.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kit/dtype.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainCacheWrite {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(parse_cache_write(d).width);
    why = "plain loops";
    return true;
  }
  PlainCacheWrite(plait_device*, const plait_op_desc& d)
      : w_(parse_cache_write(d)), types_(operand_types(d)), bytes_(bytes(d.inputs[0])) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    if (operands[4] != operands[0] && bytes_) std::memcpy(operands[4], operands[0], bytes_);
    const auto row = Scratch(workspace).row(w_.width);
    for (int64_t b = 0; b < w_.at.samples; ++b)
      for (int64_t i = 0; i < w_.at.tokens; ++i) {
        const int64_t token = b * w_.at.tokens + i, slot = op.index(2, b), at = op.index(3, token);
        if (!w_.at.has_slot(slot) || !w_.at.has_place(at)) continue;
        op.read(1, token * w_.width, row);
        op.write(4, (slot * w_.at.places + at) * w_.width, row);
      }
  }

 private:
  CacheWrite w_;
  std::vector<uint32_t> types_;
  uint64_t bytes_;
};

class PlainAttentionCached {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const Attention a = parse_attention_cached(d).a;
    choice.workspace = Scratch::bytes(2 * a.qk + 2 * a.value + a.keys);
    why = "plain loops in double";
    return true;
  }
  PlainAttentionCached(plait_device*, const plait_op_desc& d)
      : c_(parse_attention_cached(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    Scratch scratch(workspace);
    const Attention& a = c_.a;
    Rows rows{scratch.row(a.qk), scratch.row(a.qk), scratch.row(a.value), scratch.row(a.value),
              scratch.row(a.keys)};
    for (int64_t b = 0; b < a.samples; ++b)
      for (int64_t t = 0; t < a.queries; ++t) {
        const int64_t token = b * a.queries + t, slot = op.index(3, b);
        const KeyRange keys = c_.at.has_slot(slot) ? c_.keys_at(op.index(4, token)) : KeyRange{};
        for (int64_t h = 0; h < a.heads; ++h) {
          op.read(0, (token * a.heads + h) * a.qk, rows.q);
          attend(op, slot, a.group_of(h), keys, rows);
          op.write(5, (token * a.heads + h) * a.value, rows.o);
        }
      }
  }

 private:
  struct Rows {
    std::span<double> q, k, v, o, p;
  };
  // o of one query.
  void attend(const Operands& op, int64_t slot, int64_t group, KeyRange keys, Rows& rows) const {
    const auto row_of = [&](int64_t s) { return (slot * c_.a.keys + s) * c_.a.groups + group; };
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t s = keys.begin; s < keys.end; ++s) {
      op.read(1, row_of(s) * c_.a.qk, rows.k);
      double score = 0;
      for (size_t i = 0; i < rows.q.size(); ++i) score += rows.q[i] * rows.k[i];
      score *= c_.a.scale;
      if (c_.a.softcap > 0) score = c_.a.softcap * std::tanh(score / c_.a.softcap);
      rows.p[static_cast<size_t>(s)] = score;
      most = std::isnan(score) ? score : std::max(most, score);
    }
    std::fill(rows.o.begin(), rows.o.end(), 0.0);
    for (int64_t s = keys.begin; s < keys.end; ++s) {
      const double weight = std::exp(rows.p[static_cast<size_t>(s)] - most);
      sum += weight;
      op.read(2, row_of(s) * c_.a.value, rows.v);
      for (size_t i = 0; i < rows.o.size(); ++i) rows.o[i] += weight * rows.v[i];
    }
    for (double& x : rows.o) x = keys.end > keys.begin ? x / sum : 0;
  }

  CachedAttention c_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_attention_cached(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainCacheWrite>("plain", "cache_write", device, 0));
  out.push_back(kernel<PlainAttentionCached>("plain", "attention_cached", device, 0));
}

}  // namespace plait::support
