#include "tests/unit/data_plugins/dataset_bench.hpp"
#include "tests/unit/data_plugins/file_bytes.hpp"

using namespace plait;
using fake::contains;
using fake::Dataset;
using fake::Folder;
using fake::open_error;
using file_bytes::gzip;

namespace {

std::string header(std::vector<uint32_t> dims, char type = 8) {
  std::string s = {0, 0, type, static_cast<char>(dims.size())};
  for (const uint32_t d : dims)
    for (int i = 3; i >= 0; --i) s += static_cast<char>(d >> (8 * i));
  return s;
}

const std::string kImages = header({3, 2, 2}) + "abcdefghijkl";
const std::string kLabels = header({3}) + std::string("\1\0\2", 3);

// The error if the images file has these bytes.
std::string images_error(const std::string& bytes) {
  const Folder folder;
  return open_error("idx",
                    {{"images", folder.write("i", bytes)}, {"labels", folder.write("l", kLabels)}});
}

}  // namespace

TEST_CASE("idx reads images and labels, plain, gzipped, and gzipped in several members") {
  const Folder folder;
  const std::string members = gzip(kImages.substr(0, 9)) + gzip(kImages.substr(9));
  uint64_t fingerprint = 0;
  for (const std::string& images : {kImages, gzip(kImages), members}) {
    const Dataset d("idx", {{"images", folder.write("i", images)},
                            {"labels", folder.write("l", gzip(kLabels))}});
    CHECK(d.info().n_samples == 3);
    REQUIRE(d.info().n_fields == 2);
    CHECK(d.field(0) == "image");
    CHECK(d.info().fields[0].role == PLAIT_FIELD_INPUT);
    CHECK(d.info().fields[0].shape.dtype == PLAIT_U8);
    CHECK(d.dims(0) == std::vector<int64_t>{2, 2});
    CHECK(d.field(1) == "label");
    CHECK(d.info().fields[1].role == PLAIT_FIELD_TARGET);
    CHECK(d.dims(1).empty());
    CHECK(d.read<char>(0, {2, 0, 2}) ==
          std::vector<char>{'i', 'j', 'k', 'l', 'a', 'b', 'c', 'd', 'i', 'j', 'k', 'l'});
    CHECK(d.read<uint8_t>(1, {2, 1, 0}) == std::vector<uint8_t>{2, 0, 1});
    CHECK(d.read<uint8_t>(1, {}).empty());
    CHECK(d.info().host_bytes == kImages.size() + kLabels.size());
    if (fingerprint == 0) fingerprint = d.info().fingerprint;
    CHECK(d.info().fingerprint == fingerprint);
  }
  std::string other = kImages;
  other.back() = 'x';
  const Dataset changed(
      "idx", {{"images", folder.write("i", other)}, {"labels", folder.write("l", kLabels)}});
  CHECK(changed.info().fingerprint != fingerprint);
}

TEST_CASE("idx refuses samples that do not exist") {
  const Folder folder;
  const Dataset d("idx",
                  {{"images", folder.write("i", kImages)}, {"labels", folder.write("l", kLabels)}});
  CHECK_THROWS_WITH(d.read<char>(0, {0, 3}), "[data.idx] sample 3 was asked for, there are 3");
  CHECK_THROWS_WITH(d.read<char>(0, {-1}), "[data.idx] sample -1 was asked for, there are 3");
}

