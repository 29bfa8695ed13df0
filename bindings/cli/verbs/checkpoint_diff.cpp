// plait checkpoint diff: in what two checkpoints differ.
#include <CLI/CLI.hpp>
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
};

// A value may be a long array, or a text of several lines.
std::string cell(const Json& value) {
  constexpr size_t kMost = 48;
  if (value.is_null()) return "-";
  std::string text = plain(value.get<std::string>());
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return text;
}

void show_changes(Terminal& t, const char* title, const Json& changes) {
  if (changes.empty()) return;
  Table table("lll");
  table.row({title, "A", "B"});
  for (const Json& c : changes)
    table.row({plain(c.at("key").get<std::string>()), cell(c.at("a")), cell(c.at("b"))});
  t.raw(table.text());
  t.line("");
}

std::string numbers_text(const Json& numbers) {
  std::string text;
  for (const Json& n : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(n.get<int64_t>());
  return text;
}

void show_only(Terminal& t, const char* title, const Json& tensors) {
  if (tensors.empty()) return;
  Table table("lll");
  table.row({title, "type", "shape"});
  for (const Json& one : tensors)
    table.row({plain(one.at("name").get<std::string>()), one.at("dtype").get<std::string>(),
               "(" + numbers_text(one.at("shape")) + ")"});
  t.raw(table.text());
  t.line("");
}

// "F32", "F32 | BF16".
std::string both(const std::string& a, const std::string& b) { return a == b ? a : a + " | " + b; }

void show_changed(Terminal& t, const Json& tensors) {
  if (tensors.empty()) return;
  Table table("lllrrrl");
  table.row({"tensor", "type", "shape", "different", "greatest", "relative", "at"});
  for (const Json& one : tensors) {
    std::vector<std::string> row{
        plain(one.at("name").get<std::string>()),
        both(one.at("dtype")[0].get<std::string>(), one.at("dtype")[1].get<std::string>()),
        both("(" + numbers_text(one.at("shape")[0]) + ")",
             "(" + numbers_text(one.at("shape")[1]) + ")")};
    if (one.at("elements").is_null()) {
      row.insert(row.end(), {"not compared", "", "", ""});
    } else {
      const bool finite = !one.at("at").is_null();
      row.push_back(strf("%llu of %llu", one.at("different").get<unsigned long long>(),
                         one.at("elements").get<unsigned long long>()));
      row.push_back(finite ? metric_text(number(one.at("max_abs"))) : "-");
      row.push_back(finite ? metric_text(number(one.at("max_rel"))) : "-");
      row.push_back(finite ? "[" + numbers_text(one.at("at")) + "]" : "");
      if (const auto odd = one.at("not_finite").get<unsigned long long>(); odd > 0)
        row.back() += strf("%s%llu not finite", row.back().empty() ? "" : ", ", odd);
    }
    table.row(std::move(row));
  }
  t.raw(table.text());
  t.line("");
}

void show_diff(Terminal& t, const Json& diff) {
  t.line("A  " + plain(diff.at("a").get<std::string>()));
  t.line("B  " + plain(diff.at("b").get<std::string>()));
  t.line("");
  show_changes(t, "state", diff.at("state"));
  show_changes(t, "setting", diff.at("settings"));
  show_only(t, "only in A", diff.at("only_a"));
  show_only(t, "only in B", diff.at("only_b"));
  show_changed(t, diff.at("changed"));
  const auto tensors = diff.at("tensors").get<unsigned long long>(),
             elements = diff.at("elements").get<unsigned long long>();
  if (diff.at("equal").get<bool>())
    t.line(strf("no difference; %llu tensors with %llu elements are equal bit by bit", tensors,
                elements));
  else
    t.line(strf("%zu of %llu tensors that both have differ; %llu elements were compared",
                diff.at("changed").size(), tensors, elements));
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
  if (context.terminal.human()) show_diff(context.terminal, found);
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
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return diff(context, *arguments); };
  });
}

}  // namespace plait::cli
