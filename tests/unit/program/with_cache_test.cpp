// Programs of whole samples as programs of a few tokens over a cache, and what cannot be one.
#include "engine/program/with_cache.hpp"

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

// Samples of 8 tokens, two of them; 6 ids, 4 channels, 2 heads.
constexpr const char* kTokens = R"(
  %1 i32 (2, 8) at 0:0 = persistent "tokens"
  %2 f32 (6, 4) at 1:0 = persistent "embed"
  %3 f32 (2, 8, 4) = gather(%2, %1) @embed
)";
constexpr const char* kAttention = R"(
  %4 f32 (2, 8, 2, 2) = reshape(%3) {shape: [2, 8, 2, 2]} @h.attn
  %5 f32 (2, 8, 2, 2), %6 f32 (2, 2, 8) = dot_product_attention(%4, %4, %4) {scale: 0.5} @h.attn
  %7 f32 (2, 8, 4) = reshape(%5) {shape: [2, 8, 4]} @h.attn
)";

struct Fixture : TextFixture {
  CachedProgram cached(ValueId output, int64_t tokens, bool writes_only = false) {
    CacheSource source;
    source.tokens = 1;
    source.constants = constants;
    source.output = output;
    CacheInputs inputs;
    inputs.tokens = tokens;
    inputs.ids = {5, 0};
    inputs.at = {5, 64};
    inputs.positions = {5, 128};
    inputs.slot = {5, 192};
    inputs.lengths = {5, 256};
    inputs.slots = 3;
    inputs.length = 8;
    inputs.writes_only = writes_only;
    return with_cache(g, source, inputs);
  }
  // The graph becomes the cached one, its caches in segment 7.
  void rewrite(ValueId output, int64_t tokens, bool writes_only = false) {
    CachedProgram made = cached(output, tokens, writes_only);
    CHECK_FALSE(find_fault(*made.graph));
    length_limits = made.length_limits;
    uint64_t offset = 0;
    place_caches(*made.graph, [&](const plait_shape& s) {
      const BufferRef at{7, offset};
      offset += bytes(s);
      return at;
    });
    CHECK_FALSE(find_fault(*made.graph));
    g = std::move(*made.graph);
  }
  std::string refused(ValueId output) {
    try {
      cached(output, 1);
    } catch (const Error& e) {
      return e.text();
    }
    return "";
  }
  std::set<ValueId> constants{2};
  std::set<int64_t> length_limits;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "a token of each sequence: keys are written to the cache and read there") {
  read(std::string(kTokens) + kAttention);
  rewrite(7, 1);
  expect(R"(
    %1 i32 (2, 1) at 5:0 = persistent "tokens"
    %2 i32 (2, 1) at 5:64 = persistent "at"
    %3 i32 (2, 1) at 5:128 = persistent "positions"
    %4 i32 (2) at 5:192 = persistent "slot"
    %5 f32 (6, 4) at 1:0 = persistent "embed"
    %11 f32 (3, 8, 2, 2) at 7:0 = persistent "h.attn.cache"
    %6 f32 (2, 1, 4) = gather(%5, %1) @embed
    %7 f32 (2, 1, 2, 2) = reshape(%6) {shape: [2, 1, 2, 2]} @h.attn
    %8 f32 (3, 8, 2, 2) in %11 = cache_write(%11, %7, %4, %2) @h.attn
    %9 f32 (2, 1, 2, 2) = attention_cached(%7, %8, %8, %4, %2) {scale: 0.5} @h.attn
    %10 f32 (2, 1, 4) = reshape(%9) {shape: [2, 1, 4]} @h.attn
  )");
}

TEST_CASE_FIXTURE(Fixture, "a prompt: nothing is computed that no cache needs") {
  read(std::string(kTokens) + kAttention + R"(
    %8 f32 (6, 4) at 1:96 = persistent "head"
    %9 f32 (2, 8, 6) = matmul(%7, %8) {transpose_b: true} @head
  )");
  constants.insert(8);
  rewrite(9, 4, true);
  for (const Op& op : g.ops()) CHECK(op.scope != "head");
  CHECK(g.ops().back().name == "cache_write");
}

