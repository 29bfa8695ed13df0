// plait data show: documents and samples, decoded, with their ids and labels.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include <plait/data.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/data_file.hpp"
#include "bindings/cli/data/documents.hpp"
#include "bindings/cli/data/field_statistics.hpp"
#include "bindings/cli/data/picture.hpp"
#include "bindings/cli/data/shown.hpp"
#include "bindings/cli/data/token_reader.hpp"
#include "bindings/cli/data/tokenizer_argument.hpp"
#include "bindings/cli/item_toml.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct ShowArguments {
  FileArguments file;
  std::string dataset = "train", tokenizer, chat, field = "text";
  std::vector<std::string> options;
  uint64_t from = 0, count = 3, width = 64, length = 4096;
  uint64_t samples = 0;  // of the figures; 0: by their size
};

bool ends_with_any(const std::string& text, std::initializer_list<const char*> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](const char* end) { return text.ends_with(end); });
}

// A description of an item, as Experiment::describe() has it, as TOML.
std::string toml_of(const Json& item) {
  std::vector<std::string> options;
  for (const auto& [key, value] : item.items())
    if (key != "type") options.push_back(key + "=" + toml_value(value));
  return item_toml(item.at("type").get<std::string>(), options);
}

// The tokenizer that made PATH.bin, from the PATH.json beside it; "" if there is none.
std::string toml_beside(const std::string& stem) {
  std::ifstream file(stem + ".json");
  const Json facts = Json::parse(file, nullptr, false);
  if (!facts.is_object() || !facts.contains("tokenizer")) return "";
  const Json& tokenizer = facts["tokenizer"];
  return tokenizer.is_object() && tokenizer.contains("toml") && tokenizer["toml"].is_string()
             ? tokenizer["toml"].get<std::string>()
             : "";
}

class Show {
 public:
  Show(Context& context, const ShowArguments& arguments)
      : context_(context), arguments_(arguments), engine_(context.open_engine()) {
    context.failed = kUsage;  // a file that is named on the command line
  }

  int run() {
    std::string given = arguments_.file.given;
    if (const std::vector<IdxSet> sets = idx_sets(given); !sets.empty())
      given = chosen_set(sets).path();
    std::error_code ignored;
    const bool pair = ends_with_any(given, {".bin", ".idx"}) || fs::exists(given + ".idx", ignored);
    const auto toml = pair ? std::nullopt : dataset_of_file(given, arguments_.options);
    if (pair)
      token_files();
    else if (toml && !fs::exists(given, ignored))
      throw CliError(kUsage, "[data] cannot read '" + given + "': " + std::strerror(ENOENT));
    else if (toml)
      samples(Dataset(engine_, *toml, "--option"));
    else if (ends_with_any(given, {".jsonl", ".txt", ".jsonl.gz", ".txt.gz"}) ||
             (given.ends_with(".gz") && !arguments_.tokenizer.empty()))
      texts();
    else if (given.ends_with(".gz"))
      throw CliError(kUsage, "[data] the name of '" + given +
                                 "' does not tell what it holds; expected NAME.csv.gz, "
                                 "NAME.tsv.gz, NAME-ubyte.gz, NAME.jsonl.gz or NAME.txt.gz, or "
                                 "--tokenizer for texts");
    else
      experiment_or_images();
    for (const Json& one : datasets_) context_.terminal.record(one);
    return kOk;
  }

 private:
  // Lists the datasets of a folder with idx files. The one to show is the one that --dataset names,
  // else train, else the first.
  const IdxSet& chosen_set(const std::vector<IdxSet>& sets) {
    std::string names;
    const IdxSet* chosen = nullptr;
    for (const IdxSet& set : sets) {
      names += (names.empty() ? "" : ", ") + set.name;
      if (set.name == arguments_.dataset) chosen = &set;
    }
    if (!chosen && arguments_.dataset != ShowArguments().dataset)
      throw CliError(kUsage, "[data] '" + arguments_.file.given + "' has no dataset '" +
                                 arguments_.dataset + "'; --dataset takes " + names);
    if (!chosen) chosen = &sets.front();
    for (const IdxSet& set : sets) list_set(set);
    if (sets.size() > 1)
      context_.terminal.paragraph("shown is " + chosen->name + "; --dataset NAME shows another");
    return *chosen;
  }

