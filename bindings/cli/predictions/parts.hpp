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
#include "bindings/cli/predictions/progress.hpp"

namespace plait::cli {

// Where the rank that predicts a share of the samples leaves it.
std::string part_path(const std::string& file, int rank);

// Rows of values without a format: in each call n rows of the first value, of the second, …. They
// stay until the first rank has them, so that an interrupted command can be continued.
class PartWriter : public PredictionFile {
 public:
  // Behind what an earlier command left.
  PartWriter(const std::string& path, const Json& subject, const Reached& from);
  void add(int64_t n, std::span<const std::string_view> rows) override;
  void resume(int64_t) override {}
  // The first rank has them: they may go.
  void taken();

 private:
  WholeFile file_;
  Progress progress_;
  int64_t samples_ = 0;
};

// Adds samples [from, samples) of a part, which was written `batch` at a time; from: a multiple of
// that, or `samples`. Errors: CliError (kEnvironment) when the part cannot be read.
void add_part(const std::string& path, const Values& values, int64_t from, int64_t samples,
              int64_t batch, PredictionFile& to, const std::function<void(int64_t)>& added);

}  // namespace plait::cli
