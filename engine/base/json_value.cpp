#include "engine/base/json_value.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"

namespace plait {

namespace {

using Kind = JsonValue::Kind;

// Builds the tree from the events of the parser.
class TreeEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeEvents(JsonValue& root, const JsonLimits& limits) : root_(root), limits_(limits) {
    open_.reserve(limits.max_depth);
  }
  const std::string& problem() const { return problem_; }

  bool null() override { return add(Kind::kNull) != nullptr; }
  bool boolean(bool v) override {
    JsonValue* value = add(Kind::kBool);
    if (value) value->whole = v ? 1 : 0;
    return value;
  }
  bool number_integer(number_integer_t v) override {
    JsonValue* value = add(Kind::kNegative);
    if (value) value->whole = static_cast<uint64_t>(v);
    return value;
  }
  bool number_unsigned(number_unsigned_t v) override {
    JsonValue* value = add(Kind::kWhole);
    if (value) value->whole = v;
    return value;
  }
  bool number_float(number_float_t, const string_t& digits) override {
    JsonValue* value = add(Kind::kReal);
    if (value) value->text = digits;
    return value;
  }
  bool string(string_t& v) override {
    JsonValue* value = add(Kind::kText);
    if (value) value->text = std::move(v);
    return value;
  }
  bool binary(binary_t&) override { return false; }  // not in JSON texts
  bool start_object(std::size_t) override { return open(Kind::kObject); }
  bool start_array(std::size_t) override { return open(Kind::kList); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& v) override {
    open_.back()->keys.push_back(std::move(v));
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    problem_ = std::string("is not JSON (") + e.what() + ")";
    return false;
  }

 private:
  // The parser completes a value before it begins the next one beside it, so pointers to open
  // values stay valid.
  // NULL: there are too many.
  JsonValue* add(Kind kind) {
    if (n_values_++ == limits_.max_values) {
      problem_ = "has too many values for its size";
      return nullptr;
    }
    JsonValue* value = open_.empty() ? &root_ : &open_.back()->items.emplace_back();
    value->kind = kind;
    return value;
  }
  bool open(Kind kind) {
    if (open_.size() == limits_.max_depth) {
      problem_ = "is nested too deeply";
      return false;
    }
    // An item of a list of the root.
    if (open_.size() == 2 && open_[1]->is(Kind::kList)) before_item_ = n_values_;
    JsonValue* value = add(kind);
    if (value) open_.push_back(value);
    return value;
  }
  bool close() {
    open_.pop_back();
    if (!limits_.take || open_.size() != 2 || !open_[1]->is(Kind::kList) ||
        !root_.is(Kind::kObject))
      return true;
    if (limits_.take(root_, root_.keys.back(), open_[1]->items.back())) {
      open_[1]->items.pop_back();
      n_values_ = before_item_;
    }
    return true;
  }

  JsonValue& root_;
  const JsonLimits& limits_;
  size_t n_values_ = 0, before_item_ = 0;
  std::vector<JsonValue*> open_;  // from the root inwards
  std::string problem_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  for (size_t i = keys.size(); i-- > 0;)
    if (keys[i] == key) return &items[i];
  return nullptr;
}

JsonValue parse_json(std::string_view text, size_t max_depth) {
  return parse_json(text, JsonLimits{.max_depth = max_depth});
}

JsonValue parse_json(std::string_view text, const JsonLimits& limits) {
  JsonValue root;
  TreeEvents events(root, limits);
  bool good = false;
  try {
    good = nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  } catch (const nlohmann::json::exception& e) {
    fail_data(std::string("is not JSON (") + e.what() + ")");
  }
  if (!good) fail_data(events.problem());
  return root;
}

namespace {

void append(std::string& out, const JsonValue& value) {
  switch (value.kind) {
    case Kind::kNull:
      out += "null";
      break;
    case Kind::kBool:
      out += value.whole ? "true" : "false";
      break;
    case Kind::kNegative:
      out += std::to_string(static_cast<int64_t>(value.whole));
      break;
    case Kind::kWhole:
      out += std::to_string(value.whole);
      break;
    case Kind::kReal:
      out += value.text;
      break;
    case Kind::kText:
      out += json_quote(value.text);
      break;
    case Kind::kList:
    case Kind::kObject:
      out += value.is(Kind::kList) ? '[' : '{';
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += ',';
        if (value.is(Kind::kObject)) out += json_quote(value.keys[i]) + ":";
        append(out, value.items[i]);
      }
      out += value.is(Kind::kList) ? ']' : '}';
      break;
  }
}

}  // namespace

std::string json_text(const JsonValue& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace plait
