// What the completion scripts of shells ask: `plait __complete SHELL WORD...`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace plait::cli {

class Context;

inline constexpr char kCompleteVerb[] = "__complete";

// Prints what may stand in place of the last word, a line each; with a tab and its help for zsh and
// fish; ":files" or ":folders" for any of those. words: the shell, and the words behind `plait`, in
// the quotes that they have on the line; fish has removed them. Returns the exit code.
int complete_words(const CLI::App& app, Context& context, const std::vector<std::string>& words);

}  // namespace plait::cli
