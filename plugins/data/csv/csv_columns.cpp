#include "plugins/data/csv/csv_columns.hpp"

#include <algorithm>

#include "plugins/data/csv/csv_dialect.hpp"

namespace plait::data::csv {
namespace {
constexpr size_t kMaxInputs = 1 << 20;
constexpr char kEveryText[] = "*";
}  // namespace

const char* const kFewer = "; take ids with encoding = \"id\", or leave the column out";

std::string shown(std::string_view cell) {
  std::string text;
  for (const char c : cell.substr(0, 40)) text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return "'" + text + (cell.size() > 40 ? "…'" : "'");
}

Columns::Columns(const support::SourceFile& source, const Request& request,
                 std::vector<std::string> names, std::string first_line, bool header)
    : source_(source),
      request_(request),
      columns_(names.size()),
      first_line_(std::move(first_line)),
      header_(header) {
  for (size_t i = 0; i < names.size(); ++i) columns_[i].name = std::move(names[i]);
  if (!request.weight.empty()) assign(request.weight, Use::kWeight, "weight", weights_);
  if (!request.key.empty()) assign(request.key, Use::kKey, "key", keys_);
  for (const std::string& n : request.integers) assign(n, Use::kInteger, "integers", integers_);
  for (const std::string& n : request.target) assign(n, Use::kTarget, "target", targets_);
  for (const std::string& n : request.input) assign(n, Use::kInput, "input", inputs_);
  assign_categories();
  if (request.input.empty())
    for (size_t i = 0; i < columns_.size(); ++i) {
      Column& c = columns_[i];
      if (c.use == Use::kNone) c.use = Use::kInput;
      if (c.use == Use::kInput || c.use == Use::kCategory) order_.push_back(i);
    }
  if (header_) check_names();
  if (order_.empty())
    fail(PLAIT_ERR_CONFIG, source_.text() + ": no column is left for the input; " + known());
}

// Texts and means are found by the names of columns.
void Columns::check_names() const {
  std::map<std::string_view, size_t> first;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const auto [known, is_new] = first.try_emplace(columns_[i].name, i);
    const Use use = std::max(columns_[i].use, columns_[known->second].use);
    if (is_new || use == Use::kNone) continue;
    const bool by_default = use == Use::kInput && request_.input.empty();
    fail(PLAIT_ERR_DATA, source_.text() + ", line 1: columns " + std::to_string(known->second + 1) +
                             " and " + std::to_string(i + 1) + " are both called " +
                             shown(columns_[i].name) + "; rename one" +
                             (by_default ? ", or name the columns to read in `input`" : ""));
  }
}

// Categories are columns of the input, or further ones behind those that it names.
void Columns::assign_categories() {
  for (const std::string& name : request_.categories) {
    if (name == kEveryText) continue;
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const Column& c) { return c.name == name; });
    if (found != columns_.end() && found->use == Use::kInput)
      found->use = Use::kCategory;
    else
      assign(name, Use::kCategory, "categories", categories_);
  }
}

bool Columns::finds_categories() const {
  const auto& all = request_.categories;
  return std::find(all.begin(), all.end(), kEveryText) != all.end();
}

bool Columns::is_text(const Column& column) const {
  return column.use == Use::kCategory ||
         (column.use == Use::kTarget && request_.target_type == TargetType::kClass);
}

void Columns::number_ids(Column& column, const std::vector<std::string>& texts,
                         const char* option) {
  column.ids.clear();
  for (size_t i = 0; i < texts.size(); ++i)
    if (!column.ids.emplace(texts[i], static_cast<int32_t>(i)).second)
      fail(PLAIT_ERR_CONFIG, source_.text() + ": " + option + " lists " + shown(texts[i]) +
                                 " twice; list each text once");
}

