// data-csv: a CSV file, plain or .gz. Fields "input" f32 (I), "category" i32 (K) with encoding =
// "id", "target" f32 (T) or i32, "weight" f32 (),
// "key" i64 (), and one i32 () with the name of each column of `integers`.
#include "plugins/data/column_dataset.hpp"
#include "plugins/data/csv/csv_file.hpp"
#include "plugins/data/gzip.hpp"

#include <algorithm>

namespace {
using namespace plait;
using namespace plait::data;

constexpr plait_option kCsv[] = {
    opt_path("path", nullptr, "CSV file, plain or gzip"),
    opt_choice("header", "\"auto\"", "auto|true|false",
               "whether the first line holds the column names; if not, columns are named 0, 1, 2, "
               "…; auto: it does unless it looks like a sample"),
    opt_choice("separator", "\"auto\"", "auto|,|;|tab|space|pipe",
               "separator between cells; auto: the one of tab ; | , that all lines have as often"),
    opt_choice("decimal", "\".\"", ".|,", "what separates the digits of fractions"),
    opt_texts("input", "[]", "columns of the input; empty: all without another role"),
    opt_texts(
        "categories", "[]",
        "columns of the input that hold texts, which need not be named in `input`; \"*\": all "
        "that hold one"),
    opt_choice("encoding", "\"one_hot\"", "one_hot|id",
               "one_hot: a category becomes a column of 0 and 1 for each of its texts; id: the "
               "number of its text, in the field \"category\""),
    opt_texts("target", "[]", "columns of the target; empty: none"),
    opt_choice("target_type", "\"f32\"", "f32|i32|class",
               "f32: real values; i32: labels; class: texts, numbered in their sorted order"),
    opt_texts("classes", "[]",
              "with target_type = \"class\": the texts by their ids; empty: those of the file"),
    opt_text("weight", "\"\"", "column of the samples' weights; empty: all 1"),
    opt_text("key", "\"\"",
             "column of texts that say what belongs together, for by = \"key\" of a split: its "
             "hashes are the field \"key\"; empty: none"),
    opt_texts("integers", "[]",
              "columns of integers, each of which becomes a field of its own, with the column's "
              "name: for model.adapter_field, and layers that look up ids"),
    opt_choice("missing", "\"error\"", "error|mean|zero|nan|drop",
               "a missing number becomes the mean of its column, 0 or NaN; drop: leaves its line "
               "out"),
    opt_texts("missing_texts", "[\"\", \"NA\", \"N/A\", \"NaN\", \"nan\", \"null\", \"?\"]",
              "cells that are missing"),
    opt_path("fit_on", "\"\"",
             "CSV file that classes, categories and means are found in, for evaluation: that of "
             "training; empty: path"),
};

csv::Request request_of(const Options& o) {
  const auto chosen = [&](const char* name, std::initializer_list<const char*> all) {
    uint8_t i = 0;
    for (const char* one : all) {
      if (o.text(name) == one) break;
      ++i;
    }
    return i;
  };
  const std::string_view separator = o.text("separator");
  csv::Request r;
  r.header = static_cast<csv::Header>(chosen("header", {"auto", "true"}));
  r.separator = separator == "auto"    ? '\0'
                : separator == "tab"   ? '\t'
                : separator == "space" ? ' '
                : separator == "pipe"  ? '|'
                                       : separator[0];
  r.decimal = o.text("decimal")[0];
  r.input = o.texts("input");
  r.categories = o.texts("categories");
  r.one_hot = o.text("encoding") == "one_hot";
  r.target = o.texts("target");
  r.target_type = static_cast<csv::TargetType>(chosen("target_type", {"f32", "i32"}));
  r.classes = o.texts("classes");
  r.weight = std::string(o.text("weight"));
  r.key = std::string(o.text("key"));
  r.integers = o.texts("integers");
  r.missing = static_cast<csv::Missing>(chosen("missing", {"error", "mean", "zero", "nan"}));
  r.missing_texts = o.texts("missing_texts");
  return r;
}

class Csv : public ColumnDataset {
 public:
  Csv(const Host& host, const Options& o) : ColumnDataset("data.csv") {
    const csv::Request request = request_of(o);
    check(o, request);
    csv::Fit fit;
    const bool other = !o.text("fit_on").empty();
    if (other) fit = table_of(o, "fit_on", request, nullptr).fit;
    csv::Table t = table_of(o, "path", request, other ? &fit : nullptr);
    tell(host, o, request, t);
    keep_texts(request, t);
    note_source(std::string(o.text("path")));
    if (t.inputs > 0)
      add("input", PLAIT_FIELD_INPUT, Shape({static_cast<int64_t>(t.inputs)}), t.rows,
          std::move(t.input));
    if (t.categories > 0)
      add("category", PLAIT_FIELD_INPUT, Shape({static_cast<int64_t>(t.categories)}, PLAIT_I32),
          t.rows, std::move(t.category));
    if (t.targets) {
      // One label is a scalar of a sample: the labels of a batch are (B).
      Shape shape({static_cast<int64_t>(t.targets)});
      if (request.target_type != csv::TargetType::kReal)
        shape = t.targets == 1 ? Shape({}, PLAIT_I32) : Shape(shape.dims, PLAIT_I32);
      add("target", PLAIT_FIELD_TARGET, shape, t.rows, std::move(t.target));
      tell_of_ignored_labels(host, "target of path '" + std::string(o.text("path")) + "'");
    }
    if (!request.weight.empty())
      add("weight", PLAIT_FIELD_WEIGHT, Shape(std::vector<int64_t>{}), t.rows, std::move(t.weight));
    if (!request.key.empty())
      add("key", PLAIT_FIELD_INPUT, Shape({}, PLAIT_I64), t.rows, std::move(t.key));
    for (size_t i = 0; i < t.integers.size(); ++i)
      add(request.integers[i].c_str(), PLAIT_FIELD_INPUT, Shape({}, PLAIT_I32), t.rows,
          std::move(t.integers[i]));
  }

