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

TokenStream::TokenStream(const std::string& path)
    : bin_{kPart, "path", stem_of(path) + ".bin"},
      idx_{kPart, "path", stem_of(path) + ".idx"},
      file_(bin_, "`plait data tokenize` makes the file and the .idx beside it") {
  support::in_memory(idx_, [&] {
    const support::SteadyFile index_file(idx_, "`plait data tokenize` makes it");
    support::Bytes file(index_file.size());
    index_file.read(0, file.data(), file.size());
    Index index = parse_index(idx_, file.span(), file_.size());
    type_ = index.type;
    runs_ = std::move(index.runs);
    constexpr size_t kEnd = 65536;
    std::vector<uint8_t> ends(std::min<size_t>(file_.size(), 2 * kEnd));
    const size_t half = ends.size() / 2;
    file_.read(0, ends.data(), half);
    file_.read(file_.size() - (ends.size() - half), ends.data() + half, ends.size() - half);
    fingerprint_ = XXH3_64bits_withSeed(file.data(), file.size(), file_.size());
    fingerprint_ = XXH3_64bits_withSeed(ends.data(), ends.size(), fingerprint_);
    index_stream();
    tokenizer_ = read_tokenizer_record(stem_of(path) + ".json", size());
  });
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

void TokenStream::read_run(const Run& run, int64_t first, int64_t n, int32_t* to) const {
  const size_t size = token_bytes(type_);
  unsigned char block[8192];
  const auto most = static_cast<int64_t>(sizeof block / size);
  for (int64_t done = 0; done < n;) {
    const int64_t part = std::min(n - done, most);
    const uint64_t byte = run.byte + static_cast<uint64_t>(first + done) * size;
    file_.read(byte, block, static_cast<size_t>(part) * size);
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
