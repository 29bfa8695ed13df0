// What each fast kernel of the CUDA device takes, on both sides of every bound, and its reason
// where it takes nothing. Nothing runs: the sizes may be larger than any machine.
#include <doctest/doctest.h>

#include <cmath>

#include "kit/ops/quantized.hpp"
#include "tests/conformance/runner.hpp"

namespace {

using namespace conformance;

constexpr int64_t kTwo30 = int64_t{1} << 30, kTwo31 = int64_t{1} << 31;

Selection chosen(const Case& c, const char* name) {
  static const Plugin cuda(CUDA_PLUGIN);
  for (const auto* item : cuda.kernels(c.op))
    if (item->name == std::string(name)) return select(*item, Desc(c, 1));
  FAIL("no kernel " << name << " of " << c.op);
  return {};
}

// `says`: the beginning of what the kernel tells of itself, or of why it does not take the case.
void takes(const Case& c, const char* name, const char* says) {
  const Selection found = chosen(c, name);
  CAPTURE(c.op);
  CAPTURE(found.detail);
  CHECK(found.taken);
  CHECK(found.detail.find(says) == 0);
}
void refuses(const Case& c, const char* name, const char* says) {
  const Selection found = chosen(c, name);
  CAPTURE(c.op);
  CAPTURE(found.detail);
  CHECK_FALSE(found.taken);
  CHECK(found.detail.find(says) == 0);
}

struct Heads {
  int64_t samples = 1, queries = 9, keys = 9, heads = 2, groups = 2, qk = 64, value = 64;
};
Case attention(const Heads& s, uint32_t type = PLAIT_F32, double scale = 0.1, double softcap = 0) {
  return {"",
          "dot_product_attention",
          {{shape(type, {s.samples, s.queries, s.heads, s.qk})},
           {shape(type, {s.samples, s.keys, s.groups, s.qk})},
           {shape(type, {s.samples, s.keys, s.groups, s.value})}},
          {shape(type, {s.samples, s.queries, s.heads, s.value}),
           shape(type == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32, {s.samples, s.heads, s.queries})},
          {real("scale", scale), real("softcap", softcap), flag("causal", false)}};
}

Case rows(const char* op, int64_t n, int64_t channels, uint32_t type = PLAIT_F32) {
  const plait_shape x = shape(type, {n, channels});
  return {"", op, {{x}}, {x}};
}

Case entropy(int64_t n, int64_t classes, uint32_t type = PLAIT_F32, uint32_t of_rows = PLAIT_F32) {
  const plait_shape r = shape(of_rows, {n});
  return {"", "cross_entropy", {{shape(type, {n, classes})}, {shape(PLAIT_I32, {n})}}, {r, r}};
}

struct NormTypes {
  uint32_t x = PLAIT_F32, y = PLAIT_F32, gain = PLAIT_F32, bias = PLAIT_F32, mean = PLAIT_F32;
};
Case layer_norm(int64_t n, int64_t channels, const NormTypes& t) {
  const plait_shape r = shape(t.mean, {n});
  return {"",
          "layer_norm",
          {{shape(t.x, {n, channels})}, {shape(t.gain, {channels})}, {shape(t.bias, {channels})}},
          {shape(t.y, {n, channels}), r, r},
          {real("eps", 1e-5)}};
}
Case layer_norm_grad(int64_t n, int64_t channels) {
  const plait_shape x = f32({n, channels}), c = f32({channels}), r = f32({n});
  return {"", "layer_norm_grad", {{x}, {c}, {r}, {r}, {x}}, {x, c, c}, {real("eps", 1e-5)}};
}

Case grouped(int64_t n, int64_t inputs, int64_t outputs, uint32_t type, uint32_t y) {
  return {
      "",
      "grouped_matmul",
      {{shape(type, {n, inputs})}, {shape(type, {2, inputs, outputs})}, {shape(PLAIT_I32, {3})}},
      {shape(y, {n, outputs})},
      {flag("transpose_b", false), number("first", 0)}};
}

struct Cached {
  int64_t samples = 2, tokens = 1, places = 64, heads = 4, groups = 4, qk = 64, value = 64;
};
Case cached(const Cached& s, uint32_t type = PLAIT_F32, uint32_t cache = PLAIT_F32,
            double scale = 0.1, double softcap = 0) {
  return {"",
          "attention_cached",
          {{shape(type, {s.samples, s.tokens, s.heads, s.qk})},
           {shape(cache, {4, s.places, s.groups, s.qk})},
           {shape(cache, {4, s.places, s.groups, s.value})},
           {shape(PLAIT_I32, {s.samples})},
           {shape(PLAIT_I32, {s.samples, s.tokens})}},
          {shape(type, {s.samples, s.tokens, s.heads, s.value})},
          {real("scale", scale), real("softcap", softcap)}};
}

Case quantized(int64_t m, int64_t k, uint32_t type) {
  return {"",
          "matmul_quantized",
          {{shape(type, {m, k})},
           {shape(PLAIT_U8, {8, k})},
           {f32({8, plait::kit::QuantRow{.columns = k}.blocks()})}},
          {shape(type, {m, 8})}};
}

}  // namespace