TEST_CASE_FIXTURE(Fixture, "rows that all samples share are read at the tokens' positions") {
  read(std::string(kTokens) + R"(
    %4 f32 (10, 4) at 1:96 = persistent "positions.weight"
    %5 f32 (8, 4) = slice(%4) {axis: 0, start: 0, stop: 8} @positions
    %11 f32 (1, 8, 4) at 1:256 = persistent "one for all"
    %12 f32 (2, 8, 4) = map(%3, %5) [x0 + x1] @positions
    %6 f32 (2, 8, 4) = map(%12, %11) [x0 + x1] @positions
    %7 f32 (2, 8, 2, 2) = reshape(%6) {shape: [2, 8, 2, 2]} @h.attn
    %8 f32 (8, 1), %9 f32 (8, 1) = rope_table() {channels: 2, length: 8} @h.attn
    %10 f32 (2, 8, 2, 2) = rope(%7, %8, %9) @h.attn
  )");
  constants.insert({4, 11});
  rewrite(10, 2);
  const auto count = [&](const char* name) {
    return std::count_if(g.ops().begin(), g.ops().end(),
                         [&](const Op& op) { return op.name == name && !op.in.empty(); });
  };
  CHECK(count("gather") == 3);      // of ids, twice of positions
  CHECK(count("rope_table") == 1);  // of positions
  CHECK(same(g.shape(g.ops().back().out[0]), make_shape(PLAIT_F32, {2, 2, 2, 2})));
}

TEST_CASE_FIXTURE(Fixture,
                  "rows of a table of each sample's own are read at its tokens' positions") {
  read(std::string(kTokens) + R"(
    %4 f32 (3, 8, 4) at 1:96 = persistent "vectors"
    %5 i32 (2) at 0:64 = persistent "which"
    %6 f32 (2, 8, 4) = gather(%4, %5) @embed
    %7 f32 (2, 8, 4) = map(%3, %6) [x0 + x1] @embed
  )");
  constants.insert({4, 5});
  rewrite(7, 3);
  const auto rows = std::find_if(g.ops().begin(), g.ops().end(), [&](const Op& op) {
    return op.name == "gather" && same(g.shape(op.in[0]), make_shape(PLAIT_F32, {24, 4}));
  });
  REQUIRE(rows != g.ops().end());
  CHECK(same(g.shape(rows->in[1]), make_shape(PLAIT_I32, {2, 3})));
  CHECK(same(g.shape(g.ops().back().out[0]), make_shape(PLAIT_F32, {2, 3, 4})));
}

