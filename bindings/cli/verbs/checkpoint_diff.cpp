// plait checkpoint diff: in what two checkpoints differ.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <plait/checkpoint.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/stop_request.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/terminal/bar.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

struct DiffArguments {
  std::string a, b, only;
  bool all = false;  // rows of tables
};

// A table of the first kRows of `items`, or of all.
class Rows {
 public:
  Rows(Terminal& terminal, bool all) : t_(terminal), all_(all) {}
  template <class F>
  void show(const char* columns, const std::vector<std::string>& head, const Json& items,
            const F& row_of) const {
    if (items.empty()) return;
    t_.line("");
    Table table(columns);
    table.row(head);
    const size_t n = all_ ? items.size() : std::min(items.size(), kRows);
    for (size_t i = 0; i < n; ++i) table.row(row_of(items[i]));
    t_.raw(table.text());
    if (n < items.size()) t_.line(strf("... and %zu more; --all shows them", items.size() - n));
  }

 private:
  static constexpr size_t kRows = 20;
  Terminal& t_;
  const bool all_;
};

// A value may be a long array, or a text of several lines.
std::string cell(const Json& value) {
  constexpr size_t kMost = 48;
  if (value.is_null()) return "-";
  std::string text = plain(value.get<std::string>());
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return text;
}

std::vector<std::string> change_row(const Json& c) {
  return {plain(c.at("key").get<std::string>()), cell(c.at("a")), cell(c.at("b"))};
}

std::string numbers_text(const Json& numbers) {
  std::string text;
  for (const Json& n : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(n.get<int64_t>());
  return text;
}

std::vector<std::string> tensor_row(const Json& one) {
  return {plain(one.at("name").get<std::string>()), one.at("dtype").get<std::string>(),
          "(" + numbers_text(one.at("shape")) + ")"};
}

// "F32", "F32 | BF16".
std::string both(const std::string& a, const std::string& b) { return a == b ? a : a + " | " + b; }

std::vector<std::string> changed_row(const Json& one) {
  std::vector<std::string> row{
      plain(one.at("name").get<std::string>()),
      both(one.at("dtype")[0].get<std::string>(), one.at("dtype")[1].get<std::string>()),
      both("(" + numbers_text(one.at("shape")[0]) + ")",
           "(" + numbers_text(one.at("shape")[1]) + ")")};
  if (one.at("elements").is_null()) {
    row.insert(row.end(), {"not compared", "", "", ""});
    return row;
  }
  const bool finite = !one.at("at").is_null();
  row.push_back(strf("%llu of %llu", one.at("different").get<unsigned long long>(),
                     one.at("elements").get<unsigned long long>()));
  row.push_back(finite ? metric_text(number(one.at("max_abs"))) : "-");
  row.push_back(finite ? metric_text(number(one.at("max_rel"))) : "-");
  row.push_back(finite ? "[" + numbers_text(one.at("at")) + "]" : "");
  if (const auto odd = one.at("not_finite").get<unsigned long long>(); odd > 0)
    row.back() += strf("%s%llu not finite", row.back().empty() ? "" : ", ", odd);
  return row;
}

// How many of each kind of difference, on a line.
std::string summary(const Json& diff) {
  size_t shapes = 0, types = 0, numbers = 0;
  for (const Json& one : diff.at("changed")) {
    const bool shape = one.at("shape")[0] != one.at("shape")[1];
    const bool type = one.at("dtype")[0] != one.at("dtype")[1];
    ++(shape ? shapes : type ? types : numbers);
  }
  std::string text;
  const auto add = [&text](size_t n, const char* what) {
    if (n > 0) text += (text.empty() ? "" : ", ") + std::to_string(n) + " " + what;
  };
  add(diff.at("state").size(), "of the state");
  add(diff.at("settings").size(), "of the settings");
  add(diff.at("only_a").size(), "only in A");
  add(diff.at("only_b").size(), "only in B");
  add(shapes, "of other shapes");
  add(types, "of other types");
  add(numbers, "with other numbers");
  return "differences: " + text;
}

void show_diff(Terminal& t, const Json& diff, bool all) {
  t.line("A  " + plain(diff.at("a").get<std::string>()));
  t.line("B  " + plain(diff.at("b").get<std::string>()));
  const auto tensors = diff.at("tensors").get<unsigned long long>(),
             elements = diff.at("elements").get<unsigned long long>();
  if (diff.at("equal").get<bool>())
    return t.line(strf("\nno difference; %llu tensors with %llu elements are equal bit by bit",
                       tensors, elements));
  t.line(summary(diff));
  t.line(strf("%zu of %llu tensors that both have differ; %llu elements were compared\n",
              diff.at("changed").size(), tensors, elements));
  const Rows rows(t, all);
  rows.show("lll", {"state", "A", "B"}, diff.at("state"), change_row);
  rows.show("lll", {"setting", "A", "B"}, diff.at("settings"), change_row);
  rows.show("lll", {"only in A", "type", "shape"}, diff.at("only_a"), tensor_row);
  rows.show("lll", {"only in B", "type", "shape"}, diff.at("only_b"), tensor_row);
  rows.show("lllrrrl", {"tensor", "type", "shape", "different", "greatest", "relative", "at"},
            diff.at("changed"), changed_row);
}

int diff(Context& context, const DiffArguments& arguments) {
  constexpr int kDifferent = 1;
  context.failed = kUsage;  // 1 says that they differ
  Engine engine = context.open_engine();
  const StopRequest stop;
  const uint32_t what = arguments.only == "tensors"      ? PLAIT_COMPARE_TENSORS
                        : arguments.only == "parameters" ? PLAIT_COMPARE_PARAMETERS
                                                         : PLAIT_COMPARE_EVERYTHING;
  Json found;
  {
    Bar bar(context.terminal, "comparing");
    found = Json::parse(compare_checkpoints(engine, arguments.a, arguments.b, what,
                                            [&](uint64_t done, uint64_t total) {
                                              bar.update(done, total);
                                              return stop.asked();
                                            }));
  }
  context.terminal.record(found);
  if (context.terminal.human()) show_diff(context.terminal, found, arguments.all);
  return found.at("equal").get<bool>() ? kOk : kDifferent;
}

}  // namespace

void add_checkpoint_diff(CLI::App& checkpoint, Context& context) {
  CLI::App* verb = checkpoint.add_subcommand(
      "diff", "shows in what two checkpoints differ; exit code 1 if they do, 2 for a failure");
  const auto arguments = std::make_shared<DiffArguments>();
  verb->add_option("A", arguments->a, "a checkpoint, or a run directory: its newest one")
      ->required()
      ->type_name("PATH");
  verb->add_option("B", arguments->b, "another one, of the same ranks or others")
      ->required()
      ->type_name("PATH");
  verb->add_option("--only", arguments->only,
                   "compares no state and settings, or only the model's parameters")
      ->check(CLI::IsMember({"tensors", "parameters"}));
  verb->add_flag("--all", arguments->all, "shows all rows of the tables, not the first 20 of each");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return diff(context, *arguments); };
  });
}

}  // namespace plait::cli
