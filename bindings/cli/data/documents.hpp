// Documents of text files, one after the other.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plait::cli {

struct Document {
  std::string text;
  std::string place;  // for messages: "a.txt", "b.jsonl:12"
};

// Where a document begins: a file of the list, and in a file of lines the byte (of its content, if
// it is packed) and the lines before it.
struct DocumentPlace {
  uint64_t file = 0, byte = 0, line = 0;
};

// A file NAME.jsonl holds a document per line, the text `field` of a JSON object; empty lines count
// for nothing. Any other file is one document. Both may be packed by gzip (NAME.gz).
class DocumentReader {
 public:
  // Errors, as of next(): CliError with file and line.
  DocumentReader(std::vector<std::string> files, std::string field);
  // False: there are no more.
  bool next(Document& to);
  // Where the document begins that next() would give.
  DocumentPlace place() const;
  // Goes on from a place that an equal reader had. Before the first next(). False: there is none
  // such.
  bool seek(const DocumentPlace& to);
  // Of all files, packed as they lie there.
  uint64_t bytes_read() const;
  uint64_t total_bytes() const { return total_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };
  const std::string& file() const { return files_[at_]; }
  void open();
  void close();
  void read_rest(std::string& to);
  bool read_line(std::string& to);
  size_t fill();
  std::string text_of(const std::string& line) const;

  std::vector<std::string> files_;
  std::string field_;
  std::vector<uint64_t> sizes_;
  uint64_t total_ = 0, before_ = 0;  // bytes of all files, and of those that were read
  size_t at_ = 0;
  std::unique_ptr<gzFile_s, Close> open_;
  bool by_lines_ = false;
  uint64_t line_ = 0;
  uint64_t taken_ = 0;  // bytes of the file's content that were given as lines
  std::string buffer_;  // read and not taken: from buffer_at_ on
  size_t buffer_at_ = 0;
};

}  // namespace plait::cli