TEST_CASE("attention by tiles of scores") {
  const auto taken = [](const Heads& s) { takes(attention(s), "tiles", "tiles of scores"); };
  const auto refused = [](const Heads& s, const char* says) {
    refuses(attention(s), "tiles", says);
  };
  taken({});
  takes(attention({}, PLAIT_F16), "tiles", "tiles of scores on tensor cores");
  refuses(attention({}, PLAIT_F64), "tiles", "tiles of scores: not f32");

  const char* channels = "tiles of scores: not 1 to 128 channels";
  taken({.qk = 128, .value = 128});
  taken({.qk = 1, .value = 1});
  refused({.qk = 129}, channels);
  refused({.value = 129}, channels);
  refused({.qk = 0}, channels);
  refused({.value = 0}, channels);

  const char* eights = "tiles of scores: channels of 16-bit floats are not a multiple of 8";
  takes(attention({.qk = 24, .value = 40}, PLAIT_BF16), "tiles", "tiles of scores on");
  refuses(attention({.qk = 12, .value = 16}, PLAIT_BF16), "tiles", eights);
  refuses(attention({.qk = 16, .value = 12}, PLAIT_BF16), "tiles", eights);
  taken({.qk = 12, .value = 13});

  const char* tokens = "tiles of scores: more than 2^29 tokens, or 2^24 elements of a token";
  constexpr int64_t kMost = int64_t{1} << 29, kHeads = (int64_t{1} << 24) / 64;
  taken({.queries = kMost, .heads = 1, .groups = 1});
  taken({.keys = kMost, .heads = 1, .groups = 1});
  refused({.queries = kMost + 1, .heads = 1, .groups = 1}, tokens);
  refused({.keys = kMost + 1, .heads = 1, .groups = 1}, tokens);
  taken({.heads = kHeads, .groups = kHeads});
  refused({.heads = kHeads + 1, .groups = 1}, tokens);
  refused({.heads = kHeads, .groups = 1, .qk = 65}, tokens);
  refused({.heads = kHeads, .groups = 1, .value = 65}, tokens);

  // Blocks of 32 queries or keys, and one more: 2 of 32.
  taken({.samples = kTwo30 - 1, .queries = 32, .heads = 1, .groups = 1});
  taken({.samples = kTwo30 - 1, .queries = 1, .keys = 32, .heads = 1, .groups = 1});
  for (const Heads& s :
       {Heads{.samples = kTwo30, .queries = 32, .heads = 1, .groups = 1},
        Heads{.samples = kTwo30, .queries = 1, .keys = 32, .heads = 1, .groups = 1},
        Heads{.samples = kTwo30 / 2, .queries = 32, .heads = 2, .groups = 1}})
    refused(s, "tiles of scores: more than 2^31 blocks");

  const char* scale = "tiles of scores: scale is not above 0, or no f32";
  for (const double one : {0.0, -0.1, 1e-39, 2e38})
    refuses(attention({}, PLAIT_F32, one), "tiles", scale);
  takes(attention({}, PLAIT_F32, 1.6e38), "tiles", "tiles of scores");
  takes(attention({}, PLAIT_F32, 1.2e-38), "tiles", "tiles of scores");
  takes(attention({}, PLAIT_F32, 0.1, 30), "tiles", "tiles of scores");
  for (const auto& [s, cap] : {std::pair{0.1, 2e38}, {1e-20, 1e20}, {0.1, 1e-39}})
    refuses(attention({}, PLAIT_F32, s, cap), "tiles",
            "tiles of scores: softcap, or scale / softcap, is no f32");
}

