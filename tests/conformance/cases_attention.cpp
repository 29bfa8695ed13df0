// Cases of attention and rope: tokens around the blocks of a kernel, grouped heads, every mask,
// dropout.
// B samples, T queries, S keys, H query heads, G key heads, d and e channels.
#include <algorithm>
#include <cmath>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

struct Size {
  int64_t samples, queries, keys, heads, groups, qk, value;
};

void append(std::vector<Attr>& to, std::vector<Attr> more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Both directions. first: documents begin at some tokens, and some queries see no key.
void add_attention(std::vector<Case>& out, uint32_t type, Size s, std::vector<Attr> attrs,
                   bool first = false, bool dropout = false, uint32_t index = PLAIT_I32) {
  const plait_shape q = shape(type, {s.samples, s.queries, s.heads, s.qk}),
                    k = shape(type, {s.samples, s.keys, s.groups, s.qk}),
                    v = shape(type, {s.samples, s.keys, s.groups, s.value}),
                    o = shape(type, {s.samples, s.queries, s.heads, s.value}),
                    lse = shape(type == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32,
                                {s.samples, s.heads, s.queries});
  if (std::none_of(attrs.begin(), attrs.end(), [](const Attr& a) { return a.name == "scale"; }))
    attrs.push_back(real("scale", 1 / std::sqrt(static_cast<double>(s.qk))));
  std::vector<Input> more;
  if (first) {
    attrs.push_back(flag("first", true));
    more.push_back({shape(index, {s.samples, s.queries}), 0, static_cast<double>(s.queries)});
  }
  if (dropout) {  // a stream with the bit that block 2^32 changes
    append(attrs, {real("dropout", 0.3), number("seed", 11), number("stream", (1LL << 40) + 1)});
    more.push_back({shape(PLAIT_I64, {2}), 0, 1, {{0, 9}, {1, 3}}});
  }
  // Of types of 16 bits each result may be the neighbour of the right one, and weights and
  // gradients of scores may be rounded to that type on the way.
  const bool narrow = type == PLAIT_BF16 || type == PLAIT_F16;
  const double tolerance = narrow ? 1.2e-5 : 2e-5,
               scale = narrow ? 1 : 4 * (1 + std::sqrt(static_cast<double>(s.keys)));
  Case forward{"dot_product_attention " + plait::Shape(q).text() + " of " + plait::Shape(k).text(),
               "dot_product_attention",
               {{q}, {k}, {v}},
               {o, lse},
               attrs,
               {},
               tolerance};
  forward.inputs.insert(forward.inputs.end(), more.begin(), more.end());
  out.push_back(forward);
  // Weights as a softmax has them: their log-sum-exp is about the logarithm of their number.
  const double size = std::log(static_cast<double>(s.keys) + 1);
  Case backward{
      "dot_product_attention_grad " + plait::Shape(q).text() + " of " + plait::Shape(k).text(),
      "dot_product_attention_grad",
      {{q}, {k}, {v}, {o}, {lse, size, size + 1}, {o}},
      {q, k, v},
      attrs,
      {},
      tolerance,
      scale};
  backward.inputs.insert(backward.inputs.end(), more.begin(), more.end());
  out.push_back(backward);
}

void add_masks(std::vector<Case>& out) {
  const Size s{2, 33, 33, 4, 2, 8, 8};
  for (const bool causal : {true, false})
    for (const int64_t window : {0, 1, 7, 33})
      for (const bool first : {false, true})
        add_attention(out, PLAIT_F32, s, {flag("causal", causal), number("window", window)}, first);
  add_attention(out, PLAIT_F32, s, {real("softcap", 1.5)});
  add_attention(out, PLAIT_F32, s, {real("softcap", 1e4)});  // the same as none
  add_attention(out, PLAIT_F32, s, {real("softcap", 1e-41)});
  // The greatest score is not that of the greatest product.
  for (const double scale : {-0.4, 0.0}) add_attention(out, PLAIT_F32, s, {real("scale", scale)});
  add_attention(out, PLAIT_F32, s, {}, false, true);
  add_attention(out, PLAIT_F32, s, {real("softcap", 2), number("window", 5)}, true, true);
  const Size blocks{1, 150, 150, 2, 1, 8, 8};  // masks whose edges cross and skip blocks of 64 keys
  for (const bool causal : {true, false})
    for (const int64_t window : {0, 10, 90})
      for (const bool first : {false, true})
        add_attention(out, PLAIT_F32, blocks, {flag("causal", causal), number("window", window)},
                      first, first && window == 90);
  for (const uint32_t index : {PLAIT_U8, PLAIT_I64})
    add_attention(out, PLAIT_F32, s, {}, true, false, index);
  add_attention(out, PLAIT_F32, s, {number("window", INT64_MAX)});
  // Several blocks, and work for several threads, of several samples and groups.
  const Size wide{2, 130, 130, 4, 2, 20, 12};
  add_attention(out, PLAIT_F32, wide, {});
  add_attention(out, PLAIT_F32, wide, {}, true, true);
  add_attention(out, PLAIT_F32, wide, {real("softcap", 1.5)});
  const Size cross{2, 5, 9, 4, 4, 8, 3};  // more keys than queries
  add_attention(out, PLAIT_F32, cross, {flag("causal", false)});
  add_attention(out, PLAIT_F32, {1, 70, 130, 2, 1, 8, 12}, {flag("causal", false)});
}

void add_parts(std::vector<Case>& out) {
  const std::vector<Attr> second{number("first_head", 2), number("heads", 4)};
  std::vector<Attr> own = second, all = second;
  append(own, {number("first_group", 1), number("groups", 2)});
  append(all, {number("first_group", 0), number("groups", 2)});
  add_attention(out, PLAIT_F32, {1, 9, 9, 2, 1, 8, 8}, own, false, true);
  add_attention(out, PLAIT_F32, {1, 9, 9, 2, 2, 8, 8}, all, false, true);
  // A head has 81 weights, a block four: block 2^32 begins at query 3, key 7 of the first head,
  // which a causal mask would hide.
  constexpr int64_t kFar = (int64_t{1} << 34) / 81;
  add_attention(out, PLAIT_F32, {1, 9, 9, 2, 2, 8, 8},
                {number("first_head", kFar), number("heads", 2 * kFar), number("first_group", kFar),
                 number("groups", 2 * kFar), flag("causal", false)},
                false, true);
}

void add_rope(std::vector<Case>& out, uint32_t type, std::vector<int64_t> dims, int64_t rotated,
              bool by_sample) {
  const plait_shape x = shape(type, dims), table = by_sample ? f32({dims[0], dims[1], rotated / 2})
                                                             : f32({dims[1], rotated / 2});
  for (const char* pairs : {"half", "adjacent"})
    for (const bool inverse : {false, true}) {
      Case c{std::string("rope ") + pairs + " " + plait::Shape(x).text(),
             "rope",
             {{x}, {table, -1, 1}, {table, -1, 1}},
             {x},
             {text("pairs", pairs), flag("inverse", inverse)}};
      c.in_place = {0};
      out.push_back(c);
    }
}

void add_tables(std::vector<Case>& out) {
  const plait_shape table = f32({40, 8});
  const std::vector<Attr> channels{number("channels", 16), real("theta", 500)};
  const auto add = [&](const char* scaling, std::vector<Attr> attrs) {
    append(attrs, channels);
    attrs.push_back(text("scaling", scaling));
    const Input positions{shape(PLAIT_I32, {40}), 0, 100000};
    out.push_back({std::string("rope_table at positions, ") + scaling,
                   "rope_table",
                   {positions},
                   {table, table},
                   attrs});
    attrs.push_back(number("length", 40));
    out.push_back({std::string("rope_table ") + scaling, "rope_table", {}, {table, table}, attrs});
  };
  add("none", {});
  add("linear", {real("factor", 4)});
  add("llama3", {real("factor", 8), number("original", 16)});
  add("yarn", {real("factor", 4), number("original", 64)});
  add("longrope",
      {real("factor", 4), number("original", 64), text("factors", "1, 1.5,2,2.5, 3,3.5,4,4.5")});
  std::vector<Attr> attrs{real("factor", 4), number("original", 64),
                          text("factors", "1, 1.5,2,2.5, 3,3.5,4,4.5"),
                          text("long_factors", "2,3,4,5,6,7,8,9"), text("scaling", "longrope")};
  append(attrs, channels);
  const plait_shape rows = f32({6, 5, 8});
  out.push_back({"rope_table at positions, longrope, lengths",
                 "rope_table",
                 {{shape(PLAIT_I32, {6, 5}), 0, 100000}, {shape(PLAIT_I32, {6}), 0, 128}},
                 {rows, rows},
                 attrs});
}

// 16-bit floats of the widths and masks around the tiles of tensor cores.
void add_tiles(std::vector<Case>& out) {
  for (const int64_t tokens : {0, 1, 63, 64, 65, 130})
    for (const int64_t d : {64, 128})
      add_attention(out, tokens % 2 == 0 ? PLAIT_BF16 : PLAIT_F16, {1, tokens, tokens, 2, 1, d, d},
                    {});
  for (const uint32_t type : {PLAIT_BF16, PLAIT_F16})
    for (const int64_t d : {8, 64, 80, 128, 136})  // narrower and wider than a tile, too
      add_attention(out, type, {2, 70, 70, 4, 2, d, d}, {number("window", 20)});
  const Size s{2, 150, 150, 2, 1, 64, 64};
  for (const bool causal : {true, false})
    for (const int64_t window : {0, 10, 90})
      for (const bool first : {false, true})
        add_attention(out, PLAIT_BF16, s, {flag("causal", causal), number("window", window)},
                      first);
  const Size wide{1, 260, 260, 2, 1, 128, 64};  // documents over several blocks of queries
  add_attention(out, PLAIT_F16, wide, {flag("causal", false)}, true, false, PLAIT_I64);
  add_attention(out, PLAIT_BF16, wide, {}, true, true);
  add_attention(out, PLAIT_F16, s, {real("softcap", 1.5)});
  add_attention(out, PLAIT_BF16, s, {real("softcap", 1e4)});
  for (const double scale : {-0.125, 0.0})
    add_attention(out, PLAIT_BF16, s, {real("scale", scale)});
  add_attention(out, PLAIT_BF16, {1, 37, 37, 2, 2, 128, 128}, {}, false, true);
  add_attention(out, PLAIT_BF16, {1, 70, 0, 2, 1, 64, 64}, {flag("causal", false)});
  add_attention(out, PLAIT_F16, {1, 0, 70, 2, 1, 64, 64}, {flag("causal", false)});
  add_attention(out, PLAIT_BF16, {2, 65, 130, 3, 1, 64, 128}, {flag("causal", false)});
  const std::vector<Attr> second{number("first_head", 2), number("heads", 4),
                                 number("first_group", 1), number("groups", 2)};
  add_attention(out, PLAIT_F16, {1, 65, 65, 2, 1, 64, 64}, second, false, true);
}

// Forward attention that a library of the device may compute.
void add_library(std::vector<Case>& out) {
  std::vector<Case> both;
  for (const uint32_t type : {PLAIT_BF16, PLAIT_F16})
    for (const int64_t d : {64, 128})
      for (const bool causal : {true, false})
        for (const int64_t tokens : {1, 70, 130})
          add_attention(both, type, {2, tokens, tokens, 4, tokens == 70 ? 4 : 2, d, d},
                        {flag("causal", causal)});
  add_attention(both, PLAIT_BF16, {1, 65, 200, 6, 2, 64, 128}, {flag("causal", false)});
  add_attention(both, PLAIT_F16, {3, 20, 20, 8, 1, 8, 24}, {});
  add_attention(
      both, PLAIT_BF16, {1, 9, 9, 2, 1, 64, 64},
      {number("first_head", 2), number("heads", 4), number("first_group", 1), number("groups", 2)});
  for (Case& c : both) {
    if (c.op != "dot_product_attention") continue;
    c.permits = {flag("library", true)};
    out.push_back(std::move(c));
  }
}

}  // namespace