  void list_set(const IdxSet& set) {
    Json options = {{"type", "idx"}};
    std::string files;
    for (const auto& [key, path] : {std::pair("images", set.images), {"labels", set.labels}}) {
      if (path.empty()) continue;
      options[key] = path;
      files += (files.empty() ? " " : ", ") + fs::path(path).filename().string();
    }
    context_.terminal.paragraph(set.name + ": idx" + files);
    datasets_.push_back({{"dataset", set.name}, {"options", std::move(options)}});
  }

  // A folder with images that the dataset would not find is no experiment.
  void experiment_or_images() {
    const std::string& given = arguments_.file.given;
    constexpr char kExpected[] =
        "expected a folder with one folder of images (PNG, JPEG) for each class";
    const LooseImages found = loose_images(given);
    if (found == LooseImages::kOne)
      throw CliError(kUsage, "[data] '" + given + "' is one image, " + kExpected);
    if (found == LooseImages::kFolder)
      throw CliError(kUsage, "[data] '" + given + "' holds images, but no folder for each class, " +
                                 kExpected +
                                 "; name the folder above it, or move the images into such ones");
    if (found == LooseImages::kEmpty)
      throw CliError(kUsage, "[data] '" + given + "' is an empty folder, " + kExpected +
                                 ", or one with an experiment.toml");
    experiment();
  }

  // Texts as "1,5" may be numbers.
  void hint_at_decimal_commas(const Json& fields) {
    for (const Json& field : fields) {
      if (!field.contains("classes")) continue;
      for (const Json& texts : field.at("classes")) {
        if (texts.empty() || !std::all_of(texts.begin(), texts.end(), has_decimal_comma)) continue;
        return context_.terminal.note(
            "[data] texts such as '" + texts.front().get<std::string>() +
            "' may be numbers: --option decimal=, reads them as such, decimal = \",\" in an "
            "experiment");
      }
    }
  }
  // "-1,5".
  static bool has_decimal_comma(const Json& value) {
    std::string text = value.get<std::string>();
    const size_t comma = text.find(',');
    if (comma == std::string::npos || text.find('.') != std::string::npos) return false;
    text[comma] = '.';
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
  }

  // The first tokenizer that is known: --tokenizer, else the one described.
  void use_tokenizer(const std::string& described) {
    if (!arguments_.tokenizer.empty())
      tokenizer_.emplace(
          open_tokenizer(engine_, tokenizer_toml(arguments_.tokenizer, arguments_.options)));
    else if (!described.empty())
      tokenizer_.emplace(open_tokenizer(engine_, described));
    else
      context_.terminal.note(
          "[data] the tokenizer is not known; name it with --tokenizer to see "
          "the texts");
    if (tokenizer_) vocabulary_ = Json::parse(tokenizer_->describe()).at("vocabulary");
  }
  std::string need_tokenizer() const {
    if (arguments_.tokenizer.empty())
      throw CliError(kUsage, "[data] '" + arguments_.file.given +
                                 "' holds texts; name the tokenizer with --tokenizer");
    return tokenizer_toml(arguments_.tokenizer, arguments_.options);
  }

  std::string decode(std::span<const int64_t> ids) const {
    std::string all;
    std::vector<int32_t> known;
    const auto flush = [&] {
      if (!known.empty()) all += tokenizer_->decode(known);
      known.clear();
    };
    for (const int64_t id : ids)
      if (id >= 0 && id < vocabulary_) {
        known.push_back(static_cast<int32_t>(id));
      } else {
        flush();
        all += "<" + std::to_string(id) + "?>";
      }
    flush();
    return all;
  }

