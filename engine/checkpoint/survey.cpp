#include "engine/checkpoint/survey.hpp"

#include <algorithm>
#include <cstdlib>

#include "engine/base/error.hpp"
#include "engine/base/json_value.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/commit_order.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/unfinished.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {
namespace {

constexpr int kMaxDepth = 8;

void add_sizes(FileSystem& files, Surveyed& c) {
  for (const std::string& name : files.list(c.path)) {
    const FileInfo info = files.info(join_path(c.path, name));
    if (info.kind != FileKind::kRegular) continue;
    c.bytes += info.size;
    ++c.files;
  }
}

void mark(Surveyed& c, Condition condition, std::string fault) {
  c.condition = condition;
  c.fault = std::move(fault);
}

// The first fault that sizes tell; "": none.
std::string fault_of_files(FileSystem& files, const Surveyed& c, const Manifest& manifest) {
  for (const FileRecord& f : manifest.files) {
    const FileInfo info = files.info(join_path(c.path, f.name));
    if (info.kind != FileKind::kRegular) return printable(f.name) + " is missing";
    if (info.size != f.size)
      return strf("%s has %llu bytes, expected %llu", printable(f.name).c_str(),
                  static_cast<unsigned long long>(info.size),
                  static_cast<unsigned long long>(f.size));
  }
  return "";
}

void add_manifest(FileSystem& files, Surveyed& c) {
  const Manifest manifest = read_manifest(files, c.path);
  c.read = true;
  c.state = manifest.state;
  c.saved_at = manifest.state.saved_at > 0
                   ? manifest.state.saved_at
                   : files.info(join_path(c.path, kManifestName)).modified_ns / 1'000'000'000;
  for (const TensorRecord& t : manifest.tensors) {
    ++(is_parameter(t) ? c.parameters : c.states);
    c.tensor_bytes += tensor_bytes(t);
  }
  std::string fault = fault_of_files(files, c, manifest);
  if (!fault.empty()) mark(c, Condition::kDamaged, std::move(fault));
}

Surveyed look_once(FileSystem& files, const std::string& folder, const std::string& name) {
  Surveyed c;
  c.folder = folder;
  c.name = name;
  c.path = join_path(folder, name);
  if (const auto parsed = parse_checkpoint_name(name)) c.state.step = parsed->step;
  try {
    add_sizes(files, c);
    add_manifest(files, c);
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;
    c.unreadable = is_of_machine(files, c.path, e);
    mark(c, e.code() == PLAIT_ERR_UNIMPLEMENTED ? Condition::kNewerFormat : Condition::kDamaged,
         without_part(e.text()));
  }
  return c;
}

Surveyed look_at(FileSystem& files, const std::string& folder, const std::string& name) {
  Surveyed c = look_once(files, folder, name);
  const bool lacks = c.read && c.condition == Condition::kDamaged && !c.state.states_left_out;
  if (!lacks || !states_left_out(files, c.path)) return c;
  return look_once(files, folder, name);  // its run has removed the states meanwhile
}

// The name in the file `latest` or `best` of a folder; "" without one.
std::string hint(FileSystem& files, const std::string& folder, const char* which) {
  constexpr uint64_t kLongestHint = 64;  // bytes
  const std::string path = join_path(folder, which);
  if (!is_hint(files, path) || files.info(path).size > kLongestHint) return "";
  std::string name = files.read_all(path, kLongestHint);
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

// A save that was not finished, or is in progress.
Surveyed look_at_unfinished(FileSystem& files, const std::string& folder, const std::string& name) {
  Surveyed c;
  c.folder = folder;
  c.name = name;
  c.path = join_path(folder, name);
  add_sizes(files, c);
  std::string missing;
  try {
    missing = missing_in_save(files, c.path);
  } catch (const Error& e) {  // what cannot be read of a leftover hides no checkpoint beside it
    if (e.code() != PLAIT_ERR_IO) throw;
    missing = std::string(kManifestName) + ", and " + without_part(e.text());
  }
  if (missing.empty())
    missing = files.exists(join_path(c.path, kManifestName)) ? "its final name" : kManifestName;
  mark(c, Condition::kNotCommitted, std::move(missing));
  return c;
}

// The checkpoints of a folder of them, or only one.
void add_folder(FileSystem& files, const std::string& folder, const std::string& only,
                std::vector<Surveyed>& to) {
  std::vector<Commit> commits = read_commits(files, folder);
  sort_newest_first(commits);
  const std::string latest = hint(files, folder, kLatest), best = hint(files, folder, kBest);
  for (const Commit& commit : commits) {
    if (!only.empty() && commit.name != only) continue;
    Surveyed& c = to.emplace_back(look_at(files, folder, commit.name));
    c.latest = commit.name == latest;
    c.best = commit.name == best;
    c.stale = commit.stale;
    if (commit.refused.empty()) continue;
    c.unreadable = c.order_unknown = true;
    mark(c, Condition::kDamaged, commit.refused);
  }
  if (!only.empty()) return;
  for (const std::string& name : files.list(folder)) {
    if (!starts_with(name, kUnfinished) || !files.is_folder(join_path(folder, name))) continue;
    try {
      to.push_back(look_at_unfinished(files, folder, name));
    } catch (const Error& e) {
      if (e.code() == PLAIT_ERR_NOT_FOUND) continue;  // a run has committed or removed it
      throw;
    }
  }
}

bool has_checkpoints(FileSystem& files, const std::string& folder) {
  if (!checkpoint_names(files, folder).empty()) return true;
  if (!files.is_folder(folder) || own_name(files, folder) != kCheckpoints) return false;
  for (const std::string& name : files.list(folder))
    if (starts_with(name, kUnfinished)) return true;
  return false;
}

void add_below(FileSystem& files, const std::string& folder, int depth, std::vector<Surveyed>& to) {
  try {
    if (has_checkpoints(files, folder)) return add_folder(files, folder, "", to);
    if (depth == kMaxDepth) return;
    for (const std::string& name : files.list(folder)) {
      const std::string path = join_path(folder, name);
      if (name[0] != '.' && !files.is_link(path) && files.is_folder(path))
        add_below(files, path, depth + 1, to);
    }
  } catch (const Error& e) {
    if (depth == 0 || e.code() != PLAIT_ERR_IO) throw;
  }
}

// A path without '/' at its end.
std::string tidy(std::string place) {
  while (place.size() > 1 && place.back() == '/') place.pop_back();
  return place;
}

// The checkpoint that a file `latest` or `best` names; any other place as it is.
std::string behind_hint(FileSystem& files, const std::string& place) {
  if (!is_hint(files, place)) return place;
  const std::string name = hint(files, folder_of(place), name_of(place).c_str());
  std::string other = join_path(folder_of(place), name);
  if (!parse_checkpoint_name(name) || !files.is_folder(other))
    fail_invalid("[checkpoint] the file '" + place + "' does not name a checkpoint beside it");
  return other;
}

}  // namespace

Survey survey(FileSystem& files, const std::string& given) {
  std::string place = tidy(given);
  Survey found;
  if (!files.exists(place))
    fail_not_found("[checkpoint] there is no '" + place +
                   "'; name a checkpoint, a run directory, or a folder with runs");
  place = behind_hint(files, place);
  if (!files.is_folder(place))
    fail_invalid("[checkpoint] '" + place +
                 "' is a file; name a checkpoint, a run directory, or a folder with runs");
  const bool committed = files.exists(join_path(place, kManifestName));
  if (committed || parse_checkpoint_name(name_of(place))) {
    found.kind = PlaceKind::kCheckpoint;
    if (parse_checkpoint_name(name_of(place)))
      add_folder(files, folder_of(place), name_of(place), found.checkpoints);
    else
      found.checkpoints.push_back(look_at(files, folder_of(place), name_of(place)));
    if (found.checkpoints.empty())
      fail_not_found("[checkpoint] '" + place + "' has been deleted meanwhile");
    found.checkpoints[0].path = place;
    return found;
  }
  if (!missing_in_save(files, place).empty()) {
    found.kind = PlaceKind::kCheckpoint;
    found.checkpoints.push_back(look_at_unfinished(files, folder_of(place), name_of(place)));
    found.checkpoints[0].path = place;
    return found;
  }
  const std::string inside = join_path(place, kCheckpoints);
  found.kind = has_checkpoints(files, place)    ? PlaceKind::kCheckpoints
               : has_checkpoints(files, inside) ? PlaceKind::kRun
                                                : PlaceKind::kRuns;
  if (found.kind == PlaceKind::kRun)
    add_folder(files, inside, "", found.checkpoints);
  else
    add_below(files, place, 0, found.checkpoints);
  return found;
}

std::string choose_checkpoint(FileSystem& files, const std::string& place) {
  std::string path = behind_hint(files, tidy(place));
  if (!path.empty() && files.is_file(join_path(path, kManifestName))) return path;
  const Survey found = survey(files, place);
  if (found.kind == PlaceKind::kCheckpoint) {
    const Surveyed& one = found.checkpoints.at(0);
    if (one.condition == Condition::kNotCommitted)
      fail_not_found("[checkpoint] " + unfinished_text(place, one.fault) + kNameOne);
    return one.path;
  }
  std::string faults;
  if (found.kind != PlaceKind::kRuns) {
    for (const Surveyed& c : found.checkpoints)
      if (c.order_unknown) fail_refused(c.path, c.fault);
    for (const Surveyed& c : found.checkpoints) {
      if (c.unreadable) fail_refused(c.path, c.fault);
      if (c.condition == Condition::kComplete || c.condition == Condition::kNewerFormat)
        return c.path;  // opening it tells of a newer format
      if (c.condition != Condition::kDamaged) continue;
      faults += "\n  " + c.name + ": " + c.fault;
    }
  }
  if (!faults.empty())
    fail_data("[checkpoint] no checkpoint in '" + place +
              "' is intact; restore one from a backup:" + faults);
  const auto whole =
      std::find_if(found.checkpoints.begin(), found.checkpoints.end(),
                   [](const Surveyed& c) { return c.condition != Condition::kNotCommitted; });
  if (whole != found.checkpoints.end())
    fail_not_found("[checkpoint] '" + place + "' holds checkpoints of several runs, such as '" +
                   whole->path + "'" + kNameOne);
  if (Weights::is_folder_of_weights(files, place))
    fail_not_found("[checkpoint] '" + place +
                   "' holds weights alone, without the manifest of a checkpoint" + kNameOne);
  fail_not_found("[checkpoint] '" + place + "' is not a checkpoint and contains none" +
                 unfinished_saves(files, place) + kNameOne);
}

namespace {

bool is_intact(FileSystem& files, const Surveyed& c) {
  try {
    const Checkpoint read(files, c.path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string newest_with_states(FileSystem& files, const std::string& checkpoint) {
  if (!parse_checkpoint_name(name_of(checkpoint))) return "";
  try {
    for (const Surveyed& c : survey(files, folder_of(checkpoint)).checkpoints)
      if (c.condition == Condition::kComplete && !c.state.states_left_out && is_intact(files, c))
        return c.path;
  } catch (const Error&) {
    // The message that asks tells of another error.
  }
  return "";
}

BestValue best_value(const RunState& state) {
  BestValue best;
  const JsonValue extra = parse_json(state.extra);
  const auto text = [&](const char* key) {
    const JsonValue* v = extra.find(key);
    return v && v->is(JsonValue::Kind::kText) ? v->text : std::string();
  };
  best.metric = text("kept_metric");
  best.value = std::strtod(text("kept_best").c_str(), nullptr);
  const JsonValue* step = extra.find("kept_step");
  if (step && step->is(JsonValue::Kind::kWhole)) best.step = static_cast<int64_t>(step->whole);
  return best;
}

}  // namespace plait::checkpoint
