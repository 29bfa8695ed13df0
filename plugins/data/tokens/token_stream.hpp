// The documents of a file as one stream of tokens, which is read in pieces of any place and length.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/data/tokens/index_file.hpp"
#include "plugins/data/tokens/tokenizer_record.hpp"
#include "plugins/support/steady_file.hpp"

namespace plait::data::tokens {

class TokenStream {
 public:
  // path: of PATH.bin, with or without the extension. Errors: PLAIT_ERR_NOT_FOUND, PLAIT_ERR_IO,
  // PLAIT_ERR_DATA with file and place.
  explicit TokenStream(const std::string& path);

  // Keeps the tokens from share `begin` of all to share `end`, within [0, 1]. A document at a cut
  // is cut.
  void keep(double begin, double end);
  // Puts the documents into an order drawn from the seed.
  void shuffle(uint64_t seed);

  int64_t size() const { return starts_.back(); }
  // Where documents begin in the stream, ascending, and the end; none is empty.
  std::span<const int64_t> documents() const { return documents_; }
  uint64_t host_bytes() const;
  // Hash of the index, the size of .bin and both of its ends.
  uint64_t fingerprint() const { return fingerprint_; }
  const TokenizerRecord& tokenizer() const { return tokenizer_; }

  // Copies the tokens [begin, begin + n). Any thread, several at a time; allocates nothing.
  // Errors: PLAIT_ERR_IO after several attempts, PLAIT_ERR_DATA for a token below 0 or above 2^31 -
  // 1, or a file that has
  // become shorter.
  void read(int64_t begin, int64_t n, int32_t* to) const;

 private:
  void index_stream();
  void read_run(const Run& run, int64_t first, int64_t n, int32_t* to) const;

  support::SourceFile bin_, idx_;
  support::SteadyFile file_;  // .bin
  TokenType type_ = TokenType::kU16;
  std::vector<Run> runs_;        // in the order of the stream
  std::vector<int64_t> starts_;  // of the runs in the stream, and the end
  std::vector<int64_t> documents_;
  TokenizerRecord tokenizer_;
  uint64_t fingerprint_ = 0;
};

}  // namespace plait::data::tokens
