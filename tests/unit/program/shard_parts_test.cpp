// Values of which a rank makes its part alone, and what it cuts out of a whole one.
#include "tests/unit/program/shard_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Fixture = ShardFixture;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "attention over a cache: query heads of a rank, with their key heads") {
  const auto heads = [&](int64_t keys, std::map<ValueId, int32_t> sharded, const char* group) {
    const std::string all = std::to_string(keys);
    shards(R"(
    %1 f32 (2, 1, 4, 6) at 0:0 = persistent "q"
    %2 f32 (3, 8, )" +
               all + R"(, 6) at 0:512 = persistent "k"
    %3 i32 (2) at 1:0 = persistent "slot"
    %4 i32 (2, 1) at 1:64 = persistent "at"
    %5 f32 (2, 1, 4, 6) = attention_cached(%1, %2, %2, %3, %4) {scale: 0.5} @h
  )",
           sharded, 5,
           R"(
    %1 f32 (2, 1, 2, 6) at 0:0 = persistent "q"
    %2 f32 (3, 8, 1, 6) at 0:512 = persistent "k"
    %3 i32 (2) at 1:0 = persistent "slot"
    %4 i32 (2, 1) at 1:64 = persistent "at"
    %5 f32 (2, 1, 2, 6) = attention_cached(%1, %2, %2, %3, %4) {scale: 0.5, )"
           R"(first_head: 2, heads: 4, )" +
               std::string(group) + R"(} @h
    %6 f32 (4, 1, 2, 6) = collective_start(%5) {kind: 4, ranks: 2, id: 0} @h
    %7 f32 (4, 1, 2, 6) in %6 = collective_done(%6, %5) {id: 0} @h
    %8 f32 (2, 2, 12) = reshape(%7) {shape: [2, 2, 12]} @h
    %9 f32 (2, 2, 12) = transpose(%8) {perm: [1, 0, 2]} @h
    %10 f32 (2, 1, 4, 6) = reshape(%9) {shape: [2, 1, 4, 6]} @h
  )");
  };
  heads(2, {{1, 2}, {2, 2}}, "first_group: 1, groups: 2");
  heads(1, {{1, 2}}, "first_group: 0, groups: 1");
}

TEST_CASE_FIXTURE(Fixture,
                  "the matrices of a rank's groups are made alone, as are rows of a view") {
  shards(R"(
    %1 f32 (8, 6) at 0:0 = persistent "rows"
    %2 f32 (8, 2) at 0:256 = persistent "d"
    %3 i32 (5) at 0:512 = persistent "offsets"
    %4 f32 (4, 6, 2) at 1:0 = persistent "w"
    %5 f32 (4, 6, 2) = grouped_matmul_grad(%1, %2, %3) @m
    %6 f32 (4, 6, 2) = map(%4, %5) [x0 - x1] @n
  )",
         {{4, 0}}, 6, R"(
    %1 f32 (8, 6) at 0:0 = persistent "rows"
    %2 f32 (8, 2) at 0:256 = persistent "d"
    %3 i32 (5) at 0:512 = persistent "offsets"
    %4 f32 (2, 6, 2) at 1:0 = persistent "w"
    %6 f32 (2, 6, 2) = grouped_matmul_grad(%1, %2, %3) {first: 2, groups: 2} @n
    %7 f32 (2, 6, 2) = map(%4, %6) [x0 - x1] @n
    %8 f32 (4, 6, 2) = collective_start(%7) {kind: 4, ranks: 2, id: 0} @n
    %9 f32 (4, 6, 2) in %8 = collective_done(%8, %7) {id: 0} @n
  )");
  shards(R"(
    %1 f32 (8, 6) at 0:0 = persistent "rows"
    %2 i32 (8) at 0:256 = persistent "index"
    %3 f32 (4, 2, 3) at 1:0 = persistent "w"
    %4 f32 (4, 6) = scatter_add(%1, %2) {rows: 4} @m
    %5 f32 (4, 2, 3) = reshape(%4) {shape: [4, 2, 3]} @m
    %6 f32 (4, 2, 3) = map(%3, %5) [x0 - x1] @n
  )",
         {{3, 0}}, 6, R"(
    %1 f32 (8, 6) at 0:0 = persistent "rows"
    %2 i32 (8) at 0:256 = persistent "index"
    %3 f32 (2, 2, 3) at 1:0 = persistent "w"
    %6 f32 (2, 6) = scatter_add(%1, %2) {rows: 2, first: 2} @n
    %7 f32 (2, 2, 3) = reshape(%6) {shape: [2, 2, 3]} @n
    %8 f32 (2, 2, 3) = map(%3, %7) [x0 - x1] @n
    %9 f32 (4, 2, 3) = collective_start(%8) {kind: 4, ranks: 2, id: 0} @n
    %10 f32 (4, 2, 3) in %9 = collective_done(%9, %8) {id: 0} @n
  )");
}

