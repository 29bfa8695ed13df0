#include <string>

#include "plugins/tokenizers/subword/regex.hpp"

namespace plait::subword {

void CodeSet::add(char32_t first, char32_t last) {
  for (char32_t code = first; code <= last && code < 128; ++code)
    ascii_[code >> 6] |= 1ull << (code & 63);
  if (last >= 128) ranges_.emplace_back(first, last);
}
void CodeSet::add_categories(uint32_t set) {
  for (char32_t code = 0; code < 128; ++code)
    if (in_categories(code, set)) add(code, code);
  categories_ |= set;
}
void CodeSet::add_space() {
  for (char32_t code = 0; code < 128; ++code)
    if (is_space(code)) add(code, code);
  space_ = true;
}
void CodeSet::add_word() {
  for (char32_t code = 0; code < 128; ++code)
    if (is_word(code)) add(code, code);
  word_ = true;
}
void CodeSet::add(const CodeSet& other) {
  ascii_[0] |= other.ascii_[0];
  ascii_[1] |= other.ascii_[1];
  parts_.push_back(other);
}
void CodeSet::add_other_cases() {
  for (char32_t c = 'a'; c <= 'z'; ++c) {
    const char32_t upper = c - 'a' + 'A';
    if (!has(c) && !has(upper)) continue;
    add(c, c);
    add(upper, upper);
    if (c == 's') add(0x17F, 0x17F);    // long s
    if (c == 'k') add(0x212A, 0x212A);  // Kelvin sign
  }
  if (has(0x17F)) add('s', 's'), add('S', 'S');
  if (has(0x212A)) add('k', 'k'), add('K', 'K');
}
void CodeSet::negate() {
  ascii_ = {~ascii_[0], ~ascii_[1]};
  negated_ = true;
}
bool CodeSet::has_beyond(char32_t code) const {
  bool in =
      in_categories(code, categories_) || (space_ && is_space(code)) || (word_ && is_word(code));
  for (size_t i = 0; i < ranges_.size() && !in; ++i)
    in = ranges_[i].first <= code && code <= ranges_[i].second;
  for (size_t i = 0; i < parts_.size() && !in; ++i) in = parts_[i].has(code);
  return in != negated_;
}

namespace {
using Kind = RegexNode::Kind;
using Mode = RegexNode::Mode;

class Parser {
 public:
  Parser(std::string_view pattern, Dialect dialect) : pattern_(pattern), dialect_(dialect) {}

  ParsedRegex parse() {
    for (size_t i = 0; i < pattern_.size();) {
      const size_t n = kit::utf8_length(pattern_, i);
      if (n == 0) bad(i, "it is not UTF-8 there");
      i += n;
    }
    ParsedRegex parsed;
    parsed.root = choice();
    if (at_ < pattern_.size()) bad(at_, "a ) without its (");
    parsed.sets = std::move(sets_);
    return parsed;
  }

 private:
  static constexpr int kDepth = 50;
  static constexpr uint32_t kCount = 1000;

