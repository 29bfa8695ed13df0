// The sharding rules of ops, asked one by one: how the operands lie on 2 ranks, and what follows.
#include "tests/unit/program/text_fixture.hpp"

#include <plait/comm.h>

#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"

using namespace plait;
using namespace plait::program;

namespace {

constexpr const char* kInputs = R"(
  %1 f32 (8, 6) at 0:0 = persistent "x"
  %2 f32 (8, 4) at 0:512 = persistent "d"
  %3 f32 (3, 6, 4) at 1:0 = persistent "w"
  %4 f32 (3, 4, 6) at 1:512 = persistent "turned"
  %5 i32 (4) at 2:0 = persistent "offsets"
  %6 i32 (4, 2) at 2:64 = persistent "place"
  %7 f32 (4, 2) at 2:128 = persistent "weights"
  %8 f32 (2, 8, 4, 6) at 3:0 = persistent "heads"
  %9 i32 (2) at 2:256 = persistent "slot"
  %10 i32 (2, 8) at 2:320 = persistent "at"
)";

// "S1": a shard along dimension 1; "R": replicated; "sum", "max": partial.
std::string text_of(const Placement& p) {
  if (p.is_partial()) return p.reduction == PLAIT_COMM_MAX ? "max" : "sum";
  return p.is_shard() ? "S" + std::to_string(p.dim) : "R";
}
Placement placement(const std::string& text) {
  return text == "R" ? kReplicated : shard_along(text[1] - '0');
}
std::string text_of(const std::vector<Placement>& all) {
  std::vector<std::string> texts;
  for (const Placement& p : all) texts.push_back(text_of(p));
  return join(texts, " ");
}

