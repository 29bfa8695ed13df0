// Predictions as a file that other programs read: values for each sample, in the order of the
// samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/whole_file.hpp"

namespace plait::cli {

// A value that a model predicts, as it is for one sample.
struct PredictedValue {
  std::string name, dtype;     // "output", "f32"
  std::vector<int64_t> shape;  // of one sample
  uint64_t bytes = 0;          // of one sample
  // What the numbers along its one axis stand for; empty: that is not known.
  std::vector<std::string> classes = {};
};

class PredictionFile {
 public:
  PredictionFile() = default;
  virtual ~PredictionFile() = default;
  PredictionFile(const PredictionFile&) = delete;
  PredictionFile& operator=(const PredictionFile&) = delete;
  // The next n samples: rows[i] has those of value i, row-major. Errors: CliError (kEnvironment).
  virtual void add(int64_t n, std::span<const std::string_view> rows) = 0;
  // The first samples were written by an earlier command: add() continues behind them. Before the
  // first add(), after which the caller cuts off what lies behind them.
  virtual void resume(int64_t samples) = 0;
  // Behind the last sample: writes what stands at the end.
  virtual void finish() {}
};

// The format of a file: `named`, or if that is empty, by the end of its path; "-", standard output,
// is jsonl. Errors: CliError (kUsage).
std::string prediction_format(const std::string& path, const std::string& named);

// The names of the formats.
std::vector<std::string> prediction_formats();

// In `file`, which outlives it, for so many samples. Errors: CliError (kUsage) where the format
// cannot hold these values, or needs a file and gets a pipe.
std::unique_ptr<PredictionFile> open_predictions(const std::string& format, WholeFile& file,
                                                 const std::vector<PredictedValue>& values,
                                                 int64_t samples);

// The formats, for open_predictions().
using Values = std::vector<PredictedValue>;
std::unique_ptr<PredictionFile> npy_file(WholeFile& file, const Values& values, int64_t samples);
std::unique_ptr<PredictionFile> npz_file(WholeFile& file, const Values& values, int64_t samples);
std::unique_ptr<PredictionFile> safetensors_file(WholeFile& file, const Values& values,
                                                 int64_t samples);
std::unique_ptr<PredictionFile> csv_file(WholeFile& file, const Values& values, int64_t samples);
std::unique_ptr<PredictionFile> jsonl_file(WholeFile& file, const Values& values, int64_t samples);

}  // namespace plait::cli
