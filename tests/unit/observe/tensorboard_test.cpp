#include "engine/observe/tensorboard.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/observe/temp_folder.hpp"

namespace {

using plait::observe::crc32c;
using plait::observe::masked_crc32c;
using plait::observe::TensorBoardWriter;

template <class T>
T word_at(const std::string& text, size_t at) {
  REQUIRE(at + sizeof(T) <= text.size());
  T v;
  std::memcpy(&v, text.data() + at, sizeof v);
  return v;
}

// The payloads of a file with correct checksums.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> all;
  for (size_t at = 0; at < file.size();) {
    const auto size = word_at<uint64_t>(file, at);
    CHECK(word_at<uint32_t>(file, at + 8) == masked_crc32c(file.data() + at, 8));
    REQUIRE(at + 16 + size <= file.size());
    all.push_back(file.substr(at + 12, size));
    CHECK(word_at<uint32_t>(file, at + 12 + size) == masked_crc32c(all.back().data(), size));
    at += 16 + size;
  }
  return all;
}

struct Field {
  uint32_t number = 0, wire = 0;
  uint64_t number_value = 0;  // varint and fixed
  std::string bytes;
};

uint64_t varint(const std::string& text, size_t* at) {
  uint64_t v = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(*at < text.size());
    const auto c = static_cast<uint8_t>(text[(*at)++]);
    v |= uint64_t{c & 127u} << shift;
    if (c < 128) return v;
  }
}

std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> all;
  for (size_t at = 0; at < message.size();) {
    const uint64_t tag = varint(message, &at);
    Field f{static_cast<uint32_t>(tag >> 3), static_cast<uint32_t>(tag & 7), 0, ""};
    if (f.wire == 0) {
      f.number_value = varint(message, &at);
    } else if (f.wire == 1) {
      f.number_value = word_at<uint64_t>(message, at);
      at += 8;
    } else if (f.wire == 5) {
      f.number_value = word_at<uint32_t>(message, at);
      at += 4;
    } else {
      REQUIRE(f.wire == 2);
      const uint64_t size = varint(message, &at);
      REQUIRE(at + size <= message.size());
      f.bytes = message.substr(at, size);
      at += size;
    }
    all.push_back(f);
  }
  return all;
}

Field field(const std::string& message, uint32_t number) {
  for (const Field& f : fields_of(message))
    if (f.number == number) return f;
  FAIL("no field " << number);
  return {};
}

}  // namespace

TEST_CASE("crc32c matches the vectors of its standard and of the record format") {
  CHECK(crc32c("123456789", 9) == 0xE3069283u);
  CHECK(crc32c("", 0) == 0);
  const std::string zeros(32, '\0');
  CHECK(crc32c(zeros.data(), 32) == 0x8A9136AAu);
  CHECK(crc32c("56789", 5, crc32c("1234", 4)) == 0xE3069283u);
  const std::string payload =
      "\x1A\x11"
      "CRC test, one two";
  CHECK(masked_crc32c(payload.data(), payload.size()) == 0x5794d08au);
}

TEST_CASE("crc32c of parts is that of the whole, wherever it is divided") {
  std::string text;
  for (int i = 0; i < 41; ++i) text += static_cast<char>(i * 37 + 11);
  uint32_t by_byte = 0;
  for (size_t n = 0; n < text.size(); ++n) {
    const uint32_t whole = crc32c(text.data(), n);
    CHECK(whole == by_byte);
    for (size_t k = 0; k <= n; ++k)
      CHECK(crc32c(text.data() + k, n - k, crc32c(text.data(), k)) == whole);
    by_byte = crc32c(text.data() + n, 1, by_byte);
  }
}

TEST_CASE("an event file begins with its version and holds scalars") {
  const TempFolder folder;
  std::string path;
  {
    TensorBoardWriter writer(folder.files(), folder.path(), 1700000000.5, no_log());
    path = writer.path();
    char host[256] = "";
    REQUIRE(gethostname(host, sizeof host - 1) == 0);
    CHECK(path == folder / "events.out.tfevents.1700000000." + host + "." +
                      std::to_string(getpid()) + ".0");
    writer.scalar("train/loss", 300, 1700000001.25, 0.5);
    writer.scalar("train/lr", 0, std::numeric_limits<double>::quiet_NaN(), -2.0);
  }
  const auto records = records_of(folder.files().read_all(path, 1u << 20));
  REQUIRE(records.size() == 3);
  CHECK(field(records[0], 3).bytes == "brain.Event:2");
  CHECK(fields_of(records[0]).size() == 2);  // and the time; of no step
  CHECK(std::bit_cast<double>(field(records[0], 1).number_value) == 1700000000.5);
  CHECK(std::bit_cast<double>(field(records[1], 1).number_value) == 1700000001.25);
  CHECK(field(records[1], 2).number_value == 300);
  const std::string value = field(field(records[1], 5).bytes, 1).bytes;
  CHECK(field(value, 1).bytes == "train/loss");
  CHECK(std::bit_cast<float>(static_cast<uint32_t>(field(value, 2).number_value)) == 0.5f);
  CHECK(std::bit_cast<double>(field(records[2], 1).number_value) == 0.0);
}

