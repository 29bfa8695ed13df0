#include "bindings/cli/board/board.hpp"

#include <algorithm>

#include "bindings/cli/terminal/screen.hpp"

namespace plait::cli {
namespace {

std::string joined_paths(const std::vector<std::string>& folders) {
  std::string all;
  for (const std::string& folder : folders) all += (all.empty() ? "" : " ") + folder;
  return all;
}

}  // namespace

Board::Board(std::vector<std::string> folders, std::string value, bool log, size_t limit)
    : list_(std::move(folders)), value_(std::move(value)), log_(log), limit_(limit) {}

// Each curve keeps its place, and so its color, for as long as it is drawn.
void Board::choose_curves() {
  std::set<std::string> drawn;
  if (chosen_)
    drawn = *chosen_;
  else
    for (size_t i = 0; i < std::min({list_.runs().size(), kMostDrawn, limit_}); ++i)
      drawn.insert(list_.runs()[i].path);
  for (std::string& path : curves_)
    if (!drawn.contains(path)) path.clear();
  for (const RunList::Run& run : list_.runs()) {
    if (!drawn.contains(run.path) ||
        std::find(curves_.begin(), curves_.end(), run.path) != curves_.end())
      continue;
    const auto free = std::find(curves_.begin(), curves_.end(), "");
    if (free == curves_.end())
      curves_.push_back(run.path);
    else
      *free = run.path;
  }
  while (!curves_.empty() && curves_.back().empty()) curves_.pop_back();
}

size_t Board::marked() const {
  const auto& runs = list_.runs();
  const auto at = std::find_if(runs.begin(), runs.end(),
                               [&](const RunList::Run& run) { return run.path == mark_; });
  return at == runs.end() ? 0 : static_cast<size_t>(at - runs.begin());
}

bool Board::update(size_t rows, size_t most) {
  const auto& runs = list_.runs();
  const size_t at = marked();
  // As it was, unless there is nothing below, or the mark would be above or below.
  first_ = std::min({first_, runs.size() - std::min(rows, runs.size()), at});
  if (rows > 0) first_ = std::max(first_, at + 1 - std::min(at + 1, rows));
  shown_ = std::min(rows, runs.size() - first_);
  std::map<std::string, std::unique_ptr<WatchedRun>> kept;
  for (size_t i = first_; i < first_ + shown_; ++i) {
    std::unique_ptr<WatchedRun>& run = kept[runs[i].path];
    if (const auto known = runs_.find(runs[i].path); known != runs_.end())
      run = std::move(known->second);
    if (!run) run = std::make_unique<WatchedRun>(runs[i].path);
    run->update();
  }
  runs_ = std::move(kept);
  choose_curves();
  std::erase_if(readers_, [&](const auto& of) {
    return std::find(curves_.begin(), curves_.end(), of.first) == curves_.end();
  });
  reading_ = false;
  for (const std::string& path : curves_) {
    if (path.empty()) continue;
    std::unique_ptr<CurveReader>& reader = readers_[path];
    if (!reader)
      reader = std::make_unique<CurveReader>(
          path + "/metrics.ndjson", [value = value_](const std::string& n) { return n == value; });
    reading_ |= reader->read(most);
  }
  return reading_;
}

BoardScreen Board::screen() const {
  BoardScreen screen;
  screen.title = joined_paths(list_.folders());
  for (const char* state :
       {"running", "done", "failed", "interrupted", "dropped", "lost", "unknown"})
    if (const size_t n = list_.count(state)) screen.states.emplace_back(state, n);
  screen.value = value_;
  screen.log = log_;
  screen.reading = reading_;
  screen.curves.resize(curves_.size());
  const auto& runs = list_.runs();
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto at = std::find(curves_.begin(), curves_.end(), runs[i].path);
    const bool drawn = at != curves_.end();
    if (drawn) {
      Curve& curve = screen.curves[static_cast<size_t>(at - curves_.begin())];
      const auto reader = readers_.find(runs[i].path);
      if (reader != readers_.end())
        for (Curve& c : reader->second->curves()) curve.points = std::move(c.points);
      curve.name = runs[i].name;
    }
    const auto run = runs_.find(runs[i].path);
    if (i < first_ || i >= first_ + shown_ || run == runs_.end()) continue;
    screen.rows.push_back({runs[i].name, run->second->record(), run->second->loss(),
                           run->second->seconds_left(),
                           drawn ? static_cast<int>(at - curves_.begin()) : -1,
                           !mark_.empty() && runs[i].path == mark_});
  }
  return screen;
}

std::set<std::string> Board::names() const {
  std::set<std::string> all;
  for (const auto& [path, reader] : readers_)
    all.insert(reader->names().begin(), reader->names().end());
  return all;
}

void Board::move(int64_t by) {
  const auto n = static_cast<int64_t>(list_.runs().size());
  if (n == 0) return;
  const int64_t from =
      mark_.empty() && by > 0 && by < n ? by - 1 : static_cast<int64_t>(marked()) + by;
  mark_ = list_.runs()[static_cast<size_t>(std::clamp<int64_t>(from, 0, n - 1))].path;
}

void Board::next_value(int by) {
  const std::set<std::string> all = names();
  const std::vector<std::string> names(all.begin(), all.end());
  if (names.empty()) return;
  const auto at = std::find(names.begin(), names.end(), value_);
  const auto n = static_cast<int>(names.size());
  const int from = at == names.end() ? (by > 0 ? -1 : 0) : static_cast<int>(at - names.begin());
  value_ = names[static_cast<size_t>((from + by + n) % n)];
  readers_.clear();
}

void Board::press(int key, size_t rows) {
  const auto page = static_cast<int64_t>(std::max<size_t>(rows, 1));
  constexpr int64_t kAll = INT32_MAX;
  if (key == Screen::kUp || key == 'k') move(-1);
  if (key == Screen::kDown || key == 'j') move(1);
  if (key == Screen::kPageUp) move(-page);
  if (key == Screen::kPageDown) move(page);
  if (key == Screen::kHome) move(-kAll);
  if (key == Screen::kEnd) move(kAll);
  if (key == 'm') next_value(1);
  if (key == 'M') next_value(-1);
  if (key == 'l') log_ = !log_;
  if (key == ' ' && !mark_.empty()) {
    if (!chosen_) chosen_.emplace(curves_.begin(), curves_.end());
    chosen_->erase("");
    if (chosen_->erase(mark_) == 0) chosen_->insert(mark_);
  }
}

}  // namespace plait::cli
