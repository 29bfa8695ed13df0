// The values of a run over its steps, as metrics.ndjson and statistics.ndjson have them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/runs/line_reader.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

struct Curve {
  std::string name;
  std::vector<std::pair<int64_t, double>> points;  // (step, finite value), ascending by step
};

// The points of a curve that has some: (step, value); the first of several that are equal.
struct Figures {
  std::pair<int64_t, double> last, lowest, highest;
};
Figures figures_of(const Curve& curve);

// The curves in a metrics.ndjson or statistics.ndjson that is being written.
class CurveReader {
 public:
  using Wanted = std::function<bool(const std::string&)>;
  // Keeps the values whose name is wanted; of the others only the names.
  CurveReader(std::string file, Wanted wanted);
  // Reads the new lines, about `most` bytes of them. Returns whether there are more.
  bool read(size_t most = SIZE_MAX);
  // Adds a line. Returns whether it is one, rather than the beginning of one.
  bool line(std::string_view text);
  // Those with points, by name.
  std::vector<Curve> curves() const;
  const std::set<std::string>& names() const { return names_; }

 private:
  using Points = std::vector<std::pair<int64_t, double>>;
  void add(const Json& line);
  void drop_behind(int64_t step);

  LineReader lines_;
  Wanted wanted_;
  std::map<std::string, Points> values_;
  std::set<std::string> names_;
};

// The curves of a run directory or of a metrics.ndjson: "loss", "lr", …, and "eval/accuracy" for
// values of an evaluation; those whose name is wanted. What a resumed run computed again counts
// once. Errors: CliError for a file that is absent or has no lines with values.
std::vector<Curve> read_curves(const std::string& run,
                               const std::function<bool(const std::string&)>& wanted);

// The curves of these names, in their order; also of statistics of tensors, such as
// "gradients/model.linear1.weight/l2". Errors: and CliError with the names that there are.
std::vector<Curve> read_named_curves(const std::string& run, const std::vector<std::string>& names);

}  // namespace plait::cli