TEST_CASE("softmax and cross-entropy by rows") {
  const char* rows_of_grid = "2147483648 rows are more than a grid has blocks";
  const char* too_long = "a row of 1073741825 elements is too long";
  for (const char* op : {"softmax", "log_softmax"}) {
    takes(rows(op, kTwo31 - 1, 8), "rows", "a warp for each row");
    refuses(rows(op, kTwo31, 8), "rows", rows_of_grid);
    takes(rows(op, 2, kTwo30), "rows", "a block for each row, which it reads twice");
    refuses(rows(op, 2, kTwo30 + 1), "rows", too_long);
    refuses(rows(op, 2, 8, PLAIT_F64), "rows", "takes f32, bf16 and f16");
  }
  // A warp keeps 1024 elements, a block 8192; in packs of 16 bytes where rows are whole ones.
  const struct {
    int64_t channels;
    uint32_t type;
    const char* way;
  } ways[] = {
      {1024, PLAIT_F32, "a warp for each row"},
      {1023, PLAIT_F32, "a warp for each row, element by element"},
      {1020, PLAIT_F32, "a warp for each row"},
      {1020, PLAIT_F16, "a warp for each row, element by element"},
      {1028, PLAIT_F32, "a block for each row"},
      {1025, PLAIT_F32, "a block for each row, element by element"},
      {8192, PLAIT_BF16, "a block for each row"},
      {8193, PLAIT_F32, "a block for each row, which it reads twice"},
      {8196, PLAIT_F32, "a block for each row, which it reads twice"},
  };
  for (const auto& w : ways) {
    const Selection found = chosen(rows("softmax", 3, w.channels, w.type), "rows");
    CAPTURE(w.channels);
    CHECK(found.taken);
    CHECK(found.detail == w.way);
    CHECK(found.workspace == 0);
  }
  takes(entropy(kTwo31 - 1, 10), "rows", "a warp for each row");
  refuses(entropy(kTwo31, 10), "rows", rows_of_grid);
  takes(entropy(3, kTwo30), "rows", "a block for each row");
  refuses(entropy(3, kTwo30 + 1), "rows", too_long);
  refuses(entropy(3, 10, PLAIT_F64, PLAIT_F64), "rows", "takes f32 for what is of rows");
  refuses(entropy(3, 10, PLAIT_F64), "rows", "takes logits of f32, bf16 and f16");
  Case half_loss = entropy(3, 10);
  half_loss.outputs[1] = shape(PLAIT_BF16, {3});
  refuses(half_loss, "rows", "takes f32 for what is of rows");
}

TEST_CASE("norms by rows") {
  const auto taken = [](int64_t channels, const char* says, const NormTypes& t = {}) {
    takes(layer_norm(3, channels, t), "rows", says);
  };
  const auto refused = [](int64_t channels, const char* says, const NormTypes& t = {}) {
    refuses(layer_norm(3, channels, t), "rows", says);
  };
  taken(1023, "a warp for each row");
  taken(1024, "a warp for each row");
  taken(1028, "a block for each row");
  taken(8192, "a block for each row");
  refused(1025, "rows are no whole number of 16 bytes");
  refused(8196, "rows have 8196 channels, at most 8192 stay in registers");
  refused(0, "rows have no channels");
  takes(layer_norm(kTwo31 - 1, 8, {}), "rows", "a warp for each row");
  refuses(layer_norm(kTwo31, 8, {}), "rows", "2147483648 rows are more");

  constexpr uint32_t kHalf = PLAIT_BF16;
  taken(8, "a warp for each row", {.x = kHalf, .y = kHalf});
  taken(8, "a warp for each row", {.x = kHalf, .y = kHalf, .gain = kHalf, .bias = kHalf});
  taken(8, "a warp for each row", {.y = kHalf});
  refused(8, "takes rows of f32, bf16 or f16, and of one type", {.x = kHalf});
  refused(8, "takes rows of f32, bf16 or f16, and of one type", {.x = kHalf, .y = PLAIT_F16});
  refused(8, "takes gains of f32 or of the type of the rows", {.gain = kHalf, .bias = kHalf});
  refused(8, "takes gain and bias of one type", {.x = kHalf, .y = kHalf, .bias = kHalf});
  refused(8, "takes f32 for mean and rstd", {.mean = PLAIT_F64});

  // A part of the gradients of gain and bias for every 8 rows, 256 parts at most.
  for (const auto& [n, parts] :
       {std::pair<int64_t, uint64_t>{1, 1}, {8, 1}, {9, 2}, {2048, 256}, {2049, 256}}) {
    const Selection found = chosen(layer_norm_grad(n, 12), "rows");
    CAPTURE(n);
    CHECK(found.taken);
    CHECK(found.detail == std::to_string(parts) + " parts of the rows");
    CHECK(found.workspace == parts * 2 * 12 * sizeof(float));
  }
  refuses(layer_norm_grad(3, 13), "rows", "rows are no whole number of 16 bytes");
  Case other = layer_norm_grad(3, 12);
  other.outputs[0] = shape(PLAIT_BF16, {3, 12});
  refuses(other, "rows", "takes dx of the type of x");
}

