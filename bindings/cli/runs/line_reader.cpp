#include "bindings/cli/runs/line_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace plait::cli {
namespace {

constexpr size_t kBlock = 1 << 18;
constexpr size_t kMark = 256;         // has the time of a line in it
constexpr size_t kLongest = 1 << 20;  // of a line; the engine's have 16 KiB

// A regular file that is open for reading.
class OpenFile {
 public:
  // Without O_NONBLOCK a pipe would wait for its writer.
  explicit OpenFile(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ >= 0 && (fstat(file_, &info_) != 0 || !S_ISREG(info_.st_mode))) {
      close(file_);
      file_ = -1;
    }
  }
  ~OpenFile() {
    if (file_ >= 0) close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  explicit operator bool() const { return file_ >= 0; }
  int get() const { return file_; }
  const struct stat& info() const { return info_; }

 private:
  int file_;
  struct stat info_ = {};
};

std::string read_at(int file, int64_t offset, size_t size) {
  std::string text(size, '\0');
  const ssize_t n = pread(file, text.data(), size, offset);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

// How much to ask for: of a small file no more than it has, and somewhat, in case it has grown.
size_t left_in(const struct stat& file, int64_t offset) {
  constexpr int64_t kGrown = 4096;
  const int64_t left = std::max<int64_t>(0, file.st_size - offset) + kGrown;
  return std::min(kBlock, static_cast<size_t>(left));
}

bool unchanged(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

bool LineReader::is_same(int file, const struct stat& now) const {
  if (now.st_dev != seen_.st_dev || now.st_ino != seen_.st_ino || now.st_size < offset_)
    return false;
  return read_at(file, offset_ - static_cast<int64_t>(mark_.size()), mark_.size()) == mark_;
}

void LineReader::begin(const struct stat& now) {
  offset_ = tail_ < 0 ? 0 : std::max<int64_t>(0, now.st_size - tail_);
  mark_.clear();
  pending_.clear();
  skips_ = offset_ > 0;  // it begins in the middle of a line
}

void LineReader::take(std::string_view block, const Sink& sink) {
  const size_t kept = std::min(block.size(), kMark);
  mark_ += block.substr(block.size() - kept);
  if (mark_.size() > kMark) mark_.erase(0, mark_.size() - kMark);
  for (size_t at = 0; at < block.size();) {
    const size_t end = block.find('\n', at);
    const std::string_view part = block.substr(at, end == block.npos ? block.npos : end - at);
    if (!skips_) pending_ += part;
    if (pending_.size() > kLongest) skips_ = true;
    if (skips_) pending_.clear();
    if (end == block.npos) break;
    if (!pending_.empty()) sink.line(pending_);
    pending_.clear();
    skips_ = false;
    at = end + 1;
  }
}

bool LineReader::read(const Sink& sink, size_t most) {
  struct stat now = {};
  if (stat(path_.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) return false;
  if (offset_ >= 0 && unchanged(now, seen_)) return false;
  const OpenFile file(path_);
  if (!file) return false;
  if (offset_ < 0 || !is_same(file.get(), file.info())) {
    if (offset_ >= 0) sink.restarted();
    begin(file.info());
  }
  for (size_t n = 0; n < most;) {
    const std::string block = read_at(file.get(), offset_, left_in(file.info(), offset_));
    if (block.empty()) {
      seen_ = file.info();
      // A line that was written by hand may have no newline.
      if (!pending_.empty() && pending_.back() == '}' && sink.line(pending_)) pending_.clear();
      return false;
    }
    offset_ += static_cast<int64_t>(block.size());
    n += block.size();
    take(block, sink);
  }
  seen_ = file.info();
  seen_.st_mtim = {};  // not at the end
  return true;
}

std::string last_line_with(const std::string& path, std::string_view text, size_t most) {
  const OpenFile file(path);
  if (!file) return "";
  const auto size = static_cast<size_t>(file.info().st_size);
  for (size_t tail = std::min(kBlock, most);; tail = std::min(8 * tail, most)) {
    const size_t from = size - std::min(size, tail);
    const std::string all = read_at(file.get(), static_cast<int64_t>(from), size - from);
    if (const size_t at = all.rfind(text); at != std::string::npos) {
      const size_t before = all.rfind('\n', at), first = before == all.npos ? 0 : before + 1;
      if (before != all.npos || from == 0)
        return all.substr(first, std::min(all.find('\n', at), all.size()) - first);
    }
    if (from == 0 || tail == most) return "";
  }
}

std::string read_small_file(const std::string& path) {
  constexpr int64_t kMost = 1 << 20;
  const OpenFile file(path);
  if (!file || file.info().st_size > kMost) return "";
  return read_at(file.get(), 0, static_cast<size_t>(file.info().st_size));
}

}  // namespace plait::cli
