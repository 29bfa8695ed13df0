#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/config/document.hpp"
#include "engine/config/near_key.hpp"
#include "engine/config/renamed_keys.hpp"

namespace plait::config {
namespace {

// One step of "model.layers[2].out": a key, or an index.
struct Step {
  std::string key;
  int64_t index = -1;  // >= 0: index into a list
};

// Parses the path left of '='. Returns false after a problem.
class PathReader {
 public:
  PathReader(std::string_view text, const Origin& origin, Problems& problems)
      : text_(text), origin_(origin), problems_(problems) {}

  bool read(std::vector<Step>& steps) {
    do {
      Step step;
      if (!read_key(step.key)) return false;
      steps.push_back(std::move(step));
      while (at_ < text_.size() && text_[at_] == '[')
        if (!read_index(steps)) return false;
      if (steps.size() > static_cast<size_t>(kMaxKeyParts))
        return bad("the key has too many parts");
    } while (at_ < text_.size() && text_[at_++] == '.');
    return at_ == text_.size() ||
           bad("cannot read the key after '" + std::string(text_.substr(0, at_)) + "'");
  }

 private:
  bool bad(const std::string& message) {
    problems_.add(origin_, std::string(text_), message,
                  "write it as 'table.key=value' or 'list[0].key=value'");
    return false;
  }
  bool read_key(std::string& key) {
    if (at_ < text_.size() && text_[at_] == '"') {
      const size_t end = text_.find('"', at_ + 1);
      if (end == std::string_view::npos) return bad("a quoted key has no closing quote");
      key = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return true;
    }
    const size_t end = std::min(text_.find_first_of(".[", at_), text_.size());
    key = trim(text_.substr(at_, end - at_));
    at_ = end;
    return !key.empty() || bad("an empty key");
  }
  bool read_index(std::vector<Step>& steps) {
    const size_t end = text_.find(']', at_);
    if (end == std::string_view::npos) return bad("'[' without ']'");
    Step step;
    const char* first = text_.data() + at_ + 1;
    const auto [last, error] = std::from_chars(first, text_.data() + end, step.index);
    if (error != std::errc() || last != text_.data() + end || step.index < 0)
      return bad("an index that is not a number");
    steps.push_back(step);
    at_ = end + 1;
    return true;
  }

