// attention and its gradient; engine/program/ops/attention.cpp has the formulas. One query row at a
// time, each against all keys that it sees.
//   D = sum(o * do), dP = (do.v) * Z, dS = P * (dP - D), times 1 - (s/c)^2 with a cap (s capped)
//   dq = scale * dS.k, dk = scale * dS^T.q, dv = (P * Z)^T.do
#include <algorithm>
#include <cmath>
#include <limits>

#include "kit/ops/attention.hpp"
#include "plugins/support/philox.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
void add(std::span<double> to, double factor, std::span<const double> x) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += factor * x[i];
}

// What both directions do for a query: its keys, scores and dropped weights.
class Queries {
 public:
  Queries(const Attention& a, const Operands& op) : a_(a), op_(op) {}

  KeyRange keys(int64_t sample, int64_t t) const {
    if (!a_.has_first) return keys_of(a_, t, 0, a_.keys);
    const int64_t first = first_of(sample, t);
    int64_t end = t + 1;
    while (end < a_.queries && first_of(sample, end) == first) ++end;
    return keys_of(a_, t, first, end);
  }
  // The row of heads (B, tokens, heads, width) that holds one token of one head.
  void read(size_t input, int64_t token, int64_t n_heads, int64_t head,
            std::span<double> row) const {
    op_.read(input, (token * n_heads + head) * static_cast<int64_t>(row.size()), row);
  }
  double score(std::span<const double> q, std::span<const double> k) const {
    const double s = a_.scale * dot(q, k);
    return a_.softcap > 0 ? a_.softcap * std::tanh(s / a_.softcap) : s;
  }
  // Z of one weight.
  double kept(int64_t sample, int64_t head, int64_t t, int64_t key) const {
    if (a_.dropout == 0) return 1;
    const auto e = static_cast<uint64_t>(a_.element(head, t, key)), q = e / 4;
    const int64_t step = op_.index(a_.counter_input, 0),
                  first_sample = op_.index(a_.counter_input, 1);
    // A long sample has more than 2^34 weights: the high word of q changes the stream.
    const PhiloxBlock block =
        random_block(a_.seed, stream_word(a_.stream) ^ static_cast<uint32_t>(q >> 32), step,
                     first_sample + sample, q);
    return to_uniform(block[e % 4]) >= static_cast<float>(a_.dropout) ? 1 / (1 - a_.dropout) : 0;
  }

 private:
  int64_t first_of(int64_t sample, int64_t t) const {
    return op_.index(a_.first_input, sample * a_.queries + t);
  }
  const Attention& a_;
  const Operands& op_;
};

class PlainAttention {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const Attention a = parse_attention(d);
    choice.workspace = Scratch::bytes(2 * a.qk + 2 * a.value + a.keys);
    why = "plain loops in double";
    return true;
  }
  PlainAttention(plait_device*, const plait_op_desc& d)
      : a_(parse_attention(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    const Queries queries(a_, op);
    Scratch scratch(workspace);
    const auto q = scratch.row(a_.qk), k = scratch.row(a_.qk), v = scratch.row(a_.value),
               o = scratch.row(a_.value), p = scratch.row(a_.keys);
    const size_t out = types_.size() - 2;
    for (int64_t b = 0; b < a_.samples; ++b)
      for (int64_t h = 0; h < a_.heads; ++h)
        for (int64_t t = 0; t < a_.queries; ++t) {
          const int64_t token = b * a_.queries + t, group = a_.group_of(h);
          const KeyRange keys = queries.keys(b, t);
          queries.read(0, token, a_.heads, h, q);
          double most = -std::numeric_limits<double>::infinity(), sum = 0;
          for (int64_t s = keys.begin; s < keys.end; ++s) {
            queries.read(1, b * a_.keys + s, a_.groups, group, k);
            p[static_cast<size_t>(s)] = queries.score(q, k);
            most = std::isnan(p[static_cast<size_t>(s)])
                       ? p[static_cast<size_t>(s)]
                       : std::max(most, p[static_cast<size_t>(s)]);
          }
          std::fill(o.begin(), o.end(), 0.0);
          for (int64_t s = keys.begin; s < keys.end; ++s) {
            const double weight = std::exp(p[static_cast<size_t>(s)] - most);
            sum += weight;
            queries.read(2, b * a_.keys + s, a_.groups, group, v);
            add(o, weight * queries.kept(b, h, t, s), v);
          }
          for (double& x : o) x = keys.end > keys.begin ? x / sum : 0;
          op.write(out, (token * a_.heads + h) * a_.value, o);
          op.set(out + 1, (b * a_.heads + h) * a_.queries + t,
                 keys.end > keys.begin ? most + std::log(sum) : most);
        }
  }

 private:
  Attention a_;
  std::vector<uint32_t> types_;
};

class PlainAttentionGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const Attention a = parse_attention_grad(d);
    choice.workspace = Scratch::bytes(3 * a.qk + 3 * a.value + a.keys * (a.qk + a.value));
    why = "plain loops in double";
    return true;
  }
  PlainAttentionGrad(plait_device*, const plait_op_desc& d)
      : a_(parse_attention_grad(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    Scratch scratch(workspace);
    Rows rows{.q = scratch.row(a_.qk),
              .k = scratch.row(a_.qk),
              .dq = scratch.row(a_.qk),
              .v = scratch.row(a_.value),
              .o = scratch.row(a_.value),
              .d_o = scratch.row(a_.value),
              .dk = scratch.row(a_.keys * a_.qk),
              .dv = scratch.row(a_.keys * a_.value)};
    const size_t out = types_.size() - 3;
    for (int64_t b = 0; b < a_.samples; ++b)
      for (int64_t g = 0; g < a_.groups; ++g) {
        std::fill(rows.dk.begin(), rows.dk.end(), 0.0);
        std::fill(rows.dv.begin(), rows.dv.end(), 0.0);
        for (int64_t h = 0; h < a_.heads; ++h)
          if (a_.group_of(h) == g)
            for (int64_t t = 0; t < a_.queries; ++t) add_query(op, rows, b, g, h, t);
        for (int64_t s = 0; s < a_.keys; ++s) {
          const int64_t row = (b * a_.keys + s) * a_.groups + g;
          op.write(out + 1, row * a_.qk, key_row(rows.dk, s, a_.qk));
          op.write(out + 2, row * a_.value, key_row(rows.dv, s, a_.value));
        }
      }
  }

 private:
  struct Rows {
    std::span<double> q, k, dq, v, o, d_o, dk, dv;
  };
  static std::span<double> key_row(std::span<double> of, int64_t s, int64_t width) {
    return of.subspan(static_cast<size_t>(s * width), static_cast<size_t>(width));
  }

  // Writes dq of one query and adds its terms of dk and dv.
  void add_query(const Operands& op, Rows& rows, int64_t b, int64_t g, int64_t h, int64_t t) const {
    const Queries queries(a_, op);
    const int64_t token = b * a_.queries + t;
    const KeyRange keys = queries.keys(b, t);
    queries.read(0, token, a_.heads, h, rows.q);
    queries.read(3, token, a_.heads, h, rows.o);
    queries.read(5, token, a_.heads, h, rows.d_o);
    const double lse = op.get(4, (b * a_.heads + h) * a_.queries + t), mean = dot(rows.o, rows.d_o);
    std::fill(rows.dq.begin(), rows.dq.end(), 0.0);
    for (int64_t s = keys.begin; s < keys.end; ++s) {
      queries.read(1, b * a_.keys + s, a_.groups, g, rows.k);
      queries.read(2, b * a_.keys + s, a_.groups, g, rows.v);
      const double score = queries.score(rows.q, rows.k), p = std::exp(score - lse),
                   kept = queries.kept(b, h, t, s);
      double ds = p * (dot(rows.d_o, rows.v) * kept - mean) * a_.scale;
      if (a_.softcap > 0) ds *= 1 - (score / a_.softcap) * (score / a_.softcap);
      add(rows.dq, ds, rows.k);
      add(key_row(rows.dk, s, a_.qk), ds, rows.q);
      add(key_row(rows.dv, s, a_.value), p * kept, rows.d_o);
    }
    op.write(types_.size() - 3, (token * a_.heads + h) * a_.qk, rows.dq);
  }

  Attention a_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_attention(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainAttention>("plain", "dot_product_attention", device, 0));
  out.push_back(kernel<PlainAttentionGrad>("plain", "dot_product_attention_grad", device, 0));
}

}  // namespace plait::support
