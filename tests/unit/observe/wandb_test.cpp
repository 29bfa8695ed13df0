#include "engine/observe/wandb.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/observe/temp_folder.hpp"

namespace {

using plait::observe::new_wandb_id;
using plait::observe::wandb_id;
using plait::observe::WandbRun;
using plait::observe::WandbWriter;

// What the client itself writes for the records below: DataStore and the messages of wandb 0.19.11.
const std::string kGolden =
    "3a572642e1be0026b103431600010801aa01110a0f0a05706c6169741206302e31322e30eaeabd616a000108028a"
    "01650a0861626364313233341201651a017022350a090a0161820103302e350a0c0a016282010622785c2279220a"
    "0a0a0163820104747275650a0e0a0164820108225b312c20325d2232016742076d6e6973742f316a01688a010c08"
    "80e2cfaa061080cab5ee0127ba096364000108031a600a12120a747261696e2f6c6f7373820103312e350a101208"
    "747261696e2f6c72820103302e310a0b12055f73746570820101310a1b120a5f74696d657374616d7082010c3137"
    "30303030303030312e350a0e12085f72756e74696d6582010131f38bf64c680001080412640a12120a747261696e"
    "2f6c6f7373820103312e350a101208747261696e2f6c72820103302e310a0b12055f73746570820101310a1b120a"
    "5f74696d657374616d7082010c313730303030303030312e350a0e12085f72756e74696d658201013112020801c2"
    "0f0b076a000108051a660a12120a747261696e2f6c6f73738201034e614e0a1412066576616c2f788201092d496e"
    "66696e6974790a0d12055f737465708201033330300a1b120a5f74696d657374616d7082010c3137303030303030"
    "30322e350a0e12085f72756e74696d6582010132deab75d66f00010806126b0a12120a747261696e2f6c6f737382"
    "01034e614e0a1412066576616c2f788201092d496e66696e6974790a0d12055f737465708201033330300a1b120a"
    "5f74696d657374616d7082010c313730303030303030322e350a0e12085f72756e74696d6582010132120308ac02"
    "0abb63ec090001080792010408011003";

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes)
    for (const int half : {c >> 4 & 15, c & 15}) text += "0123456789abcdef"[half];
  return text;
}

// The records of a log, put together from their parts; checks that no part crosses a block. rests:
// what their ends leave of a block.
std::vector<std::string> records_of(const std::string& file, std::set<size_t>& rests) {
  constexpr size_t kBlock = 32768;
  std::vector<std::string> all;
  size_t at = 7;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(file.at(i)); };
  while (at < file.size()) {
    if (kBlock - at % kBlock < 7) {
      for (; at % kBlock; ++at) CHECK(byte(at) == 0);
      continue;
    }
    const size_t size = byte(at + 4) | byte(at + 5) << 8;
    const int kind = byte(at + 6);
    REQUIRE(at + 7 + size <= file.size());
    CHECK(at / kBlock == (at + 6 + size) / kBlock);
    REQUIRE((kind >= 1 && kind <= 4));
    if (kind == 1 || kind == 2) all.emplace_back();
    REQUIRE(!all.empty());
    all.back() += file.substr(at + 7, size);
    at += 7 + size;
    if (kind == 1 || kind == 4) rests.insert(kBlock - at % kBlock);
  }
  return all;
}

}  // namespace

TEST_CASE("a file has the bytes that the client writes") {
  const TempFolder folder;
  const WandbRun run = {"abcd1234",
                        "p",
                        "e",
                        "g",
                        "h",
                        "mnist/1",
                        {{"a", "0.5"}, {"b", "\"x\\\"y\""}, {"c", "true"}, {"d", "[1, 2]"}},
                        false};
  WandbWriter writer(folder.files(), folder.path(), run, 1700000000.5);
  CHECK(writer.path() == folder / "wandb/offline-run-20231114_221320-abcd1234/run-abcd1234.wandb");
  writer.scalar("train/loss", 1, 1700000001.5, 1.5);
  writer.scalar("train/lr", 1, 1700000001.5, 0.1);
  writer.scalar("train/loss", 300, 1700000002.0, std::numeric_limits<double>::quiet_NaN());
  writer.scalar("eval/x", 300, 1700000002.5, -std::numeric_limits<double>::infinity());
  writer.end_of_run(1, 1700000003.75);
  CHECK(hex(folder.files().read_all(writer.path(), 1u << 20)) == kGolden);
}

