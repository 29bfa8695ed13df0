#include "engine/checkpoint/safetensors.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/base/checked.hpp"
#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/text.hpp"

namespace plait::checkpoint {

namespace {

// The start of the file up to the end of its header, or only as much as is needed to report a bad
// header.
std::string read_head(const InputFile& file) {
  std::string head(static_cast<size_t>(std::min<uint64_t>(8, file.size())), '\0');
  file.read_at(0, head.data(), head.size());
  if (head.size() < 8) return head;
  uint64_t size = 0;
  for (size_t i = 8; i-- > 0;) size = size << 8 | static_cast<unsigned char>(head[i]);
  if (size > kMaxHeaderBytes || size > file.size() - 8) return head;
  head.resize(static_cast<size_t>(8 + size));
  file.read_at(8, head.data() + 8, static_cast<size_t>(size));
  return head;
}

}  // namespace

SafetensorsFile::SafetensorsFile(FileSystem& files, const std::string& path)
    : path_(path),
      file_(files.open_input(path)),
      head_(with_memory("safetensors", "read the header of", path, file_->size(),
                        [&] { return read_head(*file_); })),
      header_(with_memory("safetensors", "parse the header of", path, head_.size(),
                          [&] { return parse_safetensors(head_, file_->size(), path); })) {}

void SafetensorsFile::read(const TensorEntry& entry, uint64_t from, void* out, size_t size) const {
  try {
    file_->read_at(header_.data_start + entry.begin + from, out, size);
  } catch (const Error& e) {
    fail(e.code(),
         "[safetensors] tensor '" + printable(entry.name) + "' cannot be read: " + e.text());
  }
}

namespace {

// JSON text as the reference writes it. Refuses invalid UTF-8, which could not be read back.
std::string quoted(const std::string& text, const char* what) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail_invalid(std::string("[safetensors] the ") + what + " '" + printable(text) +
                 "' is not UTF-8 text");
  }
}

uint64_t source_bytes(const TensorSource& t) {
  const auto wrong = [&t](const std::string& what) {
    fail_invalid("[safetensors] tensor '" + printable(t.name) + "' " + what);
  };
  if (dtype_order(t.dtype) < 0) wrong(strf("has the unknown element type %u", t.dtype));
  if (t.name.size() > kMaxNameBytes)
    wrong(strf("has a name of %zu bytes, expected at most %zu", t.name.size(), kMaxNameBytes));
  if (t.name == "__metadata__") wrong("has a name that the format reserves");
  if (t.shape.size() > kMaxFileRank)
    wrong(strf("has %zu dimensions, expected at most %zu", t.shape.size(), kMaxFileRank));
  uint64_t bytes = dtype_bytes(t.dtype);
  for (const int64_t extent : t.shape) {
    if (extent < 0) wrong(strf("has the negative extent %lld", static_cast<long long>(extent)));
    bytes = checked_mul(bytes, static_cast<uint64_t>(extent),
                        "[safetensors] bytes of tensor '" + printable(t.name) + "'");
  }
  if (bytes > 0 && !t.data && !t.load && !t.next) wrong("has no data");
  return bytes;
}

// Largest alignment first, then by name.
std::vector<size_t> file_order(std::span<const TensorSource> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&tensors](size_t a, size_t b) {
    const int ra = dtype_order(tensors[a].dtype), rb = dtype_order(tensors[b].dtype);
    return ra != rb ? ra > rb : tensors[a].name < tensors[b].name;
  });
  return order;
}

void check_names(std::span<const TensorSource> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorSource& t : tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    fail_invalid("[safetensors] tensor '" + printable(*twice) + "' is given twice");
}

std::string header_of(std::span<const TensorSource> tensors, const std::vector<size_t>& order,
                      const std::vector<uint64_t>& sizes,
                      const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (json.back() != '{') json += ',';
      json += quoted(key, "metadata key") + ":" + quoted(value, "metadata text");
    }
    json += "}";
  }
  uint64_t at = 0;
  for (const size_t i : order) {
    const TensorSource& t = tensors[i];
    if (json.size() > 1) json += ',';
    json +=
        quoted(t.name, "tensor name") + ":{\"dtype\":\"" + dtype_name(t.dtype) + "\",\"shape\":[";
    for (size_t d = 0; d < t.shape.size(); ++d) json += (d ? "," : "") + std::to_string(t.shape[d]);
    const uint64_t end = checked_add(at, sizes[i], "[safetensors] bytes of the file");
    json += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kMaxHeaderBytes)
    fail_invalid(
        strf("[safetensors] the header needs %zu bytes, expected at most %llu; write fewer tensors "
             "per file",
             json.size(), static_cast<unsigned long long>(kMaxHeaderBytes)));
  std::string head(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    head[i] = static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * i) & 0xFF);
  return head + json;
}

// Visits the bytes of a tensor piece by piece, so that they are still in the cache when the system
// copies what was just hashed.
template <class Visit>
void each_source_piece(const TensorSource& t, uint64_t size, const Visit& visit) {
  constexpr uint64_t kPiece = 1u << 20;
  if (t.next) {
    uint64_t left = size;
    for (auto piece = t.next(); !piece.empty(); piece = t.next()) {
      if (piece.size() > left) break;
      visit(piece.data(), piece.size());
      left -= piece.size();
    }
    if (left != 0)
      fail_internal("[safetensors] the pieces of tensor '" + printable(t.name) + "' are not " +
                    std::to_string(size) + " bytes");
    return;
  }
  const auto* data = static_cast<const std::byte*>(t.load ? t.load() : t.data);
  for (uint64_t at = 0; at < size; at += kPiece)
    visit(data + at, static_cast<size_t>(std::min(kPiece, size - at)));
}

}  // namespace

WrittenFile write_safetensors(FileSystem& files, const std::string& path,
                              std::span<const TensorSource> tensors,
                              const std::map<std::string, std::string>& metadata) {
  if (tensors.size() > kMaxTensors)
    fail_invalid(strf("[safetensors] %zu tensors, expected at most %zu in a file", tensors.size(),
                      kMaxTensors));
  check_names(tensors);
  std::vector<uint64_t> sizes;
  for (const TensorSource& t : tensors) sizes.push_back(source_bytes(t));
  const std::vector<size_t> order = file_order(tensors);
  const std::string head = header_of(tensors, order, sizes, metadata);

  WrittenFile written;
  written.size = head.size();
  written.tensors.resize(tensors.size());
  Hasher whole;
  const auto file = files.open(path, OpenMode::kCreate);
  whole.update(head);
  file->write(head);
  for (const size_t i : order) {
    Hasher one;
    each_source_piece(tensors[i], sizes[i], [&](const std::byte* piece, size_t n) {
      one.update(piece, n);
      whole.update(piece, n);
      file->write(piece, n);
    });
    written.tensors[i] = one.digest128();
    written.size += sizes[i];
  }
  written.hash = whole.digest128();
  file->sync();
  file->close();
  return written;
}

}  // namespace plait::checkpoint
