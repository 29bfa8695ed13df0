// Which ops are left to a library of the device.
#include "engine/program/use_libraries.hpp"

#include "engine/program/op_def.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  void check(const HasKernel& has_kernel, const std::string& after) {
    expect_after([&] { use_libraries(g, has_kernel); },
                 R"(
    %1 bf16 (2, 4, 2, 8) at 0:0 = persistent "x"
    %2 bf16 (2, 4, 2, 8), %3 f32 (2, 2, 4) = dot_product_attention(%1, %1, %1) {scale: 0.5} @a
    %4 bf16 (2, 4, 2, 8), %5 f32 (2, 2, 4) = dot_product_attention(%2, %1, %1) )"
                 R"({scale: 0.5, window: 2} @b
    %6 bf16 (2, 4, 2, 8), %7 bf16 (2, 4, 2, 8), %8 bf16 (2, 4, 2, 8) = )"
                 R"(dot_product_attention_grad(%2, %1, %1, %4, %5, %4) {scale: 0.5, window: 2} @b
  )",
                 after);
    CHECK_FALSE(find_fault(g));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "forward attention that a kernel takes, and not its gradient") {
  const auto without_window = [](const Graph&, const Op& op) {
    return op.attrs.integer("library", 0) != 0 && op.attrs.integer("window", 0) == 0;
  };
  check(without_window,
        R"(
    %1 bf16 (2, 4, 2, 8) at 0:0 = persistent "x"
    %2 bf16 (2, 4, 2, 8), %3 f32 (2, 2, 4) = dot_product_attention(%1, %1, %1) )"
        R"({scale: 0.5, library: true} @a
    %4 bf16 (2, 4, 2, 8), %5 f32 (2, 2, 4) = dot_product_attention(%2, %1, %1) )"
        R"({scale: 0.5, window: 2} @b
    %6 bf16 (2, 4, 2, 8), %7 bf16 (2, 4, 2, 8), %8 bf16 (2, 4, 2, 8) = )"
        R"(dot_product_attention_grad(%2, %1, %1, %4, %5, %4) {scale: 0.5, window: 2} @b
  )");
  CHECK(uses_library(g.ops()[0]));
  CHECK_FALSE(uses_library(g.ops()[1]));
  CHECK(may_use_library(g.ops()[1]));
  CHECK_FALSE(may_use_library(g.ops()[2]));
}
