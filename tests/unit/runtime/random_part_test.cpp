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
  int64_t counters = 2;  // elements of the counter
};

TEST_CASE("a part of random numbers is the same part of the whole, on every device") {
  const std::vector<Part> parts{
      {{8, 5}, 0, 2, 4},      {{8, 5}, 1, 1, 3},          {{4, 600}, 1, 300, 300},
      {{4, 600}, 1, 1, 599},  {{3, 4, 6}, 1, 2, 2},       {{3, 4, 6}, 2, 3, 3},
      {{2, 7, 300}, 1, 3, 2}, {{2, 3, 514}, 2, 257, 257}, {{600}, 0, 255, 3, 1},
      {{4, 512}, 0, 1, 2, 1}, {{4, 512}, 1, 256, 256, 1}, {{2, 4, 1024}, 2, 512, 512},
  };
  for (const char* device : {"cpu", "reference"})
    for (const char* kind : {"uniform", "normal"})
      for (const Part& p : parts) {
        CAPTURE(device);
        CAPTURE(kind);
        CAPTURE(program::text(make_shape(PLAIT_F32, p.whole)));
        CAPTURE(p.axis);
        test::Runner runner(device);
        const Dims counter = p.counters == 2 ? Dims{2} : Dims{1};
        const auto out = runner.run(
            {make_shape(PLAIT_I64, counter)},
            {p.counters == 2 ? std::vector<double>{3, 41} : std::vector<double>{3}},
            [&](Graph& g, const std::vector<ValueId>& in) {
              const program::Attrs common{attr("kind", std::string(kind)), attr("seed", int64_t{7}),
                                          attr("stream", int64_t{11})};
              const auto draw = [&](const Dims& dims, const program::Attrs& more) {
                program::Op op;
                program::Attrs attrs = common;
                attrs.set(attr("shape", dims));
                for (const program::Attr& a : more.all()) attrs.set(a);
                const program::OpDef* def = g.registry()->find("random");
                op.def = def;
                op.name = "random";
                op.in = {in[0]};
                op.attrs = checked(*def, attrs, "test");
                return g.append(std::move(op), {make_shape(PLAIT_F32, dims)})[0];
              };
              Dims own = p.whole;
              own[static_cast<size_t>(p.axis)] = p.extent;
              const ValueId part = draw(own, {attr("axis", p.axis), attr("first", p.first),
                                              attr("total", p.whole[static_cast<size_t>(p.axis)])});
              const ValueId slice = g.apply1(
                  "slice", {draw(p.whole, {})},
                  {attr("axis", p.axis), attr("start", p.first), attr("stop", p.first + p.extent)});
              return std::vector<ValueId>{part, slice};
            });
        CHECK(out[0] == out[1]);
      }
}

}  // namespace