TEST_CASE("settings are JSON: what TOML has besides is a text") {
  const struct {
    std::string toml, json;
  } cases[] = {{"1.5", "1.5"},       {"-3", "-3"},       {"false", "false"},
               {"\"x\"", "\"x\""},   {"\"\"", "\"\""},   {"\"", "\"\\\"\""},
               {"inf", "\"inf\""},   {"nan", "\"nan\""}, {"1979-05-27", "\"1979-05-27\""},
               {"0x10", "\"0x10\""}, {"", "\"\""}};
  for (const auto& one : cases) {
    const TempFolder folder;
    const WandbWriter writer(folder.files(), folder.path(),
                             {"x", "", "", "", "", "", {{"key", one.toml}}, false}, 1.0);
    const std::string item =
        std::string("\x0a\x03key\x82\x01") + static_cast<char>(one.json.size()) + one.json;
    const std::string expected = "\x0a" + std::string(1, static_cast<char>(item.size())) + item;
    CAPTURE(one.toml);
    CHECK(folder.files().read_all(writer.path(), 1u << 20).find(expected) != std::string::npos);
  }
}

TEST_CASE("records of any length lie in blocks") {
  std::set<size_t> rests;
  const TempFolder folder;
  std::string path;
  constexpr int kRows = 400;
  {
    WandbWriter writer(folder.files(), folder.path(), {"x", "", "", "", "", "", {}, false}, 1.0);
    path = writer.path();
    for (int i = 0; i < kRows; ++i)
      writer.scalar(std::string(static_cast<size_t>(16200 + i), 'n'), i, 2.0, i);
    writer.scalar(std::string(100'000, 'n'), kRows, 2.0, 1);
  }
  const std::vector<std::string> records =
      records_of(folder.files().read_all(path, 1u << 26), rests);
  REQUIRE(records.size() == 2 + 2 * (kRows + 1));
  for (size_t i = 2; i + 2 < records.size(); ++i) CHECK(records[i].size() > 16200);
  CHECK(records.back().size() > 100'000);
  CHECK(records.back().size() < 100'200);
}

TEST_CASE("a record may leave any rest of a block") {
  std::set<size_t> rests;
  for (size_t n = 32'500; n < 32'700; ++n) {
    const TempFolder folder;
    WandbWriter writer(folder.files(), folder.path(), {"x", "", "", "", "", "", {}, false}, 1.0);
    writer.scalar(std::string(n, 'n'), 1, 2.0, 1);
    writer.scalar(std::string(70'000, 'm'), 2, 2.0, 1);  // further blocks
    writer.end_of_run(0, 2.0);
    const std::string file = folder.files().read_all(writer.path(), 1u << 20);
    const std::vector<std::string> records = records_of(file, rests);
    REQUIRE(records.size() == 7);  // header, run, summary, history of each row, exit
    for (const size_t i : {2u, 3u})
      CHECK(records[i].find(std::string(n, 'n') + "\x82\x01\x01"
                                                  "1") != std::string::npos);
  }
  // Behind the summary, which ends at the end of the first block: room for a head and no head.
  for (size_t rest = 1; rest <= 8; ++rest) CHECK(rests.contains(rest));
}

TEST_CASE("a process that continues a run keeps its id and writes a file of its own") {
  const TempFolder folder;
  CHECK(wandb_id(folder.files(), folder.path()).empty());
  const std::string id = new_wandb_id();
  CHECK(id.size() == 8);
  CHECK(new_wandb_id() != id);
  const WandbRun run = {id, "", "", "", "", "", {}, false};
  const WandbWriter first(folder.files(), folder.path(), run, 1700000000.0);
  CHECK(wandb_id(folder.files(), folder.path()) == id);
  const WandbWriter second(folder.files(), folder.path(), run, 1700000000.0);
  CHECK(first.path() != second.path());
}
