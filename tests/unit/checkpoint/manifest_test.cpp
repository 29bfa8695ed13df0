#include "engine/checkpoint/manifest.hpp"

#include <plait/base.h>
#include <plait/tensor.h>

#include <doctest/doctest.h>

#include <utility>

#include "engine/base/error.hpp"

namespace {

using namespace plait::checkpoint;

Manifest sample() {
  Manifest m;
  m.state.step = 1000;
  m.state.samples = 32000;
  m.state.world = {4, 2, 1};
  m.state.seed = UINT64_MAX;
  m.state.random_step = 7;
  m.state.cursors = {{"train", 12}};
  m.state.config_hash = "abc";
  m.state.settings = {{"run.seed", "42"}, {"model.optimizer.type", "\"sgd\""}};
  m.state.engine_version = "0.1.0";
  m.state.saved_at = 1700000000;
  m.state.lineage = "00ab";
  m.state.lineage_from = 500;
  m.commit = 9;
  m.state.extra = "{\"z\":1,\"a\":[0.1,\"x\"]}";
  m.state.bases = {{"model", "/base", {7, 8}, {"model.a", "model.b"}}};
  m.files = {{"model.safetensors", 123, {1, 2}}};
  m.tensors = {{"w",
                PLAIT_F32,
                {4, 3},
                {{"model.safetensors", "w#0", {0, 0}, {2, 3}, {3, 4}},
                 {"model.safetensors", "w#1", {2, 0}, {2, 3}, {5, 6}}}}};
  return m;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The error for the sample with one change and a matching checksum.
std::string refusal(const std::string& from, const std::string& to,
                    uint32_t code = PLAIT_ERR_DATA) {
  const std::string body(unseal_manifest(manifest_text(sample()), "m"));
  try {
    parse_manifest(seal_manifest(replaced(body, from, to)), "m");
  } catch (const plait::Error& e) {
    CHECK(e.code() == code);
    return e.text();
  }
  FAIL("accepted " << to);
  return "";
}

}  // namespace

TEST_CASE("a manifest of an engine that kept no settings is read") {
  std::string body(unseal_manifest(manifest_text(sample()), "m"));
  const size_t begin = body.find("  \"settings\""), end = body.find("},", begin) + 3;
  REQUIRE(begin != std::string::npos);
  body.erase(begin, end - begin);
  CHECK(parse_manifest(seal_manifest(body), "m").state.settings.empty());
}

TEST_CASE("a manifest is read back as it was written, byte by byte") {
  const std::string text = manifest_text(sample());
  const Manifest m = parse_manifest(text, "m");
  CHECK(manifest_text(m) == text);
  CHECK(m.state.saved_at == 1700000000);
  CHECK(m.state.seed == UINT64_MAX);
  CHECK(m.state.world.tensor == 2);
  CHECK(m.state.lineage == "00ab");
  CHECK(m.state.lineage_from == 500);
  CHECK(m.commit == 9);
  CHECK(m.state.cursors.at("train") == 12);
  CHECK(m.state.settings == sample().state.settings);
  CHECK(m.state.extra == "{\"z\":1,\"a\":[0.1,\"x\"]}");
  REQUIRE(m.state.bases.size() == 1);
  CHECK(m.state.bases[0].path == "/base");
  CHECK(m.state.bases[0].hash == plait::Hash128{7, 8});
  CHECK(m.state.bases[0].parameters == std::vector<std::string>{"model.a", "model.b"});
  REQUIRE(m.find("w"));
  CHECK(m.find("w")->slices[1].offset == std::vector<int64_t>{2, 0});
  CHECK(m.find("w")->slices[1].hash == plait::Hash128{5, 6});
  CHECK(m.find("v") == nullptr);
}

TEST_CASE("a manifest says whether states were left out") {
  Manifest m = sample();
  CHECK(manifest_text(m).find("states_left_out") == std::string::npos);
  CHECK_FALSE(parse_manifest(manifest_text(m), "m").state.states_left_out);
  m.state.states_left_out = true;
  const std::string text = manifest_text(m);
  CHECK(parse_manifest(text, "m").state.states_left_out);
  CHECK(manifest_text(parse_manifest(text, "m")) == text);
  for (const char* value : {"1", "\"true\"", "null"})
    CHECK(
        refusal("\"step\": 1000", "\"states_left_out\": " + std::string(value) + ", \"step\": 1000")
            .find("'states_left_out' in the manifest must be true or false") != std::string::npos);
}

TEST_CASE("every flipped bit and every truncation of a manifest is noticed") {
  const std::string text = manifest_text(sample());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = text;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      CHECK_THROWS_AS(parse_manifest(bad, "m"), plait::Error);
    }
    CHECK_THROWS_AS(parse_manifest(text.substr(0, i), "m"), plait::Error);
  }
  CHECK_THROWS_AS(parse_manifest(text + " ", "m"), plait::Error);
}

