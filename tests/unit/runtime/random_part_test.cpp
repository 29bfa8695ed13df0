// A part of random numbers, as a shard makes it alone, is that part of the whole.
#include <doctest/doctest.h>

#include "engine/program/op_def.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using program::attr;
using program::Dims;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

struct Part {
  Dims whole;
  int64_t axis, first, extent;
};

TEST_CASE("a part of random numbers is the same part of the whole, on every device") {
  const std::vector<Part> parts{
      {{8, 5}, 0, 2, 4},      {{8, 5}, 1, 1, 3},          {{4, 600}, 1, 300, 300},
      {{4, 600}, 1, 1, 599},  {{3, 4, 6}, 1, 2, 2},       {{3, 4, 6}, 2, 3, 3},
      {{2, 7, 300}, 1, 3, 2}, {{2, 3, 514}, 2, 257, 257}, {{2, 4, 1024}, 2, 512, 512},
  };
  for (const char* device : {"cpu", "reference"})
    for (const char* kind : {"uniform", "normal"})
      for (const Part& p : parts) {
        CAPTURE(device);
        CAPTURE(kind);
        CAPTURE(program::text(make_shape(PLAIT_F32, p.whole)));
        CAPTURE(p.axis);
        test::Runner runner(device);
        const auto axis = static_cast<size_t>(p.axis);
        Dims own = p.whole;
        own[axis] = p.extent;
        const auto out = runner.run(
            {make_shape(PLAIT_I64, {2})}, {{3, 41}}, [&](Graph& g, const std::vector<ValueId>& in) {
              program::Attrs attrs{attr("kind", std::string(kind)), attr("seed", int64_t{7}),
                                   attr("stream", int64_t{11}), attr("shape", p.whole)};
              const ValueId whole = g.apply1("random", {in[0]}, attrs);
              attrs.set(attr("shape", own));
              attrs.set(attr("axis", p.axis));
              attrs.set(attr("first", p.first));
              attrs.set(attr("total", p.whole[axis]));
              const ValueId part = g.apply1("random", {in[0]}, attrs);
              const ValueId slice = g.apply1(
                  "slice", {whole},
                  {attr("axis", p.axis), attr("start", p.first), attr("stop", p.first + p.extent)});
              return std::vector<ValueId>{part, slice};
            });
        CHECK(out[0] == out[1]);
      }
}

}  // namespace
