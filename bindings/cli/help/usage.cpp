#include "bindings/cli/help/usage.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

constexpr const char* kHelp = "help";

// The verb or nested verb of the command line; the whole command if there is none.
const CLI::App& chosen(const CLI::App& app) {
  const std::vector<CLI::App*> inside = app.get_subcommands();
  return inside.empty() ? app : chosen(*inside.front());
}

// "plait data get".
std::string path_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent ? path_of(*parent) + " " + app.get_name() : app.get_name();
}

bool takes_values(const CLI::App& verb) { return verb.get_option_no_throw("key=value") != nullptr; }

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const std::string near = nearest(word, names);
  return near.empty() ? "" : " (did you mean '" + near + "'?)";
}

// Options of other libraries' commands, and of older versions.
struct Habit {
  const char *theirs, *ours;
};

constexpr Habit kHabits[] = {
    {"-m", "several values of a key are a sweep: plait sweep FILE key=a,b"},
    {"--multirun", "several values of a key are a sweep: plait sweep FILE key=a,b"},
    {"-n", "--ranks N starts N processes"},
    {"-np", "--ranks N starts N processes"},
    {"--nproc-per-node", "--ranks N starts N processes"},
    {"--nproc_per_node", "--ranks N starts N processes"},
    {"--config", "the experiment is named without an option: FILE"},
    {"--samples", "--count N shows N samples, --figures-of N computes the figures of N"},
};

std::string unknown_option(const CLI::App& verb, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const CLI::App* at = &verb; at; at = at->get_parent())
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& one : option->get_lnames()) names.push_back("--" + one);
      for (const std::string& one : option->get_snames()) names.push_back("-" + one);
    }
  for (const Habit& habit : kHabits)
    if (name == habit.theirs) return "there is no option '" + name + "'; " + habit.ours;
  const bool is_letter = name.size() == 2;  // all of which are equally near
  std::string text =
      "there is no option '" + name + "'" + (is_letter ? "" : did_you_mean(name, names));
  if (takes_values(verb))
    text += "; to override a value of the experiment, write it without dashes: run.steps=5";
  return text;
}

// Arguments that no verb or option accepted.
std::string left_over(const CLI::App& verb, const std::vector<std::string>& words) {
  const auto dashed = std::find_if(words.begin(), words.end(),
                                   [](const std::string& w) { return w.starts_with("-"); });
  if (dashed != words.end()) return unknown_option(verb, *dashed);
  const std::vector<std::string> inner = verb_names(verb);
  if (inner.empty()) return "unexpected argument '" + words.front() + "'";
  return "there is no '" + path_of(verb) + " " + words.front() + "'" +
         did_you_mean(words.front(), inner) + "; choose from: " + joined(inner, ", ");
}

std::string missing(const CLI::App& verb, const std::string& name) {
  const CLI::Option* option = verb.get_option_no_throw(name);
  if (!option)
    return path_of(verb) + " needs one of: " + joined(verb_names(verb), ", ");  // nested verbs
  const bool dashed = name.starts_with("-");
  std::string text = path_of(verb) + " needs " + name +
                     (dashed ? " " + option->get_type_name() : "") + ": " +
                     option->get_description();
  if (name == "FILE") text += "; plait new NAME makes one";
  return text;
}

// "auto, never, must" of "TEXT:{auto,never,must}", "" of "DIR".
std::string choices(const std::string& type) {
  const size_t open = type.find('{');
  if (open == std::string::npos) return "";
  std::string all;
  for (const char c : type.substr(open + 1, type.find('}') - open - 1))
    all += c == ',' ? std::string(", ") : std::string(1, c);
  return all;
}

std::string without_value(const CLI::App& verb, const std::string& name) {
  const CLI::Option* option = nullptr;
  for (const CLI::App* at = &verb; at && !option; at = at->get_parent())
    option = at->get_option_no_throw(name);
  if (!option) return name + " needs a value after it";
  if (!name.starts_with("-")) {  // some of its words are there
    const std::string text = option->get_description();
    return path_of(verb) + " needs " + name + ": " + text.substr(0, text.find(". "));
  }
  const std::string type = option->get_type_name(), any = choices(type);
  return name + " needs " + (any.empty() ? "a " + type : "one of " + any) + " after it (" +
         option->get_description() + ")";
}

// CLI11's messages begin with the option's name.
std::string refused(const CLI::App& app, const CLI::App& verb, const CLI::ParseError& error) {
  std::string text = error.what();
  const size_t colon = text.find(": "), required = text.find(" is required"),
               among = text.find(" not in {");
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) return left_over(verb, extras);
  constexpr std::string_view kUnread = "Could not convert: ";  // and OPTION = WORD
  if (const size_t equals = text.find(" = "); text.starts_with(kUnread) && equals != text.npos)
    return text.substr(kUnread.size(), equals - kUnread.size()) + " is '" +
           text.substr(equals + 3) + "', expected " +
           (text.find_first_not_of("+-.0123456789eE", equals + 3) == text.npos
                ? "a whole number in its range"
                : "a number");
  if (dynamic_cast<const CLI::RequiredError*>(&error) && required != std::string::npos)
    return missing(verb, text.substr(0, required));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) && text.find(": At Most 1 ") != text.npos)
    return text.substr(0, colon) + " is given more than once; give it once";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) && colon != std::string::npos)
    return without_value(verb, text.substr(0, colon));
  if (colon != std::string::npos && among != std::string::npos) {
    const std::string all = choices(text);
    return text.substr(0, colon) + ": '" + text.substr(colon + 2, among - colon - 2) +
           (all.find(',') == std::string::npos ? "' is not available, only " : "' is not one of ") +
           all;
  }
  return text;
}

}  // namespace

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

size_t word_at(const std::vector<std::string>& words, size_t from) {
  for (size_t i = from; i < words.size(); ++i) {
    if (words[i] == "--data" || words[i] == "--plugins")
      ++i;
    else if (!words[i].starts_with("-"))
      return i;
  }
  return words.size();
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

std::string usage_text(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const std::vector<std::string> verbs = verb_names(app);
  bool helped = false;  // behind `help`, which may follow common options
  const std::vector<std::string> words(argv, argv + argc);
  for (size_t i = word_at(words, 1); i < words.size(); i = word_at(words, i + 1)) {
    const std::string& word = words[i];
    if (word == kHelp && !helped) {
      helped = true;
      continue;
    }
    if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) break;
    // What other programs call it.
    const bool trains = word == "train" || word == "fit" || word == "start";
    return "[cli] there is no verb '" + word + "'" +
           (trains ? " (plait run FILE trains)" : did_you_mean(word, verbs)) +
           "; verbs are: " + joined(verbs, ", ");
  }
  const CLI::App& verb = chosen(app);
  return "[cli] " + refused(app, verb, error) + "; see " + path_of(verb) + " --help";
}

std::vector<std::string> plain_words(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const size_t first = word_at(words, 0);
  if (first == words.size()) return words;
  if (words[first] == "version") words[first] = "--version";
  if (words[first] != kHelp) return words;
  words.erase(words.begin() + static_cast<std::ptrdiff_t>(first));
  const size_t next = word_at(words, first);
  const std::vector<std::string> verbs = verb_names(app);
  // An unknown verb remains an error.
  if (next == words.size() || std::find(verbs.begin(), verbs.end(), words[next]) != verbs.end())
    words.emplace_back("--help");
  return words;
}

}  // namespace plait::cli
