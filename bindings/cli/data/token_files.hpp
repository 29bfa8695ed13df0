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

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// Writes beside the files and puts them in place at the end, so that files which are there are
// complete. A writer that was marked and not finished leaves PATH.bin.part, PATH.lengths.part and
// PATH.resume, from which another goes on. Errors: CliError.
class TokenFileWriter {
 public:
  // path: of the three files, without an extension. Ids are below `vocabulary`. from: what a writer
  // of that path marked, "documents" and "tokens" at least, or null.
  TokenFileWriter(std::string path, int64_t vocabulary, const Json& from);
  ~TokenFileWriter();  // removes what was not finished, unless it was marked
  TokenFileWriter(const TokenFileWriter&) = delete;

  // What mark() wrote last for this path, if the files beside it have as much; else null.
  static Json marked(const std::string& path, int64_t vocabulary);
  // Makes what was added so far durable, and `state` with it.
  void mark(Json state);

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
  std::string part(const char* extension) const { return part_of(path_, extension); }
  static std::string part_of(const std::string& path, const char* extension) {
    return path + extension + ".part";
  }
  static uint64_t token_bytes(int64_t vocabulary);
  File create(const char* extension, uint64_t keep);
  void sync(File& file, const char* extension);
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
  File len_;  // the lengths, as they are added
  bool finished_ = false, marked_ = false;
};

}  // namespace plait::cli
