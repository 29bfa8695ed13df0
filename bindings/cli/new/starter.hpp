// An experiment made of answers: what to learn, from which file, how large, on how many ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bindings/cli/new/templates.hpp"

namespace plait::cli {

enum class Task { kTry, kImages, kClasses, kNumbers, kText, kFineTune };

// What a CSV file holds, as far as questions need it.
struct CsvColumns {
  std::vector<std::string> names;
  std::vector<bool> texts;     // of each column: whether a cell is neither a number nor missing
  std::vector<bool> gaps;      // of each column: whether a cell is missing
  bool decimal_comma = false;  // numbers are written as 1,5
  int64_t rows = 0;            // lines behind the first; of a large file some
  // Of the last column, or the one that was asked for: whether every cell is a whole number >= 0,
  // whether every cell is a number, how many different texts there are, and of its numbers mean and
  // deviation.
  bool labels = false, numbers = false;
  int64_t different = 0, largest = 0;
  double mean = 0, std = 0;
};

struct Answers {
  Task task = Task::kTry;
  // Of the training data: IDX images or a folder of folders of images, a CSV file, a text. For
  // kFineTune conversations, JSON Lines.
  std::string data, labels;
  // "": a part of the training data, and none for IDX images.
  std::string eval_data, eval_labels;
  bool image_folders = false;  // the images are PNG and JPEG files, in a folder for each class
  std::string target;          // the column of a CSV file
  std::string target_type;     // "i32", "class", "f32"
  CsvColumns csv;              // of the training data, with facts of the target
  int64_t samples = 0;         // of the training data; 0: not known
  int64_t classes = 10;
  int size = 0;  // 0 small, 1 medium, 2 large
  int64_t ranks = 1;
};

// experiment.toml for a new folder, and the commands to type next. Files that exist are named as
// seen from the folder; others are left to the data folder.
Template starter(const Answers& answers, const std::filesystem::path& folder,
                 const std::string& name);

// `column`: "" for the last one. Errors: CliError for a file that cannot be read.
CsvColumns csv_columns(const std::string& path, const std::string& column);

// The text of an imported experiment with conversations in place of its [data.train].
// Errors: CliError for one without a tokenizer.
std::string with_conversations(const std::string& toml, const std::string& file,
                               const std::string& name, int64_t ranks);

// A path as a file in `folder` names it: relative to the folder if it exists, else unchanged.
std::string seen_from(const std::filesystem::path& folder, const std::string& path);

}  // namespace plait::cli