  [[noreturn]] void bad(size_t at, const std::string& what) const {
    throw PatternError("the pattern '" + std::string(pattern_) + "', at " + std::to_string(at) +
                       ": " + what);
  }
  bool more() const { return at_ < pattern_.size(); }
  bool looking_at(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool accept(std::string_view text) {
    if (!looking_at(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take() {
    if (!more()) bad(at_, "it ends too early");
    const CodeAt c = code_at(pattern_, at_);
    at_ += c.size;
    return c.code;
  }

  RegexNode choice() {
    if (++depth_ > kDepth) bad(at_, "groups are nested too deeply");
    const bool fold = fold_;
    RegexNode node{.kind = Kind::kChoice};
    do node.parts.push_back(sequence());
    while (accept("|"));
    fold_ = fold;  // (?i) holds to the end of its group
    --depth_;
    if (node.parts.size() > 1) return node;
    RegexNode only = std::move(node.parts[0]);
    return only;
  }
  RegexNode sequence() {
    RegexNode node;
    while (more() && !looking_at("|") && !looking_at(")")) {
      if (accept("(?i)")) {
        fold_ = true;
        continue;
      }
      node.parts.push_back(repeated(atom()));
    }
    return node;
  }

  RegexNode repeated(RegexNode node) {
    while (more()) {
      uint32_t min = 0, max = kUnbounded;
      bool counted = false;
      const size_t begin = at_;
      if (accept("+"))
        min = 1;
      else if (accept("?"))
        max = 1;
      else if (looking_at("{"))
        counted = true;
      else if (!accept("*"))
        break;
      if (counted && !count(min, max)) break;
      if (node.kind == Kind::kBegin || node.kind == Kind::kEnd || node.kind == Kind::kAhead ||
          node.kind == Kind::kBehind)
        bad(begin, "there is nothing that could be repeated");
      RegexNode repeat{.kind = Kind::kRepeat, .min = min, .max = max};
      if (accept("?"))
        repeat.mode = Mode::kLazy;
      else if ((!counted || dialect_ == Dialect::kPerl) && accept("+"))
        repeat.mode = Mode::kPossessive;
      repeat.parts.push_back(std::move(node));
      node = std::move(repeat);
    }
    return node;
  }
  // Reads {n}, {n,}, {,m} or {n,m}. Anything else is a literal brace: false, and nothing is read.
  bool count(uint32_t& min, uint32_t& max) {
    const size_t begin = at_++;
    const auto number = [&](uint32_t& out) {
      bool any = false;
      for (uint32_t value = 0; more() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_) {
        value = value * 10 + static_cast<uint32_t>(pattern_[at_] - '0');
        if (value > kCount) bad(begin, "a count above " + std::to_string(kCount));
        out = value;
        any = true;
      }
      return any;
    };
    bool any = number(min);
    if (accept(","))
      any = number(max) || any;
    else
      max = min;
    if (!any || !accept("}")) {
      at_ = begin;
      return false;
    }
    if (max < min) bad(begin, "the second count is below the first");
    return true;
  }

  RegexNode atom() {
    const size_t begin = at_;
    if (accept("(")) return group(begin);
    CodeSet set;
    if (accept("[")) {
      set = brackets(begin);
    } else if (accept("^")) {
      return {.kind = Kind::kBegin};
    } else if (accept("$")) {
      return {.kind = Kind::kEnd};
    } else if (accept(".")) {
      set.add('\n', '\n');
      set.negate();
    } else if (accept("\\")) {
      escape(begin, set);
      if (fold_) set.add_other_cases();
    } else {
      const char32_t code = take();
      if (code == '*' || code == '+' || code == '?') bad(begin, "there is nothing to repeat");
      set.add(code, code);
      if (fold_) set.add_other_cases();
    }
    return node_of(std::move(set));
  }
  RegexNode node_of(CodeSet set) {
    sets_.push_back(std::move(set));
    return {.kind = Kind::kSet, .set = static_cast<uint32_t>(sets_.size() - 1)};
  }

  RegexNode group(size_t begin) {
    const bool fold = fold_;
    RegexNode node;
    const auto wrapped = [&](Kind kind, bool negative) {
      node = {.kind = kind, .negative = negative};
      node.parts.push_back(choice());
    };
    if (accept("?i:"))
      fold_ = true, node = choice();
    else if (accept("?>"))
      wrapped(Kind::kAtomic, false);
    else if (accept("?="))
      wrapped(Kind::kAhead, false);
    else if (accept("?!"))
      wrapped(Kind::kAhead, true);
    else if (accept("?<="))
      wrapped(Kind::kBehind, false);
    else if (accept("?<!"))
      wrapped(Kind::kBehind, true);
    else if (accept("?:"))
      node = choice();  // NOLINT(bugprone-branch-clone): as a group without it
    else if (looking_at("?") || looking_at("*"))
      bad(begin, "a group of a kind that is not known");
    else
      node = choice();
    if (!accept(")")) bad(begin, "a ( without its )");
    fold_ = fold;
    if (node.kind == Kind::kBehind) {
      const RegexNode* one = &node.parts[0];
      while (one->kind == Kind::kSequence && one->parts.size() == 1) one = &one->parts[0];
      if (one->kind != Kind::kSet) bad(begin, "a look behind at more than one character");
      node.set = one->set;
    }
    return node;
  }

  // Behind [.
  CodeSet brackets(size_t begin) {
    if (++depth_ > kDepth) bad(begin, "sets are nested too deeply");
    CodeSet set;
    const bool negative = accept("^");
    for (bool first = true; first || !looking_at("]"); first = false) {
      if (!more()) bad(begin, "a [ without its ]");
      if (looking_at("&&") || looking_at("[:")) bad(at_, "a set operation that is not known");
      if (accept("[")) {
        set.add(brackets(at_ - 1));
        continue;
      }
      const char32_t low = member(set);
      if (low == kClass || !looking_at("-") || pattern_.substr(at_).starts_with("-]")) {
        if (low != kClass) set.add(low, low);
        continue;
      }
      const size_t dash = at_++;
      const char32_t high = member(set);
      if (high == kClass || high < low) bad(dash, "a range that is not ascending");
      set.add(low, high);
    }
    accept("]");
    if (fold_) set.add_other_cases();
    if (negative) set.negate();
    --depth_;
    return set;
  }
  // A code point of [...], or kClass if it is a class, which is added to the set.
  char32_t member(CodeSet& set) {
    const size_t begin = at_;
    if (!accept("\\")) return take();
    CodeSet escaped;
    const char32_t code = escape(begin, escaped);
    if (code == kClass) set.add(escaped);
    return code;
  }

  // Behind a backslash: adds what it stands for to `set`; returns the code point, or kClass.
  char32_t escape(size_t begin, CodeSet& set) {
    char32_t code = take();
    const auto one = [&](char32_t value) {
      set.add(value, value);
      return value;
    };
    switch (code) {
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'u':
        return one(hex(begin, 4));
      case 'x':
        return one(accept("{") ? hex(begin, 0) : hex(begin, 2));
      case 's':
      case 'S':
        set.add_space();
        break;
      case 'd':
      case 'D':
        set.add_categories(1u << kNd);
        break;
      case 'w':
      case 'W':
        set.add_word();
        break;
      case 'p':
      case 'P':
        property(begin, code == 'P', set);
        return kClass;
      default:
        if (code >= 128 || in_categories(code, kLetters | kNumbers))
          bad(begin, "an escape that is not known");
        return one(code);
    }
    if (code < 'a') set.negate();
    return kClass;
  }
  char32_t hex(size_t begin, int digits) {
    char32_t value = 0;
    int n = 0;
    for (; digits == 0 ? !accept("}") : n < digits; ++n) {
      const char32_t c = take();
      const char32_t lower = c | 0x20;
      if (!((c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f')) || n == 8)
        bad(begin, "expected hexadecimal digits");
      value = value * 16 + (c <= '9' ? c - '0' : lower - 'a' + 10);
    }
    if (n == 0 || value >= kCodePoints) bad(begin, "no code point");
    return value;
  }
  void property(size_t begin, bool negative, CodeSet& set) {
    std::string name;
    if (accept("{")) {
      if (accept("^")) negative = !negative;
      while (!accept("}")) kit::append_utf8(name, take());
    } else {
      kit::append_utf8(name, take());
    }
    static constexpr std::pair<std::string_view, uint32_t> kMajor[] = {
        {"L", kLetters}, {"M", kMarks},      {"N", kNumbers}, {"P", kPunctuation},
        {"S", kSymbols}, {"Z", kSeparators}, {"C", kOthers}};
    static constexpr std::string_view kNames =
        "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co "
        "Cn ";
    uint32_t found = 0;
    for (const auto& [major, bits] : kMajor)
      if (name == major) found = bits;
    const size_t place = name.size() == 2 ? kNames.find(name + " ") : std::string_view::npos;
    if (place != std::string_view::npos) found = 1u << place / 3;
    if (found == 0) bad(begin, "the property '" + name + "' is not known; known are categories");
    set.add_categories(found);
    if (negative) set.negate();
  }

  static constexpr char32_t kClass = kCodePoints;
  std::string_view pattern_;
  Dialect dialect_;
  size_t at_ = 0;
  int depth_ = 0;
  bool fold_ = false;
  std::vector<CodeSet> sets_;
};
}  // namespace

ParsedRegex parse_regex(std::string_view pattern, Dialect dialect) {
  return Parser(pattern, dialect).parse();
}

}  // namespace plait::subword
