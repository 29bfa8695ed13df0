// The predictions of one rank, as it leaves them beside the file for the first rank to read.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/predictions/prediction_file.hpp"

namespace plait::cli {

// Where the rank that predicts a share of the samples leaves it.
std::string part_path(const std::string& file, int rank);

// Rows of values without a format: in each call n rows of the first value, of the second, ….
class PartWriter : public PredictionFile {
 public:
  explicit PartWriter(const std::string& path) : file_(path) {}
  // Removes the part: the first rank has read it, or never will.
  ~PartWriter() override;
  void add(int64_t n, std::span<const std::string_view> rows) override;
  void finish() override;

 private:
  WholeFile file_;
  bool finished_ = false;
};

// Adds `samples` samples of a part, which was written `batch` at a time. Errors: CliError
// (kEnvironment) when the part cannot be read.
void add_part(const std::string& path, const Values& values, int64_t samples, int64_t batch,
              PredictionFile& to, const std::function<void(int64_t)>& added);

}  // namespace plait::cli
