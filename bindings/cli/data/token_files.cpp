#include "bindings/cli/data/token_files.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/fetch.hpp"

namespace plait::cli {
namespace {

constexpr const char* kExtensions[] = {".bin", ".json", ".idx"};  // in the order of their placing
constexpr char kResume[] = ".resume";
constexpr char kMagic[] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr uint8_t kU16 = 8, kI32 = 4;
constexpr int64_t kMostInTwoBytes = 65500;  // Megatron-LM's own limit

}  // namespace

std::vector<std::string> TokenFileWriter::files_of(const std::string& path) {
  std::vector<std::string> files;
  for (const char* extension : kExtensions) files.push_back(path + extension);
  return files;
}

uint64_t TokenFileWriter::token_bytes(int64_t vocabulary) {
  return vocabulary < kMostInTwoBytes ? 2 : 4;
}

TokenFileWriter::TokenFileWriter(std::string path, int64_t vocabulary, const Json& from)
    : path_(std::move(path)), two_bytes_(token_bytes(vocabulary) == 2) {
  if (!from.is_null()) {
    tokens_ = from.at("tokens").get<uint64_t>();
    lengths_.resize(from.at("documents").get<uint64_t>());
    marked_ = true;
  }
  bin_ = create(".bin", tokens_ * token_bytes(vocabulary));
  len_ = create(".lengths", 0);
  if (from.is_null()) return;
  std::rewind(len_.get());
  if (std::fread(lengths_.data(), sizeof lengths_[0], lengths_.size(), len_.get()) !=
      lengths_.size())
    fail_write(".lengths");
}

TokenFileWriter::~TokenFileWriter() {
  if (finished_ || marked_) return;
  std::error_code ignored;
  for (const char* extension : {".bin", ".json", ".idx", ".lengths"})
    std::filesystem::remove(part(extension), ignored);
}

Json TokenFileWriter::marked(const std::string& path, int64_t vocabulary) {
  constexpr uint64_t kMost = uint64_t{1} << 48;
  std::ifstream file(path + kResume);
  Json state = Json::parse(file, nullptr, false);
  const auto number = [&](const char* key) {
    const bool there = state.is_object() && state.contains(key) && state[key].is_number_unsigned();
    return there ? state[key].get<uint64_t>() : kMost;
  };
  const auto has = [&](const char* extension, uint64_t bytes) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(part_of(path, extension), error);
    return !error && size >= bytes;
  };
  const uint64_t tokens = number("tokens"), documents = number("documents");
  const bool whole = tokens < kMost && documents < kMost &&
                     has(".bin", tokens * token_bytes(vocabulary)) &&
                     has(".lengths", documents * sizeof(int32_t));
  return whole ? state : Json();
}

void TokenFileWriter::mark(Json state) {
  sync(bin_, ".bin");
  sync(len_, ".lengths");
  state["documents"] = documents();
  state["tokens"] = tokens();
  File file = create(kResume, 0);
  const std::string text = state.dump() + "\n";
  write(file, kResume, text.data(), text.size());
  close(file, kResume);
  if (const std::string reason = commit(part(kResume), path_ + kResume); !reason.empty())
    throw CliError(kEnvironment, "[data] cannot write '" + path_ + kResume + "': " + reason);
  marked_ = true;
}

void TokenFileWriter::sync(File& file, const char* extension) {
  if (std::fflush(file.get()) != 0 || fdatasync(fileno(file.get())) != 0) fail_write(extension);
}

void TokenFileWriter::fail_write(const char* extension) const {
  throw CliError(kEnvironment,
                 "[data] cannot write '" + part(extension) + "': " + std::strerror(errno));
}

// keep: bytes of the file that stay; the lengths are read, and stay as far as they count.
TokenFileWriter::File TokenFileWriter::create(const char* extension, uint64_t keep) {
  if (std::string_view(extension) == ".lengths") keep = lengths_.size() * sizeof lengths_[0];
  File file(std::fopen(part(extension).c_str(), keep > 0 ? "r+be" : "w+be"));
  if (!file || ftruncate(fileno(file.get()), static_cast<off_t>(keep)) != 0 ||
      std::fseek(file.get(), 0, SEEK_END) != 0)
    fail_write(extension);
  return file;
}

void TokenFileWriter::write(File& to, const char* extension, const void* data, size_t size) {
  if (size > 0 && std::fwrite(data, 1, size, to.get()) != size) fail_write(extension);
}

void TokenFileWriter::close(File& file, const char* extension) {
  if (std::fclose(file.release()) != 0) fail_write(extension);
}

void TokenFileWriter::add(std::span<const int32_t> ids, const std::string& place) {
  if (ids.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw CliError(kUsage, "[data] " + place + " has " + std::to_string(ids.size()) +
                               " tokens, a document may have 2^31 - 1; divide it");
  lengths_.push_back(static_cast<int32_t>(ids.size()));
  write(len_, ".lengths", &lengths_.back(), sizeof lengths_[0]);
  tokens_ += ids.size();
  if (!two_bytes_) return write(bin_, ".bin", ids.data(), ids.size_bytes());
  narrow_.assign(ids.begin(), ids.end());
  write(bin_, ".bin", narrow_.data(), narrow_.size() * sizeof narrow_[0]);
}

// Magic, version, element type, number of sequences and of document starts; then per sequence its
// length and its offset in .bin, and the sequence with which each document starts.
void TokenFileWriter::write_index() {
  File idx = create(".idx", 0);
  const auto put = [&](const auto& value) { write(idx, ".idx", &value, sizeof value); };
  const uint64_t n = lengths_.size();
  write(idx, ".idx", kMagic, sizeof kMagic);
  put(uint64_t{1});
  put(two_bytes_ ? kU16 : kI32);
  put(n);
  put(n + 1);
  write(idx, ".idx", lengths_.data(), n * sizeof lengths_[0]);
  int64_t offset = 0;
  for (const int32_t length : lengths_) {
    put(offset);
    offset += int64_t{length} * (two_bytes_ ? 2 : 4);
  }
  for (uint64_t i = 0; i <= n; ++i) put(static_cast<int64_t>(i));
  close(idx, ".idx");
}

void TokenFileWriter::finish(const Json& facts) {
  close(bin_, ".bin");
  write_index();
  File json = create(".json", 0);
  const std::string text = facts.dump(2) + "\n";
  write(json, ".json", text.data(), text.size());
  close(json, ".json");
  for (const char* extension : kExtensions)
    if (const std::string reason = commit(part(extension), path_ + extension); !reason.empty())
      throw CliError(kEnvironment,
                     "[data] cannot put '" + path_ + extension + "' in place: " + reason);
  finished_ = true;
  std::error_code ignored;
  std::filesystem::remove(path_ + kResume, ignored);
  std::filesystem::remove(part(".lengths"), ignored);
}

}  // namespace plait::cli
