// Arrays of .npz files: which become fields, and what is said of names that give none.
#include "tests/unit/data_plugins/dataset_bench.hpp"
#include "tests/unit/data_plugins/file_bytes.hpp"
#include "tests/unit/data_plugins/zip_bytes.hpp"

using namespace plait;
using fake::contains;
using fake::Dataset;
using fake::Folder;
using fake::little;
using fake::open_error;
using fake::raw;
using file_bytes::npy;
using zip_bytes::Member;
using Floats = std::vector<float>;

namespace {

// Deflated members are made within a test, which they are part of.
Member input() { return {"x.npy", npy("<f4", "(2, 2)", raw<float>({1, 2, 3, 4})), true}; }
Member target() { return {"y.npy", npy("<i8", "(2,)", raw<int64_t>({7, 8})), false}; }
Member weight() { return {"w.npy", npy("<f4", "(2,)", raw<float>({0.5, 2})), true}; }
Member note() { return {"note.txt", "no array", false}; }

struct Npz {
  Folder folder;
  fake::Options::Given given;
  Npz(const std::vector<Member>& members, fake::Options::Given options)
      : given(std::move(options)) {
    given["path"] = folder.write("t.npz", zip_bytes::zip(members));
  }
  std::string error(uint32_t code) const { return open_error("npz", given, code); }
};

}  // namespace

TEST_CASE("npz: named arrays, or all that have no other role, with weights") {
  for (const char* names : {"[\"x\"]", "[\"*\"]"}) {
    const Npz file({weight(), input(), note(), target()},
                   {{"input", names}, {"target", "[\"y\"]"}, {"weight", "\"w\""}});
    const Dataset d("npz", file.given);
    CHECK(d.info().n_samples == 2);
    REQUIRE(d.info().n_fields == 3);
    CHECK(d.field(0) == "x");
    CHECK(d.read<float>(0, {1, 0}) == Floats{3, 4, 1, 2});
    CHECK(d.field(1) == "y");
    CHECK(d.info().fields[1].role == PLAIT_FIELD_TARGET);
    CHECK(d.read<int64_t>(1, {1, 0}) == std::vector<int64_t>{8, 7});
    CHECK(d.info().fields[2].role == PLAIT_FIELD_WEIGHT);
    CHECK(d.read<float>(2, {1, 0}) == Floats{2, 0.5});
  }
}

TEST_CASE("npz: names that give no input") {
  CHECK(contains(Npz({input()}, {{"input", "[]"}, {"target", "[]"}}).error(PLAIT_ERR_CONFIG),
                 "[data.npz] input is empty, expected an array's name; set at "));
  const Npz none({target(), weight(), note()},
                 {{"input", "[\"*\"]"}, {"target", "[\"y\"]"}, {"weight", "\"w\""}});
  CHECK(none.error(PLAIT_ERR_DATA) == "[data.npz] path 't.npz': no array is left for the input");
}