  void show(const char* what, uint64_t i, const ShownTokens& tokens, Json more = Json::object()) {
    const size_t n = without_padding(tokens);
    const auto learned = static_cast<uint64_t>(std::count_if(
        tokens.labels.begin(), tokens.labels.end(), [](int64_t l) { return l != -100; }));
    std::string head = std::string(what) + " " + std::to_string(i) + ": " +
                       std::to_string(tokens.labels.empty() ? tokens.all : n) + " tokens";
    Json record = {{what, i}, {"n_tokens", tokens.labels.empty() ? tokens.all : n}};
    record["tokens"] = tokens.ids;
    if (!tokens.labels.empty()) {
      head += ", " + std::to_string(learned) + " learned, " +
              std::to_string(tokens.ids.size() - n) + " of padding";
      record["learned"] = learned;
      record["labels"] = tokens.labels;
    }
    context_.terminal.paragraph(context_.terminal.bold(head));
    const std::span<const int64_t> ids(tokens.ids), labels(tokens.labels);
    if (tokenizer_) {
      const Decode to_text = [&](std::span<const int64_t> some) { return decode(some); };
      context_.terminal.line("  text    " + marked_text(tokens, n, to_text));
      record["text"] = decode(ids.first(n));
    }
    context_.terminal.paragraph("  ids     " + numbers(ids.first(n), arguments_.width));
    if (!labels.empty())
      context_.terminal.paragraph("  labels  " + numbers(labels.first(n), arguments_.width));
    for (const auto& [name, values] : more.items()) {
      record[name] = values;
      std::string row;
      for (size_t k = 0; k < std::min<size_t>(std::min(values.size(), n), arguments_.width); ++k)
        row += (k ? " " : "") + values[k].dump();
      context_.terminal.paragraph(strf("  %-7s ", name.c_str()) + row);
    }
    context_.terminal.record(record);
  }

  // Numbers [from, from + count) below n. Errors: CliError when there is none.
  std::pair<uint64_t, uint64_t> range(uint64_t n, const char* what) const {
    if (n > 0 && arguments_.from >= n)
      throw CliError(kUsage, "[data] --from " + std::to_string(arguments_.from) + ": there " +
                                 (n == 1 ? "is " : "are ") + std::to_string(n) + " " + what +
                                 (n == 1 ? "" : "s") + ", from 0");
    return {arguments_.from, arguments_.from + std::min(arguments_.count, n - arguments_.from)};
  }

  void token_files() {
    const TokenFileReader file(arguments_.file.given);
    use_tokenizer(toml_beside(file.stem()));
    context_.terminal.line(strf("%llu document%s, %llu tokens, %s",
                                static_cast<unsigned long long>(file.documents()),
                                file.documents() == 1 ? "" : "s",
                                static_cast<unsigned long long>(file.tokens()), file.dtype()));
    context_.terminal.record(
        {{"documents", file.documents()}, {"tokens", file.tokens()}, {"dtype", file.dtype()}});
    const auto [from, to] = range(file.documents(), "document");
    for (uint64_t i = from; i < to; ++i) {
      ShownTokens tokens;
      tokens.ids =
          file.read(i, context_.terminal.json ? UINT64_MAX : arguments_.length, tokens.all);
      show("document", i, tokens);
    }
  }

  // Lines of prompts or conversations are shown as fine_tune makes samples of them.
  void texts() {
    if (is_fine_tuning()) {
      std::vector<std::string> options{
          "files=" + toml_value(fs::absolute(arguments_.file.given).string()),
          "length=" + std::to_string(arguments_.length), "truncate=end"};
      if (!arguments_.chat.empty()) options.push_back("template=" + arguments_.chat);
      use_tokenizer(need_tokenizer());
      std::string toml = item_toml("fine_tune", options) + "[tokenizer]\n" + need_tokenizer();
      return samples(Dataset(engine_, toml, "--template"));
    }
    use_tokenizer(need_tokenizer());
    DocumentReader reader({arguments_.file.given}, arguments_.field);
    uint64_t i = 0, shown = 0;
    for (Document document; shown < arguments_.count && reader.next(document); ++i) {
      if (i < arguments_.from) continue;
      ShownTokens tokens;
      const auto ids = tokenizer_->encode(document.text);
      tokens.ids.assign(ids.begin(), ids.end());
      tokens.all = ids.size();
      show("document", i, tokens);
      ++shown;
    }
    if (i == 0) throw CliError(kUsage, "[data] '" + arguments_.file.given + "' has nothing in it");
    if (shown == 0) range(i, "document");
  }

