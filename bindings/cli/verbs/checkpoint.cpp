// plait checkpoint ls: which checkpoints there are, and what is in one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <plait/checkpoint.hpp>
#include <set>

#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

namespace fs = std::filesystem;

// The checkpoints of one folder, and the evaluations of its run.
struct Folder {
  std::string path;
  std::vector<Json> checkpoints;
  std::vector<Curve> curves;
};

// Evaluations are in the metrics of the run directory, the folder above.
std::vector<Curve> evaluations_of(const std::string& folder) {
  if (fs::path(folder).filename() != "ckpt") return {};
  try {
    return read_curves(fs::path(folder).parent_path().string(),
                       [](const std::string& name) { return name.find('/') != name.npos; });
  } catch (const CliError&) {
    return {};  // no metrics: copied without them, or a run without lines
  }
}

std::vector<Folder> folders_of(const Json& listed) {
  std::vector<Folder> all;
  for (const Json& c : listed.at("checkpoints")) {
    const auto folder = c.at("folder").get<std::string>();
    if (all.empty() || all.back().path != folder) {
      all.push_back({folder, {}, evaluations_of(folder)});
    }
    Json& one = all.back().checkpoints.emplace_back(c);
    one["values"] = Json::object();
    if (!one.contains("samples")) continue;
    for (const Curve& curve : all.back().curves)
      for (const auto& [step, value] : curve.points)
        if (step == one.at("step").get<int64_t>()) one["values"][curve.name] = json_number(value);
  }
  return all;
}

std::string ranks_text(const Json& ranks) {
  std::string text;
  int64_t all = 1;
  for (const auto& [axis, n] : ranks.items()) {
    all *= n.get<int64_t>();
    if (n.get<int64_t>() > 1)
      text += strf("%s%s %lld", text.empty() ? "" : ", ", axis.c_str(), n.get<long long>());
  }
  return strf("%lld", static_cast<long long>(all)) + (text.empty() ? "" : " (" + text + ")");
}

std::string note_of(const Json& c) {
  const auto state = c.at("state").get<std::string>();
  std::string text;
  for (const Json& mark : c.at("marks"))
    text += (text.empty() ? "" : ", ") + mark.get<std::string>();
  if (c.value("states_left_out", false))
    text += std::string(text.empty() ? "" : ", ") + "optimizer states left out";
  const std::string fault = c.at("fault").is_null() ? "" : plain(c.at("fault").get<std::string>());
  if (state == "damaged") text += (text.empty() ? "damaged: " : ", damaged: ") + fault;
  if (state == "newer_format") text += (text.empty() ? "" : ", ") + fault;
  if (state == "not_committed")
    text = "not committed: an interrupted save, or one in progress; it lacks " + fault;
  return text;
}

