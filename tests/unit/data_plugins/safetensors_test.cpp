#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace plait;
using fake::contains;
using fake::Dataset;
using fake::Folder;
using fake::little;
using fake::open_error;
using fake::raw;

namespace {
std::string file(const std::string& json, const std::string& data) {
  return little(json.size(), 8) + json + data;
}
std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}
std::string error(const std::string& bytes, fake::Options::Given given = {},
                  uint32_t code = PLAIT_ERR_DATA) {
  const Folder folder;
  given["path"] = folder.write("x", bytes);
  return open_error("safetensors", given, code);
}
const std::string kGood =
    "{" + entry("target", "I64", "[2]", 8, 24) + "," + entry("input", "F32", "[2]", 0, 8) + "}";
const std::string kData = raw<float>({1, 2}) + raw<int64_t>({3, 4});
}  // namespace

TEST_CASE("safetensors reads tensors by name, metadata, padding, escapes, F64 as f32") {
  const Folder folder;
  const std::string json = R"({ "__metadata__":{"format":"pt","k":"\ud83d\ude00\n"}, )" +
                           entry("\\u0077", "F64", "[2]", 12, 28) + ", " +
                           entry("xy", "BF16", "[2,3]", 0, 12) + ", " +
                           entry("empty", "F32", "[2,0]", 28, 28) + "}   ";
  const std::string path =
      folder.write("x", file(json, std::string(12, 'v') + raw<double>({0.5, 2})));
  fake::Options::Given given{
      {"path", path}, {"input", "[\"xy\"]"}, {"target", "[]"}, {"weight", "\"w\""}};
  const Dataset d("safetensors", given);
  CHECK(d.field(0) == "xy");
  CHECK(d.info().fields[0].shape.dtype == PLAIT_BF16);
  CHECK(d.read<uint16_t>(0, {1}) == std::vector<uint16_t>(3, 0x7676));
  CHECK(d.field(1) == "w");
  CHECK(d.read<float>(1, {0, 1}) == std::vector<float>{0.5, 2});
  given["target"] = "[\"empty\"]";
  CHECK(contains(open_error("safetensors", given), "'empty' has samples of shape (0), which hold"));
}

TEST_CASE("safetensors gives fields the names and types of the tensors") {
  const Folder folder;
  const Dataset d("safetensors", {{"path", folder.write("x", file(kGood, kData))}});
  CHECK(d.info().n_samples == 2);
  REQUIRE(d.info().n_fields == 2);
  CHECK(d.field(0) == "input");
  CHECK(d.field(1) == "target");
  CHECK(d.info().fields[1].shape.dtype == PLAIT_I64);
  CHECK(d.read<float>(0, {1, 0}) == std::vector<float>{2, 1});
  CHECK(d.read<int64_t>(1, {1}) == std::vector<int64_t>{4});
}

