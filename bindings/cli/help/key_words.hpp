// Completion of key=value behind an experiment.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/context.hpp"

namespace plait::cli {

// What a shell may put in place of the word that is being written.
struct Candidate {
  std::string text, help;
};

// A candidate that stands for the files, or the folders, whose names begin as the word does behind
// its "=".
inline constexpr char kAnyFile[] = ":files", kAnyFolder[] = ":folders";

// The candidates for `word`, the beginning of key=value or of ~key. Keys are offered a table at a
// time: "optimizer.", then "optimizer.learning_rate=". `file`: with the words before it. A file
// that cannot be read, or that has problems, is completed as far as it can be understood.
std::vector<Candidate> complete_key(const Engine& engine, const FileArguments& file,
                                    const std::string& word);

}  // namespace plait::cli