// At most two names: what a table has room for.
std::vector<std::string> shown_values(const Folder& folder) {
  std::vector<std::string> names;
  for (const Json& c : folder.checkpoints)
    for (const auto& [name, value] : c.at("values").items())
      if (names.size() < 2 && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

void show_folder(Terminal& t, const Folder& folder) {
  const std::vector<std::string> values = shown_values(folder);
  Table table("llrlr" + std::string(values.size(), 'r') + "l");
  std::vector<std::string> head{"checkpoint", "saved", "size", "ranks", "tensors"};
  head.insert(head.end(), values.begin(), values.end());
  head.emplace_back("");
  table.row(head);
  for (const Json& c : folder.checkpoints) {
    std::vector<std::string> row{plain(c.at("name").get<std::string>()), "",
                                 bytes_text(c.at("bytes").get<double>()), "", ""};
    if (c.contains("samples")) {
      row[1] = time_text(c.at("saved_at").get<double>());
      row[3] = ranks_text(c.at("ranks"));
      row[4] = strf("%llu + %llu", c.at("parameters").get<unsigned long long>(),
                    c.at("states").get<unsigned long long>());
    }
    for (const std::string& name : values)
      row.push_back(c.at("values").contains(name) ? metric_text(number(c.at("values").at(name)))
                                                  : "");
    row.push_back(note_of(c));
    table.row(std::move(row));
  }
  t.line(t.bold(plain(folder.path)));
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
}

std::string shape_text(const Json& shape) {
  std::string text;
  for (const Json& extent : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(extent.get<int64_t>());
  return "(" + text + ")";
}

// "a.safetensors", "a.safetensors and 3 more".
std::string files_text(const Json& slices) {
  std::set<std::string> names;
  for (const Json& s : slices) names.insert(s.at("file").get<std::string>());
  const std::string first = names.empty() ? "" : plain(*names.begin());
  return first + (names.size() > 1 ? strf(" and %zu more", names.size() - 1) : "");
}

void show_tensors(Terminal& t, const Json& described) {
  Table table("lllrl");
  table.row({"tensor", "type", "shape", "bytes", "file"});
  uint64_t bytes = 0;
  for (const Json& tensor : described.at("tensors")) {
    bytes += tensor.at("bytes").get<uint64_t>();
    table.row({plain(tensor.at("name").get<std::string>()), tensor.at("dtype").get<std::string>(),
               shape_text(tensor.at("shape")), std::to_string(tensor.at("bytes").get<uint64_t>()),
               files_text(tensor.at("slices"))});
  }
  t.raw(table.fitted("  ", t.columns(), t.utf8()));
  t.line(strf("  %zu tensors, %s", described.at("tensors").size(),
              bytes_text(static_cast<double>(bytes)).c_str()));
}

int list(Context& context, const std::string& place) {
  Engine engine = context.open_engine();
  Json listed = Json::parse(list_checkpoints(engine, place));
  const bool tensors = listed.at("kind") == "checkpoint" || context.terminal.verbose > 0;
  std::vector<Folder> folders = folders_of(listed);
  std::map<std::string, Json> described;
  for (const Folder& folder : folders)
    for (const Json& c : folder.checkpoints) {
      const auto path = c.at("path").get<std::string>();
      if (tensors && c.contains("samples"))
        described[path] = Json::parse(describe_checkpoint(engine, path));
    }
  Json record = {{"schema", 1}, {"kind", listed.at("kind")}, {"checkpoints", Json::array()}};
  for (const Folder& folder : folders)
    for (Json c : folder.checkpoints) {
      const auto at = described.find(c.at("path").get<std::string>());
      if (at != described.end()) c["tensors"] = at->second.at("tensors");
      record["checkpoints"].push_back(std::move(c));
    }
  Terminal& t = context.terminal;
  t.record(record);
  if (!t.human()) return kOk;
  if (folders.empty()) {
    t.line("there are no checkpoints in " + place + "; plait run FILE saves some");
    return kOk;
  }
  for (const Folder& folder : folders) {
    show_folder(t, folder);
    for (const Json& c : folder.checkpoints) {
      const auto at = described.find(c.at("path").get<std::string>());
      if (at == described.end()) continue;
      t.line("");
      if (folder.checkpoints.size() > 1) t.line("  " + t.bold(plain(c.at("name"))));
      show_tensors(t, at->second);
    }
  }
  return kOk;
}

}  // namespace

void add_checkpoint(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("checkpoint", "lists, verifies, compares and rewrites checkpoints");
  verb->require_subcommand(1);
  CLI::App* ls = verb->add_subcommand(
      "ls", "lists checkpoints with step, time, size, ranks and evaluations; of one its tensors");
  const auto place = std::make_shared<std::string>("runs");
  ls->add_option("PLACE", *place,
                 "a checkpoint, a run directory, or a folder of runs; default: runs. -v lists the "
                 "tensors of all")
      ->type_name("PATH");
  ls->callback([&context, place] {
    context.run_command = [&context, place] { return list(context, *place); };
  });
  add_checkpoint_verify(*verb, context);
  add_checkpoint_diff(*verb, context);
  add_checkpoint_convert(*verb, context);
}

}  // namespace plait::cli
