// The strict header parser: frame, JSON, and consistency of the numbers.
#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/dtypes.hpp"
#include "engine/checkpoint/header_json.hpp"
#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

namespace {

// Number of bytes required by type and shape; false if it overflows or is not a whole number.
bool bytes_needed(const TensorEntry& t, uint64_t* out) {
  uint64_t bits = dtype_info(t.dtype_text)->bits;
  for (const int64_t extent : t.shape)
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits)) return false;
  *out = bits / 8;
  return bits % 8 == 0;
}

// Sorted by offset, the tensors must cover the data: no gap, no overlap, no remainder.
void check_tiling(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& where) {
  uint64_t at = 0;
  for (const TensorEntry& t : header.tensors) {
    const auto wrong = [&](const std::string& what) {
      fail_data("[safetensors] " + where + ": tensor '" + printable(t.name) + "' " + what);
    };
    if (t.begin > t.end)
      wrong(strf("ends at byte %llu before it begins at %llu",
                 static_cast<unsigned long long>(t.end), static_cast<unsigned long long>(t.begin)));
    if (t.begin != at)
      wrong(
          strf("begins at byte %llu of the data, expected %llu: tensors may neither overlap nor "
               "leave gaps",
               static_cast<unsigned long long>(t.begin), static_cast<unsigned long long>(at)));
    uint64_t need = 0;
    if (!bytes_needed(t, &need))
      wrong("has a shape whose size is not a whole number of bytes below 2^61");
    if (need != t.bytes())
      wrong(strf("has %llu bytes of data, expected %llu by its dtype %s and shape",
                 static_cast<unsigned long long>(t.bytes()), static_cast<unsigned long long>(need),
                 t.dtype_text.c_str()));
    at = t.end;
  }
  if (at != data_bytes)
    fail_data(strf(
        "[safetensors] %s: the tensors need %llu bytes of data, found %llu: the file is %s; get "
        "it again",
        where.c_str(), static_cast<unsigned long long>(at),
        static_cast<unsigned long long>(data_bytes), at > data_bytes ? "truncated" : "too long"));
}

void index_names(SafetensorsHeader& header, const std::string& where) {
  header.by_name.resize(header.tensors.size());
  for (uint32_t i = 0; i < header.by_name.size(); ++i) header.by_name[i] = i;
  const auto& t = header.tensors;
  std::sort(header.by_name.begin(), header.by_name.end(),
            [&t](uint32_t a, uint32_t b) { return t[a].name < t[b].name; });
  const auto twice =
      std::adjacent_find(header.by_name.begin(), header.by_name.end(),
                         [&t](uint32_t a, uint32_t b) { return t[a].name == t[b].name; });
  if (twice != header.by_name.end())
    fail_data("[safetensors] " + where + ": tensor '" + printable(t[*twice].name) +
              "' appears twice");
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : header.metadata) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  const auto same = std::adjacent_find(keys.begin(), keys.end());
  if (same != keys.end())
    fail_data("[safetensors] " + where + ": __metadata__ has '" + printable(*same) + "' twice");
}

// The little-endian number at the start of a file of at least 8 bytes.
uint64_t header_bytes(std::string_view bytes) {
  uint64_t size = 0;
  for (size_t i = 8; i-- > 0;) size = size << 8 | static_cast<uint8_t>(bytes[i]);
  return size;
}

// The JSON text of the header, after the checks that do not need a JSON parser.
std::string_view header_text(std::string_view bytes, uint64_t file_size, const std::string& where) {
  const auto bad = [&where](const std::string& what) {
    fail_data("[safetensors] " + where + ": " + what);
  };
  if (file_size < 8 || bytes.size() < 8)
    bad(strf("the file has %llu bytes, expected at least 8",
             static_cast<unsigned long long>(file_size)));
  const uint64_t size = header_bytes(bytes);
  if (size > kMaxHeaderBytes)
    bad(strf("the header claims %llu bytes, expected at most %llu: is this a safetensors file?",
             static_cast<unsigned long long>(size),
             static_cast<unsigned long long>(kMaxHeaderBytes)));
  if (size > file_size - 8 || size > bytes.size() - 8)
    bad(
        strf("the header claims %llu bytes, but the file has only %llu: it is truncated; get it "
             "again",
             static_cast<unsigned long long>(size), static_cast<unsigned long long>(file_size)));
  std::string_view text = bytes.substr(8, static_cast<size_t>(size));
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty() || text.front() != '{') bad("the header does not begin with '{'");
  if (text.back() != '}') bad("the header does not end with '}' and blanks");
  // The JSON library treats NUL as the end of its input.
  if (text.find('\0') != std::string_view::npos) bad("the header holds a NUL byte");
  return text;
}

}  // namespace

SafetensorsHeader parse_safetensors(std::string_view bytes, uint64_t file_size,
                                    const std::string& where) {
  const std::string_view text = header_text(bytes, file_size, where);
  SafetensorsHeader header;
  header.data_start = 8 + header_bytes(bytes);
  read_header_json(text, header, where);
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  check_tiling(header, file_size - header.data_start, where);
  index_names(header, where);
  return header;
}

const TensorEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [this](uint32_t i, std::string_view n) { return tensors[i].name < n; });
  return at != by_name.end() && tensors[*at].name == name ? &tensors[*at] : nullptr;
}

}  // namespace plait::checkpoint
