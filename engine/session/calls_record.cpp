#include "engine/session/calls_record.hpp"

#include "engine/base/clock.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"

namespace plait::session {
namespace {

constexpr char kEnd[] = ".calls.json";

// A process that was killed while it wrote one leaves "rank-0.calls.json.tmp-PID".
bool is_record(std::string_view name) {
  return name.starts_with("rank-") &&
         (name.ends_with(kEnd) || name.find(std::string(kEnd) + ".tmp-") != name.npos);
}

void write_group(JsonWriter& w, const runtime::Communicators::GroupCalls& g) {
  w.object().field("group", g.group).field("backend", g.backend).key("ranks").array();
  for (const int32_t rank : g.ranks) w.value(rank);
  w.end_array().key("finished");
  g.finished ? w.value(*g.finished) : w.null();
  w.key("calls").array();
  for (const auto& call : g.started)
    w.object().field("number", call.number).field("call", call.text).end_object();
  w.end_array().end_object();
}

// Without memory nothing is said: the error that ends the run matters more.
void warn(Log& log, const char* what, const std::exception& why) noexcept {
  try {
    log.warn(std::string("[session] ") + what + ": " + why.what());
  } catch (const std::exception&) {
  }
}

}  // namespace

void record_calls(SessionContext& c, std::string_view error) noexcept {
  const runtime::Communicators* groups = c.ranks.communicators();
  if (!groups || c.folder.empty()) return;
  try {
    const std::string folder = join_path(c.folder, "log");
    if (!c.files.is_folder(folder)) return;
    JsonWriter w(true);
    w.object().field("schema", 1).field("rank", c.ranks.rank()).field("ranks", c.ranks.size());
    w.field("step", c.state.step + 1).field("time", unix_seconds());
    w.field("error", error).key("groups").array();
    for (const auto& group : groups->last_calls()) write_group(w, group);
    w.end_array().end_object();
    c.files.replace(join_path(folder, strf("rank-%d", c.ranks.rank()) + kEnd), w.text() + "\n",
                    FileSystem::Sync::kNo);
  } catch (const std::exception& e) {
    warn(c.log, "the last collectives could not be noted", e);
  }
}

void forget_calls(FileSystem& files, const std::string& folder, Log& log) noexcept {
  try {
    const std::string logs = join_path(folder, "log");
    if (!files.is_folder(logs)) return;
    for (const std::string& name : files.list(logs))
      if (is_record(name)) files.remove(join_path(logs, name));
  } catch (const std::exception& e) {
    warn(log, "records of earlier collectives stay", e);
  }
}

}  // namespace plait::session
