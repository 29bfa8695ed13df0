// Scaled dot-product attention with grouped heads. B samples, T queries, S keys, H query heads, G
// key heads, d channels of a query or key, e of a value. Query head h reads key head floor(h*G/H).
//
// A mask is a range of keys for each query, never a matrix; keys_of() is its definition.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kAttentionAttrs[] = {
    real_option("scale", nullptr, "factor of the scores, as 1/sqrt(d)"),
    bool_option("causal", "true", "query t sees no key behind t"),
    at_least(int_option("window", "0", "query t sees keys at a distance below it; 0: at any"), 0),
    at_least(real_option("softcap", "0", "c: scores become c*tanh(score/c); 0: they stay"), 0),
    bool_option("first", "false",
                "the input `first` follows: where the document of a query begins"),
    below(at_least(real_option("dropout", "0", "probability that a weight becomes 0"), 0), 1),
};

// What the engine gives: the numbers of dropout, and of a part of the heads which of all they are.
inline constexpr plait_option kAttentionPart[] = {
    int_option("seed", "0", "of the run, for dropout"),
    int_option("stream", "0", "which numbers, for dropout"),
    int_option("first_head", "0", "of a part: the first of its query heads"),
    int_option("heads", "0", "of a part: query heads of the whole; 0: this is the whole"),
    int_option("first_group", "0", "of a part: the first of its key heads"),
    int_option("groups", "0", "of a part: key heads of the whole"),
};

// Of the forward op alone.
inline constexpr plait_option kAttentionForward[] = {
    kAttentionPart[0],
    kAttentionPart[1],
    kAttentionPart[2],
    kAttentionPart[3],
    kAttentionPart[4],
    kAttentionPart[5],
    bool_option("library", "false", "a library of the device computes it, which rounds otherwise"),
};

struct Attention {
  int64_t samples = 0, queries = 0, keys = 0, heads = 0, groups = 0;  // B, T, S, H, G
  int64_t qk = 0, value = 0;                                          // d, e
  double scale = 1, softcap = 0;
  bool causal = true;
  int64_t window = 0;
  double dropout = 0;
  uint64_t seed = 0;
  int64_t stream = 0;
  bool has_first = false;
  bool library = false;
  int64_t first_head = 0, all_heads = 0, first_group = 0, all_groups = 0;
  // The key head, among those here, that query head h reads.
  int64_t group_of(int64_t head) const {
    return (first_head + head) * all_groups / all_heads - first_group;
  }
  // The number, within a sample, of the random number of a weight.
  int64_t element(int64_t head, int64_t query, int64_t key) const {
    return ((first_head + head) * queries + query) * keys + key;
  }
  // Which inputs these are: behind v, and in the gradient behind do.
  uint32_t first_input = 3, counter_input = 3;
};

// Keys [begin, end) of query t; none where end <= begin.
struct KeyRange {
  int64_t begin = 0, end = 0;
};
// The document of the query is [first, document_end); without documents 0 and S.
inline KeyRange keys_of(const Attention& a, int64_t t, int64_t first, int64_t document_end) {
  KeyRange keys{std::max<int64_t>(first, 0), a.causal ? t + 1 : document_end};
  if (a.window > 0) {
    keys.begin = std::max(keys.begin, t - a.window + 1);
    if (a.window < keys.end - t) keys.end = t + a.window;  // the sum may be too large
  }
  return keys;
}

// Which of all heads a part has, from kAttentionPart. Throws Invalid if it lacks key heads.
void read_part(Attention& a, const AttrReader& attrs);
// Throws Invalid, which says `what` it is, unless it has these dims.
void need_dims(const plait_shape& s, const char* what, std::initializer_list<int64_t> dims);

// Whether a kernel knows the attribute `library`. One that does not must refuse it.
enum class Library { kRefused, kKnown };

// q (B,T,H,d), k (B,S,G,d), v (B,S,G,e) [, first (B,T)] [, counter (2)]
// -> o (B,T,H,e), lse (B,H,T).
Attention parse_attention(const plait_op_desc& d, Library library = Library::kRefused);
// q, k, v, o, lse, do [, first] [, counter] -> dq, dk, dv.
Attention parse_attention_grad(const plait_op_desc& d);

}  // namespace plait::kit
