#include "plugins/data/tokens/index_file.hpp"

#include <limits>

namespace plait::data::tokens {
namespace {

constexpr char kMagic[] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr size_t kHeader = sizeof kMagic + 8 + 1 + 8 + 8;
constexpr const char* kMake = "; `plait data tokenize` makes such a file";

template <class T>
T number_at(std::span<const uint8_t> file, uint64_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

class Reader {
 public:
  Reader(const support::SourceFile& source, std::span<const uint8_t> file, uint64_t bin_bytes)
      : source_(source), file_(file), bin_bytes_(bin_bytes) {}

  Index read() {
    read_header();
    Index index;
    index.type = type_;
    uint64_t first = start(0);
    if (first != 0)
      bad(starts_, "the first document starts with sequence " + text(first) + ", expected 0");
    for (uint64_t d = 0; d + 1 < n_starts_; ++d) {
      const uint64_t end = start(d + 1);
      if (end < first || end > n_sequences_)
        bad(starts_ + 8 * (d + 1), "document " + text(d) + " has the sequences " + text(first) +
                                       " to " + text(end) + " of " + text(n_sequences_));
      for (uint64_t s = first; s < end; ++s) add(index, s, static_cast<int64_t>(d));
      first = end;
    }
    if (first != n_sequences_)
      bad(starts_ + 8 * (n_starts_ - 1),
          "the documents have " + text(first) + " sequences, the file " + text(n_sequences_));
    index.documents = static_cast<int64_t>(n_starts_ - 1);
    return index;
  }

 private:
  static std::string text(uint64_t n) { return std::to_string(n); }
  [[noreturn]] void bad(uint64_t offset, const std::string& found) const {
    source_.bad(offset, found + kMake);
  }

  void read_header() {
    if (file_.size() < kHeader || std::memcmp(file_.data(), kMagic, sizeof kMagic) != 0)
      bad(0, "this is no index of token ids: it does not begin with MMIDIDX");
    if (const auto version = number_at<uint64_t>(file_, 9); version != 1)
      bad(9, "version " + text(version) + ", expected 1");
    const uint8_t code = file_[17];
    if (code != 1 && code != 4 && code != 5 && code != 8)
      bad(17, "element type " + text(code) + ", expected 1 (u8), 4 (i32), 5 (i64) or 8 (u16)");
    type_ = static_cast<TokenType>(code);
    n_sequences_ = number_at<uint64_t>(file_, 18);
    n_starts_ = number_at<uint64_t>(file_, 26);
    if (n_starts_ < 1) bad(26, "there is no document start, expected one more than documents");
    // Both are below the size of the file, so the sum cannot overflow.
    const uint64_t room = file_.size() - kHeader;
    if (n_sequences_ > room / 12 || n_starts_ > room / 8 ||
        12 * n_sequences_ + 8 * n_starts_ > room)
      bad(18, text(n_sequences_) + " sequences and " + text(n_starts_) +
                  " document starts do not fit into the " + text(room) +
                  " bytes that follow; the file was cut off, or is no index");
    const uint64_t rest = room - 12 * n_sequences_ - 8 * n_starts_;
    if (rest != 0 && rest != n_sequences_)
      bad(file_.size() - rest, text(rest) +
                                   " bytes are left behind the document starts, expected "
                                   "0, or a mode for each sequence");
    offsets_ = kHeader + 4 * n_sequences_;
    starts_ = offsets_ + 8 * n_sequences_;
  }

  uint64_t start(uint64_t d) const {
    const auto value = number_at<int64_t>(file_, starts_ + 8 * d);
    if (value < 0) bad(starts_ + 8 * d, "document start " + std::to_string(value));
    return static_cast<uint64_t>(value);
  }

  // Sequences that follow one another in .bin become one run.
  void add(Index& index, uint64_t s, int64_t document) const {
    const auto length = number_at<int32_t>(file_, kHeader + 4 * s);
    const auto offset = number_at<int64_t>(file_, offsets_ + 8 * s);
    const uint64_t bytes = static_cast<uint64_t>(std::max(length, 0)) * token_bytes(type_);
    if (length < 0)
      bad(kHeader + 4 * s, "sequence " + text(s) + " has " + std::to_string(length) + " tokens");
    if (offset < 0 || static_cast<uint64_t>(offset) > bin_bytes_ ||
        bytes > bin_bytes_ - static_cast<uint64_t>(offset))
      bad(offsets_ + 8 * s, "sequence " + text(s) + " has " + std::to_string(length) +
                                " tokens from byte " + std::to_string(offset) +
                                " on, but the .bin file beside it has " + text(bin_bytes_) +
                                " bytes; the two do not belong together, or one was cut off");
    if (length == 0) return;
    const auto byte = static_cast<uint64_t>(offset);
    index.tokens += length;
    if (!index.runs.empty()) {
      Run& last = index.runs.back();
      if (last.document == document &&
          last.byte + static_cast<uint64_t>(last.tokens) * token_bytes(type_) == byte) {
        last.tokens += length;
        return;
      }
    }
    index.runs.push_back({byte, length, document});
  }

  const support::SourceFile& source_;
  std::span<const uint8_t> file_;
  uint64_t bin_bytes_;
  TokenType type_ = TokenType::kU16;
  uint64_t n_sequences_ = 0, n_starts_ = 0;
  uint64_t offsets_ = 0, starts_ = 0;  // where these arrays begin
};

}  // namespace

size_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return 1;
    case TokenType::kU16:
      return 2;
    case TokenType::kI32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  return 0;
}

Index parse_index(const support::SourceFile& source, std::span<const uint8_t> file,
                  uint64_t bin_bytes) {
  return Reader(source, file, bin_bytes).read();
}

}  // namespace plait::data::tokens
