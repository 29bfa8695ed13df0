// Flat buffers: elements of one type that fill a segment; and the types that follow from
// [precision].
#include <doctest/doctest.h>

#include "engine/base/error.hpp"
#include "engine/plan/precision.hpp"
#include "engine/plan/storage.hpp"
#include "engine/session/host_buffer.hpp"

using namespace plait;
using namespace plait::plan;

TEST_CASE("a flat buffer grows by elements, without gaps") {
  for (const uint32_t dtype : {PLAIT_F64, PLAIT_F32, PLAIT_BF16}) {
    Storage storage;
    storage.add("other", Category::kInputs);
    FlatBuffer buffer = storage.add_flat("sums", Category::kResults, dtype);
    CHECK(buffer.exists());
    CHECK(buffer.bytes() == 0);
    const uint64_t size = program::dtype_bytes(dtype);
    CHECK(storage.append(buffer, 2) == program::BufferRef{1, 0});
    CHECK(storage.append(buffer, 1) == program::BufferRef{1, 2 * size});
    CHECK(storage.append(buffer, 5) == program::BufferRef{1, 3 * size});
    CHECK(buffer.elements == 8);
    CHECK(buffer.bytes() == 8 * size);
    CHECK(storage.segments()[1].bytes == 8 * size);
    CHECK(buffer.at(3) == program::BufferRef{1, 3 * size});
    CHECK(offset_by(buffer.at(3), 2, dtype) == buffer.at(5));
  }
  CHECK(!FlatBuffer{}.exists());
}

TEST_CASE("what lies in a flat segment beside its elements is found") {
  Storage storage;
  FlatBuffer buffer = storage.add_flat("sums", Category::kResults, PLAIT_F64);
  storage.append(buffer, 1);
  storage.allocate(buffer.segment, 64);
  CHECK_THROWS_AS(storage.append(buffer, 1), Error);
}

TEST_CASE("all types of a plan follow from precision.compute") {
  const auto of = [](const char* compute) {
    plait::config::PrecisionConfig config;
    config.compute = compute;
    return precision_of(config);
  };
  const Precision narrow = of("f32"), wide = of("f64");
  for (const auto member : {&Precision::compute, &Precision::parameter, &Precision::gradient,
                            &Precision::state, &Precision::scalar}) {
    CHECK(narrow.*member == PLAIT_F32);
    CHECK(wide.*member == PLAIT_F64);
  }
  for (const auto& [name, low] : {std::pair{"bf16", PLAIT_BF16}, std::pair{"f16", PLAIT_F16}}) {
    const Precision mixed = of(name);
    CHECK(mixed.low == low);
    CHECK(mixed.parameter == PLAIT_F32);
    CHECK(mixed.gradient == PLAIT_F32);
    CHECK(mixed.state == PLAIT_F32);
  }
  CHECK_THROWS_AS(of("i8"), Error);
}

TEST_CASE("a host's copy of a buffer is read and written by place") {
  for (const uint32_t dtype : {PLAIT_F64, PLAIT_F32}) {
    const FlatBuffer buffer{3, dtype, 4};
    session::HostBuffer copy(buffer);
    CHECK(copy.bytes() == buffer.bytes());
    CHECK(copy.place() == program::BufferRef{3, 0});
    CHECK(copy.get(buffer.at(2)) == 0);
    copy.set(buffer.at(2), 1.0 / 3);
    copy.set(buffer.at(3), -2);
    CHECK(copy.get(buffer.at(2)) == (dtype == PLAIT_F64 ? 1.0 / 3 : double{1.0F / 3}));
    CHECK(copy.get(buffer.at(3)) == -2);
    CHECK(program::load_element(dtype, copy.data(), 2) == copy.get(buffer.at(2)));
  }
}
