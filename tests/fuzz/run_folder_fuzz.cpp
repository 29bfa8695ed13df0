// A run directory whose metrics.ndjson and, behind bytes 0, status.json and env.json are arbitrary,
// as `plait runs`, `plot`, `board` and `run --json` read it: values of finite numbers, ascending by
// step, texts that are safe to print, and no other error than that there is nothing to read.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/event_reader.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "tests/support/folder.hpp"

namespace {

using namespace plait::cli;

const char* const kFiles[] = {"metrics.ndjson", "status.json", "env.json"};

void write(const plait::test::Folder& folder, std::string_view bytes) {
  for (const char* name : kFiles) {
    const size_t end = bytes.find('\0');
    std::ofstream(folder / name, std::ios::binary) << bytes.substr(0, end);
    bytes = end == bytes.npos ? std::string_view() : bytes.substr(end + 1);
  }
}

bool all(const std::string&) { return true; }

void check_curves(const std::string& run) {
  std::vector<Curve> curves;
  try {
    curves = read_curves(run, all);
  } catch (const CliError&) {
    return;  // no line has values
  }
  for (const Curve& curve : curves) {
    if (curve.points.empty()) abort();
    for (size_t i = 0; i < curve.points.size(); ++i) {
      if (!std::isfinite(curve.points[i].second)) abort();
      if (i > 0 && curve.points[i - 1].first >= curve.points[i].first) abort();
    }
    figures_of(curve);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const plait::test::Folder folder;
  write(folder, {});
  EventReader events(folder.path());  // of a run that writes the rest from now on
  write(folder, {reinterpret_cast<const char*>(data), size});
  for (const Json& event : events.next())
    if (event.at("run_dir") != folder.path() || event.dump().empty()) abort();
  check_curves(folder.path());
  RunRecord run = read_run(folder.path());
  read_values(run);
  // Invalid UTF-8 in a text of JSON would throw here.
  if (record_of(run).dump().empty()) abort();
  for (const std::string& text : {run.message, run.host, run.command, run.state})
    for (const char c : plain(text))
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) abort();
  read_state(folder.path());
  last_evaluation(folder.path());
  return 0;
}