TEST_CASE("products of groups") {
  constexpr int64_t kWide = 1 << 20;
  const auto of = [](int64_t n, int64_t inputs, int64_t outputs, uint32_t type = PLAIT_BF16,
                     uint32_t y = PLAIT_BF16) { return grouped(n, inputs, outputs, type, y); };
  for (const char* name : {"tiles", "tensor_cores"}) {
    takes(of(kTwo30 - 1, 8, 8), name, "tiles of ");
    refuses(of(kTwo30, 8, 8), name, "takes less than 2^30 rows and groups, found 1073741824");
    takes(of(4, kWide, kWide), name, "tiles of ");
    refuses(of(4, kWide + 8, 8), name, "takes up to 2^20 inputs and outputs, found 1048584 and 8");
    refuses(of(4, 8, kWide + 8), name, "takes up to 2^20 inputs and outputs, found 8 and 1048584");
    // Where rows and tiles of two groups begin, and of what is in no group.
    CHECK(chosen(of(4, 8, 8), name).workspace == 2 * (2 + 3) * sizeof(int32_t));
  }
  takes(of(kTwo30 - 1, 8, 8), "plain", "a thread for each element, in double");
  refuses(of(kTwo30, 8, 8), "plain", "takes less than 2^30 rows and groups, found 1073741824");
  refuses(of(4, 8, 8, PLAIT_F64, PLAIT_F64), "tiles", "takes f32 and 16-bit floats, found f64");
  refuses(of(4, 8, 8, PLAIT_F32, PLAIT_F64), "tiles", "takes f32 and 16-bit floats, found f64");
  takes(of(4, 9, 7, PLAIT_F32, PLAIT_F32), "tiles", "tiles of 64 x 64");
  takes(of(4, 8, 8, PLAIT_F16, PLAIT_F32), "tensor_cores", "tiles of 128 x 128");
  refuses(of(4, 8, 8, PLAIT_F32, PLAIT_F32), "tensor_cores", "takes 16-bit floats, found f32");
  refuses(of(4, 8, 8, PLAIT_F16, PLAIT_BF16), "tensor_cores",
          "writes f32 or the type of x, found bf16");
  refuses(of(4, 12, 8), "tensor_cores", "needs inputs and outputs in whole 8, found 12 and 8");
  refuses(of(4, 8, 12), "tensor_cores", "needs inputs and outputs in whole 8, found 8 and 12");
}

TEST_CASE("attention over a cache, with the keys in parts") {
  const auto parts_of = [](const Cached& s) { return chosen(cached(s), "decode").detail; };
  CHECK(parts_of({}) == "1 heads of a key head together, keys in 1 part");
  CHECK(parts_of({.places = 255}) == "1 heads of a key head together, keys in 1 part");
  CHECK(parts_of({.places = 256}) == "1 heads of a key head together, keys in 2 parts");
  CHECK(parts_of({.places = 1 << 20}) == "1 heads of a key head together, keys in 64 parts");
  CHECK(parts_of({.samples = 128, .places = 1 << 20}) ==
        "1 heads of a key head together, keys in 1 part");  // 512 blocks without
  CHECK(parts_of({.groups = 1}) == "4 heads of a key head together, keys in 1 part");
  CHECK(parts_of({.heads = 16, .groups = 1}) == "8 heads of a key head together, keys in 1 part");
  CHECK(parts_of({.heads = 16, .groups = 1, .value = 256}) ==
        "4 heads of a key head together, keys in 1 part");
  CHECK(chosen(cached({}), "decode").workspace == 0);
  // Two parts of a query: a sum of each channel, a greatest score, a sum of weights.
  CHECK(chosen(cached({.places = 256}), "decode").workspace ==
        2 * 4 * 2 * (64 + 2) * sizeof(float));

  const auto refused = [](const Case& c, const char* says) { refuses(c, "decode", says); };
  refused(cached({.heads = 0, .groups = 1}), "takes one query head or more, found none");
  refused(cached({}, PLAIT_F64), "takes f32, bf16 and f16, found f64");
  refused(cached({}, PLAIT_F32, PLAIT_F64), "takes f32, bf16 and f16, found f64");
  takes(cached({}, PLAIT_F32, PLAIT_F32, 0), "decode", "1 heads");
  for (const auto& [scale, cap] : {std::pair{1e-39, 0.0}, {-1e39, 0.0}, {0.1, 1e39}, {0.1, 1e-39}})
    refused(cached({}, PLAIT_F32, PLAIT_F32, scale, cap),
            "takes a scale and a softcap that f32 has");
  takes(cached({.qk = 256, .value = 256}), "decode", "1 heads");
  refused(cached({.qk = 260}), "takes up to 256 channels, found 260");
  refused(cached({.value = 260}), "takes up to 256 channels, found 260");
  takes(cached({.qk = 12, .value = 12}), "decode", "1 heads");
  refused(cached({.qk = 12}, PLAIT_F32, PLAIT_BF16), "needs keys of whole 16 bytes and values of");
  refused(cached({.value = 62}), "needs keys of whole 16 bytes and values of");
  takes(cached({.samples = kTwo31 - 1, .heads = 1, .groups = 1}), "decode", "1 heads");
  refused(cached({.samples = kTwo31, .heads = 1, .groups = 1}), "has more queries than a grid");
  takes(cached({.heads = 65535, .groups = 65535}), "decode", "1 heads");
  refused(cached({.heads = 65536, .groups = 65536}), "has more queries than a grid has blocks");
}