void add_attention_cases(std::vector<Case>& out) {
  for (const int64_t tokens : {0, 1, 2, 63, 64, 65, 200})
    add_attention(out, PLAIT_F32, {1, tokens, tokens, 2, 1, 8, 8}, {});
  for (const int64_t d : {1, 64, 80, 128, 256})
    add_attention(out, PLAIT_F32, {1, 17, 17, 2, 2, d, d}, {});
  add_attention(out, PLAIT_F32, {3, 20, 20, 8, 1, 16, 16}, {});
  add_attention(out, PLAIT_F32, {3, 20, 20, 8, 8, 16, 5}, {});
  for (const uint32_t type : {PLAIT_F64, PLAIT_BF16, PLAIT_F16})
    add_attention(out, type, {2, 19, 19, 4, 2, 16, 16}, {});
  add_masks(out);
  add_parts(out);
  add_tiles(out);
  add_library(out);
  for (const uint32_t type : {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16})
    add_rope(out, type, {2, 5, 3, 16}, 16, type == PLAIT_F32);
  add_rope(out, PLAIT_F32, {2, 5, 3, 13}, 6, false);
  add_rope(out, PLAIT_F32, {0, 5, 3, 8}, 8, false);
  for (const int64_t rotated : {2, 30, 32, 64, 80, 128})  // around one vector and several
    add_rope(out, PLAIT_F32, {2, 7, 2, rotated + 3}, rotated, rotated == 64);
  add_rope(out, PLAIT_F32, {2, 100, 12, 64}, 64, false);  // work for several threads
  add_tables(out);
}

}  // namespace conformance
