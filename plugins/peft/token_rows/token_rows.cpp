// peft-token-rows: rows of single token ids, of a table and of the head that is tied to it, as for
// tokens that a vocabulary was extended by. The rows of the model stay: what is learned is added.
#include <plait/plugin.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace {
using namespace plait;

constexpr plait_option kTokenRows[] = {
    at_least(opt_ints("ids", nullptr,
                      "numbers of the rows that are trained; of a product: of its outputs"),
             0),
};

// Numbers that follow each other: [first, first + n).
struct Run {
  int64_t first, n;
};

// As they are given, which is the order of the trained rows.
std::vector<int64_t> ids_of(const Options& o, const PeftTarget& t, int64_t rows) {
  const auto given = o.integers("ids");
  const std::vector<int64_t> ids(given.begin(), given.end());
  const std::string at = "[token_rows] ids ";
  if (ids.empty()) fail(PLAIT_ERR_CONFIG, at + "are none; name the rows to train, ids = [50257]");
  std::vector<int64_t> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.back() >= rows)
    fail(PLAIT_ERR_CONFIG, at + "contain " + std::to_string(sorted.back()) + ", and '" + t.name +
                               "' has the rows 0 to " + std::to_string(rows - 1));
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    fail(PLAIT_ERR_CONFIG, at + "contain " + std::to_string(*twice) + " twice");
  return ids;
}

std::vector<Run> runs_of(const std::vector<int64_t>& ids) {
  std::vector<Run> runs;
  for (const int64_t id : ids)
    if (runs.empty() || id != runs.back().first + runs.back().n)
      runs.push_back({id, 1});
    else
      ++runs.back().n;
  return runs;
}

// For each row number, 1 + its place in `ids`, or 0: element-wise, whatever the ranks share.
Value places(const Builder& b, Value numbers, const std::vector<Run>& runs) {
  const Value x = b.op("cast", {numbers}, {attr("dtype", static_cast<int64_t>(PLAIT_F32))});
  Value sum = x * 0.0;
  int64_t before = 0;
  for (const Run& run : runs) {
    const auto first = static_cast<double>(run.first),
               last = first + static_cast<double>(run.n - 1);
    sum = sum + (x >= first) * (x <= last) * (x - first + static_cast<double>(before + 1));
    before += run.n;
  }
  return b.op("cast", {sum}, {attr("dtype", static_cast<int64_t>(PLAIT_I32))});
}

// (n,rows): row i has 1 at ids[i].
Value selection(const Builder& b, const std::vector<int64_t>& ids, int64_t rows) {
  const std::vector<int64_t> one{1};
  std::vector<Value> numbers;
  for (const int64_t id : ids)
    numbers.push_back(b.op("fill", {},
                           {attr("value", static_cast<double>(id)), attr("shape", one),
                            attr("dtype", static_cast<int64_t>(PLAIT_I32))}));
  const Value all = numbers.size() == 1
                        ? numbers[0]
                        : b.ops("concat", numbers, std::span<const plait_attr>(), 1)[0];
  return b.op("one_hot", {all}, {attr("depth", rows)});
}

Value as_type_of(const Builder& b, Value like, Value v) {
  return b.op("cast", {v}, {attr("dtype", static_cast<int64_t>(b.shape(like).dtype))});
}

// Of a look-up: row ids[i] of the table has change[i] added. Of a product: the same row of its
// weight. change (n,C)
Value wrap(Builder& b, const Options& o, const PeftTarget& t) {
  const Shape weight = b.shape(t.weight);
  const bool looks_up = t.what == PLAIT_PEFT_LOOKUP;
  const int64_t rows = weight.dims[looks_up ? 0 : t.out_dim()];
  const int64_t columns = weight.dims[looks_up ? 1 : t.in_dim()];
  const std::vector<int64_t> ids = ids_of(o, t, rows);
  const auto n = static_cast<int64_t>(ids.size());
  const Value change =
      b.parameter("change", Shape({n, columns}), Init::constant(0), -1, 1, PLAIT_REQUEST_OF_WEIGHT);
  if (!looks_up) {
    const Value own = b.op("matmul", {t.input, change}, {attr("transpose_b", true)});
    return t.output + b.op("matmul", {own, as_type_of(b, own, selection(b, ids, rows))});
  }
  const std::vector<int64_t> row{1, columns};
  const Value none = as_type_of(b, change, b.op("fill", {}, {attr("shape", row)}));
  const Value table = b.op("concat", {none, change});
  return t.output + b.op("gather", {table, places(b, t.input, runs_of(ids))});
}
}  // namespace

PLAIT_PLUGIN("peft-token-rows", "0.1.0", "Apache-2.0", "Rows of single token ids") {
  static const auto token_rows =
      peft<wrap>("token_rows", "changes the rows of some token ids, in a table and a tied head",
                 PLAIT_PEFT_LOOKUP | PLAIT_PEFT_PRODUCT, kTokenRows);
  host.add(token_rows);
}
