// TensorBoard event files, written without protobuf: records of (length, masked CRC, Event, masked
// CRC).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/observe/appended_file.hpp"

namespace plait::observe {

// CRC-32C (Castagnoli) and the masked form that the record format stores.
uint32_t crc32c(const void* data, size_t size, uint32_t crc = 0);
uint32_t masked_crc32c(const void* data, size_t size);

// One event file. Always a new one, so nothing is appended after a record that a crash cut off. One
// thread.
class TensorBoardWriter {
 public:
  // Creates `events.out.tfevents.<unix seconds>.<host>.<pid>.<n>` in the folder.
  // log: is told of errors of writing, which are not thrown (appended_file.hpp). Errors:
  // PLAIT_ERR_IO.
  TensorBoardWriter(FileSystem& files, const std::string& folder, double unix_seconds, Log& log);
  ~TensorBoardWriter();  // writes collected records

  // Tags like "train/loss": the part before the slash forms a group. Does not allocate. Written
  // after a second or 100 records.
  void scalar(std::string_view tag, int64_t step, double unix_seconds, double value);
  // Markdown.
  void text(std::string_view tag, int64_t step, double unix_seconds, std::string_view markdown);
  // Writes text in a fenced block: the resolved experiment.
  void fenced(std::string_view tag, int64_t step, double unix_seconds, std::string_view language,
              std::string_view code);
  // What TensorBoard's HParams page shows of a run: its settings by name, as TOML writes them, and
  // later how it ended.
  void hparams(const std::map<std::string, std::string>& settings, double unix_seconds);
  void end_of_run(bool succeeded, double unix_seconds);
  void flush();
  const std::string& path() const { return file_.path(); }

 private:
  void record(std::string_view event);
  void hparams_value(std::string_view tag, std::string_view data, double unix_seconds);
  AppendedFile file_;
  std::string buffer_;  // records not yet written
  std::string event_;   // scratch
  int pending_ = 0;
  uint64_t last_write_ = 0;
};

}  // namespace plait::observe
