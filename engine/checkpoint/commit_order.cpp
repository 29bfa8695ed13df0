#include "engine/checkpoint/commit_order.hpp"

#include <algorithm>
#include <charconv>

#include "engine/base/error.hpp"

namespace plait::checkpoint {

namespace {

bool higher_step(const Commit& a, const Commit& b) {
  return a.step != b.step ? a.step > b.step : a.revision > b.revision;
}

bool later(const Commit& a, const Commit& b) {
  return a.number != b.number ? a.number > b.number : higher_step(a, b);
}

// The value of `key` in lines of the form `"key": value,`; "" when absent.
std::string_view value_of(std::string_view lines, std::string_view key) {
  const std::string wanted = "\"" + std::string(key) + "\": ";
  const size_t at = lines.find(wanted);
  if (at == std::string_view::npos) return {};
  lines.remove_prefix(at + wanted.size());
  std::string_view value = lines.substr(0, lines.find('\n'));
  if (!value.empty() && value.back() == ',') value.remove_suffix(1);
  if (value.size() > 1 && value.front() == '"') value = value.substr(1, value.size() - 2);
  return value;
}

int64_t number_of(std::string_view lines, std::string_view key) {
  const std::string_view text = value_of(lines, key);
  if (text.empty()) return 0;
  int64_t number = 0;
  const auto end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number < 0 || number > kMaxCount)
    fail_data("[checkpoint] '" + std::string(key) + "' is not a whole number from 0 to 2^53");
  return number;
}

// Searches the text for the few values instead of parsing it: every save calls this, so it should
// not parse all tensors or allocate a parser.
void read_head(std::string_view head, Commit& commit) {
  constexpr std::string_view kBegin = "\n  \"lineage\": {";
  commit.states_left_out = says_states_left_out(head);
  const size_t at = head.find(kBegin);
  if (at == std::string_view::npos) return;
  head.remove_prefix(at + kBegin.size());
  head = head.substr(0, head.find('}'));
  commit.number = number_of(head, "commit");
  commit.lineage = value_of(head, "id");
  commit.from = number_of(head, "from");
}

Commit read_commit(FileSystem& files, const std::string& folder, const CheckpointName& name) {
  Commit commit;
  static_cast<CheckpointName&>(commit) = name;
  const std::string checkpoint = join_path(folder, name.name);
  try {
    read_head(read_manifest_head(files, checkpoint), commit);
    commit.readable = true;
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;  // the commit may well be readable
    if (is_of_machine(files, checkpoint, e)) commit.refused = without_part(e.text());
    // Damage is reported when the checkpoint is opened.
  }
  return commit;
}

void mark_stale(std::vector<Commit>& commits) {
  std::sort(commits.begin(), commits.end(), later);
  // of each lineage, one commit that is later than the current one
  std::vector<const Commit*> lineages;
  for (Commit& c : commits) {
    if (!c.readable) continue;
    bool known = false;
    for (const Commit* t : lineages) {
      if (t->lineage == c.lineage)
        known = true;
      else if (c.step > t->from)
        c.stale = true;
    }
    // An engine without lineages always continued from the newest checkpoint, so nothing is stale.
    if (!known && !c.lineage.empty()) lineages.push_back(&c);
  }
}

}  // namespace

std::vector<CheckpointName> checkpoint_names(FileSystem& files, const std::string& folder) {
  std::vector<CheckpointName> all;
  if (!files.is_folder(folder)) return all;
  for (const std::string& name : files.list(folder))
    if (auto parsed = parse_checkpoint_name(name)) all.push_back(std::move(*parsed));
  return all;
}

std::vector<Commit> read_commits(FileSystem& files, const std::string& folder) {
  std::vector<Commit> all;
  for (const CheckpointName& name : checkpoint_names(files, folder))
    all.push_back(read_commit(files, folder, name));
  mark_stale(all);
  return all;
}

void sort_newest_first(std::vector<Commit>& commits) {
  std::sort(commits.begin(), commits.end(), [](const Commit& a, const Commit& b) {
    if (a.stale != b.stale) return b.stale;
    return a.stale ? later(a, b) : higher_step(a, b);
  });
}

void sort_for_retention(std::vector<Commit>& commits) {
  sort_newest_first(commits);
  std::stable_partition(commits.begin(), commits.end(), [](const Commit& c) { return c.readable; });
}

std::vector<CheckpointName> list_checkpoints(FileSystem& files, const std::string& folder) {
  std::vector<Commit> commits = read_commits(files, folder);
  sort_newest_first(commits);
  return {commits.begin(), commits.end()};
}

bool is_of_machine(FileSystem& files, const std::string& checkpoint, const Error& e) {
  if (e.code() != PLAIT_ERR_IO) return e.code() == PLAIT_ERR_MEMORY;
  // A folder in place of the manifest, or a file in place of the checkpoint, is damage.
  try {
    return files.is_file(join_path(checkpoint, kManifestName));
  } catch (const Error&) {
    return true;
  }
}

void fail_refused(const std::string& checkpoint, const std::string& why) {
  fail(PLAIT_ERR_IO,
       "[checkpoint] '" + checkpoint + "' could not be read (" + why +
           "): it may be whole, so no other one is used instead; give permission to read it, raise "
           "the limit of open files, or look at the disk, and try again; or move it out of '" +
           folder_of(checkpoint) + "' to do without it");
}

}  // namespace plait::checkpoint
