#include "bindings/cli/new/interview.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <istream>
#include <ostream>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/usage.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

// The first file of this folder, by name, that ends so; else `other`.
std::string first_file(const std::string& ending, const std::string& other) {
  std::error_code error;
  std::vector<std::string> all;
  for (fs::directory_iterator at(".", error), end; !error && at != end; at.increment(error))
    if (const std::string name = at->path().filename(); name.ends_with(ending)) all.push_back(name);
  return all.empty() ? other : *std::min_element(all.begin(), all.end());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.rfind(from);
  return at == std::string::npos ? "" : text.replace(at, from.size(), to);
}

}  // namespace

std::string Interview::ask(const std::string& question, const std::string& usual) {
  out_ << question << (usual.empty() ? "" : " [" + usual + "]") << ": " << std::flush;
  std::string line;
  if (!std::getline(in_, line))
    throw CliError(kUsage,
                   "[cli] the questions have no answers; plait new NAME --from TEMPLATE asks none");
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
  line.erase(0, line.find_first_not_of(" \t"));
  return line.empty() ? usual : line;
}

size_t Interview::choose(const std::string& question, const std::vector<std::string>& all,
                         size_t usual) {
  out_ << question << "\n";
  for (size_t i = 0; i < all.size(); ++i) out_ << "  " << i + 1 << "  " << all[i] << "\n";
  return static_cast<size_t>(ask_number("number", static_cast<int64_t>(usual) + 1, 1,
                                        static_cast<int64_t>(all.size()))) -
         1;
}

int64_t Interview::ask_number(const std::string& question, int64_t usual, int64_t least,
                              int64_t most) {
  for (;;) {
    const std::string text = ask(question, std::to_string(usual));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
      return value;
    out_ << "  a whole number from " << least << " to " << most << ", please\n";
  }
}

std::string Interview::ask_file(const std::string& question, const std::string& usual) {
  for (;;) {
    std::string text = ask(question, usual);
    std::error_code ignored;
    if (fs::exists(text, ignored)) return text;
    out_ << "  there is no '" << text << "' here\n";
  }
}

void Interview::images(Answers& a) {
  a.data = ask("images, an IDX file (plait data get mnist downloads some)",
               "train-images-idx3-ubyte.gz");
  a.labels = ask("their labels", replaced(replaced(a.data, "images", "labels"), "idx3", "idx1"));
  a.eval_data = ask("images for the evaluation, or none", replaced(a.data, "train", "t10k"));
  if (a.eval_data == "none") a.eval_data.clear();
  if (!a.eval_data.empty())
    a.eval_labels =
        ask("their labels", replaced(replaced(a.eval_data, "images", "labels"), "idx3", "idx1"));
  a.classes = ask_number("number of classes", 10, 2, 1000000);
}

void Interview::columns(Answers& a) {
  const bool classes = a.task == Task::kClasses;
  a.data = ask_file("CSV file", first_file(".csv", "train.csv"));
  std::vector<std::string> names = csv_columns(a.data, "").names;
  for (;;) {
    a.target = ask("column to predict, of " + joined(names, ", "), names.back());
    if (std::find(names.begin(), names.end(), a.target) != names.end()) break;
    out_ << "  there is no such column\n";
  }
  const CsvColumns of = csv_columns(a.data, a.target);
  a.target_type = !classes ? "f32" : of.labels ? "i32" : text_classes_ ? "class" : "i32";
  if (!classes && !of.numbers) out_ << "  note: the column does not hold numbers alone\n";
  if (classes && !of.labels && !text_classes_)
    out_ << "  note: classes are whole numbers from 0; the column has others\n";
  if (classes)
    a.classes =
        ask_number("number of classes",
                   std::max<int64_t>(2, of.labels ? of.largest + 1 : of.different), 2, 1000000);
  a.eval_data = ask("CSV file for the evaluation, or none", "none");
  if (a.eval_data == "none") a.eval_data.clear();
}

Answers Interview::answers() {
  Answers a;
  a.task = static_cast<Task>(
      choose("What is to be learned?",
             {"try it out: a classifier on made-up samples", "classify images",
              "classify rows of a table", "predict a number of each row of a table",
              "a language model of a text", "fine-tune a model of Hugging Face on conversations"},
             0));
  if (a.task == Task::kTry) return a;
  if (a.task == Task::kImages) images(a);
  if (a.task == Task::kClasses || a.task == Task::kNumbers) columns(a);
  if (a.task == Task::kText) a.data = ask_file("text file", first_file(".txt", "input.txt"));
  if (a.task == Task::kFineTune) {
    model_ = ask_file("folder of the model, with its config.json", "hf");
    a.data = ask_file("conversations, JSON Lines", first_file(".jsonl", "chats.jsonl"));
  } else {
    a.size = static_cast<int>(choose("How large a model?", {"small", "medium", "large"}, 0));
  }
  a.ranks = ask_number("ranks, as processes of this machine", 1, 1, 1024);
  return a;
}

}  // namespace plait::cli
