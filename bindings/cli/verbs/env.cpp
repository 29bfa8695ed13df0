// plait env: facts for a bug report; plait devices: of them, the devices.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "bindings/cli/context.hpp"
#include "bindings/cli/machine.hpp"
#include "bindings/cli/ranks.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

// Folders in which plugin files were found, with the number of loaded ones.
Json places_of(const Json& registry) {
  std::vector<std::string> order;
  Json by_folder = Json::object();
  for (const Json& entry : registry.value("report", Json::array())) {
    if (entry.value("outcome", "") == "absent") continue;
    const std::string folder = fs::path(entry.value("path", "")).parent_path();
    if (!by_folder.contains(folder))
      by_folder[folder] = {
          {"folder", folder}, {"source", entry.value("source", "")}, {"loaded", 0}, {"refused", 0}};
    Json& place = by_folder[folder];
    const char* key = entry.value("outcome", "") == "loaded" ? "loaded" : "refused";
    place[key] = place[key].get<int>() + 1;
  }
  Json all = Json::array();
  for (const auto& [folder, place] : by_folder.items()) all.push_back(place);
  return all;
}

Json variables() {
  Json all = Json::object();
  for (const char* name :
       {"PLAIT_DATA", "PLAIT_PLUGIN_PATH", "PLAIT_EXPLAIN", "PLAIT_VERIFY", "PLAIT_RANK",
        "PLAIT_WORLD_SIZE", "PLAIT_LOCAL_RANK", "PLAIT_LOCAL_WORLD_SIZE", "PLAIT_RENDEZVOUS",
        "PLAIT_SECRET_FILE", "PLAIT_CONNECT_TIMEOUT", "PLAIT_TIMEOUT", "OMP_NUM_THREADS",
        "OMP_THREAD_LIMIT", "NO_COLOR", "CUDA_VISIBLE_DEVICES", "PLAIT_CUDA_LIBRARIES",
        "XDG_CACHE_HOME", "LD_LIBRARY_PATH"})
    if (const char* value = std::getenv(name)) all[name] = value;
  return all;
}

// The rank that plait run would have here. An error in a launcher's variables is reported as a
// fact.
Json job_facts() {
  try {
    return Json::parse(Job::from_environment().describe());
  } catch (const HostError& e) {
    return {{"error", e.what()}};
  }
}

Json facts(Context& context) {
  Engine engine = context.open_engine();
  const Json engine_facts = Json::parse(engine.describe());
  const Json registry = engine_facts.value("registry", Json::object());
  const Machine m = machine();
  Json plugins = Json::array();
  for (const Json& plugin : registry.value("plugins", Json::array()))
    plugins.push_back(
        {{"name", plugin.value("name", "")}, {"version", plugin.value("version", "")}});
  return {{"schema", 1},
          {"version", plait_version()},
          {"abi", plait_abi_version()},
          {"system", m.system},
          {"distribution", m.distribution},
          {"cpu", m.cpu},
          {"features", m.features},
          {"cores", m.cores},
          {"memory_bytes", m.memory},
          {"devices", Json::parse(engine.devices()).at("devices")},
          {"plugin_places", places_of(registry)},
          {"plugins", plugins},
          {"data_folder", context.data_folder()},
          {"variables", variables()},
          {"job", job_facts()}};
}

std::string words(const Json& list, const char* key) {
  std::string all;
  for (const Json& one : list)
    all += (all.empty() ? "" : " ") + (key ? one.value(key, "") : one.get<std::string>());
  return all;
}

// What a device is, or why it cannot be used: "1 GPU: NVIDIA H200", "no NVIDIA driver: ...".
std::string detail_text(const Json& device) {
  const std::string detail = device.value("detail", "");
  return detail.empty() && device.value("usable", false) ? device.value("help", "") : detail;
}

// "cuda: 1 GPU: NVIDIA H200", "cuda cannot be used: no NVIDIA driver: ...".
std::string device_text(const Json& device) {
  return device.value("name", "") + (device.value("usable", false) ? ": " : " cannot be used: ") +
         detail_text(device);
}

std::string job_text(const Json& job) {
  if (job.contains("error")) return job.value("error", "");
  const RankInfo own = rank_info(job);
  if (own.alone()) return "none, single rank: " + own.reason;
  const std::string rendezvous = job.value("rendezvous", "");
  return own.source +
         strf(": rank %d of %d (%d of %d on this machine)", own.rank, own.size, own.local_rank,
              own.local_size) +
         (rendezvous.empty() ? "" : ", rendezvous at " + rendezvous) + "; " + own.reason;
}

void show(Terminal& t, const Json& f) {
  Table table("ll");
  table.row({"plait", f.value("version", "") + ", ABI " + f["abi"].dump()});
  table.row({"system",
             f.value("system", "") +
                 (f.value("distribution", "").empty() ? "" : ", " + f.value("distribution", ""))});
  table.row({"cpu", f.value("cpu", "") + strf(", %d cores available", f.value("cores", 0))});
  table.row({"features", words(f["features"], nullptr)});
  table.row({"memory", bytes_text(f.value("memory_bytes", 0.0))});
  for (const Json& device : f["devices"]) table.row({"device", device_text(device)});
  for (const Json& place : f["plugin_places"])
    table.row({"plugins from", place.value("folder", "") + strf(" (%s): %d loaded, %d not",
                                                                place.value("source", "").c_str(),
                                                                place.value("loaded", 0),
                                                                place.value("refused", 0))});
  table.row({"plugins", words(f["plugins"], "name")});
  table.row({"data folder", f.value("data_folder", "").empty()
                                ? "none; set it with --data or PLAIT_DATA"
                                : f.value("data_folder", "")});
  for (const auto& [name, value] : f["variables"].items())
    table.row({name, value.get<std::string>()});
  table.row({"launcher", job_text(f["job"])});
  t.raw(table.with_texts("", t.columns(), t.utf8()));
}

int env(Context& context) {
  const Json f = facts(context);
  context.terminal.record(f);
  if (context.terminal.human()) show(context.terminal, f);
  return kOk;
}

int devices(Context& context) {
  Engine engine = context.open_engine();
  const Json all = Json::parse(engine.devices()).at("devices");
  context.terminal.record({{"schema", 1}, {"devices", all}});
  if (!context.terminal.human()) return kOk;
  Table table("lll");
  for (const Json& one : all)
    table.row({one.value("name", ""), one.value("usable", false) ? "usable" : "not usable",
               detail_text(one)});
  Terminal& t = context.terminal;
  t.raw(table.with_texts("", t.columns(), t.utf8()));
  return kOk;
}

}  // namespace

void add_devices(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "devices", "lists the devices that runs can compute on, and why one cannot be used");
  verb->callback([&context] { context.run_command = [&context] { return devices(context); }; });
}

void add_env(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "env", "shows versions, machine, devices and search paths: for bug reports");
  verb->callback([&context] { context.run_command = [&context] { return env(context); }; });
}

}  // namespace plait::cli
