// csv and jsonl: a line for each sample, with the shortest numbers that read back to the same bits.
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "bindings/cli/data/field_statistics.hpp"
#include "bindings/cli/predictions/prediction_file.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

template <class T>
std::string shortest(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// Numbers of a sample; i64 as integers, for double cannot hold all of them.
class Numbers {
 public:
  Numbers(const PredictedValue& value, std::string_view row)
      : dtype_(value.dtype),
        row_(row),
        values_(numbers_of(value.dtype, {row.data(), row.size()})) {}
  size_t size() const { return values_.size(); }
  bool is_finite(size_t i) const { return std::isfinite(values_[i]); }
  std::string text(size_t i) const {
    if (dtype_ == "i64") {
      int64_t exact = 0;
      std::memcpy(&exact, row_.data() + i * sizeof exact, sizeof exact);
      return std::to_string(exact);
    }
    const double v = values_[i];
    if (!std::isfinite(v)) return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
    if (dtype_ == "i32" || dtype_ == "u8" || dtype_ == "bool")
      return std::to_string(static_cast<int64_t>(v));
    return dtype_ == "f64" ? shortest(v) : shortest(static_cast<float>(v));
  }
  // The place of the largest; nullopt: one is not a number.
  std::optional<size_t> largest() const {
    size_t best = 0;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (std::isnan(values_[i])) return std::nullopt;
      if (values_[i] > values_[best]) best = i;
    }
    return best;
  }

 private:
  const std::string& dtype_;
  std::string_view row_;
  std::vector<double> values_;
};

// By RFC 4180.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string json_text(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The text of each sample, made of the rows of all values.
class TextFile : public PredictionFile {
 public:
  TextFile(WholeFile& file, const Values& values) : file_(file), values_(values) {}
  void add(int64_t n, std::span<const std::string_view> rows) override {
    std::string text;
    for (int64_t k = 0; k < n; ++k, ++sample_) {
      std::vector<Numbers> numbers;
      for (size_t i = 0; i < values_.size(); ++i)
        numbers.emplace_back(values_[i], rows[i].substr(static_cast<size_t>(k) * values_[i].bytes,
                                                        values_[i].bytes));
      append(text, sample_, numbers);
    }
    file_.write(text);
  }
  void resume(int64_t samples) override { sample_ = samples; }

 protected:
  virtual void append(std::string& to, int64_t sample, const std::vector<Numbers>& numbers) = 0;
  void write(const std::string& text) { file_.write(text); }
  const Values& values() const { return values_; }

 private:
  WholeFile& file_;
  const Values values_;
  int64_t sample_ = 0;
};

// sample,output.class,output.cat,output.dog: columns for the likeliest class and for each number.
class CsvFile : public TextFile {
 public:
  CsvFile(WholeFile& file, const Values& values) : TextFile(file, values) {
    std::string line = "sample";
    for (const PredictedValue& value : values) {
      if (!value.classes.empty()) line += "," + cell(value.name + ".class");
      add_columns(line, value);
    }
    write(line + "\n");
  }

 private:
  // "output", "output.2", "output.0.1": by the place along each axis, or by the text of a class.
  static void add_columns(std::string& line, const PredictedValue& value) {
    int64_t n = 1;
    for (const int64_t extent : value.shape) n *= extent;
    for (int64_t i = 0; i < n; ++i) {
      std::string place;
      int64_t rest = i;
      for (size_t axis = value.shape.size(); axis-- > 0; rest /= value.shape[axis])
        place.insert(0, "." + std::to_string(rest % value.shape[axis]));
      if (!value.classes.empty()) place = "." + value.classes[static_cast<size_t>(i)];
      line += "," + cell(value.name + place);
    }
  }
  void append(std::string& to, int64_t sample, const std::vector<Numbers>& numbers) override {
    to += std::to_string(sample);
    for (size_t v = 0; v < numbers.size(); ++v) {
      const std::vector<std::string>& classes = values()[v].classes;
      if (!classes.empty()) {
        const auto best = numbers[v].largest();
        to += "," + (best ? cell(classes[*best]) : "");
      }
      for (size_t i = 0; i < numbers[v].size(); ++i) to += "," + numbers[v].text(i);
    }
    to += '\n';
  }
};

// {"sample": 0, "output.class": "cat", "output": [0.9, 0.1]}
class JsonlFile : public TextFile {
 public:
  using TextFile::TextFile;

 private:
  void append(std::string& to, int64_t sample, const std::vector<Numbers>& numbers) override {
    to += "{\"sample\": " + std::to_string(sample);
    for (size_t v = 0; v < numbers.size(); ++v) {
      const PredictedValue& value = values()[v];
      if (!value.classes.empty()) {
        const auto best = numbers[v].largest();
        to += ", " + json_text(value.name + ".class") + ": " +
              (best ? json_text(value.classes[*best]) : "null");
      }
      to += ", " + json_text(value.name) + ": ";
      size_t next = 0;
      append_array(to, value, 0, numbers[v], next);
    }
    to += "}\n";
  }
  // Along `axis` and those behind it, from number `next` on.
  static void append_array(std::string& to, const PredictedValue& value, size_t axis,
                           const Numbers& numbers, size_t& next) {
    if (axis == value.shape.size()) {
      // JSON has no such numbers; metrics.ndjson has them as texts, too.
      const bool quoted = !numbers.is_finite(next);
      to += (quoted ? "\"" : "") + numbers.text(next) + (quoted ? "\"" : "");
      ++next;
      return;
    }
    to += '[';
    for (int64_t i = 0; i < value.shape[axis]; ++i) {
      if (i > 0) to += ", ";
      append_array(to, value, axis + 1, numbers, next);
    }
    to += ']';
  }
};

}  // namespace

std::unique_ptr<PredictionFile> csv_file(WholeFile& file, const Values& values, int64_t) {
  return std::make_unique<CsvFile>(file, values);
}

std::unique_ptr<PredictionFile> jsonl_file(WholeFile& file, const Values& values, int64_t) {
  return std::make_unique<JsonlFile>(file, values);
}

}  // namespace plait::cli
