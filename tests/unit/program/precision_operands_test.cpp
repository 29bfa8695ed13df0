// Operands that keep their type beside one of 16 bits.
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
       }) {
    read(inputs + line);
    PrecisionRules rules;
    rules.low = PLAIT_BF16;
    lower_precision(g, rules);
    expect(inputs + line);
    CHECK_FALSE(find_fault(g));
  }
}
