// Files of token ids: PATH.bin and PATH.idx as Megatron-LM reads them (indexed_dataset.py, version
// 1), and PATH.json, which tells how they were made.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/terminal.hpp"

namespace plait::cli {

// Writes beside the files and puts them in place at the end, so that files which are there are
// complete. Errors: CliError.
class TokenFileWriter {
 public:
  // path: of the three files, without an extension. Ids are below `vocabulary`.
  TokenFileWriter(std::string path, int64_t vocabulary);
  ~TokenFileWriter();  // removes what was not finished
  TokenFileWriter(const TokenFileWriter&) = delete;

  // One document, as one sequence. place: for messages.
  void add(std::span<const int32_t> ids, const std::string& place);
  // Writes the index and `facts`, then puts all files in place.
  void finish(const Json& facts);

  uint64_t tokens() const { return tokens_; }
  uint64_t documents() const { return lengths_.size(); }
  const char* dtype() const { return two_bytes_ ? "u16" : "i32"; }
  static std::vector<std::string> files_of(const std::string& path);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  std::string part(const char* extension) const { return path_ + extension + ".part"; }
  File create(const char* extension);
  void write(File& to, const char* extension, const void* data, size_t size);
  void close(File& file, const char* extension);
  void write_index();
  [[noreturn]] void fail_write(const char* extension) const;

  std::string path_;
  bool two_bytes_;
  File bin_;
  std::vector<int32_t> lengths_;  // of the documents, in tokens
  std::vector<uint16_t> narrow_;
  uint64_t tokens_ = 0;
  bool finished_ = false;
};

}  // namespace plait::cli