TEST_CASE_FIXTURE(Fixture, "angles that depend on the length of a sequence are given it") {
  const auto rotated = [this](const std::string& attrs) {
    read(R"(
      %1 i32 (2, 8) at 0:0 = persistent "tokens"
      %2 f32 (6, 4) at 1:0 = persistent "embed"
      %5 f32 (8, 1), %6 f32 (8, 1) = rope_table() {channels: 2, length: 8, )" +
         attrs + R"(} @h.attn
      %3 f32 (2, 8, 4) = gather(%2, %1) @embed
      %4 f32 (2, 8, 2, 2) = reshape(%3) {shape: [2, 8, 2, 2]} @h.attn
      %7 f32 (2, 8, 2, 2) = rope(%4, %5, %6) @h.attn
    )");
    rewrite(7, 2);
  };
  const std::string longrope =
      R"(scaling: "longrope", factors: "1", long_factors: "2", original: )";
  rotated(longrope + "7");
  CHECK(length_limits == std::set<int64_t>{7});
  expect(
      R"(
    %1 i32 (2, 2) at 5:0 = persistent "tokens"
    %2 i32 (2, 2) at 5:64 = persistent "at"
    %3 i32 (2, 2) at 5:128 = persistent "positions"
    %4 i32 (2) at 5:192 = persistent "slot"
    %7 f32 (6, 4) at 1:0 = persistent "embed"
    %10 i32 (2) at 5:256 = persistent "lengths"
    %5 f32 (8, 1), %6 f32 (8, 1) = rope_table() {channels: 2, )"
      R"(length: 8, scaling: "longrope", original: 7, factors: "1", long_factors: "2"} @h.attn
    %8 f32 (2, 2, 4) = gather(%7, %1) @embed
    %9 f32 (2, 2, 2, 2) = reshape(%8) {shape: [2, 2, 2, 2]} @h.attn
    %11 f32 (2, 2, 1), %12 f32 (2, 2, 1) = rope_table(%3, %10) )"
      R"({channels: 2, scaling: "longrope", original: 7, factors: "1", long_factors: "2"} @h.attn
    %13 f32 (2, 2, 2, 2) = rope(%9, %11, %12) @h.attn
  )");
  rotated(longrope + "8");  // no sequence is longer
  CHECK(length_limits.empty());
  rotated(R"(scaling: "longrope", long_factors: "2", original: 7)");  // none for short ones
  CHECK(length_limits.empty());
  rotated("theta: 500.0");
  CHECK(length_limits.empty());
}

