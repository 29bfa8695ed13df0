// Operands that keep their type beside one of 16 bits, and results that are written as they are
// read.
#include "engine/program/precision.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

TEST_CASE_FIXTURE(TextFixture, "statistics, gains, tables, weights of a sum and biases stay wide") {
  const std::string inputs = R"(
    %1 bf16 (2, 3, 4, 6) at 0:0 = persistent "x"
    %2 f32 (6) at 1:0 = persistent "gain"
    %3 f32 (6) at 1:64 = persistent "bias"
    %4 f64 () at 1:128 = persistent "scale"
    %5 f32 (3, 3) at 1:192 = persistent "cos"
    %6 f32 (3, 3) at 1:256 = persistent "sin"
    %7 f32 () at 1:320 = persistent "most"
    %8 bf16 (8, 6) at 0:1024 = persistent "rows"
    %9 f32 (4, 2) at 1:384 = persistent "weights"
    %10 i32 (4, 2) at 1:448 = persistent "place"
    %11 bf16 (6, 6) at 2:0 = persistent "w"
  )";
  for (const char* line : {
           "%20 f64 (12), %21 f64 (4) = statistics(%1, %4)",
           "%20 bf16 (2, 3, 4, 6), %21 f32 (2, 3, 4), %22 f32 (2, 3, 4) = layer_norm(%1, %2, %3) "
           "{eps: 0.5}",
           "%20 bf16 (2, 3, 4, 6), %21 f32 (2, 3, 4) = rms_norm(%1, %2) {eps: 0.5}",
           "%20 bf16 (2, 3, 4, 6) = rope(%1, %5, %6)",
           "%20 f8e4m3 (2, 3, 4, 6), %21 f32 () = quantize_f8(%1, %7)",
           "%20 bf16 (4, 6) = ungroup_rows(%8, %9, %10)",
           "%20 bf16 (8, 6) = matmul(%8, %11, %3) {bias: true}",
           "%20 bf16 (6) = round_stochastic(%2, %4) {seed: 1, stream: 2}",
       }) {
    read(inputs + line);
    PrecisionRules rules;
    rules.low = PLAIT_BF16;
    lower_precision(g, rules);
    expect(inputs + line);
    CHECK_FALSE(find_fault(g));
  }
}

// A mask made of numbers alone does not widen what it is multiplied with.
TEST_CASE_FIXTURE(TextFixture, "numbers that depend on no data do not decide a type") {
  read(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 2) at 1:0 = persistent "w"
    %3 f32 (8, 2) = matmul(%1, %2) @fc
    %4 f32 (8, 2) = map() [0.5]
    %5 f32 (8, 2) = map(%4) [floor(x0)]
    %6 f32 (8, 2) = map(%3, %5) [x0 * x1] @drop
  )");
  PrecisionRules rules;
  rules.low = PLAIT_BF16;
  lower_precision(g, rules);
  CHECK(text(g.shape(5)) == "f32 (8, 2)");
  CHECK(text(g.shape(6)) == "bf16 (8, 2)");
}

TEST_CASE_FIXTURE(TextFixture, "a result that is only read as f32 is written so") {
  const std::string inputs = R"(
    %1 bf16 (8, 40) at 0:0 = persistent "x"
    %2 bf16 (40, 6) at 1:0 = persistent "w"
    %3 u8 (6, 40) at 1:512 = persistent "q"
    %4 f32 (6, 2) at 1:1024 = persistent "s"
    %5 i32 (8) at 2:0 = persistent "ids"
    %6 f32 (40) at 2:64 = persistent "gain"
    %7 bf16 (3, 40, 6) at 3:512 = persistent "experts"
    %8 i32 (4) at 2:256 = persistent "offsets"
  )";
  const struct {
    std::string before, after;
  } kRows[] = {
      {"%20 bf16 (8, 6) = matmul(%1, %2)", "%20 f32 (8, 6) = matmul(%1, %2) {dtype: 1}"},
      {"%20 bf16 (8, 6) = grouped_matmul(%1, %7, %8)",
       "%20 f32 (8, 6) = grouped_matmul(%1, %7, %8) {dtype: 1}"},
      {"%20 bf16 (3, 40, 40) = grouped_matmul_grad(%1, %1, %8)",
       "%20 f32 (3, 40, 40) = grouped_matmul_grad(%1, %1, %8) {dtype: 1}"},
      {"%20 bf16 (8, 6) = matmul_quantized(%1, %3, %4) {columns: 40}",
       "%20 f32 (8, 6) = matmul_quantized(%1, %3, %4) {columns: 40, dtype: 1}"},
      {"%20 bf16 (8, 40) = gather_quantized(%3, %4, %5) {columns: 40, dtype: 3}",
       "%20 f32 (8, 40) = gather_quantized(%3, %4, %5) {columns: 40, dtype: 1}"},
      {"%20 bf16 (6, 40) = dequantize(%3, %4) {columns: 40, dtype: 3}",
       "%20 f32 (6, 40) = dequantize(%3, %4) {columns: 40, dtype: 1}"},
      {"%20 bf16 (8, 40), %21 f32 (8) = rms_norm(%1, %6) {eps: 0.5}",
       "%20 f32 (8, 40), %21 f32 (8) = rms_norm(%1, %6) {eps: 0.5, dtype: 1}"},
  };
  for (const auto& row : kRows) {
    const std::string dims = row.before.substr(9, row.before.find(')') - 8),
                      cast = "\n%30 f32 " + dims + " = map(%20) [copy(x0)]",
                      read_as = "\n%31 f32 " + dims + " = map(%30) [exp(x0)]";
    read(inputs + row.before + cast + read_as);
    fold_casts(g, {});
    CHECK_FALSE(find_fault(g));
    std::string read_now = read_as;
    read_now.replace(read_now.find("%30"), 3, "%20");
    expect(inputs + row.after + cast + read_now);
    // Not where it lies outside the program.
    std::string outside = row.before;
    outside.insert(outside.find(')') + 1, " at 4:0");
    read(inputs + outside + cast + read_as);
    fold_casts(g, {});
    CHECK_FALSE(find_fault(g));
    expect(inputs + outside + cast + read_as);
  }
}
