// Documents of a pair PATH.bin, PATH.idx, to be looked at (the format: token_files.hpp). The files
// are not trusted.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace plait::cli {

class TokenFileReader {
 public:
  // path: with or without an extension. Errors: CliError with file and place.
  explicit TokenFileReader(const std::string& path);

  uint64_t documents() const { return starts_.size() - 1; }
  uint64_t tokens() const { return tokens_; }
  const char* dtype() const;
  // The ids of document i, at most `most` of them; in `all` how many it has.
  std::vector<int64_t> read(uint64_t i, uint64_t most, uint64_t& all) const;
  // Of the three files, without an extension.
  const std::string& stem() const { return stem_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void bad(const std::string& what) const;
  void read_index();

  std::string stem_;
  std::unique_ptr<std::FILE, Close> bin_;
  uint8_t type_ = 0;
  uint64_t bin_bytes_ = 0, tokens_ = 0;
  std::vector<int32_t> lengths_;  // of sequences, in tokens
  std::vector<int64_t> offsets_;  // of sequences, in bytes
  std::vector<int64_t> starts_;   // of documents, in sequences; and the end
};

}  // namespace plait::cli
