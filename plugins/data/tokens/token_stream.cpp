#include "plugins/data/tokens/token_stream.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "plugins/support/philox.hpp"

#include <xxhash.h>

namespace plait::data::tokens {
namespace {

constexpr char kPart[] = "data.tokens";

std::string stem_of(const std::string& path) {
  for (const std::string_view extension : {".bin", ".idx"})
    if (path.size() > extension.size() && path.ends_with(extension))
      return path.substr(0, path.size() - extension.size());
  return path;
}

// A number below n, from the i-th block of the seed's stream.
uint64_t number_below(uint64_t n, uint64_t seed, uint64_t i) {
  constexpr uint32_t kStream = 0x646f6373;  // "docs"
  const kit::PhiloxBlock block = support::random_block(seed, kStream, 0, 0, i);
  const uint64_t random = uint64_t{block[0]} << 32 | block[1];
  return static_cast<uint64_t>(static_cast<unsigned __int128>(random) * n >> 64);
}

}  // namespace

TokenStream::Fd::~Fd() {
  if (fd >= 0) ::close(fd);
}

TokenStream::TokenStream(const std::string& path)
    : bin_{kPart, "path", stem_of(path) + ".bin"}, idx_{kPart, "path", stem_of(path) + ".idx"} {
  open_bin();
  support::in_memory(idx_, [&] {
    const support::Bytes file = support::read_file(idx_);
    Index index = parse_index(idx_, file.span(), bin_bytes_);
    type_ = index.type;
    runs_ = std::move(index.runs);
    constexpr size_t kEnd = 65536;
    std::vector<uint8_t> ends(std::min<size_t>(bin_bytes_, 2 * kEnd));
    const size_t half = ends.size() / 2;
    read_bytes(0, ends.data(), half);
    read_bytes(bin_bytes_ - (ends.size() - half), ends.data() + half, ends.size() - half);
    fingerprint_ = XXH3_64bits_withSeed(file.data(), file.size(), bin_bytes_);
    fingerprint_ = XXH3_64bits_withSeed(ends.data(), ends.size(), fingerprint_);
    index_stream();
  });
}

void TokenStream::open_bin() {
  const auto refuse = [&](const char* what) {
    const int reason = errno;
    fail(reason == ENOENT ? PLAIT_ERR_NOT_FOUND : PLAIT_ERR_IO,
         bin_.text() + ": " + what + ": " + std::strerror(reason) +
             "; relative paths start at the data folder, else at the experiment file; `plait data "
             "tokenize` makes the file and the .idx beside it");
  };
  file_.fd = ::open(bin_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file_.fd < 0) refuse("cannot open it");
  struct stat s {};
  if (::fstat(file_.fd, &s) != 0) refuse("cannot get its size");
  if (!S_ISREG(s.st_mode))
    fail(PLAIT_ERR_IO, bin_.text() + ": is not a regular file; give the path of a file");
  bin_bytes_ = static_cast<uint64_t>(s.st_size);
}

// Where runs and documents begin in the stream.
void TokenStream::index_stream() {
  starts_.assign(1, 0);
  documents_.clear();
  int64_t document = -1;
  for (const Run& run : runs_) {
    if (run.document != document) documents_.push_back(starts_.back());
    document = run.document;
    starts_.push_back(starts_.back() + run.tokens);
  }
  documents_.push_back(starts_.back());
}

void TokenStream::keep(double begin, double end) {
  const auto total = static_cast<double>(size());
  const auto first = static_cast<int64_t>(std::floor(begin * total)),
             last = static_cast<int64_t>(std::floor(end * total));
  std::vector<Run> kept;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const int64_t from = std::max(starts_[i], first), to = std::min(starts_[i + 1], last);
    if (from >= to) continue;
    Run run = runs_[i];
    run.byte += static_cast<uint64_t>(from - starts_[i]) * token_bytes(type_);
    run.tokens = to - from;
    kept.push_back(run);
  }
  runs_ = std::move(kept);
  index_stream();
}

// Fisher and Yates, from the end.
void TokenStream::shuffle(uint64_t seed) {
  std::vector<std::pair<size_t, size_t>> runs_of;  // of each document, [begin, end)
  for (size_t i = 0; i < runs_.size(); ++i)
    if (i == 0 || runs_[i].document != runs_[i - 1].document)
      runs_of.emplace_back(i, i + 1);
    else
      runs_of.back().second = i + 1;
  for (size_t i = runs_of.size(); i > 1; --i)
    std::swap(runs_of[i - 1], runs_of[number_below(i, seed, i)]);
  std::vector<Run> ordered;
  ordered.reserve(runs_.size());
  for (const auto& [begin, end] : runs_of)
    ordered.insert(ordered.end(), runs_.begin() + static_cast<ptrdiff_t>(begin),
                   runs_.begin() + static_cast<ptrdiff_t>(end));
  runs_ = std::move(ordered);
  index_stream();
}

uint64_t TokenStream::host_bytes() const {
  return runs_.capacity() * sizeof(Run) +
         (starts_.capacity() + documents_.capacity()) * sizeof(int64_t);
}

void TokenStream::read(int64_t begin, int64_t n, int32_t* to) const {
  auto at = std::upper_bound(starts_.begin(), starts_.end(), begin) - 1;
  while (n > 0) {
    const Run& run = runs_[static_cast<size_t>(at - starts_.begin())];
    const int64_t first = begin - *at, part = std::min(n, run.tokens - first);
    read_run(run, first, part, to);
    to += part;
    begin += part;
    n -= part;
    ++at;
  }
}

void TokenStream::read_bytes(uint64_t at, void* to, size_t n) const {
  for (size_t done = 0; done < n;) {
    const ssize_t got =
        ::pread(file_.fd, static_cast<char*>(to) + done, n - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(PLAIT_ERR_IO, bin_.text() + ": cannot read it: " + std::strerror(errno));
    if (got == 0)
      bin_.bad(at + done, "the file ended while it was read, " + std::to_string(bin_bytes_) +
                              " bytes were there before; something else is writing it");
    done += static_cast<size_t>(got);
  }
}

void TokenStream::read_run(const Run& run, int64_t first, int64_t n, int32_t* to) const {
  const size_t size = token_bytes(type_);
  unsigned char block[8192];
  const auto most = static_cast<int64_t>(sizeof block / size);
  for (int64_t done = 0; done < n;) {
    const int64_t part = std::min(n - done, most);
    const uint64_t byte = run.byte + static_cast<uint64_t>(first + done) * size;
    read_bytes(byte, block, static_cast<size_t>(part) * size);
    for (int64_t i = 0; i < part; ++i) {
      const unsigned char* from = block + static_cast<size_t>(i) * size;
      int64_t token = 0;  // little-endian, as the other data plugins read
      if (type_ == TokenType::kI32) {
        int32_t narrow;
        std::memcpy(&narrow, from, sizeof narrow);
        token = narrow;
      } else {
        std::memcpy(&token, from, size);
      }
      if (token < 0 || token > std::numeric_limits<int32_t>::max())
        bin_.bad(byte + static_cast<uint64_t>(i) * size, "the token is " + std::to_string(token) +
                                                             ", expected 0 to 2147483647; the .idx "
                                                             "file may belong to another file");
      to[done + i] = static_cast<int32_t>(token);
    }
    done += part;
  }
}

}  // namespace plait::data::tokens