TEST_CASE("safetensors refuses headers that are not exactly right") {
  CHECK(error("abc") ==
        "[data.safetensors] path 'x', offset 0: 3 bytes, expected at least the 8 of the header's "
        "size");
  CHECK(
      contains(error(little(1000, 8) + "{}"),
               "offset 10: the file ends here, within its header of 1000 bytes: it is truncated"));
  CHECK(contains(error(little(1000, 8) + "xy"),
                 "the header's size is 1000, expected at most the 2 bytes that follow"));
  CHECK(contains(error("PK\x03\x04" + std::string(20, 'x')),
                 "offset 0: this is no safetensors file, but a zip, as torch.save"));
  CHECK(contains(error("\x80\x04" + std::string(20, 'x')), "but a pickle, as old torch.save"));
  CHECK(contains(error(little(UINT64_MAX, 8) + "{}"), "18446744073709551615"));
  CHECK(contains(error(file("", "")), "does not begin with '{'"));
  CHECK(contains(error(file(" {}", "")), "does not begin with '{'"));
  CHECK(contains(error(file("{} x", "")), "text after the header's closing brace"));
  CHECK(contains(
      error(file("{\"a\":1}", "")),
      "offset 13: tensor 'a': found '1', expected '{'; the header is damaged, or this is not a "
      "safetensors file: get it again"));
  CHECK(contains(error(file("{\"\xff\":{}}", "")), "offset 10: the header is not valid UTF-8"));
  CHECK(contains(error(file("{\"\xc0\x80\":{}}", "")), "not valid UTF-8"));
  CHECK(contains(error(file("{\"\xed\xa0\x80\":{}}", "")), "not valid UTF-8"));
  CHECK(contains(error(file("{\"\\ud800\":{}}", "")), "half of a surrogate pair"));
  CHECK(contains(error(file("{\"\\q\":{}}", "")), "unknown escape"));
  CHECK(contains(error(file("{\"a\n\":{}}", "")), "control character"));
  CHECK(contains(error(file("{\"a", "")), "a string is never closed"));
  CHECK(contains(error(file("{\"a\":{}}", "")), "lacks dtype"));
  CHECK(contains(error(file("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "")),
                 "key 'dtype' occurs twice"));
  CHECK(contains(error(file("{\"a\":{\"x\":\"F32\"}}", "")), "unknown key 'x'"));
  CHECK(contains(error(file("{\"__metadata__\":{\"a\":1}}", "")), "expected '\"'"));
  CHECK(contains(error(file("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", "")), "has a key twice"));
  CHECK(contains(error(file("{\"__metadata__\":{},\"__metadata__\":{}}", "")), "occurs twice"));
  CHECK(
      contains(error(file("{\"" + std::string(5000, 'n') + "\":{}}", "")), "more than 4096 bytes"));
}

TEST_CASE("safetensors refuses entries that do not tile the data") {
  const auto one = [](const std::string& type, const std::string& shape, int begin, int end,
                      size_t data) {
    return error(file("{" + entry("input", type, shape, begin, end) + "}", std::string(data, 'v')));
  };
  CHECK(contains(one("F31", "[2]", 0, 8, 8), "unknown dtype 'F31'"));
  CHECK(contains(one("F32", "[2]", 0, 4, 4), "data_offsets [0, 4], expected 8 bytes"));
  CHECK(contains(one("F32", "[2]", 8, 0, 8), "data_offsets [8, 0]"));
  CHECK(contains(one("F32", "[2]", 4, 12, 12), "begins at 4 of the data, expected 0"));
  CHECK(contains(one("F32", "[2]", 0, 8, 7), "the tensors end at 8 of the data, the file at 7"));
  CHECK(contains(one("F32", "[2]", 0, 8, 9), "the tensors end at 8 of the data, the file at 9"));
  CHECK(contains(one("F4", "[3]", 0, 1, 1), "does not end at a whole byte"));
  CHECK(contains(one("F32", "[4294967296,4294967296]", 0, 8, 8), "more than 2^64 bits"));
  CHECK(contains(one("F32", "[18446744073709551616]", 0, 8, 8), "does not fit 64 bits"));
  CHECK(contains(one("F32", "[9223372036854775808]", 0, 8, 8), "an extent of more than 2^63"));
  CHECK(contains(one("F32", "[02]", 0, 8, 8), "begins with 0"));
  CHECK(contains(one("F32", "[-2]", 0, 8, 8), "whole number"));
  CHECK(contains(one("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", 0, 8, 8), "more than 16 axes"));
  const std::string twice =
      "{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("\\u0061", "U8", "[1]", 1, 2) + "}";
  CHECK(contains(error(file(twice, "xy")), "two tensors are called 'a'"));
  const std::string overlap =
      "{" + entry("a", "U8", "[2]", 0, 2) + "," + entry("b", "U8", "[2]", 1, 3) + "}";
  CHECK(contains(error(file(overlap, "xyz")), "begins at 1 of the data, expected 2"));
}

TEST_CASE("safetensors names the tensors of the file and the supported types") {
  const std::string good = file(kGood, kData);
  CHECK(
      error(good, {{"input", "[\"x\"]"}}, PLAIT_ERR_CONFIG) ==
      "[data.safetensors] path 'x': input names tensor 'x', which does not exist; the tensors are "
      "'input', 'target'");
  CHECK(contains(error(good, {{"input", "[]"}}, PLAIT_ERR_CONFIG), "input is empty"));
  CHECK(contains(error(good, {{"weight", "\"target\""}}), "has the weights as i64 (2)"));
  const fake::Options::Given none = {{"target", "[]"}};
  CHECK(contains(error(file("{" + entry("input", "U16", "[1]", 0, 2) + "}", "xy"), none),
                 "is U16, expected F32"));
  CHECK(contains(error(file("{" + entry("input", "F32", "[]", 0, 4) + "}", "wxyz"), none),
                 "has 0 axes, expected 1 to 8"));
}
