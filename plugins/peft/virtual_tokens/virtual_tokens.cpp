// peft-virtual-tokens: trained vectors at the first tokens of each sample, where the data has
// placeholders: as embeddings (prompt tuning, Lester et al. 2021, arXiv:2104.08691), or as keys and
// values of attention (prefix tuning, Li and Liang 2021, arXiv:2101.00190).
#include <plait/plugin.hpp>

#include <span>
#include <string>
#include <vector>

namespace {
using namespace plait;

constexpr plait_option kTokens =
    at_least(opt_int("n_tokens", "20", "first tokens of a sample, n, which are placeholders"), 1);
constexpr plait_option kStd =
    at_least(opt_real("init_std", "0.02", "standard deviation of the initial vectors"), 0);
constexpr plait_option kPrefix[] = {kTokens, kStd};
constexpr plait_option kSoftPrompt[] = {
    kTokens, kStd,
    at_least(opt_ints("init_ids", "[]",
                      "of a table: begin with the rows of these token ids, again from the first "
                      "one where they are fewer than n_tokens"),
             0)};

void check(const Builder& b, const Options& o, const PeftTarget& t) {
  const Shape y = b.shape(t.output);
  const auto refuse = [&](const std::string& what) {
    fail(PLAIT_ERR_CONFIG, "[peft-virtual-tokens] '" + t.name + "' makes " + y.typed_text() + what);
  };
  if (!y.is_float() || y.ndim() != 3) refuse(", expected real numbers (samples, tokens, features)");
  if (y.dims[1] < o.integer("n_tokens"))
    refuse(": samples have fewer tokens than n_tokens, which is " +
           std::to_string(o.integer("n_tokens")) + "; set at " + o.origin("n_tokens"));
}

// The dimension of the weight that runs along the features, C.
uint32_t feature_dim(const PeftTarget& t) { return t.what == PLAIT_PEFT_LOOKUP ? 1 : t.out_dim(); }

// (n,C)
Value vectors(const Builder& b, const Options& o, const PeftTarget& t, int64_t features) {
  return b.parameter("vectors", Shape({o.integer("n_tokens"), features}),
                     Init::normal(0, o.real("init_std")), t.shard_along(feature_dim(t), 1),
                     t.shard_unit);
}

// y (N,T,C), with the vectors at its first n tokens. Written as a table of T rows and one op, which
// generation and sequence parallelism read at the positions of their tokens.
Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  check(b, o, t);
  const Shape y = b.shape(t.output);
  const int64_t n = o.integer("n_tokens");
  const auto to_all_tokens = [&](Value rows) {
    return b.op("pad", {rows}, {attr("axis", 0), attr("before", 0), attr("after", y.dims[1] - n)});
  };
  const std::vector<int64_t> column{n, 1};
  const Value ones = b.op(
      "fill", {},
      {attr("value", 1.0), attr("shape", column), attr("dtype", static_cast<int64_t>(y.dtype))});
  return select(to_all_tokens(ones) > 0.5, to_all_tokens(vectors(b, o, t, y.last())), t.output);
}

std::vector<PeftStart> start(Builder& b, const Options& o, const PeftTarget& t) {
  const auto ids = o.integers("init_ids");
  if (ids.empty()) return {};
  const std::string at = "[peft-virtual-tokens] init_ids ";
  if (t.what != PLAIT_PEFT_LOOKUP)
    fail(PLAIT_ERR_CONFIG,
         at + "are rows of a table, and '" + t.name +
             "' is a layer; let `match` name the table's weight, or set init_std");
  const Shape table = b.shape(t.weight);
  std::vector<Value> rows;
  for (int64_t i = 0; i < o.integer("n_tokens"); ++i) {
    const int64_t id = ids[static_cast<size_t>(i) % ids.size()];
    if (id >= table.dims[0])
      fail(PLAIT_ERR_CONFIG, at + "contain " + std::to_string(id) + ", and '" + t.name +
                                 "' has the rows 0 to " + std::to_string(table.dims[0] - 1) +
                                 "; set at " + o.origin("init_ids"));
    rows.push_back(
        b.op("slice", {t.weight}, {attr("axis", 0), attr("start", id), attr("stop", id + 1)}));
  }
  const plait_attr axis[] = {attr("axis", 0)};
  return {{vectors(b, o, t, table.last()),
           rows.size() == 1 ? rows[0] : b.ops("concat", rows, axis, 1)[0]}};
}

}  // namespace

PLAIT_PLUGIN("peft-virtual-tokens", "0.1.0", "Apache-2.0", "Trained vectors at the first tokens") {
  static const auto soft_prompt = peft<wrap, nullptr, start>(
      "soft_prompt", "puts trained embeddings in place of the first tokens, which are placeholders",
      PLAIT_PEFT_LOOKUP | PLAIT_PEFT_LAYER, kSoftPrompt);
  static const auto prefix =
      peft<wrap>("prefix", "puts trained keys and values in the places of the first tokens",
                 PLAIT_PEFT_PRODUCT, kPrefix);
  host.add(soft_prompt);
  host.add(prefix);
}
