#include "bindings/cli/new/starter.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "bindings/cli/context.hpp"
#include "bindings/cli/item_toml.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

std::string number(int64_t n) { return std::to_string(n); }

// A size among those of small, medium and large.
int64_t of(const Answers& a, int64_t small, int64_t medium, int64_t large) {
  return a.size == 0 ? small : a.size == 1 ? medium : large;
}

// Of a small data set more epochs, until there are about 1000 steps.
int64_t epochs(const Answers& a, int64_t batch) {
  constexpr int64_t kSteps = 1000, kLeast = 10, kMost = 200;
  if (a.samples <= 0) return kLeast;
  return std::clamp(kSteps * batch / a.samples, kLeast, kMost);
}

std::string head(const Answers& a, const std::string& name, int64_t batch, bool evaluates) {
  const int64_t ranks = std::max<int64_t>(1, a.ranks);
  while (a.samples > 0 && batch > 1 && batch * 2 > a.samples) batch /= 2;
  const int64_t global = (batch + ranks - 1) / ranks * ranks;
  const bool tokens = a.task == Task::kText;
  std::string text =
      "# Made by `plait new`; `plait bind` lists every key, `plait keys WORD` explains one.\n\n";
  text += "[run]\nname = " + toml_value(name) + "\n" +
          (tokens ? "steps = 2000\n" : "epochs = " + number(epochs(a, batch)) + "\n") +
          "seed = 42\nlog_every = 20\n\n";
  if (ranks > 1)
    text +=
        "[topology]\ndata = " + number(ranks) + "   # replicas, each with a part of the batch\n\n";
  text += "[batch]\nglobal = " + number(global) + "   # samples of a step, over all ranks\n\n";
  if (evaluates) text += "[evaluate]\nevery = 200\n\n";
  return text;
}

std::string dense_layers(const std::vector<int64_t>& widths, int64_t out, bool images) {
  std::string text = "[model]\nlayers = [\n";
  if (images) text += "  {type = \"flatten\"},\n";
  for (const int64_t width : widths)
    text += "  {type = \"linear\", out = " + number(width) + "},\n  {type = \"relu\"},\n";
  return text + "  {type = \"linear\", out = " + number(out) + "},\n]\n\n";
}

std::string optimizer(double rate) {
  return strf("[optimizer]\ntype = \"adamw\"\nlearning_rate = %g\nclip_grad_norm = 1.0\n", rate) +
         "schedule = {type = \"cosine\"}\n";
}

// metric: "" without an evaluation.
std::string loss(const char* type, const std::string& metric) {
  return std::string("[loss]\ntype = \"") + type + "\"\n\n" +
         (metric.empty() ? "" : "[[metrics]]\ntype = \"" + metric + "\"\n\n");
}

std::vector<int64_t> widths(const Answers& a) {
  return std::vector<int64_t>(static_cast<size_t>(of(a, 1, 2, 3)), of(a, 64, 256, 512));
}

// [data.train] and [data.eval] of a dataset, whose options are lines of TOML: the evaluation has
// its own, or a tenth of the samples. normalize: lines for both.
std::string data_tables(const std::string& train, const std::string& eval,
                        const std::string& normalize) {
  const auto part = [&](const char* which, const char* name) {
    return std::string("[data.") + which + "]\ntype = \"split\"\npart = \"" + name +
           "\"  # validation = 0.1: the share of the evaluation, in both tables\n" + normalize +
           "[data." + which + ".dataset]\n" + train + "\n";
  };
  if (eval.empty()) return part("train", "train") + part("eval", "validation");
  return "[data.train]\n" + train + normalize + "\n[data.eval]\n" + eval + normalize + "\n";
}