TEST_CASE("products with int8 weights of few rows") {
  takes(quantized(8, 64, PLAIT_BF16), "few_rows", "8 rows at once");
  takes(quantized(8, 16, PLAIT_BF16), "few_rows", "8 rows at once");
  refuses(quantized(8, 24, PLAIT_BF16), "few_rows", "needs columns in whole 16, found 24");
  refuses(quantized(8, 64, PLAIT_F64), "few_rows", "takes f32, bf16 and f16, found f64");
  Case across = quantized(8, 64, PLAIT_F32);
  across.inputs[1].shape = shape(PLAIT_U8, {64, 64});
  across.inputs[2].shape = f32({64, plait::kit::QuantRow{.columns = 64}.blocks()});
  across.outputs[0] = f32({8, 64});
  across.attrs = {flag("transpose_b", false)};
  refuses(across, "few_rows", "takes int8 weights (n, k)");
}

TEST_CASE("other kernels with bounds of their own") {
  const auto scatter = [](int64_t into, int64_t count) {
    return Case{"",
                "scatter_add",
                {{f32({count, 4})}, {shape(PLAIT_I32, {count})}},
                {f32({into, 4})},
                {number("rows", into)}};
  };
  takes(scatter(kTwo31 - 2, 5), "plain", "sorted by the row");
  refuses(scatter(kTwo31 - 1, 5), "plain",
          "takes less than 2^31 rows and indices, found 2147483647");
  takes(scatter(5, kTwo31 - 2), "plain", "sorted by the row");
  refuses(scatter(5, kTwo31 - 1), "plain",
          "takes less than 2^31 rows and indices, found 5 and 2147");

  const auto rope = [](uint32_t type, int64_t channels, int64_t pairs, const char* how) {
    const plait_shape x = shape(type, {2, 3, 4, channels}), table = f32({3, pairs});
    return Case{"", "rope", {{x}, {table}, {table}}, {x}, {text("pairs", how)}};
  };
  takes(rope(PLAIT_F32, 12, 4, "half"), "packs", "packs of 16 bytes");
  takes(rope(PLAIT_F32, 12, 2, "adjacent"), "packs", "packs of 16 bytes");
  for (const Case& c : {rope(PLAIT_F32, 12, 2, "half"), rope(PLAIT_F32, 12, 1, "adjacent"),
                        rope(PLAIT_F32, 14, 4, "half"), rope(PLAIT_F16, 12, 4, "half"),
                        rope(PLAIT_F16, 16, 4, "half")})
    refuses(c, "packs", "channels and pairs do not fill packs of 16 bytes");
  takes(rope(PLAIT_F16, 16, 8, "half"), "packs", "packs of 16 bytes");
  refuses(rope(PLAIT_F64, 12, 4, "half"), "packs", "f64 is computed plainly");

  const auto batch = [](int64_t n) {
    return Case{"", "matmul", {{f32({n, 2, 3})}, {f32({n, 3, 4})}}, {f32({n, 2, 4})}};
  };
  CHECK(chosen(batch(kTwo31 - 1), "cublaslt").taken);
  refuses(batch(kTwo31), "cublaslt", "more than 2147483647 products in a batch");
}
