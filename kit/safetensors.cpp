#include "kit/safetensors.hpp"

#include <plait/tensor.h>

#include <algorithm>
#include <array>
#include <utility>

namespace plait::kit {
namespace {

constexpr SafetensorsType kTypes[] = {
    {"BOOL", 8, PLAIT_BOOL}, {"F4", 4, 0},           {"F6_E2M3", 6, 0},
    {"F6_E3M2", 6, 0},       {"U8", 8, PLAIT_U8},    {"I8", 8, 0},
    {"F8_E5M2", 8, 0},       {"F8_E4M3", 8, 0},      {"F8_E8M0", 8, 0},
    {"F8_E4M3FNUZ", 8, 0},   {"F8_E5M2FNUZ", 8, 0},  {"I16", 16, 0},
    {"U16", 16, 0},          {"F16", 16, PLAIT_F16}, {"BF16", 16, PLAIT_BF16},
    {"I32", 32, PLAIT_I32},  {"U32", 32, 0},         {"F32", 32, PLAIT_F32},
    {"C64", 64, 0},          {"F64", 64, PLAIT_F64}, {"I64", 64, PLAIT_I64},
    {"U64", 64, 0},
};

// Size of the entry in bytes, from its shape; a whole number that fits 64 bits.
uint64_t size_of(const JsonCursor& json, const SafetensorsEntry& e) {
  const SafetensorsType* type = safetensors_type(e.dtype);
  if (!type)
    json.bad("tensor '" + printable(e.name) + "' has the unknown dtype '" +
             printable(e.dtype.substr(0, 32)) + "'");
  uint64_t bits = type->bits;
  for (const int64_t d : e.shape)
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(d), &bits))
      json.bad("the shape of tensor '" + printable(e.name) + "' multiplies to more than 2^64 bits");
  if (bits % 8) json.bad("tensor '" + printable(e.name) + "' does not end at a whole byte");
  return bits / 8;
}

constexpr std::string_view kSubjects[] = {"dtype of tensor '", "shape of tensor '",
                                          "data_offsets of tensor '"};