TEST_CASE("idx names file, offset, found and expected of a malformed file") {
  CHECK(images_error("") ==
        "[data.idx] images 'i', offset 0: 0 bytes, expected at least the 4 of an IDX magic number; "
        "fetch the file again");
  CHECK(images_error("PNG?") ==
        "[data.idx] images 'i', offset 0: the magic number is 50 4e 47 3f, expected 00 00 08 and "
        "the number of dimensions; this is not an IDX "
        "file: check the path");
  CHECK(images_error(header({3, 2, 2}, 0x0d) + std::string(48, 'x')) ==
        "[data.idx] images 'i', offset 2: type code 13 (f32), expected 8 (u8); convert the file, "
        "or use an npy dataset");
  for (const auto& [code, type] : {std::pair('\x09', "9 (i8)"),
                                   {'\x0a', "10 (unknown)"},
                                   {'\x0b', "11 (i16)"},
                                   {'\x0c', "12 (i32)"},
                                   {'\x0e', "14 (f64)"},
                                   {'\x0f', "15 (unknown)"}})
    CHECK(contains(images_error(header({3, 2, 2}, code)),
                   "offset 2: type code " + std::string(type) + ", expected 8 (u8)"));
  CHECK(images_error(header({})) ==
        "[data.idx] images 'i', offset 3: ndim 0, expected 1 to 8; fetch the file again");
  CHECK(contains(images_error(header({1, 1, 1, 1, 1, 1, 1, 1, 1}) + "x"), "ndim 9"));
  CHECK(
      images_error(header({3, 2, 2}).substr(0, 14)) ==
      "[data.idx] images 'i', offset 14: the header is truncated: 14 bytes, expected 16; fetch the "
      "file again");
  CHECK(images_error(kImages.substr(0, 20)) ==
        "[data.idx] images 'i', offset 20: extents (3, 2, 2) need 28 bytes with the header, found "
        "20; fetch the file again");
  CHECK(images_error(kImages + "m") ==
        "[data.idx] images 'i', offset 28: extents (3, 2, 2) need 28 bytes with the header, found "
        "more; fetch the file again");
  CHECK(contains(images_error(header({0xffffffff, 0xffffffff, 0xffffffff})),
                 "more than 2^62 values"));
  CHECK(contains(images_error(header({0xffffffff, 0x3fffffff})), "found 12"));
  CHECK(images_error(kLabels) ==
        "[data.idx] images 'i', offset 3: ndim 1, expected at least 2 for images; are images and "
        "labels swapped?");
}

TEST_CASE(
    "idx stops unpacking gzip data that is damaged, cut off, followed by something, or more than "
    "declared") {
  const std::string packed = gzip(kImages);
  for (size_t n = 2; n < packed.size(); ++n)
    CHECK(contains(images_error(packed.substr(0, n)), "truncated"));
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // the checksum
  CHECK(contains(images_error(damaged), "damaged gzip data (incorrect data check)"));
  CHECK(contains(images_error(packed + "xyz"),
                 "3 bytes after the end of the gzip data, expected none"));
  // NOLINTNEXTLINE(bugprone-string-constructor): it is large
  const std::string large(50'000'000, 'x');
  CHECK(contains(images_error(gzip(header({3, 2, 2}) + large)), "found more"));
  CHECK(contains(images_error(gzip(header({0x7fffffff, 0x3fffffff}) + "abc")), "found 15"));
  CHECK(contains(images_error(gzip("abc")), "3 bytes, expected at least the 4"));
}

TEST_CASE("idx refuses files that do not belong together, are absent, or are no files") {
  const Folder folder;
  const std::string images = folder.write("i", kImages),
                    labels = folder.write("l", header({2}) + "ab");
  CHECK(open_error("idx", {{"images", images}, {"labels", labels}}) ==
        "[data.idx] field 'image' has 3 samples and field 'label' 2, expected as many; the files "
        "do not belong together");
  CHECK(open_error("idx", {{"images", images}, {"labels", "\"" + folder.path("none") + "\""}},
                   PLAIT_ERR_NOT_FOUND) ==
        "[data.idx] labels 'none': cannot open it: No such file or directory; relative paths start "
        "at the data folder, "
        "else at the experiment file");
  CHECK(contains(open_error("idx", {{"images", images}, {"labels", "\"/\""}}, PLAIT_ERR_IO),
                 "is not a regular file"));
  CHECK(contains(open_error("idx", {{"images", images}, {"labels", images}}),
                 "ndim 3, expected 1 for labels"));
}
