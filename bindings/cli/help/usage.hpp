// Messages for wrong command lines.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace plait::cli {

std::vector<std::string> verb_names(const CLI::App& app);
// The index of the first word from `from` on that is neither an option nor the value of one that
// all verbs take; words.size(): there is none.
size_t word_at(const std::vector<std::string>& words, size_t from);
std::string joined(const std::vector<std::string>& words, const char* between);
// The message for a command line that CLI11 refused with `error`.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv);
// Rewrites `plait help [VERB]` and `plait version` as the equivalent options.
std::vector<std::string> plain_words(const CLI::App& app, int argc, char** argv);

}  // namespace plait::cli