SafetensorsEntry read_entry(JsonCursor& json, std::string name) {
  SafetensorsEntry e;
  e.name = std::move(name);
  json.set_subject("tensor '", e.name, "'");
  bool seen[3] = {};
  json.each('{', '}', [&] {
    const std::string key = json.text(kMaxNameBytes);
    const int which = key == "dtype" ? 0 : key == "shape" ? 1 : key == "data_offsets" ? 2 : -1;
    if (which < 0)
      json.bad("tensor '" + printable(e.name) + "': unknown key '" + printable(key) +
               "', expected dtype, shape, data_offsets");
    if (std::exchange(seen[which], true))
      json.bad("tensor '" + printable(e.name) + "': key '" + key + "' occurs twice");
    json.set_subject(kSubjects[which], e.name, "'");
    json.expect(':');
    if (which == 0) {
      e.dtype = json.text(kMaxNameBytes);
    } else if (which == 1) {
      json.each('[', ']', [&] {
        const uint64_t extent = json.whole_number();
        if (extent > INT64_MAX)
          json.bad("tensor '" + printable(e.name) + "': an extent of more than 2^63");
        if (e.shape.size() == kMaxFileRank)
          json.bad("tensor '" + printable(e.name) + "': more than 16 axes");
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
  for (const int i : {0, 1, 2})
    if (!seen[i])
      json.bad("tensor '" + printable(e.name) + "' lacks " +
               std::array{"dtype", "shape", "data_offsets"}[static_cast<size_t>(i)]);
  const uint64_t size = size_of(json, e);
  if (e.end < e.begin || e.end - e.begin != size)
    json.bad("tensor '" + printable(e.name) + "': data_offsets [" + std::to_string(e.begin) + ", " +
             std::to_string(e.end) + "], expected " + std::to_string(size) +
             " bytes as dtype and shape say");
  return e;
}

void read_metadata(JsonCursor& json, SafetensorsHeader& header) {
  json.set_subject("__metadata__", "", "");
  json.each('{', '}', [&] {
    std::string key = json.text(kMaxNameBytes);
    json.set_subject("key '", key, "' of __metadata__");
    json.expect(':');
    header.metadata.emplace_back(std::move(key), json.text(kMaxHeaderBytes));
  });
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : header.metadata) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  if (std::adjacent_find(keys.begin(), keys.end()) != keys.end())
    json.bad("__metadata__ has a key twice");
}

void read_entries(JsonCursor& json, SafetensorsHeader& header) {
  std::vector<SafetensorsEntry>& entries = header.entries;
  bool metadata = false;
  json.each('{', '}', [&] {
    json.set_subject("the header", "", "");
    std::string name = json.text(kMaxNameBytes);
    json.expect(':');
    if (name == "__metadata__") {
      if (std::exchange(metadata, true)) json.bad("__metadata__ occurs twice");
      read_metadata(json, header);
      return;
    }
    if (entries.size() == kMaxTensors) json.bad("more than 1000000 tensors");
    entries.push_back(read_entry(json, std::move(name)));
  });
  if (!json.at_end()) json.bad("text after the header's closing brace");
}

// Indices of the entries, by name. Names are compared far more often than they are read, so they
// stand beside the indices while they are sorted.
std::vector<uint32_t> sorted_by_name(const JsonCursor& json,
                                     const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::pair<std::string_view, uint32_t>> names;
  names.reserve(entries.size());
  for (uint32_t i = 0; i < entries.size(); ++i) names.emplace_back(entries[i].name, i);
  std::sort(names.begin(), names.end());
  std::vector<uint32_t> order;
  order.reserve(names.size());
  for (const auto& [name, i] : names) {
    if (!order.empty() && entries[order.back()].name == name)
      json.bad("two tensors are called '" + printable(name) + "'");
    order.push_back(i);
  }
  return order;
}

}  // namespace

std::span<const SafetensorsType> safetensors_types() { return kTypes; }

const SafetensorsType* safetensors_type(std::string_view name) {
  for (const SafetensorsType& t : kTypes)
    if (t.name == name) return &t;
  return nullptr;
}

namespace {

[[noreturn]] void bad(const std::string& where, uint64_t offset, const std::string& text) {
  throw Damaged(where + ", offset " + std::to_string(offset) + ": " + text);
}

// What files of weights of other libraries begin with; "" for others.
std::string other_format(std::string_view bytes, uint64_t size) {
  const bool zip = bytes.starts_with("PK\x03\x04");
  // A header of some sizes has these two bytes, too; what follows its size is a brace.
  const bool header = size <= kMaxHeaderBytes && (bytes.size() == 8 || bytes[8] == '{');
  const bool pickle = bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 && !header;
  if (!zip && !pickle) return "";
  return std::string("this is no safetensors file, but a ") +
         (zip ? "zip, as torch.save and numpy.savez write"
              : "pickle, as old torch.save and joblib write") +
         "; convert tensors of PyTorch: safetensors.torch.save_file(torch.load(\"IN\", "
         "weights_only=True), \"OUT.safetensors\")";
}

// The JSON text of the header, after the checks that need no parser.
std::string_view header_text(std::string_view bytes, uint64_t file_size, const std::string& where) {
  if (file_size < 8 || bytes.size() < 8)
    bad(where, 0,
        std::to_string(file_size) + " bytes, expected at least the 8 of the header's size");
  uint64_t n = 0;
  for (size_t i = 8; i-- > 0;) n = n << 8 | static_cast<uint8_t>(bytes[i]);
  const uint64_t left = file_size - 8;
  if (const std::string other = other_format(bytes, n); n > left && !other.empty())
    bad(where, 0, other);
  if (n <= kMaxHeaderBytes && n > left && (bytes.size() == 8 || bytes[8] == '{'))
    bad(where, file_size,
        "the file ends here, within its header of " + std::to_string(n) +
            " bytes: it is truncated; get it again");
  if (n > kMaxHeaderBytes || n > left || n > bytes.size() - 8)
    bad(where, 0,
        "the header's size is " + std::to_string(n) + ", expected at most the " +
            std::to_string(left) + " bytes that follow and 100000000; is this a safetensors file?");
  if (n == 0 || bytes[8] != '{') bad(where, 8, "the header does not begin with '{'");
  return bytes.substr(8, static_cast<size_t>(n));
}

// Sorted by offset, the tensors must cover the data: no gap, no overlap, no remainder.
void check_tiling(const SafetensorsHeader& header, uint64_t size, const std::string& where) {
  const uint64_t start = header.data_start;
  uint64_t at = 0;
  for (const SafetensorsEntry& e : header.entries) {
    if (e.begin != at)
      bad(where, start + at,
          "tensor '" + printable(e.name) + "' begins at " + std::to_string(e.begin) +
              " of the data, expected " + std::to_string(at) +
              ": tensors may neither overlap nor leave gaps");
    at = e.end;
    if (at > size) break;
  }
  if (at != size)
    bad(where, start,
        "the tensors end at " + std::to_string(at) + " of the data, the file at " +
            std::to_string(size) +
            (at > size ? "; it is truncated: get it again" : "; it is damaged: get it again"));
}

}  // namespace

SafetensorsHeader read_safetensors_header(std::string_view bytes, uint64_t file_size,
                                          const std::string& where) {
  const std::string_view text = header_text(bytes, file_size, where);
  SafetensorsHeader header;
  header.data_start = 8 + text.size();
  JsonCursor json(where, text, 8);
  read_entries(json, header);
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  header.by_name = sorted_by_name(json, header.entries);
  check_tiling(header, file_size - header.data_start, where);
  return header;
}

}  // namespace plait::kit
