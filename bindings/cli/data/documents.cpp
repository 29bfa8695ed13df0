#include "bindings/cli/data/documents.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

constexpr size_t kBlock = 1 << 20;
constexpr size_t kLongestLine = size_t{1} << 30;

bool has_lines(const std::string& file) {
  const fs::path path = file;
  return path.extension() == ".jsonl" ||
         (path.extension() == ".gz" && path.stem().extension() == ".jsonl");
}

}  // namespace

DocumentReader::DocumentReader(std::vector<std::string> files, std::string field)
    : files_(std::move(files)), field_(std::move(field)) {
  for (const std::string& one : files_) {
    std::error_code error;
    if (fs::is_directory(one, error))
      throw CliError(kUsage, "[data] '" + one + "' is a folder; name the files in it");
    // A pipe has no size.
    sizes_.push_back(
        fs::exists(one, error) && !fs::is_regular_file(one, error) ? 0 : fs::file_size(one, error));
    if (error) throw CliError(kUsage, "[data] cannot read '" + one + "': " + error.message());
    total_ += sizes_.back();
  }
}

uint64_t DocumentReader::bytes_read() const {
  const auto here = open_ ? gzoffset(open_.get()) : 0;
  return before_ + (here > 0 ? static_cast<uint64_t>(here) : 0);
}

void DocumentReader::open() {
  errno = 0;
  open_.reset(gzopen(file().c_str(), "rb"));
  if (!open_)
    throw CliError(kUsage, "[data] cannot read '" + file() + "': " + std::strerror(errno));
  gzbuffer(open_.get(), 1 << 17);
  by_lines_ = has_lines(file());
  line_ = taken_ = 0;
  buffer_.clear();
  buffer_at_ = 0;
}

void DocumentReader::close() {
  open_.reset();
  before_ += sizes_[at_++];
}

// Appends a block to the buffer; 0 at the end of the file.
size_t DocumentReader::fill() {
  const size_t before = buffer_.size();
  buffer_.resize(before + kBlock);
  const int n = gzread(open_.get(), buffer_.data() + before, kBlock);
  int code = Z_OK;
  const char* reason = gzerror(open_.get(), &code);
  // A gzip file that was cut off is noticed behind its last byte.
  if (n < 0 || (n == 0 && code != Z_OK && code != Z_STREAM_END))
    throw CliError(kEnvironment, "[data] '" + file() + "' cannot be read to its end: " +
                                     (code == Z_ERRNO ? std::strerror(errno) : reason));
  buffer_.resize(before + static_cast<size_t>(n));
  return static_cast<size_t>(n);
}

void DocumentReader::read_rest(std::string& to) {
  while (fill() > 0) {
  }
  to = std::move(buffer_);
  buffer_.clear();
}

// The next line without its end; false behind the last one.
bool DocumentReader::read_line(std::string& to) {
  for (size_t seen = buffer_at_;;) {
    const size_t end = buffer_.find('\n', seen);
    if (end != std::string::npos) {
      to.assign(buffer_, buffer_at_, end - buffer_at_);
      taken_ += end + 1 - buffer_at_;
      buffer_at_ = end + 1;
      return true;
    }
    if (buffer_.size() - buffer_at_ > kLongestLine)
      throw CliError(kUsage, "[data] '" + file() + "' line " + std::to_string(line_ + 1) +
                                 " is longer than 1 GiB; is it JSON Lines?");
    buffer_.erase(0, buffer_at_);
    buffer_at_ = 0;
    seen = buffer_.size();
    if (fill() > 0) continue;
    to = std::move(buffer_);
    taken_ += to.size();
    buffer_.clear();
    return !to.empty();
  }
}

std::string DocumentReader::text_of(const std::string& line) const {
  const std::string at = "[data] '" + file() + "' line " + std::to_string(line_);
  Json json;
  try {
    json = Json::parse(line);
  } catch (const nlohmann::json::exception& e) {
    throw CliError(kUsage, at + " is not JSON: " + e.what());
  }
  if (!json.is_object())
    throw CliError(kUsage, at + " is " + json.type_name() + ", expected an object {\"" + field_ +
                               "\": \"...\"}");
  const auto found = json.find(field_);
  if (found == json.end()) {
    std::string keys;
    for (const auto& [key, value] : json.items()) keys += (keys.empty() ? "" : ", ") + key;
    throw CliError(
        kUsage, at + " has no '" + field_ + "'; there are: " + keys + "; choose one with --field");
  }
  if (!found->is_string())
    throw CliError(kUsage,
                   at + ": '" + field_ + "' is " + found->type_name() + ", expected a text");
  return found->get<std::string>();
}

DocumentPlace DocumentReader::place() const {
  if (!open_) return {at_, 0, 0};
  if (!by_lines_) return {at_ + 1, 0, 0};
  return {at_, taken_, line_};
}

bool DocumentReader::seek(const DocumentPlace& to) {
  if (to.file > files_.size()) return false;
  while (at_ < to.file) before_ += sizes_[at_++];
  if (to.byte == 0) return true;
  if (at_ == files_.size()) return false;
  open();
  if (!by_lines_ || gzseek(open_.get(), static_cast<z_off_t>(to.byte), SEEK_SET) < 0) return false;
  taken_ = to.byte;
  line_ = to.line;
  return true;
}

bool DocumentReader::next(Document& to) {
  for (; at_ < files_.size(); close()) {
    if (!open_) {
      open();
      if (!by_lines_) {
        read_rest(to.text);
        to.place = file();
        return true;
      }
    }
    if (!by_lines_) continue;
    for (std::string line; read_line(line);) {
      ++line_;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      to.text = text_of(line);
      to.place = file() + ":" + std::to_string(line_);
      return true;
    }
  }
  return false;
}

}  // namespace plait::cli
