#include "engine/config/option_read.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/config/bind.hpp"
#include "engine/config/written_path.hpp"

namespace plait::config {
namespace {

class OptionReader {
 public:
  OptionReader(const plait_option& option, const PathResolver& resolver, OptionValue& value)
      : option_(option), resolver_(resolver), value_(value) {}

  std::string read(const Node& node) {
    switch (option_.type) {
      case PLAIT_OPT_BOOL:
        if (!node.is(NodeKind::kBool)) return mismatch(node);
        value_.integer = node.as_bool();
        return "";
      case PLAIT_OPT_INT:
        return read_int(node, value_.integer);
      case PLAIT_OPT_REAL:
        return read_real(node, value_.real);
      case PLAIT_OPT_TEXT:
        return read_text(node, value_.text);
      case PLAIT_OPT_PATH:
        return read_path(node);
      case PLAIT_OPT_INTS:
        return read_list(node, value_.integers, &OptionReader::read_int);
      case PLAIT_OPT_REALS:
        return read_list(node, value_.reals, &OptionReader::read_real);
      case PLAIT_OPT_TEXTS:
        return read_list(node, value_.texts, &OptionReader::read_text);
      case PLAIT_OPT_PATHS:
        return read_paths(node);
      case PLAIT_OPT_ITEM:
      case PLAIT_OPT_ITEMS:
        return read_items(node);
      default:
        return "has a type this engine does not know";
    }
  }

 private:
  std::string mismatch(const Node& node) const {
    std::string found = node.kind_name();
    const bool scalar = node.is(NodeKind::kInt) || node.is(NodeKind::kReal) ||
                        node.is(NodeKind::kBool) || node.is(NodeKind::kText);
    if (scalar) found = node.toml();
    return "expected " + describe_option(option_) + ", found " + found + whole(node) +
           (scalar ? as_texts(node) : "");
  }
  // A list of strings may be one string, which a name of digits is where it is quoted.
  std::string as_texts(const Node& node) const {
    if (option_.type != PLAIT_OPT_TEXTS || node.is(NodeKind::kText)) return "";
    return ": write [\"" + node.toml() + "\"]";
  }
  // TOML's 1e3 is a real number.
  std::string whole(const Node& node) const {
    constexpr double kExact = 9007199254740992;  // 2^53
    if (option_.type != PLAIT_OPT_INT || !node.is(NodeKind::kReal)) return "";
    const double v = node.as_real();
    if (v != std::floor(v) || std::abs(v) > kExact || !in_range(v)) return "";
    return ": write " + std::to_string(static_cast<int64_t>(v));
  }
  bool in_range(double v) const {
    if (std::isnan(v)) return false;
    const bool open_below = option_.flags & PLAIT_OPT_MIN_EXCLUSIVE,
               open_above = option_.flags & PLAIT_OPT_MAX_EXCLUSIVE;
    if ((option_.flags & PLAIT_OPT_HAS_MIN) && (open_below ? v <= option_.min : v < option_.min))
      return false;
    if ((option_.flags & PLAIT_OPT_HAS_MAX) && (open_above ? v >= option_.max : v > option_.max))
      return false;
    return true;
  }
  std::string read_int(const Node& node, int64_t& out) {
    if (!node.is(NodeKind::kInt) || !in_range(static_cast<double>(node.as_int())))
      return mismatch(node);
    out = node.as_int();
    return "";
  }
  std::string read_real(const Node& node, double& out) {
    if (!(node.is(NodeKind::kReal) || node.is(NodeKind::kInt)) || !in_range(node.as_real()))
      return mismatch(node);
    out = node.as_real();
    return "";
  }
  std::string read_text(const Node& node, std::string& out) {
    const std::vector<std::string> choices =
        option_.choices ? split(option_.choices, '|') : std::vector<std::string>();
    if (node.is(NodeKind::kBool)) {  // where "true" is a choice, true is, too
      out = node.as_bool() ? "true" : "false";
      return std::find(choices.begin(), choices.end(), out) != choices.end() ? "" : mismatch(node);
    }
    if (!node.is(NodeKind::kText)) return mismatch(node);
    if (option_.choices) {
      if (std::find(choices.begin(), choices.end(), node.as_text()) == choices.end())
        return mismatch(node) + did_you_mean(nearest(node.as_text(), choices));
    }
    // Texts cross the C ABI, where an inner NUL would truncate them.
    if (node.as_text().find('\0') != std::string::npos)
      return "a string with a NUL character in it";
    out = node.as_text();
    return "";
  }
  // A path beside a file that is extended, or of the current folder, is kept whole: the experiment,
  // written out, names neither.
  std::string resolve(std::string& given, const Origin& at) {
    const std::string resolved = resolve_written(resolver_, given, at);
    if (is_beside_extended(resolver_, given, resolved, at) || is_of_current_folder(given, at))
      given = rooted_path(resolved);
    return resolved;
  }
  std::string read_path(const Node& node) {
    std::string wrong = read_text(node, value_.given_text);
    if (wrong.empty()) value_.text = resolve(value_.given_text, node.origin());
    return wrong;
  }
  std::string read_paths(const Node& node) {
    std::string wrong = read_list(node, value_.given_texts, &OptionReader::read_text);
    value_.texts.clear();
    const bool list = node.is(NodeKind::kArray) && node.items().size() == value_.given_texts.size();
    for (size_t i = 0; i < value_.given_texts.size(); ++i)
      value_.texts.push_back(
          resolve(value_.given_texts[i], list ? node.items()[i].origin() : node.origin()));
    return wrong;
  }
  // What the tables describe is read by ExperimentLoader, which knows the items.
  std::string read_items(const Node& node) {
    const bool list = option_.type == PLAIT_OPT_ITEMS && node.is(NodeKind::kArray);
    std::vector<Node> tables = list ? node.items() : std::vector<Node>{node};
    for (const Node& table : tables)
      if (!table.is(NodeKind::kTable)) return mismatch(table);
    if (!list && node.entries().empty()) {
      if (!option_.default_value) return mismatch(node);
      tables.clear();
    }
    value_.tables = std::move(tables);
    return "";
  }
  template <class T>
  std::string read_list(const Node& node, std::vector<T>& out,
                        std::string (OptionReader::*read_one)(const Node&, T&)) {
    std::vector<T> list;
    const auto add = [&](const Node& item) {
      T one{};
      std::string wrong = (this->*read_one)(item, one);
      if (wrong.empty()) list.push_back(std::move(one));
      return wrong;
    };
    std::string wrong;
    if (node.is(NodeKind::kArray)) {
      for (size_t i = 0; i < node.items().size() && wrong.empty(); ++i) {
        wrong = add(node.items()[i]);
        if (!wrong.empty()) wrong = "element " + std::to_string(i) + ": " + wrong;
      }
    } else {
      wrong = add(node);  // one value is accepted as a list of one
    }
    if (wrong.empty()) out = std::move(list);
    return wrong;
  }

  const plait_option& option_;
  const PathResolver& resolver_;
  OptionValue& value_;
};

}  // namespace

std::string read_option(const Node& node, const plait_option& option, const PathResolver& resolver,
                        OptionValue& value) {
  return OptionReader(option, resolver, value).read(node);
}

}  // namespace plait::config
