#include "plugins/support/safetensors.hpp"

#include <plait/tensor.h>

#include <algorithm>
#include <utility>

#include "plugins/support/safetensors_json.hpp"

namespace plait::support {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxEntries = 1'000'000, kMaxName = 4096, kMaxRank = 16;
constexpr size_t kMaxMetadata = kMaxHeader;

struct Type {
  std::string_view name;
  uint32_t bits;
  uint32_t dtype;  // 0: Plait has no such type
};
constexpr Type kTypes[] = {
    {"BOOL", 8, PLAIT_BOOL}, {"F4", 4, 0},           {"F6_E2M3", 6, 0},
    {"F6_E3M2", 6, 0},       {"U8", 8, PLAIT_U8},    {"I8", 8, 0},
    {"F8_E5M2", 8, 0},       {"F8_E4M3", 8, 0},      {"F8_E8M0", 8, 0},
    {"F8_E4M3FNUZ", 8, 0},   {"F8_E5M2FNUZ", 8, 0},  {"I16", 16, 0},
    {"U16", 16, 0},          {"F16", 16, PLAIT_F16}, {"BF16", 16, PLAIT_BF16},
    {"I32", 32, PLAIT_I32},  {"U32", 32, 0},         {"F32", 32, PLAIT_F32},
    {"C64", 64, 0},          {"F64", 64, PLAIT_F64}, {"I64", 64, PLAIT_I64},
    {"U64", 64, 0},
};

const Type* find_type(std::string_view name) {
  for (const Type& t : kTypes)
    if (t.name == name) return &t;
  return nullptr;
}

// Size of the entry in bytes, from its shape; a whole number that fits 64 bits.
uint64_t size_of(const JsonCursor& json, const SafetensorsEntry& e) {
  const Type* type = find_type(e.dtype);
  if (!type) json.bad("tensor '" + e.name + "' has the unknown dtype '" + e.dtype + "'");
  uint64_t bits = type->bits;
  for (const int64_t d : e.shape)
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(d), &bits))
      json.bad("the shape of tensor '" + e.name + "' multiplies to more than 2^64 bits");
  if (bits % 8) json.bad("tensor '" + e.name + "' does not end at a whole byte");
  return bits / 8;
}

SafetensorsEntry read_entry(JsonCursor& json, std::string name) {
  SafetensorsEntry e;
  e.name = std::move(name);
  bool seen[3] = {};
  json.each('{', '}', [&] {
    const std::string key = json.text(kMaxName);
    const int which = key == "dtype" ? 0 : key == "shape" ? 1 : key == "data_offsets" ? 2 : -1;
    if (which < 0)
      json.bad("tensor '" + e.name + "': unknown key '" + key +
               "', expected dtype, shape, data_offsets");
    if (std::exchange(seen[which], true))
      json.bad("tensor '" + e.name + "': key '" + key + "' occurs twice");
    json.expect(':');
    if (which == 0) {
      e.dtype = json.text(kMaxName);
    } else if (which == 1) {
      json.each('[', ']', [&] {
        const uint64_t extent = json.whole_number();
        if (extent > INT64_MAX) json.bad("tensor '" + e.name + "': an extent of more than 2^63");
        if (e.shape.size() == kMaxRank) json.bad("tensor '" + e.name + "': more than 16 axes");
        e.shape.push_back(static_cast<int64_t>(extent));
      });
    } else {
      json.expect('[');
      e.begin = json.whole_number();
      json.expect(',');
      e.end = json.whole_number();
      json.expect(']');
    }
  });
  if (!seen[0] || !seen[1] || !seen[2])
    json.bad("tensor '" + e.name + "' lacks one of dtype, shape, data_offsets");
  const uint64_t size = size_of(json, e);
  if (e.end < e.begin || e.end - e.begin != size)
    json.bad("tensor '" + e.name + "': data_offsets [" + std::to_string(e.begin) + ", " +
             std::to_string(e.end) + "], expected " + std::to_string(size) +
             " bytes as dtype and shape say");
  return e;
}

void read_metadata(JsonCursor& json) {
  std::vector<std::string> keys;
  json.each('{', '}', [&] {
    keys.push_back(json.text(kMaxName));
    json.expect(':');
    json.text(kMaxMetadata);
  });
  std::sort(keys.begin(), keys.end());
  if (std::adjacent_find(keys.begin(), keys.end()) != keys.end())
    json.bad("__metadata__ has a key twice");
}

std::vector<SafetensorsEntry> read_entries(JsonCursor& json) {
  std::vector<SafetensorsEntry> entries;
  bool metadata = false;
  json.each('{', '}', [&] {
    std::string name = json.text(kMaxName);
    json.expect(':');
    if (name == "__metadata__") {
      if (std::exchange(metadata, true)) json.bad("__metadata__ occurs twice");
      read_metadata(json);
      return;
    }
    if (entries.size() == kMaxEntries) json.bad("more than 1000000 tensors");
    entries.push_back(read_entry(json, std::move(name)));
  });
  if (!json.at_end()) json.bad("text after the header's closing brace");
  return entries;
}

void check_names(const JsonCursor& json, const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string_view> names;
  for (const auto& e : entries) names.push_back(e.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) json.bad("two tensors are called '" + std::string(*twice) + "'");
}

}  // namespace

uint32_t safetensors_dtype(std::string_view name) {
  const Type* type = find_type(name);
  return type ? type->dtype : 0;
}

std::vector<SafetensorsEntry> read_safetensors(const std::string& where,
                                               std::span<const uint8_t> file) {
  const auto bad = [&](uint64_t offset, const std::string& text) {
    fail(PLAIT_ERR_DATA, where + ", offset " + std::to_string(offset) + ": " + text);
  };
  if (file.size() < 8)
    bad(0, std::to_string(file.size()) + " bytes, expected at least the 8 of the header's size");
  uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = n << 8 | file[static_cast<size_t>(i)];
  if (n <= kMaxHeader && n > file.size() - 8 && (file.size() == 8 || file[8] == '{'))
    bad(file.size(), "the file ends here, within its header of " + std::to_string(n) +
                         " bytes: it is truncated; get it again");
  if (n > kMaxHeader || n > file.size() - 8)
    bad(0, "the header's size is " + std::to_string(n) + ", expected at most the " +
               std::to_string(file.size() - 8) +
               " bytes that follow and 100000000; is this a safetensors file?");
  if (n == 0 || file[8] != '{') bad(8, "the header does not begin with '{'");

  JsonCursor json(where, {reinterpret_cast<const char*>(file.data()) + 8, static_cast<size_t>(n)},
                  8);
  std::vector<SafetensorsEntry> entries = read_entries(json);
  check_names(json, entries);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const uint64_t start = 8 + n, size = file.size() - start;
  uint64_t at = 0;
  for (SafetensorsEntry& e : entries) {
    if (e.begin != at)
      bad(start + at, "tensor '" + e.name + "' begins at " + std::to_string(e.begin) +
                          " of the data, expected " + std::to_string(at) +
                          ": tensors may neither overlap nor leave gaps");
    at = e.end;
    if (at > size) break;
    e.begin += start;
    e.end += start;
  }
  if (at != size)
    bad(start,
        "the tensors end at " + std::to_string(at) + " of the data, the file at " +
            std::to_string(size) +
            (at > size ? "; it is truncated: get it again" : "; it is damaged: get it again"));
  return entries;
}

}  // namespace plait::support
