#include "bindings/cli/data/token_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

size_t bytes_of(uint8_t type) {
  return type == 1 ? 1 : type == 8 ? 2 : type == 4 ? 4 : type == 5 ? 8 : 0;
}

std::string stem_of(const std::string& path) {
  for (const std::string_view extension : {".bin", ".idx"})
    if (path.ends_with(extension)) return path.substr(0, path.size() - extension.size());
  return path;
}

}  // namespace

TokenFileReader::TokenFileReader(const std::string& path) : stem_(stem_of(path)) {
  bin_.reset(std::fopen((stem_ + ".bin").c_str(), "rbe"));
  std::error_code error;
  bin_bytes_ = std::filesystem::file_size(stem_ + ".bin", error);
  if (!bin_ || error)
    throw CliError(kUsage, "[data] cannot read '" + stem_ +
                               ".bin': " + (error ? error.message() : std::strerror(errno)));
  read_index();
}

void TokenFileReader::bad(const std::string& what) const {
  throw CliError(
      kUsage, "[data] '" + stem_ + ".idx' " + what + "; `plait data tokenize` makes such a file");
}

const char* TokenFileReader::dtype() const {
  return type_ == 1 ? "u8" : type_ == 8 ? "u16" : type_ == 4 ? "i32" : "i64";
}

void TokenFileReader::read_index() {
  std::ifstream file(stem_ + ".idx", std::ios::binary);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(stem_ + ".idx", error);
  if (!file || error) bad("cannot be read: " + (error ? error.message() : std::strerror(errno)));
  const auto get = [&](void* to, uint64_t bytes) {
    if (!file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) bad("was cut off");
  };
  char magic[9];
  uint64_t version = 0, n = 0, starts = 0;
  get(magic, sizeof magic);
  get(&version, sizeof version);
  if (std::memcmp(magic, "MMIDIDX\0\0", sizeof magic) != 0 || version != 1)
    bad("is no index of token ids of version 1");
  get(&type_, 1);
  if (bytes_of(type_) == 0) bad("has the element type " + std::to_string(type_));
  get(&n, sizeof n);
  get(&starts, sizeof starts);
  if (starts < 1 || n > size / 12 || starts > size / 8 || 12 * n + 8 * starts + 34 > size)
    bad("has " + std::to_string(n) + " sequences and " + std::to_string(starts) +
        " document starts, which do not fit into its " + std::to_string(size) + " bytes");
  lengths_.resize(n);
  offsets_.resize(n);
  starts_.resize(starts);
  get(lengths_.data(), n * sizeof lengths_[0]);
  get(offsets_.data(), n * sizeof offsets_[0]);
  get(starts_.data(), starts * sizeof starts_[0]);
  if (starts_.front() != 0 || starts_.back() != static_cast<int64_t>(n) ||
      !std::is_sorted(starts_.begin(), starts_.end()))
    bad("has document starts that do not ascend from 0 to " + std::to_string(n));
  for (uint64_t s = 0; s < n; ++s) {
    const uint64_t bytes = static_cast<uint64_t>(std::max(lengths_[s], 0)) * bytes_of(type_);
    if (lengths_[s] < 0 || offsets_[s] < 0 || static_cast<uint64_t>(offsets_[s]) > bin_bytes_ ||
        bytes > bin_bytes_ - static_cast<uint64_t>(offsets_[s]))
      bad("has a sequence " + std::to_string(s) + " that is not inside the .bin file");
    tokens_ += static_cast<uint64_t>(lengths_[s]);
  }
}

std::vector<int64_t> TokenFileReader::read(uint64_t i, uint64_t most, uint64_t& all) const {
  std::vector<int64_t> ids;
  all = 0;
  for (auto s = static_cast<size_t>(starts_[i]); s < static_cast<size_t>(starts_[i + 1]); ++s) {
    const auto n = static_cast<uint64_t>(lengths_[s]);
    all += n;
    const uint64_t wanted = std::min<uint64_t>(n, most - ids.size());
    if (std::fseek(bin_.get(), static_cast<long>(offsets_[s]), SEEK_SET) != 0) bad("was changed");
    for (uint64_t k = 0; k < wanted; ++k) {
      int64_t id = 0;
      if (std::fread(&id, bytes_of(type_), 1, bin_.get()) != 1)
        throw CliError(kEnvironment, "[data] '" + stem_ + ".bin' was cut off");
      ids.push_back(type_ == 4 ? static_cast<int32_t>(id) : id);
    }
  }
  return ids;
}

}  // namespace plait::cli