  bool is_fine_tuning() const {
    if (!arguments_.file.given.ends_with(".jsonl")) return false;
    std::ifstream file(arguments_.file.given);
    if (!file)
      throw CliError(kUsage,
                     "[data] cannot read '" + arguments_.file.given + "': " + std::strerror(errno));
    std::string line;
    while (std::getline(file, line) && line.find_first_not_of(" \t\r") == std::string::npos) {
    }
    const Json first = Json::parse(line, nullptr, false);
    return first.is_object() && (first.contains("messages") || first.contains("prompt"));
  }

  void experiment() {
    const Experiment experiment =
        Experiment::read(engine_, arguments_.file.path(), arguments_.file.overrides());
    const Dataset dataset(experiment, arguments_.dataset);
    const Json values = Json::parse(experiment.describe());
    list_datasets(values);
    if (has_tokens(dataset))
      use_tokenizer(described_tokenizer(values, "data." + arguments_.dataset));
    samples(dataset);
  }

  static bool has_tokens(const Dataset& dataset) {
    const Json facts = Json::parse(dataset.describe());
    const Json& fields = facts.at("fields");
    return std::any_of(fields.begin(), fields.end(), is_tokens);
  }
  static bool is_tokens(const Json& field) {
    return field.at("name") == "tokens" && field.at("dtype") == "i32";
  }

  // The datasets of an experiment, each with the options that were given.
  void list_datasets(const Json& values) {
    std::map<std::string, std::string> lines;
    std::map<std::string, Json> records;
    for (const auto& [path, one] : values.items()) {
      if (!path.starts_with("data.")) continue;
      const size_t dot = path.find('.', 5);
      if (dot == std::string::npos) continue;
      const std::string name = path.substr(5, dot - 5), key = path.substr(dot + 1);
      records[name]["dataset"] = name;
      records[name]["options"][key] = one.at("value");
      if (one.at("origin") == "default" || key == "type") continue;
      lines[name] += (lines[name].empty() ? ": " : ", ") + key + " = " + one.at("value").dump();
    }
    for (auto& [name, record] : records) {
      context_.terminal.paragraph("[data." + name + "] " +
                                  record["options"].value("type", std::string()) + lines[name]);
      datasets_.push_back(std::move(record));
    }
    if (datasets_.size() > 1)
      context_.terminal.paragraph("shown is [data." + arguments_.dataset +
                                  "]; --dataset NAME shows another");
  }

  // Of a dataset with a tokenizer, of token files, or of the first part of a blend.
  static std::string described_tokenizer(const Json& values, const std::string& path) {
    Json options = Json::object();
    for (const char* key : {"type", "tokenizer", "path", "parts", "dataset"})
      if (values.contains(path + "." + key)) options[key] = values[path + "." + key].at("value");
    for (;;) {  // into the first part of a blend, the whole of a split
      if (options.contains("parts") && options["parts"].is_array() && !options["parts"].empty())
        options = Json(options["parts"][0]);
      else if (options.contains("dataset") && options["dataset"].is_object())
        options = Json(options["dataset"]);
      else
        break;
    }
    if (options.contains("tokenizer") && options["tokenizer"].is_object())
      return toml_of(options["tokenizer"]);
    if (options.value("type", "") != "tokens" || !options.contains("path")) return "";
    std::string stem = options["path"].get<std::string>();
    if (stem.ends_with(".bin")) stem.resize(stem.size() - 4);
    return toml_beside(stem);
  }

  void samples(const Dataset& dataset) {
    const Json facts = Json::parse(dataset.describe());
    const auto n = facts.at("samples").get<uint64_t>();
    std::string head = strf("%llu samples of %s", static_cast<unsigned long long>(n),
                            facts.at("type").get<std::string>().c_str());
    for (const Json& field : facts.at("fields"))
      head += ", " + field.at("name").get<std::string>() + " " +
              field.at("dtype").get<std::string>() + " " + field.at("shape").dump();
    context_.terminal.paragraph(head);
    context_.terminal.record(facts);
    const Json& fields = facts.at("fields");
    if (facts.at("type") == "csv") hint_at_decimal_commas(fields);
    if (std::none_of(fields.begin(), fields.end(), is_tokens)) statistics(dataset, fields, n);
    const auto [from, to] = range(n, "sample");
    for (uint64_t i = from; i < to; ++i) sample(dataset, facts.at("fields"), i);
  }

