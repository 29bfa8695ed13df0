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
  TreeEvents(JsonValue& root, size_t max_depth) : root_(root), max_depth_(max_depth) {
    open_.reserve(max_depth);
  }
  const std::string& problem() const { return problem_; }

  bool null() override {
    add(Kind::kNull);
    return true;
  }
  bool boolean(bool v) override {
    add(Kind::kBool)->whole = v ? 1 : 0;
    return true;
  }
  bool number_integer(number_integer_t v) override {
    add(Kind::kNegative)->whole = static_cast<uint64_t>(v);
    return true;
  }
  bool number_unsigned(number_unsigned_t v) override {
    add(Kind::kWhole)->whole = v;
    return true;
  }
  bool number_float(number_float_t, const string_t& digits) override {
    add(Kind::kReal)->text = digits;
    return true;
  }
  bool string(string_t& v) override {
    add(Kind::kText)->text = std::move(v);
    return true;
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
  JsonValue* add(Kind kind) {
    JsonValue* value = open_.empty() ? &root_ : &open_.back()->items.emplace_back();
    value->kind = kind;
    return value;
  }
  bool open(Kind kind) {
    if (open_.size() == max_depth_) {
      problem_ = "is nested too deeply";
      return false;
    }
    open_.push_back(add(kind));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  JsonValue& root_;
  const size_t max_depth_;
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
  JsonValue root;
  TreeEvents events(root, max_depth);
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
