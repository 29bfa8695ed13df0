#include "bindings/cli/data/token_files.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/fetch.hpp"

namespace plait::cli {
namespace {

constexpr const char* kExtensions[] = {".bin", ".json", ".idx"};  // in the order of their placing
constexpr char kMagic[] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr uint8_t kU16 = 8, kI32 = 4;
constexpr int64_t kMostInTwoBytes = 65500;  // Megatron-LM's own limit

}  // namespace

std::vector<std::string> TokenFileWriter::files_of(const std::string& path) {
  std::vector<std::string> files;
  for (const char* extension : kExtensions) files.push_back(path + extension);
  return files;
}

TokenFileWriter::TokenFileWriter(std::string path, int64_t vocabulary)
    : path_(std::move(path)), two_bytes_(vocabulary < kMostInTwoBytes), bin_(create(".bin")) {}

TokenFileWriter::~TokenFileWriter() {
  if (finished_) return;
  std::error_code ignored;
  for (const char* extension : kExtensions) std::filesystem::remove(part(extension), ignored);
}

void TokenFileWriter::fail_write(const char* extension) const {
  throw CliError(kEnvironment,
                 "[data] cannot write '" + part(extension) + "': " + std::strerror(errno));
}

TokenFileWriter::File TokenFileWriter::create(const char* extension) {
  File file(std::fopen(part(extension).c_str(), "wbe"));
  if (!file) fail_write(extension);
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
  tokens_ += ids.size();
  if (!two_bytes_) return write(bin_, ".bin", ids.data(), ids.size_bytes());
  narrow_.assign(ids.begin(), ids.end());
  write(bin_, ".bin", narrow_.data(), narrow_.size() * sizeof narrow_[0]);
}

// Magic, version, element type, number of sequences and of document starts; then per sequence its
// length and its offset in .bin, and the sequence with which each document starts.
void TokenFileWriter::write_index() {
  File idx = create(".idx");
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
  File json = create(".json");
  const std::string text = facts.dump(2) + "\n";
  write(json, ".json", text.data(), text.size());
  close(json, ".json");
  for (const char* extension : kExtensions)
    if (const std::string reason = commit(part(extension), path_ + extension); !reason.empty())
      throw CliError(kEnvironment,
                     "[data] cannot put '" + path_ + extension + "' in place: " + reason);
  finished_ = true;
}

}  // namespace plait::cli