TEST_CASE_FIXTURE(Fixture, "what mixes tokens is named") {
  const std::pair<const char*, const char*> cases[] = {
      {"%4 f32 (2, 4) = reduce(%3) {axes: [1], keep: false} @mean", "'mean' (reduce)"},
      {"%4 f32 (2, 4, 8) = transpose(%3) {perm: [0, 2, 1]} @turn\n"
       "%5 f32 (2, 4, 8) = softmax(%4) @weights",
       "'weights' (softmax) needs all tokens of a sample at once"},
      {"%4 f32 (2, 3, 4) = slice(%3) {axis: 1, start: 0, stop: 3} @cut", "'cut' (slice)"},
      {"%4 f32 (2, 8) at 0:64 = persistent \"speed\"\n%5 f32 (2, 8, 1) = reshape(%4) {shape: [2, "
       "8, 1]} @s\n%6 f32 (2, 8, 4) = map(%3, %5) [x0 + x1] @add",
       "'s' reads 'speed', which generation cannot give"},
      {"%4 f32 (2, 8, 2, 2) = reshape(%3) {shape: [2, 8, 2, 2]} @a\n%5 f32 (2, 8, 2, 2), %6 f32 "
       "(2, 2, 8) = dot_product_attention(%4, %4, %4) {scale: 1.0, causal: false} @a",
       "'a' is not causal"},
      {"%4 f32 (2, 8, 8) = matmul(%3, %3) {transpose_b: true} @scores",
       "'scores' (matmul) needs all tokens of a sample at once"},
      {"%4 f32 (2, 32) = reshape(%3) {shape: [2, 32]} @flat",
       "[generate] 'flat' (reshape) makes f32 (2, 32) of all tokens of a sample, so the model "
       "cannot be generated token by token"},
      {"%4 f32 (6, 4) = map(%2) [exp(x0)] @table",
       "[generate] the output of the model is f32 (6, 4), expected numbers for each token, "
       "(samples, tokens, vocabulary)"},
  };
  for (const auto& one : cases) {
    const auto& lines = one.first;
    const auto& part = one.second;
    read(std::string(kTokens) + lines);
    const ValueId output = g.ops().back().out[0];
    const std::string text = refused(output);
    CAPTURE(lines);
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture, "tokens that experts compute: a launch sorts its own alone") {
  constants = {2, 4, 5};
  read(kTokens + std::string(R"(
  %4 f32 (3, 4, 4) at 1:128 = persistent "w"
  %5 f32 (3, 4) at 1:512 = persistent "router"
  %6 f32 (2, 8, 3) = matmul(%3, %5) {transpose_b: true} @m
  %7 f32 (2, 8, 2), %8 i32 (2, 8, 2) = top_k(%6) {k: 2} @m
  %9 f32 (32, 4), %10 i32 (2, 8, 2), %11 i32 (4) = group_rows(%3, %8) {groups: 3} @m
  %12 f32 (32, 4) = grouped_matmul(%9, %4, %11) @m
  %13 f32 (32, 4) = map(%12) [max(x0, 0.0)] @m
  %14 f32 (2, 8, 4) = ungroup_rows(%13, %7, %10) @m
)"));
  rewrite(14, 1);
  expect(R"(
  %1 i32 (2, 1) at 5:0 = persistent "tokens"
  %2 i32 (2, 1) at 5:64 = persistent "at"
  %3 i32 (2, 1) at 5:128 = persistent "positions"
  %4 i32 (2) at 5:192 = persistent "slot"
  %5 f32 (6, 4) at 1:0 = persistent "embed"
  %7 f32 (3, 4) at 1:512 = persistent "router"
  %14 f32 (3, 4, 4) at 1:128 = persistent "w"
  %6 f32 (2, 1, 4) = gather(%5, %1) @embed
  %8 f32 (2, 1, 3) = matmul(%6, %7) {transpose_b: true} @m
  %9 f32 (2, 1, 2), %10 i32 (2, 1, 2) = top_k(%8) {k: 2} @m
  %11 f32 (4, 4), %12 i32 (2, 1, 2), %13 i32 (4) = group_rows(%6, %10) {groups: 3} @m
  %15 f32 (4, 4) = grouped_matmul(%11, %14, %13) @m
  %16 f32 (4, 4) = map(%15) [max(x0, 0.0)] @m
  %17 f32 (2, 1, 4) = ungroup_rows(%16, %9, %12) @m
)");
}

TEST_CASE_FIXTURE(Fixture,
                  "rows are grouped by an index of the tokens, else nothing is generated") {
  constants = {2};
  read(kTokens + std::string(R"(
  %4 i32 (2, 8, 1) at 1:512 = persistent "index"
  %5 f32 (16, 4), %6 i32 (2, 8, 1), %7 i32 (4) = group_rows(%3, %4) {groups: 3} @m
  %8 f32 (2, 8, 4) = reshape(%5) {shape: [2, 8, 4]} @m
)"));
  constants.insert(4);
  CHECK(refused(8).find("groups rows that are not one for each token") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "what reads sorted rows and does not keep their order is named") {
  constants = {2, 4, 6};
  const std::string rows = R"(
  %4 i32 (2, 8, 2) at 1:512 = persistent "index"
  %5 i32 (2, 8, 2) = map(%4) [copy(x0)] @m
  %6 f32 (32, 4) at 1:1024 = persistent "shared"
  %7 f32 (2, 8, 3), %8 i32 (2, 8, 3) = top_k(%3) {k: 3} @m
  %9 f32 (48, 4), %10 i32 (2, 8, 3), %11 i32 (4) = group_rows(%3, %8) {groups: 3} @m
)";
  const std::pair<const char*, const char*> cases[] = {
      {"%12 f32 (48, 4) = softmax(%9) @s",
       "'s' (softmax) needs the groups of all tokens of a sample at once"},
      {"%12 f32 (48, 4) at 1:2048 = persistent \"gain\"\n%13 f32 (48, 4) = map(%9, %12) "
       "[x0 * x1] @s",
       "'s' (map) reads rows of groups and others that are not sorted"},
  };
  constants.insert(12);
  for (const auto& one : cases) {
    read(kTokens + rows + one.first);
    const std::string text = refused(g.ops().back().out[0]);
    CAPTURE(text);
    CHECK(text.find(one.second) != std::string::npos);
  }
}
