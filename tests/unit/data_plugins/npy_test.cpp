#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace plait;
using fake::contains;
using fake::Dataset;
using fake::Folder;
using fake::little;
using fake::open_error;
using fake::raw;
using Floats = std::vector<float>;

namespace {
std::string npy(const std::string& dict, const std::string& values, int version = 1) {
  const std::string head = dict + std::string((64 - (dict.size() + 11) % 64) % 64, ' ') + "\n";
  return "\x93NUMPY" + little(static_cast<uint64_t>(version), 1) + '\0' +
         little(head.size(), version == 1 ? 2 : 4) + head + values;
}
std::string dict(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
}
std::string error(const std::string& bytes) {
  const Folder folder;
  return open_error("npy", {{"input", folder.write("x.npy", bytes)}});
}
}  // namespace

TEST_CASE("npy reads every type and version, f8 as f32, with target and weight") {
  const Folder folder;
  const std::string input =
      folder.write("x", npy(dict("<f8", "(2, 3)"), raw<double>({1, 2, 3, 4, 5, 6.5})));
  const std::string target = folder.write("t", npy(dict("<i8", "(2,)"), raw<int64_t>({7, -8}), 2));
  const std::string weight = folder.write("w", npy(dict("<f4", "(2,)"), raw<float>({0.5, 1}), 3));
  const Dataset d("npy", {{"input", input}, {"target", target}, {"weight", weight}});
  CHECK(d.info().n_samples == 2);
  REQUIRE(d.info().n_fields == 3);
  CHECK(d.info().fields[0].shape.dtype == PLAIT_F32);
  CHECK(d.dims(0) == std::vector<int64_t>{3});
  CHECK(d.read<float>(0, {1, 0}) == Floats{4, 5, 6.5, 1, 2, 3});
  CHECK(d.info().fields[1].shape.dtype == PLAIT_I64);
  CHECK(d.read<int64_t>(1, {1, 1, 0}) == std::vector<int64_t>{-8, -8, 7});
  CHECK(d.info().fields[2].role == PLAIT_FIELD_WEIGHT);
  CHECK(d.read<float>(2, {0}) == Floats{0.5});

  const Dataset ints(
      "npy", {{"input", folder.write("i", npy(dict("<i4", "(1, 1, 2)"), raw<int32_t>({3, 4})))}});
  CHECK(ints.dims(0) == std::vector<int64_t>{1, 2});
  CHECK(ints.read<int32_t>(0, {0}) == std::vector<int32_t>{3, 4});
  for (const char* type : {"|u1", "|b1"}) {
    const Dataset bytes("npy", {{"input", folder.write("b", npy(dict(type, "(2,)"), "\1\1"))}});
    CHECK(bytes.info().fields[0].shape.dtype == PLAIT_U8);
  }
  const Dataset none("npy", {{"input", folder.write("n", npy(dict("<f4", "(0, 5)"), ""))}});
  CHECK(none.info().n_samples == 0);
}

