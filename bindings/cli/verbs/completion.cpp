// plait completion SHELL: a script generated from the verbs and options.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/usage.hpp"

namespace plait::cli {
namespace {

struct Word {
  std::string text, help;
  bool takes_value = false;          // an option, followed by one
  std::vector<std::string> choices;  // of its value
};

// What may stand behind "plait", "plait run" or "plait data get".
struct Place {
  std::vector<std::string> verbs;    // before it
  std::vector<Word> inner, options;  // verbs and options
  std::vector<std::string> choices;  // of its first argument; empty: files
};

// {auto,never,must} in the name of an option's type.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

std::string first_line(const std::string& help) {
  const size_t end = help.find_first_of(";\n");
  return help.substr(0, end);
}

std::vector<Word> options_of(const CLI::App& app) {
  std::vector<Word> all;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      all.push_back({"--" + name, first_line(option->get_description()),
                     option->get_expected_min() > 0, choices_of(*option)});
  return all;
}

void add_places(const CLI::App& app, const std::vector<std::string>& verbs,
                const std::vector<Word>& common, std::vector<Place>& to) {
  Place place{verbs, {}, options_of(app), {}};
  if (!verbs.empty()) place.options.insert(place.options.end(), common.begin(), common.end());
  const auto inner = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* verb : inner)
    place.inner.push_back({verb->get_name(), first_line(verb->get_description()), false, {}});
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional() && place.choices.empty()) place.choices = choices_of(*option);
  to.push_back(std::move(place));
  for (const CLI::App* verb : inner) {
    std::vector<std::string> longer = verbs;
    longer.push_back(verb->get_name());
    add_places(*verb, longer, common, to);
  }
}

std::vector<Place> places_of(const CLI::App& app) {
  std::vector<Word> common = options_of(app);
  std::erase_if(common, [](const Word& w) { return w.text == "--help" || w.text == "--version"; });
  std::vector<Place> all;
  add_places(app, {}, common, all);
  // `plait help VERB`.
  std::vector<std::string> names;
  for (const Word& w : all[0].inner) names.push_back(w.text);
  all[0].inner.push_back({"help", "prints the help of a verb", false, {}});
  all.push_back({{"help"}, {}, {}, names});
  return all;
}

std::vector<std::string> texts_of(const std::vector<Word>& words) {
  std::vector<std::string> all;
  for (const Word& w : words) all.push_back(w.text);
  return all;
}

// In single quotes for any of the shells.
std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? std::string("’") : std::string(1, c);
  return all + "'";
}

// Verbs that have verbs, such as data.
std::vector<std::string> with_inner(const std::vector<Place>& places) {
  std::vector<std::string> all;
  for (const Place& p : places)
    if (p.verbs.size() == 1 && !p.inner.empty()) all.push_back(p.verbs[0]);
  return all;
}

// A loop of bash and zsh: `place` becomes the verbs before the word, separated by blanks.
std::string find_place(const std::vector<Place>& places, const char* word, const char* end) {
  std::string values;
  for (const Word& w : places[0].options)
    if (w.takes_value) values += (values.empty() ? "" : "|") + w.text;
  return "  local place= skip= i\n"
         "  for ((i = " +
         std::string(word == std::string("COMP_WORDS") ? "1" : "2") + "; i < " + end +
         "; ++i)); do\n"
         "    if [[ -n $skip ]]; then skip=; continue; fi\n"
         "    case ${" +
         word +
         "[i]} in\n"
         "      " +
         values +
         ") skip=1 ;;\n"
         "      -*) ;;\n"
         "      *) case $place in ''|" +
         joined(with_inner(places), "|") + ") place=${place:+$place }${" + word +
         "[i]} ;; esac ;;\n"
         "    esac\n"
         "  done\n";
}