void Columns::place(const Fit& fit) {
  inputs_ = categories_ = one_hot_ = 0;
  for (const size_t i : order_) {
    Column& c = columns_[i];
    if (c.use == Use::kInput) {
      c.slot = inputs_++;
      continue;
    }
    const auto texts = fit.categories.find(c.name);
    if (texts == fit.categories.end())
      fail(PLAIT_ERR_CONFIG, source_.text() + ": the file of fit_on has no column '" + c.name +
                                 "'; give both files the same columns");
    number_ids(c, texts->second, "categories");
    c.slot = request_.one_hot ? inputs_ : categories_;
    if (request_.one_hot) one_hot_ += texts->second.size();
    (request_.one_hot ? inputs_ : categories_) += request_.one_hot ? texts->second.size() : 1;
    if (inputs_ > kMaxInputs)
      fail(PLAIT_ERR_CONFIG, source_.text() + ": column " + shown(c.name) + " has " +
                                 std::to_string(texts->second.size()) +
                                 " different texts, and the input " + std::to_string(inputs_) +
                                 " columns with them, at most 1048576 are possible" + kFewer);
  }
  for (Column& c : columns_)
    if (c.use == Use::kTarget && is_text(c)) number_ids(c, fit.classes, "classes");
}

const Column* Columns::largest_category() const {
  const Column* largest = nullptr;
  for (const Column& c : columns_)
    if (c.use == Use::kCategory && (!largest || c.ids.size() > largest->ids.size())) largest = &c;
  return largest;
}

void Columns::name_places(Table& table) const {
  table.input_names.resize(inputs_);
  table.category_names.resize(categories_);
  table.target_names.resize(targets_);
  for (const Column& c : columns_) {
    if (c.use == Use::kInput) table.input_names[c.slot] = c.name;
    if (c.use == Use::kTarget) table.target_names[c.slot] = c.name;
    if (c.use != Use::kCategory) continue;
    if (!request_.one_hot) table.category_names[c.slot] = c.name;
    for (const auto& [text, id] : c.ids)
      if (request_.one_hot)
        table.input_names[c.slot + static_cast<size_t>(id)] = c.name + " = " + text;
  }
}

void Columns::assign(const std::string& name, Use use, const char* option, size_t& count) {
  const auto is_it = [&](const Column& c) { return c.name == name; };
  const auto found = std::find_if(columns_.begin(), columns_.end(), is_it);
  if (found == columns_.end())
    fail(PLAIT_ERR_CONFIG, source_.text() + ": " + option + " names column '" + name +
                               "', which does not exist; " + known());
  if (found->use != Use::kNone)
    fail(PLAIT_ERR_CONFIG,
         source_.text() + ": column '" + name +
             "' is named twice in input, categories, integers, target, weight and key; use it "
             "once");
  found->use = use;
  found->slot = count++;
  if ((use == Use::kInput || use == Use::kCategory) && !request_.input.empty())
    order_.push_back(static_cast<size_t>(found - columns_.begin()));
}

// What the only cell of the first line may be cells between, as `separator` names it; "": nothing.
std::string Columns::other_separator() const {
  for (const char c : {';', '\t', '|', ','}) {
    if (c == request_.decimal || first_line_.find(c) == std::string::npos) continue;
    return c == '\t' ? "tab" : c == '|' ? "pipe" : std::string(1, c);
  }
  return "";
}

std::string Columns::known() const {
  std::string text = "the columns are";
  size_t numbers = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    double value = 0;
    numbers += is_number(columns_[i].name, request_.decimal, value) ? 1 : 0;
    if (i < 20) text += (i ? ", " : " ") + shown(columns_[i].name);
  }
  if (columns_.size() > 20) text += ", …";
  if (const std::string other = other_separator(); !other.empty())
    return text + "; set separator = \"" + other + "\" or \"auto\"";
  if (header_ && numbers > 0)
    return text +
           "; is the first line a sample? Then set header = false, and name columns by "
           "their numbers 0, 1, …";
  if (request_.header == Header::kNo)
    return text +
           "; with header = false columns have numbers; if the first line holds their names, set "
           "header = true";
  if (!header_ && request_.header == Header::kAuto)
    return text +
           ", because the first line looks like a sample; if it holds the names, set "
           "header = true";
  return text;
}

}  // namespace plait::data::csv
