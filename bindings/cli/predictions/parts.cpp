#include "bindings/cli/predictions/parts.hpp"

#include <algorithm>

#include "bindings/cli/context.hpp"

namespace plait::cli {

std::string part_path(const std::string& file, int rank) {
  return file + ".rank-" + std::to_string(rank);
}

PartWriter::PartWriter(const std::string& path, const Json& subject, const Reached& from)
    : file_(path, WholeFile::Part::kPartial),
      progress_(path, subject, from),
      samples_(from.samples) {
  file_.cut(from.bytes);
  if (samples_ > 0) file_.keep();
}

void PartWriter::add(int64_t n, std::span<const std::string_view> rows) {
  for (const std::string_view bytes : rows) file_.write(bytes);
  samples_ += n;
  progress_.reached({samples_, file_.size()});
  file_.keep();
}

void PartWriter::taken() {
  progress_.forget();
  file_.discard();
}

void add_part(const std::string& path, const Values& values, int64_t from, int64_t samples,
              int64_t batch, PredictionFile& to, const std::function<void(int64_t)>& added) {
  std::ifstream file(partial_path(path), std::ios::binary);
  uint64_t sample_bytes = 0;
  for (const PredictedValue& value : values) sample_bytes += value.bytes;
  file.seekg(static_cast<std::streamoff>(static_cast<uint64_t>(from) * sample_bytes));
  std::vector<std::string> rooms(values.size());
  for (int64_t done = from; done < samples;) {
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
