#include "bindings/cli/launch/line_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace plait::cli {
namespace {

constexpr size_t kLongest = 1 << 16;  // longer lines are split
constexpr int kBlocks = 64;           // per call: one endless writer must not block the others

}  // namespace

LineReader::LineReader(int fd, OnLine on_line) : fd_(fd), on_line_(std::move(on_line)) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool LineReader::read() {
  char block[4096];
  for (int blocks = 0; blocks < kBlocks;) {
    const ssize_t n = ::read(fd_, block, sizeof block);
    if (n > 0)
      add({block, static_cast<size_t>(n)}), ++blocks;
    else if (n == 0)
      return false;
    else if (errno != EINTR)
      return errno == EAGAIN;
  }
  return true;
}

void LineReader::add(std::string_view bytes) {
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos;
       bytes.remove_prefix(end + 1)) {
    pending_ += bytes.substr(0, end);
    on_line_(pending_);
    pending_.clear();
  }
  pending_ += bytes;
  if (pending_.size() >= kLongest) finish();
}

void LineReader::finish() {
  if (!pending_.empty()) on_line_(pending_);
  pending_.clear();
}

}  // namespace plait::cli
