// plait completion SHELL: the script of a shell, which asks `plait __complete SHELL WORD...` what
// may stand in place of the last word.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "bindings/cli/data/sets.hpp"
#include "bindings/cli/embedded.hpp"
#include "bindings/cli/help/completion.hpp"
#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/help/key_words.hpp"
#include "bindings/cli/new/templates.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {
namespace {

// {auto,never,must} in the name of an option's type.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

std::string first_line(const std::string& help) {
  return help.substr(0, help.find_first_of(";\n"));
}

// A word as it stands on a command line, without the shell's quotes.
std::string unquoted(const std::string& word) {
  std::string text;
  char quote = 0;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else
        text += c == '\\' && quote == '"' && i + 1 < word.size() ? word[++i] : c;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else {
      text += c == '\\' && i + 1 < word.size() ? word[++i] : c;
    }
  }
  return text;
}

// What the words before the last one mean.
class Line {
 public:
  Line(const CLI::App& app, Context& context, const std::vector<std::string>& before)
      : app_(app), context_(context), verb_(&app) {
    for (const std::string& word : before) take(word);
  }

  std::vector<Candidate> candidates(const std::string& word);

 private:
  void take(const std::string& word);
  // "--data" of this verb or one around it; NULL if there is none.
  const CLI::Option* option(const std::string& name) const;
  bool takes_keys() const { return verb_->get_option_no_throw("key=value") != nullptr; }
  std::string path() const;
  std::vector<Candidate> value_of(const CLI::Option& option, const std::string& word);
  std::vector<Candidate> options(const std::string& word) const;
  std::vector<Candidate> verbs(const CLI::App& of) const;
  // Words of `plait plugins` and `plait keys`.
  std::vector<Candidate> item_names();
  std::vector<Candidate> formats();
  // Tables, their keys and items: words of `plait keys`.
  std::vector<Candidate> declared(const std::string& word);
  std::vector<Candidate> sweep_metrics();
  // What the runs on the line have written.
  std::vector<Candidate> values_of_runs() const;
  // KEY=A,B of a sweep.
  std::vector<Candidate> more_values(const std::string& word);
  std::vector<Candidate> first_argument(const std::string& word);

  const CLI::App& app_;
  Context& context_;
  const CLI::App* verb_;
  bool help_ = false, ended_ = false;     // behind `help`, behind --
  const CLI::Option* pending_ = nullptr;  // whose value comes next
  std::vector<std::string> arguments_;
  FileArguments file_;
};

const CLI::Option* Line::option(const std::string& name) const {
  for (const CLI::App* at = verb_; at; at = at->get_parent())
    if (const CLI::Option* found = at->get_option_no_throw(name)) return found;
  return nullptr;
}

void Line::take(const std::string& word) {
  const auto value = [&](const CLI::Option& of, const std::string& text) {
    if (of.check_lname("data")) context_.data = text;
    if (of.check_lname("plugins")) context_.plugins.push_back(text);
    if (of.check_lname("set")) file_.set.push_back(text);
  };
  if (pending_) return value(*std::exchange(pending_, nullptr), word);
  if (!ended_ && word == "--") return void(ended_ = true);
  if (!ended_ && word.starts_with("-") && word != "-") {
    const size_t equals = word.find('=');
    const CLI::Option* found = option(word.substr(0, equals));
    if (!found || found->get_expected_min() == 0) return;
    if (equals == std::string::npos)
      pending_ = found;
    else
      value(*found, word.substr(equals + 1));
    return;
  }
  if (verb_ == &app_ && word == "help") return void(help_ = true);
  const auto inner =
      verb_->get_subcommands([&](const CLI::App* v) { return v->get_name() == word; });
  if (arguments_.empty() && !inner.empty()) return void(verb_ = inner.front());
  if (arguments_.empty())
    file_.given = word;
  else
    file_.positional.push_back(word);
  arguments_.push_back(word);
}

std::string Line::path() const {
  std::string all;
  for (const CLI::App* at = verb_; at->get_parent(); at = at->get_parent())
    all = at->get_name() + (all.empty() ? "" : " ") + all;
  return all;
}

std::vector<Candidate> Line::verbs(const CLI::App& of) const {
  std::vector<Candidate> all;
  for (const CLI::App* verb : of.get_subcommands([](const CLI::App*) { return true; }))
    all.push_back({verb->get_name(), first_line(verb->get_description())});
  if (&of == &app_ && !help_) all.push_back({"help", "prints the help of a verb"});
  return all;
}

std::vector<Candidate> Line::options(const std::string& word) const {
  std::vector<Candidate> all;
  for (const CLI::App* at = verb_; at; at = at->get_parent())
    for (const CLI::Option* one : at->get_options())
      for (const std::string& name : one->get_lnames()) {
        // The version is that of the program.
        if (at != verb_ && (name == "help" || name == "version")) continue;
        if (("--" + name).starts_with(word))
          all.push_back({"--" + name, first_line(one->get_description())});
      }
  return all;
}

