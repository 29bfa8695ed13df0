// data-csv: numbers from a CSV file. Fields "input" f32 (I), "target" f32 (T) or i32, "weight" f32
// ().
#include "plugins/data/csv/csv_file.hpp"
#include "plugins/data/memory_dataset.hpp"

namespace {
using namespace plait;

constexpr plait_option kCsv[] = {
    opt_path("path", nullptr, "CSV file"),
    opt_bool("header", "true",
             "the first line holds the column names; if false, columns are named 0, 1, 2, …"),
    opt_choice("separator", "\",\"", ",|;|tab|space", "separator between cells"),
    opt_texts("input", "[]", "columns of the input; empty: all except target and weight"),
    opt_texts("target", "[]", "columns of the target; empty: none"),
    opt_choice("target_type", "\"f32\"", "f32|i32", "f32: real values; i32: labels, one column"),
    opt_text("weight", "\"\"", "column of the samples' weights; empty: all 1"),
};

char separator_of(const Options& o) {
  const std::string_view text = o.text("separator");
  return text == "tab" ? '\t' : text == "space" ? ' ' : text[0];
}

class Csv : public data::MemoryDataset {
 public:
  Csv(const Host&, const Options& o) : MemoryDataset("data.csv") {
    const support::SourceFile source{"data.csv", "path", std::string(o.text("path"))};
    const data::csv::Request request{.header = o.flag("header"),
                                     .separator = separator_of(o),
                                     .input = o.texts("input"),
                                     .target = o.texts("target"),
                                     .weight = std::string(o.text("weight")),
                                     .integer_target = o.text("target_type") == "i32"};
    data::csv::Table t = support::in_memory(source, [&] {
      const support::Bytes file = support::read_file(source);
      return data::csv::parse(source, {reinterpret_cast<const char*>(file.data()), file.size()},
                              request);
    });
    add("input", PLAIT_FIELD_INPUT, Shape({static_cast<int64_t>(t.inputs)}), t.rows,
        std::move(t.input));
    if (t.targets) {
      // One label is a scalar of a sample: the labels of a batch are (B).
      Shape shape({static_cast<int64_t>(t.targets)});
      if (request.integer_target)
        shape = t.targets == 1 ? Shape({}, PLAIT_I32) : Shape(shape.dims, PLAIT_I32);
      add("target", PLAIT_FIELD_TARGET, shape, t.rows, std::move(t.target));
    }
    if (!request.weight.empty())
      add("weight", PLAIT_FIELD_WEIGHT, Shape(std::vector<int64_t>{}), t.rows, std::move(t.weight));
  }
};
}  // namespace

PLAIT_PLUGIN("data-csv", "0.1.0", "Apache-2.0", "CSV files") {
  static const auto csv = dataset<Csv>("csv", "numbers in the columns of a CSV file", kCsv);
  host.add(csv);
}