  // Of all samples, or of many at even distances. How many follows from the dataset alone, not from
  // how fast it is read: the same data have the same figures.
  void statistics(const Dataset& dataset, const Json& fields, uint64_t n) {
    constexpr uint64_t kMostSamples = 100000, kMostBytes = 64 << 20, kLeastSamples = 100;
    uint64_t bytes = 1;
    for (const Json& field : fields) bytes += field.at("bytes").get<uint64_t>();
    const uint64_t most = arguments_.samples > 0
                              ? arguments_.samples
                              : std::clamp(kMostBytes / bytes, kLeastSamples, kMostSamples);
    const uint64_t step = std::max<uint64_t>(1, (n + most - 1) / most),
                   read = (n + step - 1) / step;
    Json all = Json::object();
    if (step > 1)
      context_.terminal.paragraph(strf(
          "  figures from %llu evenly spaced samples%s:", static_cast<unsigned long long>(read),
          arguments_.samples > 0 ? "" : " (--figures-of N for more)"));
    for (uint32_t f = 0; f < fields.size(); ++f) {
      FieldStatistics field(fields[f]);
      std::vector<char> one(fields[f].at("bytes").get<size_t>());
      for (uint64_t i = 0; i < n; i += step) {
        dataset.read(static_cast<int64_t>(i), f, one.data(), one.size());
        field.add(numbers_of(fields[f].at("dtype"), one));
      }
      all[field.name()] = field.json();
      std::string text = field.text(context_.terminal.columns(), context_.terminal.utf8());
      if (text.ends_with('\n')) text.pop_back();
      context_.terminal.line(text);
    }
    context_.terminal.record({{"samples_read", read}, {"statistics", all}});
  }

  void sample(const Dataset& dataset, const Json& fields, uint64_t i) {
    ShownTokens tokens;
    Json more = Json::object();
    for (uint32_t f = 0; f < fields.size(); ++f) {
      const std::string name = fields[f].at("name");
      const Json values = read(dataset, fields[f], i, f);
      if (name == "tokens" && fields[f].at("dtype") == "i32")
        tokens.ids = values.get<std::vector<int64_t>>();
      else if (name == "labels" && fields[f].at("dtype") == "i32")
        tokens.labels = values.get<std::vector<int64_t>>();
      else
        more[name] = values;
    }
    tokens.all = tokens.ids.size();
    if (!tokens.ids.empty() && (tokens.labels.empty() || tokens.labels.size() == tokens.ids.size()))
      return show("sample", i, tokens, more);
    plain_sample(i, more, fields);
  }

  // The text that a number stands for, and else the number.
  static std::string value_text(const Json& field, size_t k, const Json& value) {
    const auto classes = field.find("classes");
    if (classes != field.end() && k < classes->size() && value.is_number_integer()) {
      const auto number = value.get<int64_t>();
      if (number >= 0 && static_cast<size_t>(number) < (*classes)[k].size())
        return one_line((*classes)[k][static_cast<size_t>(number)].get<std::string>());
    }
    if (field.at("dtype") == "f32" && value.is_number()) {  // not the digits of a double
      char text[32];
      const auto end = std::to_chars(text, text + sizeof text, value.get<float>()).ptr;
      return {text, end};
    }
    return value.dump();
  }

  bool show_picture(const Json& field, const Json& values) {
    const PictureSize size = picture_size(field.at("shape").get<std::vector<int64_t>>());
    if (size.rows == 0 ||
        static_cast<size_t>(size.channels * size.rows * size.columns) != values.size())
      return false;
    std::vector<double> pixels;
    for (const Json& v : values) pixels.push_back(v.is_number() ? v.get<double>() : 0);
    const Terminal& t = context_.terminal;
    for (const std::string& line : picture(pixels, size, colors_of_terminal(t.colored()), t.utf8()))
      context_.terminal.line("  " + line);
    return true;
  }