std::vector<Candidate> Line::value_of(const CLI::Option& of, const std::string& word) {
  std::vector<Candidate> all;
  for (const std::string& choice : choices_of(of)) all.push_back({choice, ""});
  if (!all.empty()) return all;
  if (of.check_lname("from") && path() == "new") {
    for (const Template& one : templates()) all.push_back({one.name, one.help});
    return all;
  }
  if (of.check_lname("metric") && path() == "sweep") return sweep_metrics();
  if (of.check_lname("value") || (of.check_lname("sort") && path() == "runs"))
    return values_of_runs();
  if (of.check_lname("set")) return complete_key(context_.open_engine(), file_, word);
  const std::string whole = of.get_type_name(), type = whole.substr(0, whole.find(':'));
  if (type == "DIR") return {{kAnyFolder, ""}};
  static const std::set<std::string> kNoFiles = {"NAME", "STEP", "SECONDS", "INT",      "FLOAT",
                                                 "N",    "RANK", "SIZE",    "TIME",     "URL",
                                                 "LINE", "UINT", "OPTION",  "CONDITION"};
  if (kNoFiles.contains(type)) return {};
  return {{kAnyFile, ""}};
}

std::vector<Candidate> Line::item_names() {
  const Engine engine = context_.open_engine();
  std::vector<Candidate> all;
  std::set<std::string> known;  // items of several kinds may share a name
  for (const Json& item : Declarations(engine).items())
    if (known.insert(item.at("name")).second)
      all.push_back({item.at("name"), kind_word(item.at("kind")) + ": " + item.value("help", "")});
  return all;
}

// Of models of other libraries.
std::vector<Candidate> Line::formats() {
  const Engine engine = context_.open_engine();
  std::vector<Candidate> all;
  for (const Json& item : Declarations(engine).items("plait.format/1"))
    all.push_back({item.at("name"), item.value("help", "")});
  return all;
}

std::vector<Candidate> Line::declared(const std::string& word) {
  const Engine engine = context_.open_engine();
  const Declarations declarations(engine);
  std::map<std::string, std::string> all;  // in order, a key of several tables once
  for (const Json& table : declarations.tables()) {
    std::string name = table.at("path");
    for (size_t at = name.find("[]"); at != name.npos; at = name.find("[]")) name.erase(at, 2);
    all.emplace(name, first_line(table.value("help", "")));
    if (word.empty()) continue;  // hundreds of keys
    const std::string before = word.find('.') == word.npos || name.empty() ? "" : name + ".";
    for (const Json& key : table.at("keys"))
      all.emplace(before + key.at("name").get<std::string>(), first_line(key.value("help", "")));
  }
  all.erase("");
  std::vector<Candidate> found = item_names();
  for (const auto& [name, help] : all) found.push_back({name, help});
  return found;
}

// The loss of training and, where there is an evaluation, its loss and the metrics.
std::vector<Candidate> Line::sweep_metrics() {
  std::vector<Candidate> all{{"mean_loss", "loss of training"}};
  const Engine engine = context_.open_engine();
  const Json values =
      Json::parse(Experiment::read(engine, file_.path(), file_.overrides()).describe());
  const auto has = [&](const std::string& begin) {
    for (const auto& [key, value] : values.items())
      if (key.starts_with(begin)) return true;
    return false;
  };
  if (!has("data.eval.")) return all;
  all.push_back({"eval/loss", "loss of the evaluation"});
  for (size_t i = 0; has("metrics[" + std::to_string(i) + "]."); ++i) {
    const std::string at = "metrics[" + std::to_string(i) + "].";
    const auto text = [&](const std::string& key) {
      const auto found = values.find(at + key);
      return found == values.end() ? "" : found->value("value", "");
    };
    const std::string type = text("type"), name = text("name");
    all.push_back({"eval/" + (name.empty() ? type : name), type + " of the evaluation"});
  }
  return all;
}

std::vector<Candidate> Line::values_of_runs() const {
  constexpr size_t kMost = 16;  // the newest of a folder: others have the same values
  std::set<std::string> names;
  for (const std::string& given :
       arguments_.empty() ? std::vector<std::string>{"runs"} : arguments_) {
    const std::vector<std::string> paths = find_runs(given);
    for (size_t i = paths.size() - std::min(paths.size(), kMost); i < paths.size(); ++i) {
      RunRecord run;
      run.path = paths[i];
      read_values(run);
      for (const auto& [name, value] : run.values) names.insert(name);
    }
  }
  std::vector<Candidate> all;
  for (const std::string& name : names) all.push_back({name, ""});
  return all;
}