std::string image_folders(const Answers& a, const fs::path& folder, const std::string& name) {
  const std::string side = number(of(a, 32, 48, 64));
  const auto options = [&](const std::string& path) {
    return "type = \"images\"\npath = " + toml_value(seen_from(folder, path)) + "\nsize = [" +
           side + ", " + side + "]  # images are scaled to it\n";
  };
  return head(a, name, 64, true) +
         data_tables(options(a.data), a.eval_data.empty() ? "" : options(a.eval_data),
                     "normalize.image = {divide = 255}\n") +
         dense_layers(widths(a), a.classes, true) + loss("cross_entropy", "accuracy") +
         optimizer(0.001);
}

std::string images(const Answers& a, const fs::path& folder, const std::string& name) {
  if (a.image_folders) return image_folders(a, folder, name);
  const auto table = [&](const char* which, const std::string& data, const std::string& labels) {
    return std::string("[data.") + which +
           "]\ntype = \"idx\"\nimages = " + toml_value(seen_from(folder, data)) +
           "\nlabels = " + toml_value(seen_from(folder, labels)) +
           "\nnormalize.image = {divide = 255}\n\n";
  };
  const bool evaluates = !a.eval_data.empty();
  std::string text = head(a, name, 64, evaluates) + table("train", a.data, a.labels);
  if (evaluates) text += table("eval", a.eval_data, a.eval_labels);
  return text + dense_layers(widths(a), a.classes, true) +
         loss("cross_entropy", evaluates ? "accuracy" : "") + optimizer(0.001);
}

// Whether a column of the input is so.
bool any_input(const Answers& a, const std::vector<bool>& is) {
  for (size_t i = 0; i < is.size(); ++i)
    if (is[i] && a.csv.names[i] != a.target) return true;
  return false;
}

// The target has mean 0 and deviation 1, whatever its unit: weights would take long to grow to it.
std::string scaled_target(const CsvColumns& csv) {
  const double std = csv.std > 0 ? csv.std : 1;
  return strf("normalize.target = {mean = %.6g, std = %.6g}", csv.mean, std) +
         strf("  # a prediction y means y * %.6g + %.6g\n", std, csv.mean);
}

std::string columns(const Answers& a, const fs::path& folder, const std::string& name) {
  const bool texts = any_input(a, a.csv.texts), gaps = any_input(a, a.csv.gaps),
             classes = a.task == Task::kClasses;
  const auto options = [&](const std::string& path) {
    std::string text = "type = \"csv\"\npath = " + toml_value(seen_from(folder, path)) +
                       "\ntarget = [" + toml_value(a.target) + "]\ntarget_type = \"" +
                       a.target_type + "\"\n";
    if (a.csv.decimal_comma) text += "decimal = \",\"\n";
    if (texts) text += "categories = [\"*\"]  # columns of texts\n";
    if (gaps) text += "missing = \"mean\"\n";
    if ((a.target_type == "class" || texts || gaps) && path != a.data)
      text += "fit_on = " + toml_value(seen_from(folder, a.data)) + "\n";
    return text;
  };
  return head(a, name, 32, true) +
         data_tables(options(a.data), a.eval_data.empty() ? "" : options(a.eval_data),
                     "normalize.input = \"auto\"\n" + (classes ? "" : scaled_target(a.csv))) +
         dense_layers(widths(a), classes ? a.classes : 1, false) +
         (classes ? loss("cross_entropy", "accuracy") : loss("mse", "mae")) + optimizer(0.003);
}

