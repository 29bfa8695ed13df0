#include "tests/unit/checkpoint/hostile.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {
namespace {

std::string repeated(int n, const std::function<std::string(int)>& one) {
  std::string all;
  for (int i = 0; i < n; ++i) all += (i ? "," : "") + one(i);
  return all;
}

std::string repeated(int n, const std::string& one) {
  return repeated(n, [&](int) { return one; });
}

std::string quoted(int i) { return "\"" + std::to_string(i) + "\""; }

// A manifest with a matching checksum in which `from` has become `to`.
std::string changed(const std::string& from, const std::string& to) {
  Manifest m;
  m.state.engine_version = "0.1.0";
  std::string body(unseal_manifest(manifest_text(m), "m"));
  const size_t at = body.find(from);
  if (at == std::string::npos) throw std::logic_error("no manifest has " + from);
  return seal_manifest(body.replace(at, from.size(), to));
}

// A list, or an object, of a manifest that is empty in others.
std::string with_list(const std::string& key, const std::string& entries) {
  return changed("\"" + key + "\": []", "\"" + key + "\": [" + entries + "]");
}
std::string with_object(const std::string& key, const std::string& members) {
  return changed("\"" + key + "\": {}", "\"" + key + "\": {" + members + "}");
}

std::string tensor(int i, const std::string& slices) {
  return "{\"name\":" + quoted(i) + R"(,"dtype":"F32","shape":[0],"slices":[)" + slices + "]}";
}

std::string framed(const std::string& json) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i) & 0xFF);
  return bytes + json;
}

const std::string kHash(32, '0');

}  // namespace

std::vector<HostileFile> hostile_manifests() {
  const std::string slice =
      R"({"file":"f","key":"k","offset":[0],"extent":[0],"xxh3_128":")" + kHash + "\"}";
  const auto file = [](int i) {
    return "{\"name\":" + quoted(i) + ",\"size\":0,\"xxh3_128\":\"" + kHash + "\"}";
  };
  std::vector<HostileFile> all;
  const auto add = [&](const char* what, std::string text) {
    all.push_back({what, std::move(text)});
  };
  add("settings",
      with_object("settings", repeated(200'000, [](int i) { return quoted(i) + ":\"\""; })));
  add("cursors", with_object("cursors", repeated(200'000, [](int i) { return quoted(i) + ":0"; })));
  add("files", with_list("files", repeated(50'000, file)));
  add("tensors", with_list("tensors", repeated(50'000, [&](int i) { return tensor(i, slice); })));
  add("slices",
      with_list("tensors", repeated(50, [&](int i) { return tensor(i, repeated(1024, slice)); })));
  add("numbers", with_object("extra", "\"a\":[" + repeated(1'000'000, "1") + "]"));
  add("nesting", with_object("extra", "\"a\":" + std::string(1'000'000, '[')));
  add("a shape", with_list("tensors", R"({"name":"t","dtype":"F32","shape":[)" +
                                          repeated(1'000'000, "1") + R"(],"slices":[]})"));
  return all;
}

std::vector<HostileFile> hostile_headers() {
  const auto entry = [](int i) {
    return quoted(i) + R"(:{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  };
  return {{"entries", framed("{" + repeated(200'000, entry) + "}")},
          {"metadata", framed("{\"__metadata__\":{" +
                              repeated(500'000, [](int i) { return quoted(i) + ":\"\""; }) + "}}")},
          {"shapes", framed("{\"t\":{\"dtype\":\"F32\",\"shape\":[" + repeated(2'000'000, "0") +
                            "],\"data_offsets\":[0,0]}}")},
          {"nesting", framed(std::string(2'000'000, '['))}};
}

HostileFile largest_header(uint64_t& data_bytes) {
  constexpr uint64_t kStep = 7919, kNameStep = 104729;  // primes: each visits all numbers
  constexpr size_t kEntryBytes = kMaxHeaderBytes / kMaxTensors;
  std::string json = "{";
  for (uint64_t i = 0; i < kMaxTensors; ++i) {
    const uint64_t at = i * kStep % kMaxTensors;
    const std::string rest = R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                             std::to_string(at) + "," + std::to_string(at + 1) + "]}" +
                             (i + 1 < kMaxTensors ? "," : "}");
    std::string name = std::to_string(i * kNameStep % kMaxTensors);
    json += '"';
    name.insert(0, kEntryBytes * (i + 1) - json.size() - rest.size() - name.size(), 'n');
    json += name + rest;
  }
  data_bytes = kMaxTensors;
  return {"the largest", framed(json)};
}

}  // namespace plait::checkpoint
