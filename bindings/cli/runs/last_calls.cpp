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

#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/line_reader.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;
constexpr char kEnd[] = ".calls.json";

struct Group {
  std::string backend;
  std::set<int> ranks;                      // the members
  std::map<int, ApartGroup::Member> known;  // of those that left a record
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
  std::string name, backend;
  std::set<int> ranks;
  ApartGroup::Member last;
};

GroupRecord group_record(const Json& g, int rank) {
  GroupRecord one{g.at("group").get<std::string>(), g.value("backend", ""), {}, {rank, true}};
  for (const Json& member : g.at("ranks")) one.ranks.insert(rank_of(member));
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
  const int rank = rank_of(record.at("rank"));
  if (name != strf("rank-%d", rank) + kEnd) throw Damaged();  // the record of another rank
  std::vector<GroupRecord> all;
  for (const Json& g : record.at("groups")) all.push_back(group_record(g, rank));
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
        group.backend = one.backend;
        group.ranks.merge(one.ranks);
        group.known[one.last.rank] = std::move(one.last);
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

// Its members side by side; `newest` is 0 where all have ended the same call.
ApartGroup compared(const std::string& name, const Group& group) {
  ApartGroup all{name, group.backend, 0, "", {}, 0};
  bool silent = false, all_finished = true;
  for (const int rank : group.ranks) {
    const auto found = group.known.find(rank);
    silent = silent || found == group.known.end();
    all.members.push_back(found == group.known.end() ? ApartGroup::Member{rank} : found->second);
    if (!all.members.back().recorded || all.members.back().started < all.newest) continue;
    all.newest = all.members.back().started;
    all.call = all.members.back().call;
  }
  uint64_t least = all.newest;
  for (const ApartGroup::Member& m : all.members) {
    if (!m.recorded) continue;
    all_finished = all_finished && m.finished.value_or(0) >= m.started;
    least = std::min(least, m.started);
  }
  if (least == all.newest && (all_finished || !silent)) all.newest = 0;
  all.apart = all.newest - std::min(least, all.newest) + (silent ? 1 : 0);
  return all;
}

}  // namespace

std::vector<ApartGroup> last_calls(const std::string& run) {
  constexpr size_t kMost = 4;
  std::vector<ApartGroup> all;
  for (const auto& [name, group] : read_groups(run))
    if (ApartGroup one = compared(name, group); one.newest > 0) all.push_back(std::move(one));
  std::stable_sort(all.begin(), all.end(),
                   [](const ApartGroup& a, const ApartGroup& b) { return a.apart > b.apart; });
  if (all.size() > kMost) all.resize(kMost);
  return all;
}

std::string text_of(const ApartGroup& group) {
  std::vector<int> there, silent;
  std::map<uint64_t, std::vector<int>> behind;
  for (const ApartGroup::Member& m : group.members)
    (!m.recorded                 ? silent
     : m.started == group.newest ? there
                                 : behind[m.started])
        .push_back(m.rank);
  std::string text = "group " + group.name + ": " + ranks_text(there) +
                     strf(" started call %llu", static_cast<unsigned long long>(group.newest)) +
                     " (" + group.call + ")";
  for (const auto& [number, ranks] : behind)
    text +=
        ", " + ranks_text(ranks) +
        (number == 0 ? " none" : strf(" only call %llu", static_cast<unsigned long long>(number)));
  if (!silent.empty()) text += "; " + ranks_text(silent) + " left no record";
  return plain(text);
}

Json record_of(const ApartGroup& group) {
  Json ranks = Json::array();
  for (const ApartGroup::Member& m : group.members) {
    Json& one = ranks.emplace_back(
        Json{{"rank", m.rank}, {"started", nullptr}, {"finished", nullptr}, {"call", nullptr}});
    if (m.recorded) one["started"] = m.started;
    if (m.finished) one["finished"] = *m.finished;
    if (m.started > 0) one["call"] = m.call;
  }
  return {{"group", group.name},
          {"backend", group.backend},
          {"number", group.newest},
          {"call", group.call},
          {"ranks", ranks}};
}

}  // namespace plait::cli
