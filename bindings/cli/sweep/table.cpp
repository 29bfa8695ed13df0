#include "bindings/cli/sweep/table.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

// The end of each key that no other has, from a dot on.
std::vector<std::string> short_keys(const std::vector<SweepAxis>& axes) {
  std::vector<std::string> all;
  for (const SweepAxis& axis : axes) {
    size_t at = axis.key.rfind('.');
    const auto shared = [&](const SweepAxis& other) {
      return &other != &axis && ("." + other.key).ends_with(axis.key.substr(at));
    };
    while (at != std::string::npos && std::any_of(axes.begin(), axes.end(), shared))
      at = at == 0 ? std::string::npos : axis.key.rfind('.', at - 1);
    all.push_back(at == std::string::npos ? axis.key : axis.key.substr(at + 1));
  }
  return all;
}

// wide: with whole keys, and the reasons of failures in a column.
Table table_of(const SweepTable& s, const std::vector<size_t>& order, bool wide) {
  const bool has_loss = s.metric != "mean_loss";
  const bool reasons =
      wide && std::any_of(s.trials.begin(), s.trials.end(), std::mem_fn(&Trial::failed));
  Table table("l" + std::string(s.axes.size(), 'l') + (has_loss ? "rrrl" : "rrl") +
              (reasons ? "l" : ""));
  std::vector<std::string> head{"trial"};
  const std::vector<std::string> keys = short_keys(s.axes);
  for (size_t k = 0; k < keys.size(); ++k) head.push_back(wide ? s.axes[k].key : keys[k]);
  head.push_back(s.metric);
  if (has_loss) head.emplace_back("mean_loss");
  head.insert(head.end(), {"step", "state"});
  if (reasons) head.emplace_back("reason");
  table.row(head);
  const auto text = [](const std::string& name, double value) {
    return std::isnan(value) ? "" : value_text(name, value);
  };
  for (const size_t i : order) {
    const Trial& trial = s.trials[i];
    std::vector<std::string> row{strf("%04zu", i)};
    for (const std::string& word : trial.overrides) row.push_back(word.substr(word.find('=') + 1));
    row.push_back(text(s.metric, trial.value));
    if (has_loss) row.push_back(text("mean_loss", trial.loss));
    row.insert(row.end(), {strf("%lld", static_cast<long long>(trial.run.step)), trial.state()});
    if (reasons) row.push_back(trial.reason());
    table.row(row);
  }
  return table;
}

}  // namespace

std::string words_of_trial(const std::vector<SweepAxis>& axes, const Trial& trial,
                           bool short_names) {
  if (!short_names) return joined(trial.overrides, " ");
  const std::vector<std::string> keys = short_keys(axes);
  std::string all;
  for (size_t k = 0; k < trial.overrides.size(); ++k) {
    const std::string& word = trial.overrides[k];
    all += (k ? " " : "") + keys[k] + word.substr(word.find('='));
  }
  return all;
}

void show_trials(Terminal& t, const SweepTable& s, const std::vector<size_t>& order) {
  const std::string wide = table_of(s, order, true).text();
  if (fits(wide, t.columns())) return t.raw(wide);
  t.raw(table_of(s, order, false).fitted("", t.columns(), t.utf8()));
  for (const size_t i : order)
    if (s.trials[i].failed()) t.paragraph(strf("%04zu failed: ", i) + s.trials[i].reason());
}

void tell_comparison(Terminal& t, const std::vector<Trial>& trials,
                     const std::vector<size_t>& order) {
  constexpr int kMost = 4;  // whose curves one still tells apart
  std::string command = "  plait compare";
  int n = 0;
  for (const size_t i : order) {
    if (n == kMost) break;
    if (trials[i].failed() || trials[i].run.step == 0) continue;
    const std::string longer = command + " " + path_word(trials[i].path);
    if (n >= 2 && !fits(longer, t.columns())) break;
    command = longer;
    ++n;
  }
  if (n < 2) return;
  t.line("compare the best:");
  t.line(command);
}

}  // namespace plait::cli
