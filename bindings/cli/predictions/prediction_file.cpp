#include "bindings/cli/predictions/prediction_file.hpp"

#include <algorithm>
#include <iterator>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

struct Format {
  const char* name;  // also the end of such a file's name
  bool needs_file;   // it is not written from its begin to its end
  std::unique_ptr<PredictionFile> (*open)(WholeFile&, const Values&, int64_t);
};

constexpr Format kFormats[] = {{"npy", false, npy_file},
                               {"npz", true, npz_file},
                               {"safetensors", true, safetensors_file},
                               {"csv", false, csv_file},
                               {"jsonl", false, jsonl_file}};

std::string known_formats() {
  std::string all;
  for (const Format& one : kFormats) all += std::string(all.empty() ? "" : ", ") + one.name;
  return all;
}

}  // namespace

std::vector<std::string> prediction_formats() {
  std::vector<std::string> names;
  for (const Format& one : kFormats) names.emplace_back(one.name);
  return names;
}

std::string prediction_format(const std::string& path, const std::string& named) {
  if (!named.empty()) return named;
  if (path == "-") return "jsonl";
  for (const Format& one : kFormats)
    if (path.ends_with(std::string(".") + one.name)) return one.name;
  throw CliError(kUsage, "[predict] the end of '" + path + "' names no format; known are " +
                             known_formats() + "; or give one with --format");
}

std::unique_ptr<PredictionFile> open_predictions(const std::string& format, WholeFile& file,
                                                 const Values& values, int64_t samples) {
  const auto is_it = [&](const Format& one) { return format == one.name; };
  const Format* const found = std::find_if(std::begin(kFormats), std::end(kFormats), is_it);
  if (found == std::end(kFormats))
    throw CliError(kUsage,
                   "[predict] there is no format '" + format + "'; known are " + known_formats());
  if (found->needs_file && !file.is_file())
    throw CliError(kUsage, "[predict] " + format + " cannot be written to '" + file.path() +
                               "', which is no file; name one with --to, or use csv or jsonl");
  return found->open(file, values, samples);
}

}  // namespace plait::cli