TEST_CASE("an intact manifest of a newer format is refused clearly") {
  const std::string text =
      refusal("\"format_version\": 1", "\"format_version\": 2", PLAIT_ERR_UNIMPLEMENTED);
  CHECK(text.find("format version 2, this engine reads up to 1") != std::string::npos);
  refusal("\"format_version\": 1", "\"format_version\": 0");
}

// Its records need not be those that this engine knows.
TEST_CASE("the version is refused before what a newer format may have") {
  const std::string body(unseal_manifest(manifest_text(sample()), "m"));
  const std::string newer =
      replaced(replaced(body, "\"format_version\": 1", "\"format_version\": 2"), "\"size\": 123",
               "\"size\": \"123\"");
  CHECK_THROWS_WITH_AS(parse_manifest(seal_manifest(newer), "m"),
                       doctest::Contains("m has format version 2"), plait::Error);
}

TEST_CASE("tensors and parameters of a base are sorted; a tensor that is there twice is refused") {
  Manifest m = sample();
  m.state.bases[0].parameters = {"model.b", "model.a"};
  m.tensors.insert(m.tensors.begin(), m.tensors[0]);
  m.tensors.push_back(m.tensors[0]);
  m.tensors[0].name = "x";
  m.tensors[1].name = "v";
  const Manifest read = parse_manifest(manifest_text(m), "m");
  CHECK(read.state.bases[0].parameters == std::vector<std::string>{"model.a", "model.b"});
  for (size_t i = 0; i < 3; ++i) CHECK(read.tensors[i].name == std::string(1, "vwx"[i]));
  m.tensors[1].name = "x";
  m.tensors[0].name = "w";
  m.tensors[2].name = "w";
  CHECK_THROWS_WITH_AS(parse_manifest(manifest_text(m), "m"),
                       doctest::Contains("m: tensor 'w' is in the manifest twice"), plait::Error);
}

TEST_CASE("names of files have up to 255 bytes, hashes 32 digits") {
  for (const auto& [bytes, fits] : {std::pair{255, true}, {256, false}}) {
    Manifest m = sample();
    m.files[0].name = std::string(static_cast<size_t>(bytes), 'f');
    CAPTURE(bytes);
    if (fits)
      CHECK(parse_manifest(manifest_text(m), "m").files[0].name == m.files[0].name);
    else
      CHECK_THROWS_WITH_AS(parse_manifest(manifest_text(m), "m"),
                           doctest::Contains("a string of at most 255 bytes"), plait::Error);
  }
  const std::string hash = "00000000000000010000000000000002";
  CHECK(refusal(hash, hash.substr(1)).find("32 hexadecimal digits") != std::string::npos);
  CHECK(refusal(hash, hash + "0").find("a string of at most 32 bytes") != std::string::npos);
}

TEST_CASE("a manifest names no file outside of its folder") {
  for (const char* name :
       {"",         ".",         "..",        "/",          "./",         "../",     "../m",
        "./m",      "m/",        "/m",        "//m",        "m/..",       "../../m", "m/../../m",
        "a/b",      "a//b",      "./../m",    ".../m",      "....//m",    "..;/m",   "~/m",
        "%2e/m",    "C:/m",      "..\\\\/m",  "$HOME/m",    "/etc/m",     "/dev/m",  "/proc/self/m",
        "m\\u0000", "\\u0000",   "..\\u0000", "../\\u0000", "m\\u0000/m", "\\u002f", "..\\u002fm",
        "..\\/m",   "file:///m", " ../m",     "../m ",      "..\\n/m",    "\\t/m",   "-/m"}) {
    CAPTURE(name);
    const std::string text =
        refusal("\"name\": \"model.safetensors\"", "\"name\": \"" + std::string(name) + "\"");
    CHECK(text.find("same folder") != std::string::npos);
  }
}