  const char* text_of(uint32_t field, uint32_t what, uint64_t index) const noexcept {
    if (what == PLAIT_TEXT_SOURCE) return ColumnDataset::text_of(field, what, index);
    if (field >= texts_.size()) return nullptr;
    const Texts& of = texts_[field];
    const std::vector<std::string>* all = what == PLAIT_TEXT_COLUMN ? &of.columns : nullptr;
    if (!all && what - PLAIT_TEXT_CLASS < of.classes.size())
      all = &of.classes[what - PLAIT_TEXT_CLASS];
    return all && index < all->size() ? (*all)[index].c_str() : nullptr;
  }

 private:
  static void check(const Options& o, const csv::Request& r) {
    const auto refuse = [&](const char* option, const std::string& what) {
      fail(PLAIT_ERR_CONFIG, "[data.csv] " + what + "; set at " + o.origin(option));
    };
    const bool is_class = r.target_type == csv::TargetType::kClass;
    if (is_class && r.target.size() != 1)
      refuse("target_type", "target_type is \"class\" and target names " +
                                std::to_string(r.target.size()) + " columns, expected one");
    for (const char* taken : {"input", "category", "target", "weight", "key"})
      if (std::find(r.integers.begin(), r.integers.end(), taken) != r.integers.end())
        refuse("integers", std::string("integers names column '") + taken +
                               "', which is the name of another field; rename the column");
    if (!is_class && !r.classes.empty())
      refuse("classes", "classes has an effect only with target_type = \"class\"");
  }

  struct Texts {
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> classes;  // of each column
  };
  std::vector<Texts> texts_;  // of the fields

  static csv::Table table_of(const Options& o, const char* option, const csv::Request& request,
                             const csv::Fit* fit) {
    const support::SourceFile source{"data.csv", option, std::string(o.text(option))};
    return support::in_memory(source, [&] {
      support::Bytes file = support::read_file(source);
      if (is_gzip(file.span())) file = unpack_all(source, file.span());
      const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
      return csv::parse(source, text, request, fit);
    });
  }

  void keep_texts(const csv::Request& request, const csv::Table& t) {
    if (t.inputs > 0) texts_.push_back({t.input_names, {}});
    if (t.categories > 0) {
      texts_.push_back({t.category_names, {}});
      for (const std::string& name : t.category_names)
        texts_.back().classes.push_back(t.fit.categories.at(name));
    }
    if (t.targets > 0) texts_.push_back({t.target_names, {}});
    if (t.targets > 0 && request.target_type == csv::TargetType::kClass)
      texts_.back().classes = {t.fit.classes};
    if (!request.weight.empty()) texts_.push_back({{request.weight}, {}});
    if (!request.key.empty()) texts_.push_back({{request.key}, {}});
    for (const std::string& name : request.integers) texts_.push_back({{name}, {}});
  }

  // Names, numbers of tickets: what categories = ["*"] takes along.
  static void tell_identifiers(const Host& host, const std::string& file, const csv::Table& t) {
    constexpr int64_t kFewest = 20;  // lines that tell
    if (t.rows < kFewest) return;
    for (const auto& [column, texts] : t.fit.categories)
      if (static_cast<int64_t>(texts.size()) * 2 > t.rows)
        host.log(PLAIT_LOG_WARN, file + ": column '" + column + "' has " +
                                     std::to_string(texts.size()) + " different texts in " +
                                     std::to_string(t.rows) +
                                     " lines, as names and numbers of lines have: new samples "
                                     "have others, so nothing is learned from it; name the other "
                                     "columns of texts in `categories`");
  }

  // What was found out, as it decides what the numbers mean.
  static void tell(const Host& host, const Options& o, const csv::Request& request,
                   const csv::Table& t) {
    const std::string file = "path '" + std::string(o.text("path")) + "'";
    if (request.header == csv::Header::kAuto && !t.header)
      host.log(PLAIT_LOG_INFO,
               file +
                   ": the first line is a sample, the columns are named 0, 1, …; if it holds "
                   "the names, set header = true");
    if (t.dropped > 0)
      host.log(PLAIT_LOG_INFO, file + ": " + std::to_string(t.dropped) + " of " +
                                   std::to_string(t.rows + t.dropped) +
                                   " lines have a missing cell and are left out");
    if (o.text("fit_on").empty()) tell_identifiers(host, file, t);
    if (request.target_type != csv::TargetType::kClass || !request.classes.empty()) return;
    std::string list;
    constexpr size_t kMost = 20;
    const std::vector<std::string>& all = t.fit.classes;
    for (size_t i = 0; i < all.size() && i < kMost; ++i)
      list += (i ? ", " : "") + std::to_string(i) + " '" + all[i] + "'";
    host.log(PLAIT_LOG_INFO, file + ": " + std::to_string(all.size()) + " classes: " + list +
                                 (all.size() > kMost ? ", …" : ""));
  }
};
}  // namespace

PLAIT_PLUGIN("data-csv", "0.1.0", "Apache-2.0", "CSV files") {
  static const auto csv =
      dataset<Csv>("csv", "numbers and categories in the columns of a CSV file", kCsv);
  host.add(csv);
}