// Those that stand there already are not offered again.
std::vector<Candidate> Line::more_values(const std::string& word) {
  const size_t equals = word.find('='), comma = word.rfind(',');
  const std::string key = word.substr(0, equals + 1), given = word.substr(0, comma + 1);
  if (given.find_first_of("[]{}\"'", equals) != given.npos)
    return {};  // the comma may be inside of a value
  const auto values = CLI::detail::split(given.substr(equals + 1), ',');
  std::vector<Candidate> all;
  for (const Candidate& one : complete_key(context_.open_engine(), file_, key)) {
    if (!one.text.starts_with(key)) continue;
    const std::string value = one.text.substr(key.size());
    if (std::find(values.begin(), values.end(), value) == values.end())
      all.push_back({given + value, one.help});
  }
  return all;
}

std::vector<Candidate> Line::first_argument(const std::string& word) {
  const std::string at = path();
  if (at == "import") return formats();
  if (at == "export") {  // a format or a checkpoint
    std::vector<Candidate> all = formats();
    all.push_back({kAnyFile, ""});
    return all;
  }
  if (at == "plugins") return item_names();
  if (at == "keys") return declared(word);
  if (at == "data get") {
    std::vector<Candidate> sets;
    for (const DataSet& set : data_sets()) sets.push_back({set.name, first_line(set.help)});
    return sets;
  }
  if (at == "ops") {
    std::vector<Candidate> all;
    const Json ops = Json::parse(context_.open_engine().ops());
    for (const Json& op : ops.at("ops")) all.push_back({op.at("name"), op.value("help", "")});
    return all;
  }
  std::vector<Candidate> all;
  for (const CLI::Option* one : verb_->get_options()) {
    if (!one->get_positional()) continue;
    for (const std::string& choice : choices_of(*one)) all.push_back({choice, ""});
    return all.empty() && at != "new" ? std::vector<Candidate>{{kAnyFile, ""}} : all;
  }
  return all;
}

std::vector<Candidate> Line::candidates(const std::string& word) {
  if (pending_) return value_of(*pending_, word);
  if (!ended_ && word.starts_with("-") && word != "-") {
    const size_t equals = word.find('=');
    const CLI::Option* found = option(word.substr(0, equals));
    if (equals == std::string::npos) return options(word);
    if (!found) return {};
    std::vector<Candidate> all = value_of(*found, word.substr(equals + 1));
    for (Candidate& one : all)
      if (!one.text.starts_with(':')) one.text = word.substr(0, equals + 1) + one.text;
    return all;
  }
  if (help_) return verbs(*verb_);
  if (verb_ == &app_ && !arguments_.empty()) return {};  // behind a verb that there is not
  if (arguments_.empty()) {
    std::vector<Candidate> all = verbs(*verb_);
    return all.empty() ? first_argument(word) : all;
  }
  const size_t equals = word.find('=');
  if (takes_keys() && path() == "sweep" && equals != word.npos &&
      word.find(',', equals) != word.npos)
    return more_values(word);
  if (takes_keys()) return complete_key(context_.open_engine(), file_, word);
  if (path() == "plugins") return item_names();
  if (path() == "keys") return declared(word);
  if (path() == "data get") return {};
  if (path() == "import") return {{kAnyFolder, ""}};
  return {{kAnyFile, ""}};
}

}  // namespace

int complete_words(const CLI::App& app, Context& context, const std::vector<std::string>& words) {
  if (words.empty()) return kUsage;
  const std::string& shell = words.front();
  std::vector<std::string> before(words.begin() + 1, words.end());
  if (shell != "fish")
    for (std::string& word : before) word = unquoted(word);
  const std::string word = before.empty() ? "" : before.back();
  if (!before.empty()) before.pop_back();
  context.terminal.silent = true;
  std::vector<Candidate> found;
  try {
    found = Line(app, context, before).candidates(word);
  } catch (const std::exception&) {
    return kFailed;  // a message would land in the middle of the command line
  }
  std::string text;
  for (const Candidate& one : found) {
    if (!one.text.starts_with(':') && !one.text.starts_with(word)) continue;
    text += one.text;
    if (shell != "bash" && !one.text.starts_with(':'))
      text += "\t" + one.help.substr(0, one.help.find('\n'));
    text += "\n";
  }
  context.terminal.raw(text);
  return kOk;
}

void add_completion(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("completion", "prints a completion script for a shell");
  const auto shell = std::make_shared<std::string>("bash");
  verb->add_option("SHELL", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->capture_default_str();
  verb->callback([&context, shell] {
    context.run_command = [&context, shell] {
      const std::string script(embedded_text("completion/plait." + *shell));
      context.terminal.record({{"shell", *shell}, {"script", script}});
      if (context.terminal.human()) context.terminal.raw(script);
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace plait::cli
