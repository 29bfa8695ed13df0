#include "bindings/cli/new/interview.hpp"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <istream>
#include <memory>
#include <ostream>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/data_file.hpp"
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

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Why a file is no IDX file of images, or of labels; "" for one, and for a file that is not there
// yet.
std::string not_idx(const std::string& path, bool labels) {
  if (!exists(path)) return "";
  const std::string what = labels ? "labels" : "images";
  if (is_folder(path)) return "'" + path + "' is a folder, not an IDX file of " + what;
  unsigned char head[4] = {};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  // Of values u8, with one axis for labels and two or more for images.
  const bool is = file && gzread(file.get(), head, sizeof head) == sizeof head && head[0] == 0 &&
                  head[1] == 0 && head[2] == 8 && (labels ? head[3] == 1 : head[3] >= 2);
  return is ? "" : "'" + path + "' is not an IDX file of " + what;
}

// The same for images, which may be a folder of folders, too.
std::string not_images(const std::string& path) {
  if (!is_folder(path)) return not_idx(path, false);
  if (!class_folders(path).names.empty()) return "";
  return "'" + path + "' has no folder of images, PNG or JPEG, for each class";
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

std::string Interview::ask_until(const std::string& question, const std::string& usual,
                                 const std::function<std::string(const std::string&)>& reason) {
  for (;;) {
    std::string text = ask(question, usual);
    const std::string against = reason(text);
    if (against.empty()) return text;
    out_ << "  " << against << "\n";
  }
}

std::string Interview::ask_file(const std::string& question, const std::string& usual,
                                bool folder) {
  return ask_until(question, usual, [&](const std::string& text) -> std::string {
    if (!exists(text)) return "there is no '" + text + "' here";
    if (is_folder(text) == folder) return "";
    return "'" + text + (folder ? "' is a file, not a folder" : "' is a folder, not a file");
  });
}

void Interview::images(Answers& a) {
  a.data =
      ask_until("images, an IDX file (plait data get mnist downloads some) or a folder of folders",
                "train-images-idx3-ubyte.gz", not_images);
  if (is_folder(a.data)) {
    a.image_folders = true;
    const ClassFolders found = class_folders(a.data);
    a.classes = static_cast<int64_t>(found.names.size());
    a.samples = found.images;
    out_ << "  " << a.classes << " classes: " << joined(found.names, ", ") << "\n";
    a.eval_data = ask_until("such a folder for the evaluation; none: a tenth of the images", "none",
                            [](const std::string& text) -> std::string {
                              if (text == "none") return "";
                              if (!exists(text)) return "there is no '" + text + "' here";
                              if (!is_folder(text)) return "'" + text + "' is not a folder";
                              return not_images(text);
                            });
    if (a.eval_data == "none") a.eval_data.clear();
    return;
  }
  const auto labels = [](const std::string& text) { return not_idx(text, true); };
  a.labels = ask_until("their labels",
                       replaced(replaced(a.data, "images", "labels"), "idx3", "idx1"), labels);
  const std::string beside = replaced(a.data, "train", "t10k");
  a.eval_data = ask_until("images for the evaluation, or none", beside.empty() ? "none" : beside,
                          [](const std::string& text) { return not_idx(text, false); });
  if (a.eval_data == "none") a.eval_data.clear();
  if (!a.eval_data.empty())
    a.eval_labels =
        ask_until("their labels",
                  replaced(replaced(a.eval_data, "images", "labels"), "idx3", "idx1"), labels);
  a.classes = ask_number("number of classes", 10, 2, 1000000);
}

// "": a part of the training data.
std::string Interview::ask_evaluation(const Answers& a) {
  const std::string path =
      ask_until("CSV file for the evaluation; none: a tenth of the lines", "none",
                [&](const std::string& text) -> std::string {
                  if (text == "none") return "";
                  if (!exists(text)) return "there is no '" + text + "' here";
                  if (is_folder(text)) return "'" + text + "' is a folder, not a file";
                  const std::vector<std::string> names = csv_columns(text, "").names;
                  const bool has = std::find(names.begin(), names.end(), a.target) != names.end();
                  return has ? "" : "'" + text + "' has no column '" + a.target + "'";
                });
  return path == "none" ? "" : path;
}

void Interview::columns(Answers& a) {
  const bool classes = a.task == Task::kClasses;
  a.data = ask_file("CSV file", first_file(".csv", "train.csv"));
  const CsvColumns all = csv_columns(a.data, "");
  std::string usual = all.names.back();
  if (!classes)  // the last one of numbers
    for (size_t i = 0; i < all.names.size(); ++i)
      if (!all.texts[i]) usual = all.names[i];
  a.target = ask_until("column to predict, of " + joined(all.names, ", "), usual,
                       [&](const std::string& text) -> std::string {
                         const auto at = std::find(all.names.begin(), all.names.end(), text);
                         if (at == all.names.end()) return "there is no such column";
                         if (classes || !all.texts[static_cast<size_t>(at - all.names.begin())])
                           return "";
                         return "column '" + text + "' holds texts; to predict them, classify rows";
                       });
  const CsvColumns& of = a.csv = csv_columns(a.data, a.target);
  a.samples = of.rows;
  a.target_type = !classes ? "f32" : of.labels ? "i32" : text_classes_ ? "class" : "i32";
  if (classes && !of.labels && !text_classes_)
    out_ << "  note: classes are whole numbers from 0; the column has others\n";
  if (classes)
    a.classes =
        ask_number("number of classes",
                   std::max<int64_t>(2, of.labels ? of.largest + 1 : of.different), 2, 1000000);
  a.eval_data = ask_evaluation(a);
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
    model_ = ask_file("folder of the model, with its config.json", "hf", true);
    a.data = ask_file("conversations, JSON Lines", first_file(".jsonl", "chats.jsonl"));
  } else {
    a.size = static_cast<int>(choose("How large a model?", {"small", "medium", "large"}, 0));
  }
  a.ranks = ask_number("ranks, as processes of this machine", 1, 1, 1024);
  return a;
}

}  // namespace plait::cli