// Bytes as tokens: any text, any language, a vocabulary of 257.
std::string language(const Answers& a, const std::string& name) {
  const std::string length = number(of(a, 128, 256, 512)), width = number(of(a, 128, 256, 512)),
                    depth = number(of(a, 4, 6, 8)), heads = number(of(a, 4, 8, 8));
  const auto table = [&](const char* which, const char* share) {
    return std::string("[data.") + which +
           "]\ntype = \"tokens\"\npath = \"text.bin\"\nlength = " + length + "\n" + share + "\n\n";
  };
  return head(a, name, 16, true) + table("train", "end = 0.9") + table("eval", "begin = 0.9") +
         "[tokenizer]\ntype = \"bytes\"\n\n[model]\nlayers = [\n"
         "  {type = \"embedding\", name = \"embed\", vocabulary = 257, width = " +
         width + ", std = 0.02},\n  {type = \"decoder_block\", name = \"h\", repeat = " + depth +
         ", depth = " + depth + ", heads = " + heads +
         ", norm = \"rms_norm\", mlp = \"swiglu\", rope = \"half\", parallel = \"heads\"},\n"
         "  {type = \"rms_norm\", name = \"norm\"},\n"
         "  {type = \"linear\", name = \"head\", out = 257, bias = false, parallel = "
         "\"column\"},\n]\n\n" +
         loss("cross_entropy", "perplexity") +
         "[optimizer]\ntype = \"adamw\"\nlearning_rate = 2e-3\nweight_decay = 0.1\nbeta2 = 0.99\n"
         "clip_grad_norm = 1.0\ngroups = [{match = [\"*.gain\"], weight_decay = 0.0}]\n"
         "schedule = {type = \"cosine\", warmup_steps = 100, min_ratio = 0.1}\n";
}

// The cells of a line, split at the separator outside double quotes.
std::vector<std::string> cells(const std::string& line, char separator) {
  std::vector<std::string> all(1);
  bool quoted = false;
  for (const char c : line)
    if (c == '"')
      quoted = !quoted;
    else if (c == separator && !quoted)
      all.emplace_back();
    else if (c != '\r')
      all.back() += c;
  return all;
}

// The number in a cell; none: std::nullopt.
std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return std::nullopt;
}

// "1,5".
std::optional<double> decimal_comma_in(std::string text) {
  const size_t comma = text.find(',');
  if (comma == std::string::npos || text.find('.') != std::string::npos) return std::nullopt;
  text[comma] = '.';
  return number_in(text);
}

// As the option missing_texts of the dataset says.
bool is_missing(const std::string& cell) {
  for (const char* text : {"", "NA", "N/A", "NaN", "nan", "null", "?"})
    if (cell == text) return true;
  return false;
}

// Of numbers that come one by one (Welford 1962).
struct Moments {
  double n = 0, mean = 0, squares = 0;
  void add(double x) {
    const double before = x - mean;
    mean += before / ++n;
    squares += before * (x - mean);
  }
  double std() const { return n > 0 ? std::sqrt(squares / n) : 0; }
};

// Of a larger file the first lines tell enough.
constexpr int64_t kMostRows = 1000000;
constexpr size_t kMostTexts = 100000;

// The value behind "key = " in a text in TOML; "" if it has none.
std::string value_in(const std::string& toml, const std::string& table, const std::string& key) {
  size_t at = table.empty() ? 0 : toml.find("\n[" + table + "]\n");
  if (at == std::string::npos) return "";
  at = toml.find("\n" + key + " = ", at);
  if (at == std::string::npos) return "";
  at += key.size() + 4;
  std::string value = toml.substr(at, toml.find('\n', at) - at);
  if (const size_t note = value.find("  #"); note != std::string::npos) value.resize(note);
  return value;
}

}  // namespace

std::string seen_from(const fs::path& folder, const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return path;
  const fs::path relative = fs::relative(path, fs::absolute(folder, error), error);
  return error || relative.empty() ? path : relative.string();
}

Template starter(const Answers& a, const fs::path& folder, const std::string& name) {
  Template made{"answers", "", {}, {}};
  const std::string run = "plait run " + path_word(folder.string());
  std::string toml;
  if (a.task == Task::kImages) toml = images(a, folder, name);
  if (a.task == Task::kClasses || a.task == Task::kNumbers) toml = columns(a, folder, name);
  if (a.task == Task::kText) {
    toml = language(a, name);
    made.commands.push_back("plait data tokenize " + path_word(a.data) +
                            " --tokenizer bytes --append-eod --out " +
                            path_word((folder / "text").string()));
  }
  std::error_code ignored;
  const bool apart = a.task == Task::kImages && !fs::exists(a.data, ignored);
  if (apart && a.data == "train-images-idx3-ubyte.gz")
    made.commands.emplace_back("plait data get mnist");
  made.commands.push_back(run + (apart ? " --data data" : ""));
  made.files = {{"experiment.toml", toml}};
  return made;
}