TEST_CASE("long tags and texts are encoded with lengths of several bytes") {
  const TempFolder folder;
  TensorBoardWriter writer(folder.files(), folder.path(), 1.0, no_log());
  const std::string tag(300, 't'), code = "a = 1\nb = \"```\"\n";
  writer.scalar(tag, 1, 1.0, 1.0);
  writer.fenced("experiment", 0, 1.0, "toml", code);
  writer.flush();
  const auto records = records_of(folder.files().read_all(writer.path(), 1u << 20));
  REQUIRE(records.size() == 3);
  CHECK(field(field(field(records[1], 5).bytes, 1).bytes, 1).bytes == tag);
  const std::string value = field(field(records[2], 5).bytes, 1).bytes;
  CHECK(field(value, 1).bytes == "experiment");
  const std::string tensor = field(value, 8).bytes;
  CHECK(field(tensor, 1).number_value == 7);
  CHECK(field(tensor, 2).bytes.empty());
  CHECK(field(tensor, 8).bytes == "````toml\na = 1\nb = \"```\"\n````");
  const std::string metadata = field(value, 9).bytes;
  CHECK(field(field(metadata, 1).bytes, 1).bytes == "text");
  CHECK(field(metadata, 4).number_value == 2);
}

TEST_CASE("a fence is longer than the back quotes inside, wherever they are") {
  const std::pair<const char*, const char*> cases[] = {{"", "```py\n```"},
                                                       {"a", "```py\na\n```"},
                                                       {"``a\n", "```py\n``a\n```"},
                                                       {"```a", "````py\n```a\n````"},
                                                       {"a ```` `", "`````py\na ```` `\n`````"}};
  for (const auto& [code, markdown] : cases) {
    const TempFolder folder;
    TensorBoardWriter writer(folder.files(), folder.path(), 1.0, no_log());
    writer.fenced("a", 0, 1.0, "py", code);
    writer.flush();
    const auto records = records_of(folder.files().read_all(writer.path(), 1u << 20));
    REQUIRE(records.size() == 2);
    CHECK(field(field(field(field(records[1], 5).bytes, 1).bytes, 8).bytes, 8).bytes == markdown);
  }
}

TEST_CASE("records go out after a hundred, and each writer has a file of its own") {
  const TempFolder folder;
  TensorBoardWriter a(folder.files(), folder.path(), 5.0, no_log()),
      b(folder.files(), folder.path(), 5.0, no_log());
  CHECK(a.path() != b.path());
  for (int i = 0; i < 250; ++i) a.scalar("x", i, 5.0, i);
  CHECK(records_of(folder.files().read_all(a.path(), 1u << 20)).size() >= 201);
  a.flush();
  CHECK(records_of(folder.files().read_all(a.path(), 1u << 20)).size() == 251);
}

TEST_CASE("settings and the end of a run, as TensorBoard's HParams page reads them") {
  const TempFolder folder;
  TensorBoardWriter writer(folder.files(), folder.path(), 5.0, no_log());
  writer.hparams({{"batch.global", "16"},
                  {"optimizer.learning_rate", "1e-3"},
                  {"optimizer.type", "\"adamw\""},
                  {"optimizer.nesterov", "true"},
                  {"model.layers[0].dims", "[1, 2]"}},
                 6.0);
  writer.end_of_run(false, 7.0);
  writer.end_of_run(true, 8.0);
  writer.flush();
  const auto records = records_of(folder.files().read_all(writer.path(), 1u << 20));
  REQUIRE(records.size() == 4);
  // HParamsPluginData in the metadata of a value.
  const auto data = [&](size_t i, const std::string& tag) {
    const std::string value = field(field(records[i], 5).bytes, 1).bytes;
    CHECK(field(value, 1).bytes == tag);
    const std::string tensor = field(value, 8).bytes;  // one float, 0
    CHECK(field(tensor, 1).number_value == 1);
    CHECK(field(field(field(tensor, 2).bytes, 2).bytes, 1).number_value == 1);
    CHECK(field(tensor, 5).bytes == std::string(4, '\0'));
    for (const Field& f : fields_of(records[i])) CHECK(f.number != 2);  // of no step
    const std::string plugin = field(field(value, 9).bytes, 1).bytes;
    CHECK(field(plugin, 1).bytes == "hparams");
    return field(plugin, 2).bytes;
  };
  const std::string start = field(data(1, "_hparams_/session_start_info"), 3).bytes;
  std::map<std::string, Field> values;
  for (const Field& f : fields_of(start))
    if (f.number == 1) values[field(f.bytes, 1).bytes] = fields_of(field(f.bytes, 2).bytes).at(0);
  REQUIRE(values.size() == 5);
  CHECK(values["batch.global"].number == 2);
  CHECK(std::bit_cast<double>(values["batch.global"].number_value) == 16);
  CHECK(std::bit_cast<double>(values["optimizer.learning_rate"].number_value) == 1e-3);
  CHECK(values["optimizer.type"].number == 3);
  CHECK(values["optimizer.type"].bytes == "adamw");
  CHECK(values["optimizer.nesterov"].number == 4);
  CHECK(values["optimizer.nesterov"].number_value == 1);
  CHECK(values["model.layers[0].dims"].bytes == "[1, 2]");
  CHECK(std::bit_cast<double>(field(start, 5).number_value) == 6.0);
  const std::string end = field(data(2, "_hparams_/session_end_info"), 4).bytes;
  CHECK(field(end, 1).number_value == 2);
  CHECK(std::bit_cast<double>(field(end, 2).number_value) == 7.0);
  CHECK(field(field(data(3, "_hparams_/session_end_info"), 4).bytes, 1).number_value == 1);
}