struct Fixture : TextFixture {
  // "S1 R -> S1, zeros": what the rule of the last op says; "no": it takes replicated inputs.
  std::string rule(const std::string& line, const std::string& have) {
    read(std::string(kInputs) + line);
    const Op& op = g.ops().back();
    std::vector<Placement> lie;
    if (!have.empty())
      for (const std::string& one : split(have, ' ')) lie.push_back(placement(one));
    REQUIRE(lie.size() == op.in.size());
    Sharding s{std::vector<Placement>(op.in.size()), std::vector<Placement>(op.out.size())};
    if (!op.def->shard(g, op, lie, 2, s)) return "no";
    return text_of(s.in) + " -> " + text_of(s.out) + (s.keeps_zeros ? ", zeros" : "");
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "what each rule makes of the shards of its inputs") {
  const std::string product = "%20 f32 (8, 4) = grouped_matmul(%1, %3, %5) @m",
                    turned = "%20 f32 (8, 4) = grouped_matmul(%1, %4, %5) {transpose_b: true} @m",
                    gradient = "%20 f32 (3, 6, 4) = grouped_matmul_grad(%1, %2, %5) @m",
                    sums = "%20 f32 (4, 6) = ungroup_rows(%1, %7, %6) @m",
                    rows = "%20 f32 (4, 2, 6) = gather(%1, %6) @m",
                    added = "%20 f32 (5, 6) = scatter_add(%8, %11) {rows: 5} @m",
                    cache =
                        "%20 f32 (3, 16, 4, 6) = kv_cache(%8, %9, %10) "
                        "{slots: 3, length: 16} @m",
                    stop = "%20 f32 (8, 6) = stop_gradient(%1) @m",
                    table = "%20 f32 (2, 8, 3), %21 f32 (2, 8, 3) = rope_table(%10",
                    best = "%20 f32 (4, 5) = top_k_grad(%7, %6) {extent: 5} @m",
                    kept =
                        "%20 f32 (2, 8, 4, 6), %21 f32 (2, 4, 8) = "
                        "dot_product_attention(%8, %8, %8) {scale: 1.0} @m",
                    batched =
                        "%11 f32 (2, 8, 6, 4) at 3:4096 = persistent \"b\"\n"
                        "%20 f32 (2, 8, 4, 4) = matmul(%8, %11) @m",
                    biased =
                        "%11 f32 (6, 4) at 3:4096 = persistent \"w\"\n"
                        "%12 f32 (4) at 3:8192 = persistent \"bias\"\n"
                        "%20 f32 (8, 4) = matmul(%1, %11, %12) {bias: true} @m",
                    of_three =
                        "%11 f32 (2, 8, 6) at 3:4096 = persistent \"a\"\n"
                        "%12 f32 (2, 6, 4) at 3:8192 = persistent \"b\"\n"
                        "%20 f32 (2, 8, 4) = matmul(%11, %12) @m",
                    of_f8 =
                        "%11 f32 (8, 6) = map(%1, %1) [x0 * x1]\n"
                        "%12 f8e4m3 (8, 6), %13 f32 () = quantize_f8(%11, %17)\n"
                        "%14 f32 (4, 6) at 3:4096 = persistent \"b\"\n"
                        "%15 f8e4m3 (4, 6), %16 f32 () = quantize_f8(%14, %17)\n"
                        "%17 f32 () at 3:8192 = persistent \"most\"\n"
                        "%20 f32 (8, 4) = matmul_f8(%12, %15, %13, %16)",
                    of_stored_f8 =
                        "%11 f8e4m3 (8, 6), %12 f32 () = quantize_f8(%1, %7)\n"
                        "%13 f8e4m3 (4, 6) at 3:4096 = persistent \"b\"\n"
                        "%14 f32 () at 3:8192 = persistent \"scale\"\n"
                        "%20 f32 (8, 4) = matmul_f8(%11, %13, %12, %14)";
  const std::string index = "%11 i32 (2, 8, 4) at 2:512 = persistent \"index\"\n";
  const std::string losses =
                        "%11 i32 (8) at 2:512 = persistent \"label\"\n"
                        "%20 f32 (8), %21 f32 (8) = cross_entropy(%1, %11) @m",
                    drops =
                        "%11 i64 (2) at 2:512 = persistent \"counter\"\n"
                        "%20 f32 (2, 8, 4, 6), %21 f32 (2, 4, 8) = dot_product_attention("
                        "%8, %8, %8, %11) {scale: 1.0, dropout: 0.5} @m",
                    part = "%20 f32 (8, 2) = slice(%1) {axis: 1, start: 0, stop: 2} @m",
                    beside = "%20 f32 (8, 10) = concat(%1, %2) {axis: 1} @m";
  const struct {
    std::string line, have, expected;
  } kRows[] = {
      // Matrices by their inputs or outputs.
      {product, "R S1 R", "S1 S1 R -> sum, zeros"},
      {product, "R S2 R", "R S2 R -> S1, zeros"},
      {product, "S1 R R", "S1 S1 R -> sum, zeros"},
      {product, "S0 R R", "no"},
      {product, "S1 S0 R", "no"},
      {turned, "R S2 R", "S1 S2 R -> sum, zeros"},
      {turned, "R S1 R", "R S1 R -> S1, zeros"},
      {turned, "S1 R R", "S1 S2 R -> sum, zeros"},
      {gradient, "S1 R R", "S1 R R -> S1, zeros"},
      {gradient, "R S1 R", "R S1 R -> S2, zeros"},
      {gradient, "S1 S1 R", "S1 R R -> S1, zeros"},
      {gradient, "S0 S0 R", "no"},
      // Channels stay where they are.
      {sums, "S1 R R", "S1 R R -> S1, zeros"},
      {sums, "S0 R R", "no"},
      {rows, "S1 R", "S1 R -> S2"},
      {rows, "S0 R", "no"},
      {rows, "R S1", "R S1 -> S1"},
      {index + added, "S3 R", "S3 R -> S1"},
      {index + added, "S2 R", "no"},
      {index + added, "S3 S0", "no"},
      {cache, "S2 R R", "S2 R R -> S2"},
      {cache, "S3 R R", "S3 R R -> S3"},
      {cache, "S1 R R", "no"},
      {cache, "R S0 R", "no"},
      {stop, "S1", "S1 -> S1, zeros"},
      // Positions have rows of their own; lengths have the samples alone.
      {table + ") {channels: 6} @m", "S1", "S1 -> S1 S1"},
      {table + ") {channels: 6} @m", "S0", "S0 -> S0 S0"},
      {table + ", %9) {channels: 6} @m", "S0 R", "S0 S0 -> S0 S0"},
      {table + ", %9) {channels: 6} @m", "S1 R", "S1 R -> S1 S1"},
      {"%20 f32 (8, 3), %21 f32 (8, 3) = rope_table() {channels: 6, length: 8} @m", "", "no"},
      {best, "S0 R", "S0 S0 -> S0, zeros"},
      {best, "S1 S1", "no"},
      {kept, "S0 S0 S0", "S0 S0 S0 -> S0 S0"},
      {kept, "R S0 R", "S0 S0 S0 -> S0 S0"},
      {kept, "S1 R R", "no"},
      {drops, "S0 S0 S0 R", "no"},
      {losses, "S0 R", "S0 S0 -> S0 S0"},
      {losses, "S1 R", "no"},
      {losses, "R S0", "no"},
      {part, "S0", "S0 -> S0"},
      {part, "S1", "no"},
      {beside, "R S0", "S0 S0 -> S0"},
      {beside, "S1 S1", "no"},
      // Of products of many matrices those of a rank.
      {batched, "S0 R", "S0 S0 -> S0, zeros"},
      {batched, "R S1", "S1 S1 -> S1, zeros"},
      {batched, "S3 S0", "S0 S0 -> S0, zeros"},
      {of_three, "S0 R", "S0 S0 -> S0, zeros"},
      {of_three, "R S0", "S0 S0 -> S0, zeros"},
      // A parameter in parts of its outputs stays there, quantized or not.
      {of_f8, "S0 S0 R R", "R S0 R R -> S1, zeros"},
      {of_stored_f8, "S0 S0 R R", "R S0 R R -> S1, zeros"},
      {of_stored_f8, "S0 R R R", "S0 R R R -> S0, zeros"},
      // A bias is added to the rows of padding, too.
      {biased, "S0 R R", "S0 R R -> S0"},
      {biased, "S1 R R", "no"},
      {"%20 f64 (12), %21 f64 (4) = statistics(%1)", "S0", "S0 -> sum max, zeros"},
      {"%20 f32 (4, 2, 6) = reshape(%1) {shape: [4, 2, 6]}", "S0", "S0 -> S0, zeros"},
      {"%20 f32 (8, 3, 2) = reshape(%1) {shape: [8, 3, 2]}", "S1", "no"},
      // What is repeated has no parts.
      {"%11 f32 (1, 6) at 3:4096 = persistent \"row\"\n%20 f32 (8, 6) = map(%1, %11) [x0 + x1]",
       "R S0", "no"},
      {"%11 f32 (1, 6) at 3:4096 = persistent \"row\"\n%20 f32 (8, 6) = map(%1, %11) [x0 + x1]",
       "S0 R", "S0 R -> S0"},
  };
  for (const auto& row : kRows) {
    CAPTURE(row.line);
    CAPTURE(row.have);
    CHECK(rule(row.line, row.have) == row.expected);
  }
}