TEST_CASE("npy names the defect of a file") {
  CHECK(error("hello") ==
        "[data.npy] input 'x.npy', offset 0: this is no .npy file: it does not begin with "
        "\\x93NUMPY and a version; check "
        "the path");
  CHECK(contains(error(npy(dict("<f4", "(1,)"), "abcd", 9)), "version 9, expected 1, 2 or 3"));
  CHECK(contains(error(npy(dict("<f4", "(1,)"), "abcd", 2).substr(0, 11)),
                 "cut off in its first bytes"));
  CHECK(contains(error(npy(dict("<f4", "(1,)"), "").substr(0, 50)),
                 "the header is 118 bytes long, 40 follow"));
  CHECK(contains(error(npy(dict(">f4", "(1,)"), "abcd")),
                 "element type '>f4', expected one of <f2 <f4 <f8 <i4 <i8 |u1 |b1"));
  CHECK(contains(error(std::string("PK\3\4 whatever")), "set type = \"npz\""));
  CHECK(contains(error(npy("{'descr': '<f4', 'shape': (1,)}", "abcd")), "lacks one of"));
  CHECK(contains(error(npy("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", "abcd")),
                 "comes twice"));
  CHECK(contains(error(npy("{'evil': 1}", "abcd")), "unknown key 'evil'"));
  CHECK(contains(error(npy("{descr: '<f4'}", "abcd")),
                 "offset 11: expected a key in quotes; write the file again with numpy.save"));
  CHECK(contains(error(npy("{'descr': <f4}", "abcd")), "expected the element type in quotes"));
  CHECK(contains(error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "abcd")),
                 "after the header's"));
  CHECK(contains(error(npy("{'descr': '<f4", "abcd")), "never closes"));
  CHECK(contains(error(npy("{'descr': '<f4', 'fortran_order': None, 'shape': (1,)}", "abcd")),
                 "neither True nor False"));
  CHECK(contains(error(npy(dict("<f4", "()"), "abcd")), "single number"));
  CHECK(contains(error(npy(dict("<f4", "(-1,)"), "abcd")), "no number from 0 to 2^63"));
  CHECK(
      contains(error(npy(dict("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "abcd")), "more than 8 axes"));
  CHECK(contains(error(npy(dict("<f4", "(9223372036854775807, 9)"), "abcd")),
                 "more than 2^64 bytes"));
  CHECK(contains(error(npy(dict("<f4", "(3,)"), "abcd")),
                 "shape (3) needs 12 bytes of values, found 4"));
  CHECK(contains(error(npy(dict("<f4", "(1,)"), "abcdefgh")),
                 "shape (1) needs 4 bytes of values, found 8"));
}

TEST_CASE("npy reads f2, and arrays by column as those by row") {
  const Folder folder;
  const Dataset half(
      "npy",
      {{"input", folder.write("h", npy(dict("<f2", "(2,)"), raw<uint16_t>({0x3c00, 0xc000})))}});
  CHECK(half.info().fields[0].shape.dtype == PLAIT_F16);
  CHECK(half.read<uint16_t>(0, {1}) == std::vector<uint16_t>{0xc000});
  // Axes (2, 3, 2): the value of (i, j, k) is 100 i + 10 j + k.
  std::vector<double> values;
  for (int k = 0; k < 2; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) values.push_back(100 * i + 10 * j + k);
  const std::string columns =
      npy("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 2)}", raw(values));
  fake::Options::Given given{{"input", folder.write("f", columns)}};
  const Dataset d("npy", given);
  CHECK(d.dims(0) == std::vector<int64_t>{3, 2});
  CHECK(d.read<float>(0, {1, 0}) == Floats{100, 101, 110, 111, 120, 121, 0, 1, 10, 11, 20, 21});
  given["memory_mib"] = "0";
  CHECK(open_error("npy", given, PLAIT_ERR_CONFIG) ==
        "[data.npy] input 'f': the array is larger than memory_mib and lies column by column "
        "(fortran_order), expected row by row to read samples from the file; save "
        "numpy.ascontiguousarray(array), or set memory_mib = 1 to hold it in memory");
}

TEST_CASE("an array has one role") {
  const Folder folder;
  const std::string x = npy(dict("<f4", "(1,)"), "abcd");
  std::string safetensors = "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  const std::string path = folder.write("x", little(safetensors.size(), 8) + safetensors + "abcd");
  for (const auto& [input, target] : {std::pair("[\"x\", \"x\"]", "[]"), {"[\"x\"]", "[\"x\"]"}})
    CHECK(open_error("safetensors", {{"path", path}, {"input", input}, {"target", target}},
                     PLAIT_ERR_CONFIG) ==
          "[data.safetensors] 'x' is named twice in input, target and weight; use it once");
}

TEST_CASE("npy refuses samples without values") {
  CHECK(error(npy(dict("<f4", "(3, 2, 0)"), "")) ==
        "[data.npy] field 'input' has samples of shape (2, 0), which hold no value; leave it out, "
        "or give each sample some");
}

TEST_CASE("npy refuses weights that are not one finite number per sample") {
  const Folder folder;
  const auto weight_error = [&](const std::string& file) {
    return open_error("npy",
                      {{"input", folder.write("x", npy(dict("<f4", "(2,)"), raw<float>({1, 2})))},
                       {"weight", folder.write("w", file)}});
  };
  CHECK(contains(weight_error(npy(dict("<i4", "(2,)"), raw<int32_t>({1, 1}))),
                 "the weights are i32 (2)"));
  CHECK(contains(weight_error(npy(dict("<f4", "(2, 1)"), raw<float>({1, 1}))),
                 "expected one f4 or f8 per sample"));
  CHECK(contains(weight_error(npy(dict("<f4", "(2,)"), raw<float>({1, -1}))),
                 "the weight of sample 1 is -1"));
  CHECK(contains(weight_error(npy(dict("<f4", "(3,)"), raw<float>({1, 1, 1}))),
                 "do not belong together"));
}
