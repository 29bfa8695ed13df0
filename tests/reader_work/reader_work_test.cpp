// Hostile files cost their reader work in proportion to their size, on any machine.
#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "engine/base/error.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "tests/reader_work/block_counter.hpp"
#include "tests/unit/checkpoint/hostile.hpp"

namespace {

using namespace plait::checkpoint;

// Blocks of code for each byte; 28 at most are needed. A look at each earlier entry for each entry,
// as of a list that is searched by name, is thousands.
constexpr uint64_t kMostEach = 60;

void check(const HostileFile& file, const std::function<void()>& read) {
  const uint64_t before = reader_work::blocks();
  try {
    read();
  } catch (const plait::Error&) {
    // Refused.
  }
  const uint64_t done = reader_work::blocks() - before;
  MESSAGE(file.what << ": " << file.bytes.size() << " bytes, " << done << " blocks");
  CHECK(done > 0);  // the parsers are the counted ones
  CHECK(done <= kMostEach * file.bytes.size());
}

}  // namespace

TEST_CASE("four times the entries of a header take four times the work") {
  const auto blocks_of = [](int entries) {
    std::string text = "{";
    for (int i = 0; i < entries; ++i)
      text += (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],)" +
              R"("data_offsets":[0,0]})";
    text += "}";
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
    bytes += text;
    const uint64_t before = reader_work::blocks();
    CHECK(parse_safetensors(bytes, bytes.size(), "f").tensors.size() ==
          static_cast<size_t>(entries));
    return reader_work::blocks() - before;
  };
  blocks_of(1);  // what exists once
  const uint64_t small = blocks_of(1000), large = blocks_of(4000);
  MESSAGE(small << " blocks of 1,000 entries, " << large << " of 4,000");
  CHECK(large > 3 * small);
  CHECK(large < 6 * small);
}

TEST_CASE("hostile manifests take work in proportion to their size") {
  for (const HostileFile& file : hostile_manifests())
    check(file, [&] { parse_manifest(file.bytes, "m"); });
}

TEST_CASE("hostile headers of safetensors take work in proportion to their size") {
  for (const HostileFile& file : hostile_headers())
    check(file, [&] { parse_safetensors(file.bytes, file.bytes.size(), "f"); });
}
