#include "bindings/cli/new/templates.hpp"

#include <algorithm>

#include "bindings/cli/embedded.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

constexpr const char* kTiny =
    R"toml(# A classifier on synthetic samples: runs anywhere in a second, for trying things out.
# `plait bind` lists every key, `plait plugins` every layer, loss, optimizer and dataset.

[run]
name = "tiny"
steps = 300
seed = 42
log_every = 10

[batch]
global = 64

[evaluate]
every = 100

[data.train]
type = "synthetic"
samples = 4096
shape = [16]
classes = 4

[data.eval]
type = "synthetic"
samples = 1024
shape = [16]
classes = 4
first = 4096   # samples that training has not seen

[[model.layers]]
type = "linear"
out = 32

[[model.layers]]
type = "relu"

[[model.layers]]
type = "linear"
out = 4

[loss]
type = "cross_entropy"

[[metrics]]
type = "accuracy"

[optimizer]
type = "adamw"
learning_rate = 0.01
)toml";

// A line of a text, from `at`, which moves behind it; without blanks at its ends.
std::string next_line(const std::string& text, size_t& at) {
  const size_t end = std::min(text.find('\n', at), text.size());
  const std::string line = text.substr(at, end - at);
  at = end + 1;
  const size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t") + 1 - first);
}

std::string first_sentence(const std::string& text) {
  const size_t end = text.find(". ");
  std::string one = text.substr(0, end);
  if (one.ends_with('.') || one.ends_with(':')) one.pop_back();
  return one;
}

// What a folder is about: the comment that its experiment begins with, else the first paragraph of
// its README.
std::string help_of(const Template& of) {
  for (const auto& [name, text] : of.files)
    if (name == "experiment.toml") {
      std::string comment;
      for (size_t at = 0; text.compare(at, 2, "# ") == 0;)
        comment += (comment.empty() ? "" : " ") + next_line(text, at).substr(2);
      if (!comment.empty()) return first_sentence(comment);
    }
  for (const auto& [name, text] : of.files) {
    if (name != "README.md") continue;
    // A heading of several words says more than the first line.
    if (size_t at = 0; text.find(' ', 2) < text.find('\n')) return next_line(text, at).substr(2);
    for (size_t at = 0; at < text.size();)
      if (const std::string line = next_line(text, at); !line.empty() && !line.starts_with('#'))
        return first_sentence(line);
  }
  return "";
}

// Words in capitals and patterns stand for something of the reader's own.
bool needs_something(const std::string& command) {
  if (command.find('*') != std::string::npos || command.find("/where/") != std::string::npos)
    return true;
  size_t capitals = 0;
  for (const char c : command + " ") {
    const bool capital = c >= 'A' && c <= 'Z';
    if (!capital && capitals > 2 && c != '"' && c != '_') return true;
    capitals = capital ? capitals + 1 : 0;
  }
  return false;
}

// The first block of commands, indented by four.
std::vector<std::string> commands_of(const std::string& readme) {
  std::vector<std::string> all;
  for (size_t at = 0; at < readme.size();) {
    const bool indented = readme.compare(at, 4, "    ") == 0;
    std::string line = next_line(readme, at);
    if (!indented && !all.empty()) break;
    if (!indented || line.empty()) continue;
    line = line.substr(0, line.find("  #"));
    line.erase(line.find_last_not_of(' ') + 1);
    if (needs_something(line)) break;
    all.push_back(line);
  }
  return all;
}

void replace_every(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::vector<Template> all_templates() {
  std::vector<Template> all = {
      {"tiny",
       "a small classifier on synthetic data; needs no files, takes a second",
       {{"experiment.toml", kTiny}},
       {}}};
  for (const EmbeddedFile& file : embedded_files()) {
    std::string path = file.path;
    if (!path.starts_with("examples/")) continue;  // a script
    path = path.substr(path.find('/') + 1);
    const std::string folder = path.substr(0, path.find('/'));
    if (all.back().name != folder) all.push_back({folder, "", {}, {}});
    all.back().files.emplace_back(path.substr(folder.size() + 1), file.text);
  }
  for (Template& one : all) {
    if (one.help.empty()) one.help = help_of(one);
    bool explained = false;
    for (const auto& [name, text] : one.files)
      if (name == "README.md") one.commands = commands_of(text), explained = true;
    if (!explained) one.commands = {"plait run examples/" + one.name};
  }
  return all;
}

}  // namespace

const std::vector<Template>& templates() {
  static const std::vector<Template> all = all_templates();
  return all;
}

Template filled(const Template& from, const std::string& path, const std::string& name) {
  Template one = from;
  const std::string folder = "examples/" + from.name;
  for (auto& [file, text] : one.files) {
    if (file == "experiment.toml")
      replace_every(text, "\nname = \"" + from.name + "\"\n", "\nname = \"" + name + "\"\n");
    if (file != "README.md") continue;
    replace_every(text, folder, path_word(path));
    replace_every(text, "runs/" + from.name + "/", "runs/" + name + "/");
  }
  for (std::string& command : one.commands) replace_every(command, folder, path_word(path));
  return one;
}

}  // namespace plait::cli