TEST_CASE("manifests that make no sense are refused by key") {
  CHECK(refusal("\"samples\"", "\"sample\"").find("'samples'") != std::string::npos);
  CHECK(refusal("\"samples\": 32000", "\"samples\": -1").find("a whole number from 0") !=
        std::string::npos);
  CHECK(refusal("\"samples\": 32000", "\"samples\": 1e3").find("'samples'") != std::string::npos);
  CHECK(refusal("\"step\": 1000", "\"step\": 9223372036854775808").find("'step'") !=
        std::string::npos);
  CHECK(refusal("\"file\": \"model.safetensors\"", "\"file\": \"/etc/passwd\"")
            .find("tensors.w.slices.file") != std::string::npos);
  CHECK(refusal("\"dtype\": \"F32\"", "\"dtype\": \"F8_E4M3\"").find("'tensors.dtype'") !=
        std::string::npos);
  CHECK(refusal("00000000000000010000000000000002", "0000000000000001000000000000000X")
            .find("hexadecimal") != std::string::npos);
  CHECK(refusal("\"saved_at\": 1700000000", "\"saved_at\": 9223372036854775808")
            .find("'saved_at' in the manifest must be a whole number from 0 to 2^63-1") !=
        std::string::npos);
  CHECK(refusal("\"files\": [", "\"files\": [1, ").find("'files.' in the manifest must be an ") !=
        std::string::npos);
  CHECK(
      refusal("\"tensors\": [", "\"tensors\": [[], ").find("'tensors.' in the manifest must be ") !=
      std::string::npos);
  CHECK(refusal("\"files\": [", "\"files\": 1, \"f\": [")
            .find("'files' in the manifest must be a ") != std::string::npos);
  CHECK(refusal("\"extra\": {", "\"extra\": 1, \"e\": {").find("'extra.' ") != std::string::npos);
  CHECK(refusal("\"world\": {", "\"world\": 1, \"w\": {").find("must be an object") !=
        std::string::npos);
  CHECK(refusal("\"path\": \"/base\"", "\"path\": 1").find("'bases[].path'") != std::string::npos);
  CHECK(refusal("\"bases\": [", "\"bases\": 1, \"b\": [").find("'bases'") != std::string::npos);
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "{\"a\":";
  deep += "1" + std::string(100, '}');
  CHECK(refusal("\"extra\": {", "\"extra\": " + deep + ", \"e\": {").find("nested too deeply") !=
        std::string::npos);
}

TEST_CASE("counts that sums and products would carry over 2^63 are refused") {
  for (const std::string count : {"\"samples\": 32000", "\"step\": 1000", "\"train\": 12",
                                  "\"commit\": 9", "\"from\": 500"}) {
    const std::string key = count.substr(0, count.find(':'));
    CAPTURE(key);
    CHECK(refusal(count, key + ": 9007199254740993").find("a whole number from 0 to 2^53") !=
          std::string::npos);
    const std::string body(unseal_manifest(manifest_text(sample()), "m"));
    const std::string most = replaced(body, count, key + ": 9007199254740992");
    CHECK_NOTHROW(parse_manifest(seal_manifest(most), "m"));
  }
}

TEST_CASE("a file that is in a manifest twice is refused, or it would be read twice") {
  Manifest m = sample();
  m.files.push_back(m.files.front());
  const std::string text = manifest_text(m);
  constexpr const char* kTwice = "m: file 'model.safetensors' is in the manifest twice";
  CHECK_THROWS_WITH_AS(parse_manifest(text, "m"), doctest::Contains(kTwice), plait::Error);
  CHECK_THROWS_WITH_AS(parse_shard(text, "m"), doctest::Contains(kTwice), plait::Error);
}

TEST_CASE("slices must tile the tensor") {
  const auto bad = [](const std::vector<SliceRecord>& slices, std::vector<int64_t> shape = {4, 3}) {
    Manifest m = sample();
    m.tensors[0].shape = shape;
    m.tensors[0].slices = slices;
    CHECK_THROWS_AS(parse_manifest(manifest_text(m), "m"), plait::Error);
  };
  const SliceRecord top{"f", "k", {0, 0}, {2, 3}, {}}, bottom{"f", "k", {2, 0}, {2, 3}, {}};
  bad({});
  bad({top});
  bad({top, top});
  bad({top, bottom, {"f", "k", {0, 0}, {0, 3}, {}}, top});
  bad({top, {"f", "k", {3, 0}, {2, 3}, {}}});
  bad({top, {"f", "k", {2}, {2}, {}}});
  bad({{"f", "k", {0, 0}, {INT64_MAX, INT64_MAX}, {}}}, {INT64_MAX, INT64_MAX});
  bad({{"f", "k", {INT64_MAX, 0}, {4, 3}, {}}});
  // A rank may have nothing of a tensor, and a tensor may have nothing at all.
  const auto good = [](const std::vector<SliceRecord>& slices, std::vector<int64_t> shape) {
    Manifest m = sample();
    m.tensors[0].shape = std::move(shape);
    m.tensors[0].slices = slices;
    CHECK(parse_manifest(manifest_text(m), "m").tensors[0].slices.size() == slices.size());
  };
  good({top, bottom, {"f", "k", {4, 0}, {0, 3}, {}}}, {4, 3});
  good({{"f", "k", {0, 0}, {0, 3}, {}}, {"f", "l", {0, 0}, {0, 3}, {}}}, {0, 3});
  bad({}, {0, 3});
  Manifest one = sample();
  one.tensors[0].shape = {1};
  one.tensors[0].slices = {{"f", "k", {0}, {1}, {}}, {"f", "l", {0}, {1}, {}}};
  CHECK_THROWS_WITH_AS(parse_manifest(manifest_text(one), "m"),
                       doctest::Contains("must be free of overlaps"), plait::Error);
  Manifest scalar = sample();
  scalar.tensors[0].shape = {};
  scalar.tensors[0].slices = {{"f", "k", {}, {}, {}}};
  CHECK(parse_manifest(manifest_text(scalar), "m").tensors[0].shape.empty());
}