CsvColumns csv_columns(const std::string& path, const std::string& column) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line))
    throw CliError(kUsage, "[cli] '" + path + "' cannot be read: " +
                               (file.eof() ? "it is empty" : std::strerror(errno)));
  if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  char separator = ',';
  for (const char c : {';', '\t'})
    if (std::count(line.begin(), line.end(), c) > std::count(line.begin(), line.end(), separator))
      separator = c;
  CsvColumns found;
  found.names = cells(line, separator);
  const size_t n = found.names.size();
  size_t at = n - 1;
  for (size_t i = 0; i < n; ++i)
    if (found.names[i] == column) at = i;
  found.texts.resize(n);
  found.gaps.resize(n);
  std::set<std::string> texts;
  Moments moments;
  found.labels = found.numbers = true;
  while (texts.size() < kMostTexts && found.rows < kMostRows && std::getline(file, line)) {
    const std::vector<std::string> row = cells(line, separator);
    if (row.size() == 1 && row[0].empty()) continue;
    ++found.rows;
    for (size_t i = 0; i < std::min(n, row.size()); ++i) {
      const std::string& cell = row[i];
      std::optional<double> value = number_in(cell);
      if (!value && separator != ',') {
        value = decimal_comma_in(cell);
        found.decimal_comma = found.decimal_comma || value;
      }
      const bool missing = is_missing(cell);
      if (missing) found.gaps[i] = true;
      if (!value && !missing) found.texts[i] = true;
      if (i != at || missing) continue;
      texts.insert(cell);
      found.numbers &= value.has_value();
      if (value) moments.add(*value);
      found.labels &= cell.size() < 10 && std::all_of(cell.begin(), cell.end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
      if (found.labels) found.largest = std::max<int64_t>(found.largest, std::stoll(cell));
    }
  }
  found.different = static_cast<int64_t>(texts.size());
  found.mean = moments.mean;
  found.std = moments.std();
  return found;
}

std::string with_conversations(const std::string& toml, const std::string& file,
                               const std::string& name, int64_t ranks) {
  const size_t begin = toml.find("[data.train]\n");
  const size_t end = toml.find("\n\n", begin);
  if (begin == std::string::npos || end == std::string::npos)
    throw CliError(kFailed, "[cli] the imported experiment has no [data.train] to replace");
  const std::string type = value_in(toml, "tokenizer", "type"),
                    path = value_in(toml, "tokenizer", "path"),
                    chat = value_in(toml, "generate", "chat_template");
  if (type.empty() || path.empty())
    throw CliError(
        kUsage,
        "[cli] the folder of the model has no tokenizer that plait reads, tokenizer.json "
        "or vocab.json with merges.txt; add it, and make the folder again");
  std::string length = value_in(toml, "data.train", "length");
  length = length.substr(0, length.find(' '));
  std::string text = toml;
  text.replace(begin, end - begin,
               "[data.train]\ntype = \"fine_tune\"\nfiles = " + toml_value(file) +
                   "\ntokenizer = {type = " + type + ", path = " + path +
                   "}\ntemplate = " + (chat.empty() ? "\"chatml\"" : chat) +
                   "\nlength = " + length + "\npack = \"best_fit\"\nshuffle = true");
  const size_t named = text.find("\nname = ");
  text.replace(named + 8, text.find('\n', named + 1) - named - 8, toml_value(name));
  if (ranks > 1) {
    text.insert(text.find("[batch]"), "[topology]\ndata = " + number(ranks) + "\n\n");
    const size_t global = text.find("global = ");
    text.replace(global, text.find('\n', global) - global,
                 "global = " + number((8 + ranks - 1) / ranks * ranks));
  }
  return text;
}

}  // namespace plait::cli
