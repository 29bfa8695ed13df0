// Cases of attention over a cache, and of what writes it: one token of each sequence and many,
// slots in any order, places out of order and where there are none, windows, caps, grouped heads.
// B samples of t tokens, N slots of S places, H query heads, G key heads, d and e channels.
#include <cmath>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

struct Size {
  int64_t samples, tokens, slots, places, heads, groups, qk, value;
};

// Where the tokens stand.
enum class At {
  kNext,      // one after the other from a place of the slot on, as a sequence is continued
  kAnywhere,  // in any order, before the first place and behind the last one as well
};

std::string named(const char* op, const Size& s) {
  return std::string(op) + " of " + std::to_string(s.samples) + " x " + std::to_string(s.tokens) +
         " tokens, " + std::to_string(s.slots) + " x " + std::to_string(s.places) + " places, " +
         std::to_string(s.heads) + "/" + std::to_string(s.groups) + " heads, " +
         std::to_string(s.qk) + "/" + std::to_string(s.value) + " channels";
}

// Samples from the last slot on, backwards; of three or more, one of no slot.
Input slots_of(const Size& s, uint32_t type) {
  Input in{shape(type, {s.samples}), 0, 0.5};
  for (int64_t b = 0; b < s.samples; ++b) in.set.push_back({b, s.slots - 1 - b});
  if (s.samples >= 3) in.set.push_back({1, static_cast<double>(s.slots)});
  if (s.samples >= 4 && type != PLAIT_U8) in.set.push_back({2, -1});
  return in;
}

Input places_of(const Size& s, At at, uint32_t type) {
  const plait_shape dims = shape(type, {s.samples, s.tokens});
  if (at == At::kAnywhere)
    return {dims, type == PLAIT_U8 ? 0.0 : -2.0, static_cast<double>(s.places) + 3};
  Input in{dims, 0, 0.5};
  for (int64_t b = 0; b < s.samples; ++b)
    for (int64_t i = 0; i < s.tokens; ++i)
      in.set.push_back({b * s.tokens + i, s.places - s.tokens - 5 * b + i});
  return in;
}

void add_cached(std::vector<Case>& out, Size s, std::vector<Attr> attrs = {}, At at = At::kNext,
                uint32_t type = PLAIT_F32, uint32_t cache = PLAIT_F32, uint32_t index = PLAIT_I32) {
  attrs.push_back(real("scale", 1 / std::sqrt(static_cast<double>(s.qk))));
  const plait_shape q = shape(type, {s.samples, s.tokens, s.heads, s.qk}),
                    k = shape(cache, {s.slots, s.places, s.groups, s.qk}),
                    v = shape(cache, {s.slots, s.places, s.groups, s.value}),
                    o = shape(type, {s.samples, s.tokens, s.heads, s.value});
  out.push_back({named("attention_cached", s),
                 "attention_cached",
                 {{q}, {k}, {v}, slots_of(s, index), places_of(s, at, index)},
                 {o},
                 attrs,
                 {},
                 2e-5});
}

void add_write(std::vector<Case>& out, Size s, At at, uint32_t type = PLAIT_F32,
               uint32_t cache = PLAIT_F32, uint32_t index = PLAIT_I32) {
  const plait_shape c = shape(cache, {s.slots, s.places, s.groups, s.qk}),
                    x = shape(type, {s.samples, s.tokens, s.groups, s.qk});
  Case made{named("cache_write", s),
            "cache_write",
            {{c}, {x}, slots_of(s, index), places_of(s, at, index)},
            {c},
            {},
            {},
            0};
  made.in_place = {0};
  out.push_back(made);
}

void add_types(std::vector<Case>& out) {
  const Size s{2, 3, 3, 40, 4, 2, 16, 16};
  for (const uint32_t type : {PLAIT_F64, PLAIT_F32, PLAIT_BF16, PLAIT_F16})
    for (const uint32_t cache : {PLAIT_F64, PLAIT_F32, PLAIT_BF16, PLAIT_F16}) {
      add_cached(out, s, {}, At::kNext, type, cache);
      add_write(out, s, At::kNext, type, cache);
    }
  for (const uint32_t cache : {PLAIT_F32, PLAIT_BF16, PLAIT_F16})  // many queries, many keys
    for (const uint32_t type : {PLAIT_F32, cache}) {
      add_cached(out, {2, 70, 3, 200, 4, 2, 20, 12}, {}, At::kAnywhere, type, cache);
      add_cached(out, {2, 1, 3, 700, 4, 2, 20, 12}, {}, At::kNext, type, cache);
    }
  for (const uint32_t cache : {PLAIT_F32, PLAIT_BF16, PLAIT_F16}) {  // heads of many channels
    add_cached(out, {2, 1, 3, 300, 12, 2, 128, 256}, {}, At::kNext, PLAIT_F32, cache);
    add_cached(out, {1, 2, 2, 150, 2, 2, 256, 200}, {}, At::kNext, PLAIT_F32, cache);
  }
  for (const uint32_t index : {PLAIT_I64, PLAIT_U8}) {
    add_cached(out, s, {}, At::kAnywhere, PLAIT_F32, PLAIT_F32, index);
    add_write(out, s, At::kAnywhere, PLAIT_F32, PLAIT_F32, index);
  }
}