  void plain_sample(uint64_t i, const Json& fields, const Json& described) {
    context_.terminal.line(context_.terminal.bold("sample " + std::to_string(i)));
    Json record = {{"sample", i}};
    for (const auto& [name, values] : fields.items()) {
      const Json& field =
          *std::find_if(described.begin(), described.end(),
                        [&name = name](const Json& one) { return one.at("name") == name; });
      record[name] = values;
      if (context_.terminal.human() && show_picture(field, values)) continue;
      std::string row;
      for (size_t k = 0; k < std::min<size_t>(values.size(), arguments_.width); ++k)
        row += " " + value_text(field, k, values[k]);
      if (values.size() > arguments_.width)
        row += strf(" ... (%llu more)",
                    static_cast<unsigned long long>(values.size() - arguments_.width));
      context_.terminal.paragraph("  " + name + row);
    }
    context_.terminal.record(record);
  }

  static Json read(const Dataset& dataset, const Json& field, uint64_t i, uint32_t f) {
    std::vector<char> bytes(field.at("bytes").get<size_t>());
    dataset.read(static_cast<int64_t>(i), f, bytes.data(), bytes.size());
    const std::string dtype = field.at("dtype");
    Json all = Json::array();
    const auto add = [&]<class T>(T value) {
      for (size_t at = 0; at + sizeof value <= bytes.size(); at += sizeof value) {
        std::memcpy(&value, bytes.data() + at, sizeof value);
        all.push_back(value);
      }
    };
    if (dtype == "f32") add(float{});
    if (dtype == "f64") add(double{});
    if (dtype == "i32") add(int32_t{});
    if (dtype == "i64") add(int64_t{});
    if (dtype == "u8" || dtype == "bool") add(uint8_t{});
    if (dtype == "f16" || dtype == "bf16") all = numbers_of(dtype, bytes);
    return all;
  }

  Context& context_;
  const ShowArguments& arguments_;
  Engine engine_;
  std::optional<Tokenizer> tokenizer_;
  int64_t vocabulary_ = 0;
  std::vector<Json> datasets_;  // of the experiment
};

}  // namespace

void add_data_show(CLI::App& data, Context& context, std::function<int()> without) {
  CLI::App* verb = data.add_subcommand(
      "show",
      "shows what a file or the datasets of an experiment hold: columns, classes, ranges, samples; "
      "without any: the sets");
  const auto a = std::make_shared<ShowArguments>();
  add_file(*verb, a->file);
  verb->get_option("FILE")->required(false)->description(
      "NAME.csv, .tsv, .npy, .npz, .safetensors, -ubyte (idx), a folder with one folder of "
      "images for each class, or with idx files, each as its dataset reads it; "
      "PATH.bin, NAME.jsonl, NAME.txt; an experiment file, or a folder that contains an "
      "experiment.toml");
  verb->add_option(
          "--dataset", a->dataset,
          "which [data.NAME] of an experiment, or files NAME-... of a folder; default: train")
      ->type_name("NAME");
  verb->add_option("--from", a->from, "the first document or sample; default: 0");
  verb->add_option("--count", a->count, "how many; default: 3")->check(CLI::Range(1, 1 << 30));
  verb->add_option("--width", a->width, "numbers of a line at most; default: 64");
  verb->add_option(
          "--figures-of", a->samples,
          "samples that the figures are of, at most; default: what has 64 MiB, from 100 to "
          "100000")
      ->type_name("N")
      ->check(whole_number(1));
  verb->add_option("--tokenizer", a->tokenizer,
                   "as `plait data tokenize` takes it; default: the one that made the file, or "
                   "that the dataset names")
      ->type_name("TYPE|PATH");
  verb->add_option("--option", a->options,
                   "an option of the tokenizer, or of the dataset that reads FILE; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--template", a->chat, "chat template of a file with messages: chatml, ...")
      ->type_name("NAME");
  verb->add_option("--field", a->field, "the key of the text in JSON Lines; default: text")
      ->type_name("KEY");
  verb->add_option("--length", a->length, "tokens to show at most; default: 4096")
      ->check(CLI::Range(1, 1 << 24));
  verb->callback([&context, a, without] {
    context.run_command = [&context, a, without] {
      return a->file.given.empty() ? without() : Show(context, *a).run();
    };
  });
}

}  // namespace plait::cli
