#include "bindings/cli/predictions/parts.hpp"

#include <unistd.h>

#include <algorithm>

#include "bindings/cli/context.hpp"

namespace plait::cli {

std::string part_path(const std::string& file, int rank) {
  return file + ".rank-" + std::to_string(rank);
}

PartWriter::~PartWriter() {
  if (finished_) unlink(file_.path().c_str());
}

void PartWriter::add(int64_t, std::span<const std::string_view> rows) {
  for (const std::string_view bytes : rows) file_.write(bytes);
}

void PartWriter::finish() {
  file_.commit();
  finished_ = true;
}

void add_part(const std::string& path, const Values& values, int64_t samples, int64_t batch,
              PredictionFile& to, const std::function<void(int64_t)>& added) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> rooms(values.size());
  for (int64_t done = 0; done < samples;) {
    const int64_t n = std::min(batch, samples - done);
    std::vector<std::string_view> rows;
    for (size_t i = 0; i < values.size(); ++i) {
      rooms[i].resize(static_cast<size_t>(n) * values[i].bytes);
      file.read(rooms[i].data(), static_cast<std::streamsize>(rooms[i].size()));
      rows.emplace_back(rooms[i]);
    }
    if (!file)
      throw CliError(
          kEnvironment,
          "[predict] '" + path +
              "', in which another rank left its predictions, cannot be read; all ranks "
              "must reach the folder of --to, or predict in one process with --one-rank");
    to.add(n, rows);
    done += n;
    added(n);
  }
}

}  // namespace plait::cli
