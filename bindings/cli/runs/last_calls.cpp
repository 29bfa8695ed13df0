#include "bindings/cli/runs/last_calls.hpp"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/line_reader.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;
constexpr char kEnd[] = ".calls.json";

struct Group {
  std::set<int> members;
  struct Last {
    uint64_t started = 0;
    std::optional<uint64_t> finished;
    std::string call;  // the newest
  };
  std::map<int, Last> of;  // by rank, of those that left a record
};

bool not_too_deep(int depth, Json::parse_event_t, Json&) { return depth < 20; }

struct Damaged : std::exception {};

// The library would make another number of one that is negative, broken or too large.
uint64_t count_of(const Json& value, uint64_t most = UINT64_MAX) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most) throw Damaged();
  return value.get<uint64_t>();
}

int rank_of(const Json& value) {
  return static_cast<int>(count_of(value, static_cast<uint64_t>(INT_MAX)));
}

struct GroupRecord {
  std::string name;
  std::set<int> members;
  Group::Last last;
};

GroupRecord group_record(const Json& g) {
  GroupRecord one;
  one.name = g.at("group").get<std::string>();
  for (const Json& member : g.at("ranks")) one.members.insert(rank_of(member));
  if (const Json& finished = g.at("finished"); !finished.is_null())
    one.last.finished = count_of(finished);
  if (const Json& calls = g.at("calls"); !calls.empty()) {
    one.last.started = count_of(calls.back().at("number"));
    one.last.call = calls.back().at("call").get<std::string>();
  }
  return one;
}

// What rank `name` left; nothing of it unless all of it is whole.
std::vector<GroupRecord> groups_of(const Json& record, const std::string& name) {
  if (name != strf("rank-%d", rank_of(record.at("rank"))) + kEnd)
    throw Damaged();  // the record of another rank
  std::vector<GroupRecord> all;
  for (const Json& g : record.at("groups")) all.push_back(group_record(g));
  return all;
}

std::map<std::string, Group> read_groups(const std::string& run) {
  std::map<std::string, Group> groups;
  std::error_code error;
  for (fs::directory_iterator it(run + "/log", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("rank-") || !name.ends_with(kEnd)) continue;
    try {
      const Json record = Json::parse(read_small_file(it->path().string()), not_too_deep, true);
      for (GroupRecord& one : groups_of(record, name)) {
        Group& group = groups[one.name];
        group.members.merge(one.members);
        group.of[rank_of(record.at("rank"))] = std::move(one.last);
      }
    } catch (const Json::exception&) {  // as if the rank had left none
    } catch (const Damaged&) {
    }
  }
  return groups;
}

// "rank 3", "ranks 0, 1, 2 and 5 more".
std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMost = 4;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t shown = ranks.size() > kMost ? kMost - 1 : ranks.size();
  for (size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  if (shown < ranks.size()) text += strf(" and %zu more", ranks.size() - shown);
  return text;
}

// How far apart the members are, and the sentence; "" where all have ended the same call.
std::tuple<uint64_t, std::string> sentence(const std::string& name, const Group& group) {
  Group::Last newest;
  for (const auto& [rank, last] : group.of)
    if (last.started >= newest.started) newest = last;
  if (newest.started == 0) return {0, ""};
  uint64_t least = newest.started;
  bool all_finished = true;
  std::vector<int> there, silent;
  std::map<uint64_t, std::vector<int>> behind;
  for (const int rank : group.members) {
    const auto found = group.of.find(rank);
    if (found == group.of.end()) {
      silent.push_back(rank);
      continue;
    }
    const Group::Last& last = found->second;
    all_finished = all_finished && last.finished.value_or(0) >= last.started;
    least = std::min(least, last.started);
    (last.started == newest.started ? there : behind[last.started]).push_back(rank);
  }
  if (behind.empty() && (all_finished || silent.empty())) return {0, ""};
  std::string text = "group " + name + ": " + ranks_text(there) +
                     strf(" started call %llu", static_cast<unsigned long long>(newest.started)) +
                     " (" + newest.call + ")";
  for (const auto& [number, ranks] : behind)
    text +=
        ", " + ranks_text(ranks) +
        (number == 0 ? " none" : strf(" only call %llu", static_cast<unsigned long long>(number)));
  if (!silent.empty()) text += "; " + ranks_text(silent) + " left no record";
  return {newest.started - least + (silent.empty() ? 0 : 1), text};
}

}  // namespace

std::vector<std::string> last_calls(const std::string& run) {
  constexpr size_t kMost = 4;
  std::vector<std::tuple<uint64_t, std::string>> all;
  for (const auto& [name, group] : read_groups(run))
    if (auto one = sentence(name, group); !std::get<1>(one).empty()) all.push_back(std::move(one));
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return std::get<0>(a) > std::get<0>(b); });
  if (all.size() > kMost) all.resize(kMost);
  std::vector<std::string> texts;
  for (auto& [apart, text] : all) texts.push_back(plain(text));
  return texts;
}

}  // namespace plait::cli
