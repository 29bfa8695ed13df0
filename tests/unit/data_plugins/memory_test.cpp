// Files that do not fit in memory.
#include <unistd.h>

#include <fstream>

#include "tests/unit/data_plugins/dataset_bench.hpp"
#include "tests/unit/support/little_memory.hpp"

using namespace plait;
using fake::contains;
using fake::Folder;
using fake::little;
using test::kLimitsMemory;
using test::LittleMemory;

namespace {

constexpr uint64_t kSize = uint64_t{1} << 30;

// A file of kSize bytes that begins with `head`; the rest takes no space on the disk.
std::string large(const Folder& folder, const std::string& head) {
  std::string quoted = folder.write("large", head);
  REQUIRE(truncate(folder.path("large").c_str(), kSize) == 0);
  return quoted;
}

std::string error(const std::string& type, const std::string& option, const std::string& head) {
  const Folder folder;
  fake::data_plugins();
  fake::Options::Given given{{option, large(folder, head)}};
  if (type != "csv") given["memory_mib"] = "4096";
  if (type == "idx") given["labels"] = folder.write("labels", "");
  const LittleMemory little_memory;
  return fake::open_error(type, given, PLAIT_ERR_MEMORY);
}

void check_text(const std::string& text, const std::string& where) {
  CHECK(contains(text, where + " 'large': out of memory; the file has 1073741824 bytes"));
  CHECK((contains(text, "split it") || contains(text, "set memory_mib to less")));
}

// The beginnings of files of kSize bytes: samples of the 64-bit or 8-bit numbers that follow.
std::string npy_head(const char* type, uint64_t rows, int columns) {
  const std::string dict = std::string("{'descr': '") + type +
                           "', 'fortran_order': False, 'shape': (" + std::to_string(rows) + "," +
                           std::to_string(columns) + "), }";
  return std::string("\x93NUMPY\1\0", 8) + little(118, 2) + dict +
         std::string(117 - dict.size(), ' ') + "\n";
}
std::string idx_head(uint32_t rows, uint32_t extent) {
  std::string head("\0\0\x08\2", 4);
  for (const uint32_t v : {rows, extent})
    for (int shift = 24; shift >= 0; shift -= 8) head += static_cast<char>(v >> shift);
  return head;
}
std::string safetensors_head(uint64_t rows, uint64_t bytes) {
  std::string header = "{\"input\":{\"dtype\":\"F64\",\"shape\":[" + std::to_string(rows) +
                       ",8],\"data_offsets\":[0," + std::to_string(bytes) + "]}}";
  header.resize(120, ' ');
  return little(120, 8) + header;
}
// Writes bytes into a file at a place.
void put(const Folder& folder, uint64_t at, const std::string& bytes) {
  std::fstream file(folder.path("large"), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file << bytes;
}
using Doubles = std::vector<double>;

}  // namespace

TEST_CASE("a file larger than the memory is an error that names it and its size" *
          doctest::skip(!kLimitsMemory)) {
  check_text(error("csv", "path", "a,b\n1,2\n"), "[data.csv] path");
  const std::string dict =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(kSize - 128) + ",), }";
  check_text(error("npy", "input",
                   std::string("\x93NUMPY\1\0", 8) + little(118, 2) + dict +
                       std::string(117 - dict.size(), ' ') + "\n"),
             "[data.npy] input");
  check_text(
      error("idx", "images", std::string("\0\0\x08\2", 4) + std::string("\0\0\0\1\0\0\0\1", 8)),
      "[data.idx] images");
  const std::string header = "{\"input\":{\"dtype\":\"U8\",\"shape\":[" +
                             std::to_string(kSize - 8 - 80) + "],\"data_offsets\":[0," +
                             std::to_string(kSize - 8 - 80) + "]}}";
  REQUIRE(header.size() <= 80);
  check_text(
      error("safetensors", "path", little(80, 8) + header + std::string(80 - header.size(), ' ')),
      "[data.safetensors] path");
}

TEST_CASE("samples of a file larger than the memory are read from it, in any order" *
          doctest::skip(!kLimitsMemory)) {
  fake::data_plugins();
  {
    const Folder folder;
    const uint64_t rows = (kSize - 128) / 16;
    const std::string path = large(folder, npy_head("<f8", rows, 2));
    put(folder, 128 + 16 * (rows - 2), fake::raw(Doubles{1.5, -2, 3, 4}));
    const LittleMemory little_memory;
    const fake::Dataset d("npy", {{"input", path}});
    CHECK(d.info().n_samples == static_cast<int64_t>(rows));
    CHECK(d.info().host_bytes == 0);
    const auto last = static_cast<int64_t>(rows) - 1;
    CHECK(d.read<float>(0, {last, 0, last - 1, last}) ==
          std::vector<float>{3, 4, 0, 0, 1.5, -2, 3, 4});
  }
  {
    const Folder folder;
    const auto rows = static_cast<uint32_t>((kSize - 12) / 4);
    const std::string path = large(folder, idx_head(rows, 4));
    put(folder, kSize - 4, "\1\2\3\4");
    const std::string labels =
        folder.write("labels", std::string("\0\0\x08\1", 4) + idx_head(rows, 0).substr(4, 4));
    REQUIRE(truncate(folder.path("labels").c_str(), 8 + rows) == 0);
    const LittleMemory little_memory;
    const fake::Dataset d("idx", {{"images", path}, {"labels", labels}, {"memory_mib", "16"}});
    CHECK(d.read<uint8_t>(0, {rows - 1}) == std::vector<uint8_t>{1, 2, 3, 4});
    CHECK(d.read<uint8_t>(1, {rows - 1}) == std::vector<uint8_t>{0});
  }
  {
    const Folder folder;
    const uint64_t rows = (kSize - 128) / 64;
    const std::string path = large(folder, safetensors_head(rows, kSize - 128));
    put(folder, kSize - 64, fake::raw(Doubles{1, 2, 3, 4, 5, 6, 7, 8}));
    const LittleMemory little_memory;
    const fake::Dataset d("safetensors", {{"path", path}, {"target", "[]"}});
    CHECK(d.read<float>(0, {static_cast<int64_t>(rows) - 1}) ==
          std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  }
}

TEST_CASE("a file that shrinks while it is read is an error; its blocks identify it") {
  const Folder folder;
  const uint64_t rows = (kSize - 128) / 8;
  const std::string path = large(folder, npy_head("<f8", rows, 1));
  const auto fingerprint = [&] {
    return fake::Dataset("npy", {{"input", path}}).info().fingerprint;
  };
  const uint64_t before = fingerprint();
  CHECK(fingerprint() == before);
  put(folder, kSize - 8, fake::raw(Doubles{1}));
  CHECK(fingerprint() != before);
  const fake::Dataset d("npy", {{"input", path}});
  REQUIRE(truncate(folder.path("large").c_str(), 4096) == 0);
  try {
    d.read<float>(0, {static_cast<int64_t>(rows) - 1});
    FAIL("expected an error");
  } catch (const fake::Failure& e) {
    CHECK(e.code == PLAIT_ERR_DATA);
    CHECK(contains(e.what(), "the file ended while it was read"));
  }
}

TEST_CASE("samples read from a file are those held in memory") {
  const Folder folder;
  Doubles values;
  for (int i = 0; i < 20000; ++i) values.push_back(i * 0.37 - 11);
  const std::string path = folder.write("a.npy", npy_head("<f8", 4, 5000) + fake::raw(values));
  const fake::Dataset held("npy", {{"input", path}}),
      read("npy", {{"input", path}, {"memory_mib", "0"}});
  CHECK(held.info().host_bytes > 0);
  CHECK(read.info().host_bytes == 0);
  CHECK(held.info().fingerprint == read.info().fingerprint);
  values[12345] += 1;
  folder.write("a.npy", npy_head("<f8", 4, 5000) + fake::raw(values));
  CHECK(fake::Dataset("npy", {{"input", path}, {"memory_mib", "0"}}).info().fingerprint !=
        held.info().fingerprint);
  values[12345] -= 1;
  folder.write("a.npy", npy_head("<f8", 4, 5000) + fake::raw(values));
  for (const std::vector<int64_t>& order : {std::vector<int64_t>{0, 1, 2, 3}, {3, 1, 2, 0}, {2, 2}})
    CHECK(read.read<float>(0, order) == held.read<float>(0, order));
}

TEST_CASE("how much is held in memory changes no fingerprint, of large fields either") {
  const Folder folder;
  // The same as 300 MiB of f32, or of u8.
  const auto check = [&](const std::string& type, const std::string& option,
                         const std::string& head, uint64_t size) {
    const std::string path = folder.write("large", head);
    REQUIRE(truncate(folder.path("large").c_str(), static_cast<off_t>(size)) == 0);
    const auto fingerprint = [&](const char* mib) {
      return fake::Dataset(type, {{option, path}, {"memory_mib", mib}}).info().fingerprint;
    };
    const uint64_t before = fingerprint("0");
    put(folder, size - 3, "abc");
    CHECK(fingerprint("0") != before);
    CHECK(fingerprint("0") == fingerprint("2048"));
  };
  constexpr uint64_t kMib = 1 << 20;
  check("npy", "input", npy_head("<f8", 600 * kMib / 24, 3), 128 + 600 * kMib / 24 * 24);
  check("idx", "images", idx_head(100 * kMib, 3), 12 + 300 * kMib);
}