// A place that holds no number: only queries that see it notice.
void add_odd_places(std::vector<Case>& out) {
  for (const int64_t tokens : {1, 4, 20, 64})
    for (const size_t operand : {1, 2}) {
      const Size s{2, tokens, 2, 150, 4, 2, 16, 16};
      add_cached(out, s);
      Case& c = out.back();
      c.name += ", some without a number";
      // Sample 0 reads slot 1 up to place 149, sample 1 slot 0 up to place 144.
      for (const int64_t row : {150 + 148, 100, 145, 149})
        c.inputs[operand].set.push_back({row * 2 * 16 + 3, std::nan("")});
      c.inputs[operand].set.push_back({146 * 2 * 16 + 5, INFINITY});
    }
}

void add_parts(std::vector<Case>& out) {
  for (const int64_t tokens : {1, 20}) {
    const std::vector<Attr> second{number("first_head", 2), number("heads", 4),
                                   number("groups", 2)};
    std::vector<Attr> own = second;
    own.push_back(number("first_group", 1));
    add_cached(out, {2, tokens, 2, 30, 2, 1, 8, 8}, own);
    add_cached(out, {2, tokens, 2, 30, 2, 2, 8, 8}, second);
  }
}

}  // namespace

void add_attention_cached_cases(std::vector<Case>& out) {
  for (const int64_t tokens : {1, 3, 64}) {
    for (const int64_t d : {1, 8, 64, 80, 128}) add_cached(out, {2, tokens, 3, 100, 4, 2, d, d});
    const Size s{4, tokens, 6, 90, 8, 2, 16, 12};
    for (const At at : {At::kNext, At::kAnywhere}) {
      for (const int64_t window : {int64_t{0}, int64_t{1}, int64_t{7}, INT64_MAX})
        add_cached(out, s, {number("window", window)}, at);
      add_cached(out, s, {real("softcap", 1.5)}, at);
      add_cached(out, s, {real("softcap", 2), number("window", 50)}, at);
      add_write(out, s, at);
    }
    add_cached(out, {1, tokens, 1, 700, 2, 2, 16, 16});  // keys for several threads
    add_cached(out, {2, tokens, 2, 1500, 6, 1, 32, 32}, {}, At::kAnywhere);
    add_cached(out, {1, tokens, 1, 2000, 2, 1, 8, 20}, {number("window", 1100)});
    add_cached(out, {1, tokens, 4, 1, 3, 3, 8, 8}, {}, At::kAnywhere);
  }
  add_cached(out, {2, 130, 3, 300, 4, 2, 20, 12});
  add_cached(out, {2, 130, 3, 300, 4, 2, 20, 12}, {}, At::kAnywhere);
  add_write(out, {1, 2, 1, 1, 1, 1, 5, 5}, At::kAnywhere);
  add_write(out, {2, 300, 3, 40, 2, 2, 64, 64}, At::kAnywhere);  // many rows at one place
  // Many heads of a key head, and so many channels that a GPU's shared memory is nearly full.
  add_cached(out, {1, 1, 2, 150, 8, 1, 128, 128});
  add_cached(out, {1, 1, 2, 150, 8, 1, 256, 128}, {}, At::kNext, PLAIT_F32, PLAIT_BF16);
  add_cached(out, {2, 3, 2, 9, 0, 1, 8, 8});
  for (const Size none : {Size{0, 3, 2, 9, 2, 1, 8, 8}, Size{2, 0, 2, 9, 2, 1, 8, 8},
                          Size{2, 3, 0, 9, 2, 1, 8, 8}, Size{2, 3, 2, 0, 2, 1, 8, 8}}) {
    add_cached(out, none, {}, At::kAnywhere);
    add_write(out, none, At::kAnywhere);
  }
  add_types(out);
  add_odd_places(out);
  add_parts(out);
}

}  // namespace conformance
