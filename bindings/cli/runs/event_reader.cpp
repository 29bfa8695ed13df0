#include "bindings/cli/runs/event_reader.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace plait::cli {

namespace {

// An event has few levels. A line of brackets alone, which a damaged file may have, would exhaust
// the stack where it is printed.
bool not_too_deep(int depth, Json::parse_event_t, Json&) { return depth < 20; }

}  // namespace

EventReader::EventReader(const std::string& run_dir)
    : run_dir_(run_dir), path_(run_dir + "/metrics.ndjson") {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(path_, none);
  if (!none) at_ = static_cast<int64_t>(bytes);
}

std::vector<Json> EventReader::next() {
  std::vector<Json> events;
  std::ifstream file(path_, std::ios::binary);
  if (!file.seekg(at_)) return events;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    at_ += static_cast<int64_t>(line.size()) + 1;
    Json json = Json::parse(line, not_too_deep, false);
    if (!json.is_object() || !json.contains("event")) continue;
    json.erase("run");
    json["run_dir"] = run_dir_;
    events.push_back(std::move(json));
  }
  return events;
}

}  // namespace plait::cli