TEST_CASE_FIXTURE(Fixture, "a part of what the ranks do not divide ends in zeros") {
  wanted_form = shard_along(0);
  shards(R"(
    %1 f32 (5, 2) at 0:0 = persistent "x"
    %2 f32 (5, 2) = map(%1) [exp(x0)] @m
  )",
         {}, 2, R"(
    %1 f32 (5, 2) at 0:0 = persistent "x"
    %2 f32 (5, 2) = map(%1) [exp(x0)] @m
    %3 f32 (2, 2) = slice(%2) {start: 3, stop: 5} @m
    %4 f32 (3, 2) = pad(%3) {after: 1} @m
  )");
}

TEST_CASE_FIXTURE(Fixture, "16-bit terms of what cannot write f32 are converted") {
  shards(R"(
    %1 bf16 (6, 4) at 0:0 = persistent "table"
    %2 i32 (3) at 1:0 = persistent "ids"
    %3 bf16 (3, 4) = gather(%1, %2) @embed
  )",
         {{1, 0}}, 3, R"(
    %1 bf16 (3, 4) at 0:0 = persistent "table"
    %2 i32 (3) at 1:0 = persistent "ids"
    %3 bf16 (3, 4) = gather(%1, %2) {first: 3, total: 6} @embed
    %4 f32 (3, 4) = map(%3) [copy(x0)] @embed
    %5 f32 (3, 4) in %4 = collective_start(%4) {kind: 2, ranks: 2, id: 0} @embed
    %6 f32 (3, 4) in %5 = collective_done(%5) {id: 0} @embed
    %7 bf16 (3, 4) = map(%6) [copy(x0)] @embed
  )");
}

TEST_CASE_FIXTURE(
    Fixture, "gradients of attention: of a rank's heads; of keys that ranks share, their sum") {
  const auto heads = [&](const std::string& keys, const std::string& own, const char* part,
                         const std::string& behind) {
    const std::string lse = R"(
    %3 f32 (2, 4, 3) at 0:2048 = persistent "lse"
)";
    const bool shared = keys == own;
    std::map<ValueId, int32_t> sharded{{1, 2}};
    if (!shared) sharded[2] = 2;
    wanted_form = shared ? kReplicated : shard_along(2);
    shards(R"(
    %1 f32 (2, 3, 4, 6) at 0:0 = persistent "q"
    %2 f32 )" + keys +
               R"( at 0:1024 = persistent "k")" + lse + R"(
    %4 f32 (2, 3, 4, 6) = map(%1) [-x0] @h
    %5 f32 (2, 3, 4, 6), %6 f32 )" +
               keys + ", %7 f32 " + keys +
               " = dot_product_attention_grad(%1, %2, %2, %4, %3, %4) {scale: 0.5} @h",
           sharded, 6,
           R"(
    %1 f32 (2, 3, 2, 6) at 0:0 = persistent "q"
    %2 f32 )" + own +
               R"( at 0:1024 = persistent "k")" + lse + R"(
    %4 f32 (2, 3, 2, 6) = map(%1) [-x0] @h
    %5 f32 (2, 2, 3) = slice(%3) {axis: 1, start: 2, stop: 4} @h
    %6 f32 (2, 3, 2, 6), %7 f32 )" +
               own + ", %8 f32 " + own +
               " = dot_product_attention_grad(%1, %2, %2, %4, %5, %4) {scale: 0.5, first_head: 2, "
               "heads: 4, " +
               part + "} @h" + behind);
  };
  heads("(2, 3, 2, 6)", "(2, 3, 1, 6)", "first_group: 1, groups: 2", "");
  heads("(2, 3, 1, 6)", "(2, 3, 1, 6)", "first_group: 0, groups: 1", R"(
    %9 f32 (2, 3, 1, 6) in %7 = collective_start(%7) {kind: 2, ranks: 2, id: 0} @h
    %10 f32 (2, 3, 1, 6) in %9 = collective_done(%9) {id: 0} @h
  )");
}

// 0 would be the greatest of numbers below it.
TEST_CASE_FIXTURE(Fixture, "the greatest along a dimension with padding is taken of the whole") {
  shards(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 5) at 1:0 = persistent "w"
    %3 f32 (8, 5) = matmul(%1, %2) @a
    %4 f32 (8) = reduce(%3) {kind: "max", axes: [1], keep: false} @b
  )",
         {{2, 1}}, 4,
         R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 3) at 1:0 = persistent "w"
    %3 f32 (8, 3) = matmul(%1, %2) @a
    )" + gathered_columns(3, 3, "b") +
             R"(
    %9 f32 (8, 5) = slice(%8) {axis: 1, stop: 5} @b
    %10 f32 (8) = reduce(%9) {kind: "max", axes: [1], keep: false} @b
  )");
}
