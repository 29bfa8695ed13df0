// Decoded pixels beside Pillow's, and files that are damaged or made to do harm.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "tests/support/folder.hpp"
#include "tests/unit/data_images/golden_images.hpp"

using namespace images_test;
using plait::data::images::Extent;
using plait::data::images::extent_of;
using plait::data::images::Pixels;

namespace {

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// The greatest difference of two numbers at the same place; 256: there are more of one than of the
// other.
int difference(const Pixels& found, const Values& expected) {
  if (found.bytes.size() != expected.size()) return 256;
  int most = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    most = std::max(most, std::abs(found.bytes.data()[i] - expected[i]));
  return most;
}

// A file with these bytes, opened by its path.
std::optional<Extent> extent_in_file(const std::string& content, int64_t max_pixels = kManyPixels) {
  const plait::test::Folder folder;
  std::ofstream(folder / "x", std::ios::binary) << content;
  const plait::support::SourceFile source{"data.images", "path", folder / "x"};
  return extent_of(source, plait::support::SteadyFile(source, ""), max_pixels);
}

// What is written to stderr meanwhile.
template <class F>
std::string said(F&& f) {
  const plait::test::Folder folder;
  const int kept = ::dup(STDERR_FILENO);
  const int file = ::open((folder / "e").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ::dup2(file, STDERR_FILENO);
  f();
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(file);
  std::ifstream written(folder / "e");
  return {std::istreambuf_iterator<char>(written), {}};
}

std::string with(std::string file, size_t at, std::string_view bytes) {
  return file.replace(at, bytes.size(), bytes);
}

}  // namespace

TEST_CASE("every kind of file has the pixels that Pillow gives, in colours and in grey") {
  REQUIRE(golden().at("decode").size() == 24);
  for (const json& one : golden().at("decode")) {
    const std::string name = one.at("file"), file = content_of(name);
    CAPTURE(name);
    const int64_t height = one.at("size")[0], width = one.at("size")[1];
    CHECK(extent_in_file(file) == Extent{width, height});
    for (const int channels : {3, 1}) {
      const Pixels pixels = decoded(file, channels);
      CHECK(pixels.width == width);
      CHECK(pixels.height == height);
      CHECK(pixels.channels == channels);
      CHECK(difference(pixels, values_of(one.at(channels == 3 ? "rgb" : "grey"))) <=
            one.at("tolerance").get<int>());
    }
  }
}

TEST_CASE("memory of one image serves the next") {
  Pixels pixels;
  for (const char* name : {"plain.jpg", "grey.png", "cmyk.jpg", "wide.png", "bits1.png"}) {
    const std::string file = content_of(name);
    plait::data::images::decode({"data.images", "path", "x"},
                                {reinterpret_cast<const uint8_t*>(file.data()), file.size()}, 3,
                                kManyPixels, pixels);
    const Pixels fresh = decoded(file, 3);
    CHECK(std::equal(pixels.bytes.span().begin(), pixels.bytes.span().end(),
                     fresh.bytes.span().begin(), fresh.bytes.span().end()));
  }
}

TEST_CASE("a truncated file is an error, wherever it ends, and nothing is printed") {
  for (const json& one : golden().at("decode")) {
    const std::string name = one.at("file"), file = content_of(name);
    CAPTURE(name);
    std::string printed = said([&] {
      for (size_t n = 0; n < file.size(); ++n) {
        const std::string error = decode_error(file.substr(0, n));
        if (error.empty()) FAIL_CHECK("no error for " << n << " of " << file.size() << " bytes");
      }
    });
    CHECK(printed.empty());
  }
  const std::string png = content_of("rgb.png"), jpeg = content_of("plain.jpg");
  CHECK(decode_error(png.substr(0, 70)) ==
        "[data.images] path 'x', offset 70: the PNG data is truncated: the file has 70 bytes, "
        "expected more; fetch the file again or delete it");
  CHECK(decode_error(jpeg.substr(0, 500)) ==
        "[data.images] path 'x', offset 500: the JPEG data is truncated: the file has 500 bytes, "
        "expected more; fetch the file again or delete it");
  CHECK(decode_error("") ==
        "[data.images] path 'x', offset 0: the file is empty, expected a PNG or JPEG image; fetch "
        "the file again or delete it");
}

TEST_CASE("damaged bytes are an error or other pixels, never more, and nothing is printed") {
  std::mt19937 random(3);
  for (const json& one : golden().at("decode")) {
    const std::string name = one.at("file"), file = content_of(name);
    CAPTURE(name);
    const std::string printed = said([&] {
      for (int round = 0; round < 300; ++round) {
        std::string damaged = file;
        for (unsigned k = 0; k < 1 + random() % 4; ++k)
          damaged[random() % damaged.size()] = static_cast<char>(random());
        CHECK(decode_error(damaged) != "another code");
      }
    });
    CHECK(printed.empty());
  }
  const std::string png = content_of("rgb.png");
  CHECK(contains(decode_error(with(png, png.size() - 20, "x")), "damaged PNG data (IDAT: "));
  std::string jpeg = content_of("plain.jpg");
  jpeg.insert(jpeg.size() - 60, "\xFF\xD9");  // the end comes too early
  CHECK(contains(decode_error(jpeg), "damaged or unsupported JPEG data ("));
}

TEST_CASE("the first bytes say what a file is, and a message names other formats") {
  const auto error = [](std::string_view bytes) { return decode_error(std::string(bytes)); };
  CHECK(error("GIF89a......") ==
        "[data.images] path 'x', offset 0: the file begins with 47 49 46 38 (GIF), expected a PNG "
        "or JPEG image; convert it, delete it, or leave its ending out of extensions");
  CHECK(contains(error("RIFF....WEBPVP8 "), "(WebP)"));
  CHECK(contains(error("<!DOCTYPE html>"), "HTML"));
  CHECK(contains(error("version https://git-lfs.github.com/spec/v1"), "Git LFS"));
  CHECK(
      contains(error(std::string_view("\0\x05\x16\x07", 4)), "begins with 00 05 16 07, expected"));
  CHECK(contains(error("\x89"), "begins with 89, expected"));
  for (const char* name : {"rgb.png", "plain.jpg"}) {
    const std::string file = content_of(name);
    CHECK_THROWS_AS(extent_in_file("x" + file), plait::Error);
    CHECK(decode_error(file + "more bytes behind the end").empty());
  }
}

TEST_CASE("too many pixels are refused by the head alone, before memory is taken") {
  const std::string huge_png =
      with(content_of("rgb.png"), 16, {"\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF", 8});
  // The head of a frame: FF C0, length, 8 bits, height, width.
  const std::string jpeg = content_of("plain.jpg");
  const size_t frame = jpeg.find(std::string("\xFF\xC0\x00\x11\x08", 5));
  REQUIRE(frame != std::string::npos);
  const std::string huge_jpeg = with(jpeg, frame + 5, {"\xFA\0\xFA\0", 4});
  for (const int64_t most : {int64_t{1000000}, int64_t{4000000000}}) {
    CHECK_THROWS_WITH(
        extent_in_file(huge_jpeg, 1000000),
        doctest::Contains("the image has 64000 x 64000 pixels, expected at most 1000000 together; "
                          "shrink it, or set max_pixels to more"));
    CHECK_THROWS_WITH(extent_in_file(huge_png, most), doctest::Contains("2147483647 x 2147483647"));
  }
  for (const std::string_view side : {std::string_view("\0\0\0\1\0\x1E\x84\x80", 8),
                                      std::string_view("\0\x1E\x84\x80\0\0\0\1", 8)})
    CHECK_THROWS_WITH(
        extent_in_file(with(content_of("rgb.png"), 16, std::string(side)), 4000000000),
        doctest::Contains("expected at most 1000000 on a side; cut it into several"));
  CHECK(contains(decode_error(huge_jpeg), "64000 x 64000"));
  // The checksum of the head is wrong, too, which is as good an error.
  CHECK_FALSE(decode_error(huge_png).empty());
  CHECK(decode_error(content_of("rgb.png"), 35).empty());
  CHECK(contains(decode_error(content_of("rgb.png"), 34), "5 x 7 pixels, expected at most 34"));
  CHECK_THROWS_WITH(extent_in_file(with(jpeg, frame + 5, {"\0\0", 2})),
                    doctest::Contains("22 x 0 pixels, expected at least one"));
}

TEST_CASE("a JPEG file of many scans is refused") {
  const std::string file = content_of("progressive.jpg");
  // Its first scan, again and again.
  const size_t first = file.find("\xFF\xDA"), end = file.find("\xFF\xC4", first);
  REQUIRE(end != std::string::npos);
  std::string scans;
  for (int i = 0; i < 600; ++i) scans += file.substr(first, end - first);
  CHECK(contains(decode_error(file.substr(0, end) + scans + file.substr(end)),
                 "(more than 500 scans)"));
}

TEST_CASE("the size of a PNG image stands in its first chunk") {
  const std::string file = content_of("rgb.png");
  CHECK(extent_in_file(file.substr(0, 24)) == Extent{5, 7});
  const auto refused = [](const std::string& content, int offset) {
    CHECK_THROWS_WITH(
        extent_in_file(content),
        doctest::Contains(("offset " + std::to_string(offset) +
                           ": damaged PNG data: the size of the image is missing; fetch")
                              .c_str()));
  };
  refused(file.substr(0, 23), 12);
  refused(file.substr(0, 10), 10);
  refused(with(file, 12, "IDAT"), 12);
}

TEST_CASE("the size of a JPEG image stands behind large segments") {
  const std::string file = content_of("plain.jpg");
  std::string before;
  for (int i = 0; i < 40; ++i)
    before += std::string("\xFF\xE2\xFF\xFF", 4) + std::string(65533, 'p');
  CHECK(extent_in_file(file.substr(0, 2) + before + file.substr(2)) == Extent{22, 19});
  CHECK(extent_in_file(file.substr(0, 2) + "\xFF\xFF\xFF" + file.substr(2)) == Extent{22, 19});
  // Markers that have no length.
  CHECK(extent_in_file(file.substr(0, 2) + "\xFF\x01\xFF\xD0\xFF\xD7\xFF\xD8" + file.substr(2)) ==
        Extent{22, 19});
  // Without a frame: nothing is known before it is decoded, which fails.
  const std::string none = file.substr(0, 2) + "\xFF\xD9" + std::string(20, 'x');
  CHECK(extent_in_file(none) == std::nullopt);
  CHECK_FALSE(decode_error(none).empty());
  std::string many;
  for (int i = 0; i < 1001; ++i) many += std::string("\xFF\xFE\0\2", 4);
  CHECK(extent_in_file(file.substr(0, 2) + many + file.substr(2)) == std::nullopt);
  CHECK_THROWS_WITH(extent_in_file(file.substr(0, 12)), doctest::Contains("ends before the size"));
}