std::string bash_script(const std::vector<Place>& places) {
  std::string cases, values;
  for (const Place& p : places) {
    const std::string where = joined(p.verbs, " ");
    cases += "    " + quoted(where) + ") words=" + quoted(joined(texts_of(p.inner), " ")) +
             " options=" + quoted(joined(texts_of(p.options), " ")) +
             " choices=" + quoted(joined(p.choices, " ")) + " ;;\n";
    for (const Word& w : p.options)
      if (!w.choices.empty())
        values += "    " + quoted(where + " " + w.text) + ") COMPREPLY=($(compgen -W " +
                  quoted(joined(w.choices, " ")) + " -- \"$word\")); return ;;\n";
  }
  return "# bash completion of plait; load it with: source <(plait completion bash)\n"
         "_plait() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "  local words= options= choices= IFS=$' \\t\\n'\n" +
         find_place(places, "COMP_WORDS", "COMP_CWORD") + "  case \"$place $before\" in\n" +
         values +
         "  esac\n"
         "  case $place in\n" +
         cases +
         "  esac\n"
         "  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "  elif [[ -n $words$choices ]]; then COMPREPLY=($(compgen -W \"$words $choices\" -- "
         "\"$word\"))\n"
         "  else local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
         "}\n"
         "complete -o filenames -F _plait plait\n";
}

// 'word:what it does' of zsh.
std::string described(const std::vector<Word>& words) {
  std::string all;
  for (const Word& w : words) all += " " + quoted(w.text + ":" + w.help);
  return all;
}

std::string zsh_script(const std::vector<Place>& places) {
  std::string cases, values;
  for (const Place& p : places) {
    const std::string where = joined(p.verbs, " ");
    std::vector<Word> inner = p.inner;
    for (const std::string& choice : p.choices) inner.push_back({choice, "", false, {}});
    cases += "    " + quoted(where) + ") inner=(" + described(inner) + " ) options=(" +
             described(p.options) + " ) ;;\n";
    for (const Word& w : p.options)
      if (!w.choices.empty())
        values += "    " + quoted(where + " " + w.text) + ") compadd -- " + joined(w.choices, " ") +
                  "; return ;;\n";
  }
  return "#compdef plait\n"
         "# zsh completion of plait; write it to a file _plait in a folder of $fpath\n"
         "_plait() {\n"
         "  local -a inner options\n" +
         find_place(places, "words", "CURRENT") + "  case \"$place ${words[CURRENT - 1]}\" in\n" +
         values +
         "  esac\n"
         "  case $place in\n" +
         cases +
         "  esac\n"
         "  if [[ ${words[CURRENT]} == -* ]]; then _describe -o option options\n"
         "  elif (( $#inner )); then _describe verb inner\n"
         "  else _files; fi\n"
         "}\n"
         "if [[ $funcstack[1] == _plait ]]; then _plait \"$@\"; else compdef _plait plait; fi\n";
}

std::string fish_script(const std::vector<Place>& places) {
  std::string values;
  for (const Word& w : places[0].options)
    if (w.takes_value) values += " " + w.text;
  std::string script =
      "# fish completion of plait; load it with: plait completion fish | source\n"
      "function __plait_place\n"
      "  set -l place; set -l skip\n"
      "  for word in (commandline -opc)[2..]\n"
      "    if set -q skip[1]; set -e skip; continue; end\n"
      "    if contains -- $word" +
      values +
      "; set skip 1\n"
      "    else if not string match -q -- '-*' $word\n"
      "      if not set -q place[1]; or contains -- \"$place\" " +
      joined(with_inner(places), " ") +
      "; set -a place $word; end\n"
      "    end\n"
      "  end\n"
      "  test \"$place\" = \"$argv\"\n"
      "end\n";
  for (const Place& p : places) {
    const std::string start =
        "complete -c plait -n " + quoted("__plait_place " + joined(p.verbs, " ")) + " ";
    for (const Word& w : p.inner)
      script += start + "-f -a " + quoted(w.text) + " -d " + quoted(w.help) + "\n";
    if (!p.choices.empty()) script += start + "-f -a " + quoted(joined(p.choices, " ")) + "\n";
    for (const Word& w : p.options) {
      script += start + "-l " + quoted(w.text.substr(2)) + " -d " + quoted(w.help);
      if (w.takes_value)
        script += w.choices.empty() ? " -r" : " -x -a " + quoted(joined(w.choices, " "));
      script += "\n";
    }
  }
  return script;
}

}  // namespace

void add_completion(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("completion", "prints a completion script for a shell");
  const auto shell = std::make_shared<std::string>("bash");
  verb->add_option("SHELL", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->capture_default_str();
  verb->callback([&app, &context, shell] {
    context.run_command = [&app, &context, shell] {
      const std::vector<Place> places = places_of(app);
      const std::string script = *shell == "zsh"    ? zsh_script(places)
                                 : *shell == "fish" ? fish_script(places)
                                                    : bash_script(places);
      context.terminal.record({{"shell", *shell}, {"script", script}});
      if (context.terminal.human()) context.terminal.raw(script);
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace plait::cli
