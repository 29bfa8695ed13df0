#include "engine/checkpoint/safetensors.hpp"

#include <plait/tensor.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/unit/checkpoint/memory_files.hpp"

namespace {

using namespace plait::checkpoint;

std::string file_of(const std::string& header, size_t data_bytes, uint64_t claimed = UINT64_MAX) {
  const uint64_t size = claimed == UINT64_MAX ? header.size() : claimed;
  std::string text(8, '\0');
  std::memcpy(text.data(), &size, 8);
  return text + header + std::string(data_bytes, 'd');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors(file, file.size(), "f.safetensors");
}

std::string refusal(const std::string& file) {
  try {
    parse(file);
  } catch (const plait::Error& e) {
    CHECK(e.code() == PLAIT_ERR_DATA);
    CHECK(e.text().find("[safetensors] f.safetensors, offset ") == 0);
    return e.text();
  }
  FAIL("accepted: " << file.substr(8));
  return "";
}

bool says(const std::string& header, size_t data_bytes, const std::string& part) {
  const std::string text = refusal(file_of(header, data_bytes));
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

}  // namespace

TEST_CASE("a header is read with metadata, padding and tensors by offset") {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"}, \"b\":" + entry("F32", "[2,1]", "[4,12]") +
      ",\"a\":" + entry("BF16", "[2]", "[0,4]") + "}   ";
  const auto h = parse(file_of(header, 12));
  CHECK(h.data_start == 8 + header.size());
  REQUIRE(h.metadata.size() == 2);
  CHECK(h.metadata[0].second == "pt");
  REQUIRE(h.tensors.size() == 2);
  CHECK(h.tensors[0].name == "a");
  CHECK(h.tensors[0].dtype == PLAIT_BF16);
  REQUIRE(h.find("b"));
  CHECK(h.find("b")->shape == std::vector<int64_t>{2, 1});
  CHECK(h.find("b")->bytes() == 8);
  CHECK(h.find("c") == nullptr);
}

TEST_CASE("legal corners are accepted") {
  CHECK(parse(file_of("{}", 0)).tensors.empty());
  CHECK(parse(file_of("{\"__metadata__\":{}}", 0)).tensors.empty());
  CHECK(parse(file_of("{\"\":" + entry("F64", "[]", "[0,8]") + "}", 8)).tensors[0].shape.empty());
  const auto h = parse(file_of("{\"e\":" + entry("F32", "[0,99999999999]", "[4,4]") +
                                   ",\"z\":" + entry("I32", "[1]", "[0,4]") +
                                   ",\"y\":" + entry("U8", "[3,0]", "[0,0]") + "}",
                               4));
  CHECK(h.tensors.size() == 3);
  // Types that the format has and Plait does not: kept by name.
  CHECK(parse(file_of("{\"a\":" + entry("F4", "[2]", "[0,1]") + "}", 1)).tensors[0].dtype == 0);
  CHECK(
      parse(file_of("{\"a\":" + entry("F6_E2M3", "[4]", "[0,3]") + "}", 3)).tensors[0].dtype_text ==
      "F6_E2M3");
  CHECK(parse(file_of("{\"\\u0061\":" + entry("U8", "[]", "[0,1]") + "}", 1)).find("a"));
}

TEST_CASE("broken frames are refused") {
  CHECK(refusal("").find("0 bytes, expected at least the 8") != std::string::npos);
  CHECK(refusal("1234567").find("7 bytes, expected at least the 8") != std::string::npos);
  CHECK(refusal(file_of("{}", 0, 3)).find("truncated; get it again") != std::string::npos);
  CHECK(refusal(file_of("{}", 0, 100'000'001)).find("and 100000000") != std::string::npos);
  CHECK(refusal(file_of("{}", 0, UINT64_MAX - 1)).find("is this a safetensors file") !=
        std::string::npos);
  CHECK(refusal(file_of("", 0)).find("does not begin with '{'") != std::string::npos);
  CHECK(refusal(file_of(" {}", 0)).find("does not begin") != std::string::npos);
  CHECK(refusal(file_of("\xEF\xBB\xBF{}", 0)).find("does not begin") != std::string::npos);
  CHECK(parse(file_of("{}\n \t", 0)).tensors.empty());
  CHECK(refusal(file_of(std::string("{}\0}", 4), 0)).find("text after the header") !=
        std::string::npos);
  CHECK(refusal(file_of("{}}", 0)).find("text after the header") != std::string::npos);
  CHECK(refusal(file_of("{\"a\":}", 0)).find("found '}', expected '{'") != std::string::npos);
  CHECK(refusal(file_of("{\"\xFF\":{}}", 0)).find("not valid UTF-8") != std::string::npos);
  CHECK(refusal(file_of("{/**/}", 0)).find("expected '\"'") != std::string::npos);
  CHECK(refusal(file_of("{\"a\":" + std::string(100000, '[') + "}", 0))
            .find("tensor 'a': found '[', expected '{'") != std::string::npos);
}

TEST_CASE("headers of another shape are refused") {
  CHECK(says("{\"a\":1}", 0, "tensor 'a': found '1', expected '{'"));
  CHECK(says("{\"a\":{}}", 0, "tensor 'a' lacks dtype"));
  CHECK(says("{\"a\":{\"dtype\":\"F32\"}}", 0, "lacks shape"));
  CHECK(says("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, "lacks data_offsets"));
  CHECK(says("{\"a\":{\"dtype\":3}}", 0, "dtype of tensor 'a': found '3', expected '\"'"));
  CHECK(says("{\"a\":" + entry("f32", "[]", "[0,4]") + "}", 4, "unknown dtype 'f32'"));
  CHECK(says("{\"a\":{\"shape\":4}}", 0, "shape of tensor 'a': found '4', expected '['"));
  CHECK(says("{\"a\":{\"shape\":[-1]}}", 0,
             "shape of tensor 'a': expected a non-negative whole number"));
  CHECK(says("{\"a\":{\"shape\":[1.5]}}", 0, "found '.', expected ']'"));
  CHECK(says("{\"a\":{\"shape\":[18446744073709551616]}}", 0, "does not fit 64 bits"));
  CHECK(says("{\"a\":{\"shape\":[9223372036854775808]}}", 0, "more than 2^63"));
  CHECK(says("{\"a\":{\"shape\":[[1]]}}", 0, "expected a non-negative whole number"));
  CHECK(says("{\"a\":{\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}", 0, "more than 16 axes"));
  CHECK(says("{\"a\":" + entry("U8", "[]", "[0]") + "}", 1, "found ']', expected ','"));
  CHECK(says("{\"a\":" + entry("U8", "[]", "[0,1,1]") + "}", 1, "found ',', expected ']'"));
  CHECK(says("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "'dtype' occurs twice"));
  CHECK(says("{\"a\":{\"strides\":[1]}}", 0, "unknown key 'strides'"));
  CHECK(
      says("{\"__metadata__\":{\"a\":1}}", 0, "key 'a' of __metadata__: found '1', expected '\"'"));
  CHECK(says("{\"__metadata__\":{\"a\":{}}}", 0, "found '{'"));
  CHECK(says("{\"__metadata__\":[]}", 0, "__metadata__: found '[', expected '{'"));
  CHECK(says("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ occurs twice"));
  CHECK(says("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "__metadata__ has a key twice"));
  CHECK(says("{\"" + std::string(4097, 'n') + "\":{}}", 0, "a string of more than 4096 bytes"));
  CHECK(
      says("{\"a\":" + entry("U8", "[0]", "[0,0]") + ",\"a\":" + entry("U8", "[1]", "[0,1]") + "}",
           1, "two tensors are called 'a'"));
}

TEST_CASE("offsets and sizes that don't fit are refused") {
  const auto one = [](const char* dtype, const char* shape, const char* offsets) {
    return "{\"a\":" + entry(dtype, shape, offsets) + "}";
  };
  CHECK(says(one("F32", "[1]", "[4,0]"), 4, "data_offsets [4, 0], expected 4 bytes"));
  CHECK(says(one("F32", "[1]", "[4,8]"), 8, "begins at 4 of the data, expected 0"));
  CHECK(says(one("F32", "[2]", "[0,4]"), 4,
             "data_offsets [0, 4], expected 8 bytes as dtype and shape say"));
  CHECK(says(one("F32", "[1]", "[0,4]"), 5,
             "the tensors end at 4 of the data, the file at 5; it is damaged"));
  CHECK(says(one("F32", "[1]", "[0,4]"), 3, "the file at 3; it is truncated: get it again"));
  CHECK(says(one("F4", "[3]", "[0,1]"), 1, "does not end at a whole byte"));
  CHECK(says(one("F32", "[4294967296,4294967296]", "[0,0]"), 0, "more than 2^64 bits"));
  CHECK(says(one("F64", "[2305843009213693952]", "[0,0]"), 0, "more than 2^64 bits"));
  CHECK(
      says("{\"a\":" + entry("U8", "[4]", "[0,4]") + ",\"b\":" + entry("U8", "[4]", "[2,6]") + "}",
           6, "tensor 'b' begins at 2 of the data, expected 4"));
  CHECK(
      says("{\"a\":" + entry("U8", "[4]", "[0,4]") + ",\"b\":" + entry("U8", "[4]", "[5,9]") + "}",
           9, "expected 4"));
  CHECK(says(one("U8", "[18446744073709551615]", "[0,18446744073709551615]"), 0, "more than 2^63"));
}

TEST_CASE("the writer's bytes equal the reference writer's") {
  MemoryFiles files;
  const std::vector<float> f = {1, 2, 3, 4};
  const std::vector<uint8_t> u = {7, 8, 9};
  const int64_t i = -1;
  const std::vector<TensorSource> tensors = {{"w.b", PLAIT_F32, {2, 2}, f.data()},
                                             {"mask", PLAIT_U8, {3}, u.data()},
                                             {"w.a", PLAIT_F32, {1}, f.data()},
                                             {"n", PLAIT_I64, {}, &i},
                                             {"empty", PLAIT_BF16, {0, 5}, nullptr}};
  const WrittenFile written = write_safetensors(files, "m", tensors);
  const std::string text = files.content("m");
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_"
      "offsets\":[0,8]},"
      "\"w.a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
      "\"w.b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[12,28]},"
      "\"empty\":{\"dtype\":\"BF16\",\"shape\":[0,5],\"data_offsets\":[28,28]},"
      "\"mask\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[28,31]}}";
  CHECK(text.substr(8, header.size()) == header);
  const size_t padded = (header.size() + 7) / 8 * 8;
  CHECK(static_cast<uint8_t>(text[0]) + 256u * static_cast<uint8_t>(text[1]) == padded);
  CHECK(text.size() == 8 + padded + 31);
  CHECK(written.size == text.size());
  CHECK(written.hash == plait::hash128(text));
  CHECK(written.tensors[1] == plait::hash128(u.data(), 3));
  CHECK(written.tensors[4] == plait::hash128("", 0));

  const SafetensorsFile back(files, "m");
  const TensorEntry* w = back.header().find("w.b");
  REQUIRE(w);
  std::vector<float> read(4);
  back.read(*w, 0, read.data(), 16);
  CHECK(std::equal(read.begin(), read.end(), f.begin()));
  back.read(*w, 8, read.data(), 4);
  CHECK(read[0] == f[2]);
  back.each_piece(*back.header().find("empty"), [](const std::byte*, size_t) { FAIL("a piece"); });
  CHECK(back.head().size() == 8 + padded);
}

TEST_CASE("names with any characters survive") {
  MemoryFiles files;
  const uint8_t byte = 1;
  std::string odd;
  for (int c = 1; c < 128; ++c) odd += static_cast<char>(c);
  odd += "\xC3\xA9\xF0\x9F\x98\x80";
  const std::vector<TensorSource> tensors = {{odd, PLAIT_U8, {1}, &byte}};
  write_safetensors(files, "m", tensors);
  CHECK(SafetensorsFile(files, "m").header().find(odd));
}

TEST_CASE("large tensors go out in pieces") {
  MemoryFiles files;
  std::vector<uint8_t> big(3'000'001);
  std::iota(big.begin(), big.end(), uint8_t{0});
  const std::vector<TensorSource> tensors = {{"big", PLAIT_U8, {3'000'001}, big.data()}};
  const WrittenFile written = write_safetensors(files, "m", tensors);
  CHECK(written.hash == plait::hash128(files.content("m")));
  CHECK(written.tensors[0] == plait::hash128(big.data(), big.size()));
}

TEST_CASE("the writer refuses tensors that could not be read back") {
  MemoryFiles files;
  const float f = 0;
  const auto refused = [&](std::vector<TensorSource> tensors) {
    try {
      write_safetensors(files, "bad", tensors);
    } catch (const plait::Error& e) {
      CHECK(e.code() == PLAIT_ERR_INVALID);
      return e.text();
    }
    FAIL("accepted");
    return std::string();
  };
  CHECK(refused({{"a", PLAIT_F32, {1}, &f}, {"a", PLAIT_F32, {1}, &f}}) ==
        "[safetensors] tensor 'a' is given twice");
  CHECK(refused({{"a", 99, {1}, &f}}).find("unknown element type 99") != std::string::npos);
  CHECK(refused({{"a", PLAIT_F32, {-1}, &f}}).find("negative extent -1") != std::string::npos);
  CHECK(refused({{"a", PLAIT_F32, {1}, nullptr}}).find("has no data") != std::string::npos);
  CHECK(refused({{"__metadata__", PLAIT_F32, {1}, &f}}).find("that the format reserves") !=
        std::string::npos);
  CHECK(refused({{"\xFF", PLAIT_F32, {1}, &f}}).find("not UTF-8") != std::string::npos);
  CHECK(refused({{std::string(4097, 'a'), PLAIT_F32, {1}, &f}}).find("4097 bytes") !=
        std::string::npos);
  CHECK(refused({{"a", PLAIT_F32, {INT64_MAX, 8}, &f}}).find("bytes of tensor 'a'") !=
        std::string::npos);
  CHECK_FALSE(files.exists("bad"));
}

TEST_CASE("element types have names, sizes and a way back") {
  for (uint32_t dtype = PLAIT_F32; dtype <= PLAIT_BOOL; ++dtype) {
    CHECK(dtype_from_name(dtype_name(dtype)) == dtype);
    CHECK(dtype_bytes(dtype) > 0);
  }
  CHECK(std::string(dtype_name(0)).empty());
  CHECK(dtype_from_name("F8_E4M3") == 0);
  CHECK(dtype_bytes(99) == 0);
}