  std::string_view text_;
  const Origin& origin_;
  Problems& problems_;
  size_t at_ = 0;
};

std::string path_text(const std::vector<Step>& steps, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i)
    text += steps[i].index >= 0 ? "[" + std::to_string(steps[i].index) + "]"
                                : (i ? "." : "") + toml_key(steps[i].key);
  return text;
}

// The element steps[i] of a list, or NULL after a problem.
Node* element(Node& node, const std::vector<Step>& steps, size_t i, const Origin& origin,
              Problems& problems) {
  const std::string list = path_text(steps, i);
  if (!node.is(NodeKind::kArray)) {
    problems.add(origin, list, std::string("is ") + node.kind_name() + ", not a list",
                 "leave out the index");
    return nullptr;
  }
  const size_t n = node.items().size();
  if (static_cast<uint64_t>(steps[i].index) >= n) {
    problems.add(origin, path_text(steps, i + 1), "the list has " + std::to_string(n) + " elements",
                 "indices start at 0");
    return nullptr;
  }
  return &node.items_mutable()[static_cast<size_t>(steps[i].index)];
}

// The path through a list where a key stands: a.0.b means a[0].b, and a.b, for instance, a[0].b.
std::string path_of_element(const std::vector<Step>& steps, size_t i) {
  const std::string& key = steps[i].key;
  const bool number = !key.empty() && std::all_of(key.begin(), key.end(),
                                                  [](char c) { return c >= '0' && c <= '9'; });
  std::string path = path_text(steps, i) + "[" + (number ? key : "0") + "]";
  if (!number) path += "." + toml_key(key);
  for (size_t k = i + 1; k < steps.size(); ++k)
    path += steps[k].index >= 0 ? "[" + std::to_string(steps[k].index) + "]"
                                : "." + toml_key(steps[k].key);
  return path;
}

// The value steps[i] of `node`, or NULL. `make`: an absent table is created.
Node* descend(Node& node, const std::vector<Step>& steps, size_t i, bool make, const Origin& origin,
              Problems& problems) {
  if (steps[i].index >= 0) return element(node, steps, i, origin, problems);
  if (!node.is(NodeKind::kTable)) {
    const bool list = node.is(NodeKind::kArray);
    problems.add(origin, path_text(steps, i),
                 std::string("is ") + node.kind_name() + ", not a table",
                 list ? "name an element: " + path_of_element(steps, i) : "check the key");
    return nullptr;
  }
  if (Node* found = node.find_mutable(steps[i].key)) return found;
  if (make) return &node.set(steps[i].key, Node::table(origin), origin);
  const std::string now = renamed_key(steps[i].key, node.keys());
  problems.add(origin, path_text(steps, i + 1),
               now.empty()
                   ? "there is no such key" + did_you_mean(near_key(steps[i].key, node.keys()))
                   : "'" + steps[i].key + "' is now called '" + now + "'",
               "only a key that the file sets can be removed");
  return nullptr;
}

void remove(Node& node, const std::vector<Step>& steps, const Origin& origin, Problems& problems) {
  Node* parent = &node;
  for (size_t i = 0; i + 1 < steps.size() && parent; ++i)
    parent = descend(*parent, steps, i, false, origin, problems);
  const size_t last = steps.size() - 1;
  if (!parent || !descend(*parent, steps, last, false, origin, problems)) return;
  if (steps[last].index >= 0)
    parent->items_mutable().erase(parent->items_mutable().begin() +
                                  static_cast<ptrdiff_t>(steps[last].index));
  else
    parent->erase(steps[last].key);
}

void assign(Node& node, const std::vector<Step>& steps, Node value, const Origin& origin,
            Problems& problems) {
  Node* parent = &node;
  for (size_t i = 0; i + 1 < steps.size() && parent; ++i)
    parent = descend(*parent, steps, i, true, origin, problems);
  if (!parent) return;
  const size_t last = steps.size() - 1;
  if (steps[last].index >= 0) {
    if (Node* item = element(*parent, steps, last, origin, problems)) *item = std::move(value);
  } else if (descend(*parent, steps, last, true, origin, problems)) {
    parent->set(steps[last].key, std::move(value), origin);
  }
}

// Position of the end of the key: the first '=' outside quotes.
size_t find_equals(std::string_view text) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '=' && !quoted) return i;
  }
  return std::string_view::npos;
}

}  // namespace

void apply_override(Document& document, std::string_view text, Problems& problems) {
  const Origin origin = Origin::of_override(text);
  const bool removing = text.starts_with('~');
  const size_t equals = removing ? text.size() : find_equals(text);
  if (equals == std::string_view::npos) {
    problems.add(origin, "", "there is no '=' in it",
                 "write it as 'table.key=value', or '~table.key' to remove a key");
    return;
  }
  if (text.starts_with('+')) {
    const std::string_view plain = text.substr(text.find_first_not_of('+'));
    problems.add(origin, "", "'+' before a key, as in Hydra, has no meaning here",
                 "write " + std::string(plain) + ", whether or not the file has the key");
    return;
  }
  std::vector<Step> steps;
  if (!PathReader(trim(text.substr(removing, equals - removing)), origin, problems).read(steps))
    return;
  if (removing) return remove(document.root, steps, origin, problems);

  const std::string_view value_text = trim(text.substr(equals + 1));
  if (value_text.empty()) {
    problems.add(origin, path_text(steps, steps.size()), "there is no value after '='",
                 "write \"\" for an empty string");
    return;
  }
  Node value = parse_value(value_text, origin, problems);
  if (value) assign(document.root, steps, std::move(value), origin, problems);
}

}  // namespace plait::config
