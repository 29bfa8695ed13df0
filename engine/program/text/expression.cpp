#include "engine/program/text/expression.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/text/number.hpp"
#include "kit/ops/map.hpp"

namespace plait::program::text_form {
namespace {

// By PLAIT_MAP_*.
constexpr const char* kNames[] = {
    "const", "copy",  "add",       "sub",  "mul",  "div",   "max",   "min",    "pow",
    "neg",   "abs",   "exp",       "log",  "sqrt", "rsqrt", "recip", "tanh",   "sigmoid",
    "erf",   "relu",  "floor",     "sign", "lt",   "le",    "eq",    "select", "fma",
    "expm1", "log1p", "is_finite", "and",  "or",   "not"};
static_assert(std::size(kNames) == PLAIT_MAP_NOT + 1);

// How tightly text holds together.
enum Level { kSum = 1, kProduct = 2, kSign = 3, kPrimary = 4 };

struct Infix {
  uint32_t code;
  char mark;
  Level level;
};
constexpr Infix kInfix[] = {{PLAIT_MAP_ADD, '+', kSum},
                            {PLAIT_MAP_SUB, '-', kSum},
                            {PLAIT_MAP_MUL, '*', kProduct},
                            {PLAIT_MAP_DIV, '/', kProduct}};

struct Piece {
  std::string text;
  Level level = kPrimary;
  bool number = false;
};

std::string within(const Piece& p, bool parentheses) {
  return parentheses ? "(" + p.text + ")" : p.text;
}

Piece literal(double value) {
  const std::string text = real_text(value);
  return {text, text[0] == '-' ? kSign : kPrimary, true};
}

Piece joined(const plait_map_instr& instr, const std::vector<Piece>& of) {
  for (const Infix& i : kInfix)
    if (i.code == instr.op)
      return {within(of[0], of[0].level < i.level) + " " + i.mark + " " +
                  within(of[1], of[1].level <= i.level),
              i.level, false};
  if (instr.op == PLAIT_MAP_NEG)
    return {"-" + within(of[0], of[0].level < kSign || of[0].number), kSign, false};
  std::vector<std::string> texts;
  for (const Piece& p : of) texts.push_back(p.text);
  return {kNames[instr.op] + ("(" + join(texts) + ")"), kPrimary, false};
}

// Writes instructions as they come. What is read once waits on a stack and becomes part of its
// reader's text when it lies on top; else it gets a name, and all that lies below gets one first.
class Writer {
 public:
  Writer(const MapExpr& map, size_t n_inputs)
      : map_(map),
        n_inputs_(n_inputs),
        uses_(n_inputs + map.instrs.size(), 0),
        pieces_(uses_.size()) {
    for (const plait_map_instr& instr : map.instrs)
      for (const uint32_t r : operands(instr)) use(r);
    for (const uint32_t r : map.outputs) use(r);
    for (size_t i = 0; i < n_inputs; ++i) pieces_[i].text = "x" + std::to_string(i);
  }
  std::string text() {
    for (size_t k = 0; k < map_.instrs.size(); ++k) write(k);
    take(map_.outputs);
    std::vector<std::string> results;
    for (const uint32_t r : map_.outputs) results.push_back(piece(r).text);
    return statements_ + join(results);
  }

 private:
  static std::vector<uint32_t> operands(const plait_map_instr& instr) {
    const int n = instr.op > PLAIT_MAP_NOT ? 0 : kit::map_arity(instr.op);
    std::vector<uint32_t> all;
    for (int i = 0; i < n; ++i) all.push_back(i == 0 ? instr.a : i == 1 ? instr.b : instr.c);
    return all;
  }
  void use(uint32_t r) {
    if (r < uses_.size()) ++uses_[r];
  }
  Piece piece(uint32_t r) const {
    return r < pieces_.size() ? pieces_[r] : Piece{"r" + std::to_string(r), kPrimary, false};
  }
  // What waits of these must be the top of the stack in this order.
  void take(const std::vector<uint32_t>& registers) {
    std::vector<uint32_t> waiting;
    for (const uint32_t r : registers)
      if (std::find(stack_.begin(), stack_.end(), r) != stack_.end()) waiting.push_back(r);
    if (waiting.size() <= stack_.size() &&
        std::equal(waiting.rbegin(), waiting.rend(), stack_.rbegin()))
      stack_.resize(stack_.size() - waiting.size());
    else
      name_all();
  }
  void name_all() {
    for (const uint32_t r : stack_) {
      const std::string name = "t" + std::to_string(n_names_++);
      statements_ += name + " = " + pieces_[r].text + "; ";
      pieces_[r] = {name, kPrimary, false};
    }
    stack_.clear();
  }
  void write(size_t k) {
    const plait_map_instr& instr = map_.instrs[k];
    const auto own = static_cast<uint32_t>(n_inputs_ + k);
    const std::vector<uint32_t> in = operands(instr);
    take(in);
    std::vector<Piece> of;
    for (const uint32_t r : in) of.push_back(piece(r));
    if (instr.op == PLAIT_MAP_CONST)
      pieces_[own] = literal(instr.value);
    else if (instr.op > PLAIT_MAP_NOT)
      pieces_[own] = {"unknown" + std::to_string(instr.op), kPrimary, false};
    else
      pieces_[own] = joined(instr, of);
    stack_.push_back(own);
    if (uses_[own] != 1) name_all();
  }

  const MapExpr& map_;
  const size_t n_inputs_;
  std::vector<int> uses_;      // by register
  std::vector<Piece> pieces_;  // by register
  std::vector<uint32_t> stack_;
  std::string statements_;
  int n_names_ = 0;
};

class Reader {
 public:
  Reader(Lexer& lexer, size_t n_inputs) : lexer_(lexer), n_inputs_(n_inputs) {}
  MapExpr read() {
    for (;;) {
      const Token first = lexer_.peek();
      const uint32_t r = sum();
      if (lexer_.at_mark('=')) {
        assign(first);
        continue;
      }
      known(r, first);
      map_.outputs.push_back(r);
      if (!lexer_.accept_mark(',')) return std::move(map_);
    }
  }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr int kDeepest =
      200;  // of parentheses; printed ones have the instructions of a map

  // `name = ..;`: `name` was read as an operand that is not known so far.
  void assign(const Token& name) {
    if (name.kind != Token::Kind::kWord || name.text.size() < 2 || name.text[0] != 't' ||
        names_.contains(name.text))
      lexer_.fail_at(name, "found '" + name.text + "' before '=', expected a new name such as t0");
    lexer_.expect_mark('=');
    const Token first = lexer_.peek();
    const uint32_t r = sum();
    known(r, first);
    names_[name.text] = r;
    lexer_.expect_mark(';');
  }
  void known(uint32_t r, const Token& name) const {
    if (r == kUnknown)
      lexer_.fail_at(name, "found '" + name.text + "', expected an operand x0 to x" +
                               std::to_string(n_inputs_ - 1) +
                               ", a name given before, or a number");
  }
  uint32_t emit(uint32_t op, std::vector<uint32_t> of, double value = 0) {
    of.resize(3, 0);
    map_.instrs.push_back({op, of[0], of[1], of[2], value});
    return static_cast<uint32_t>(n_inputs_ + map_.instrs.size() - 1);
  }
  uint32_t infix(Level level, uint32_t (Reader::*next)()) {
    const Token first = lexer_.peek();
    uint32_t left = (this->*next)();
    for (;;) {
      const Infix* found = nullptr;
      for (const Infix& i : kInfix)
        if (i.level == level && lexer_.at_mark(i.mark)) found = &i;
      if (!found) return left;
      known(left, first);
      lexer_.take();
      const Token second = lexer_.peek();
      const uint32_t right = (this->*next)();
      known(right, second);
      left = emit(found->code, {left, right});
    }
  }
  uint32_t sum() {
    if (++depth_ > kDeepest) lexer_.fail_expected("fewer parentheses in one another");
    const uint32_t r = infix(kSum, &Reader::product);
    --depth_;
    return r;
  }
  uint32_t product() { return infix(kProduct, &Reader::sign); }
  uint32_t sign() {
    if (!lexer_.accept_mark('-')) return primary();
    const Token first = lexer_.peek();
    if (is_literal(first)) return emit(PLAIT_MAP_CONST, {}, -real_of(lexer_));
    if (++depth_ > kDeepest) lexer_.fail_expected("fewer signs");
    const uint32_t r = sign();
    --depth_;
    known(r, first);
    return emit(PLAIT_MAP_NEG, {r});
  }
  static bool is_literal(const Token& t) {
    return t.kind == Token::Kind::kNumber ||
           (t.kind == Token::Kind::kWord && (t.text == "inf" || t.text == "nan"));
  }
  uint32_t primary() {
    if (lexer_.accept_mark('(')) {
      const Token first = lexer_.peek();
      const uint32_t r = sum();
      known(r, first);
      lexer_.expect_mark(')');
      return r;
    }
    if (is_literal(lexer_.peek())) return emit(PLAIT_MAP_CONST, {}, real_of(lexer_));
    const Token word = lexer_.expect(Token::Kind::kWord, "an operand, a function or a number");
    return lexer_.at_mark('(') ? call(word) : operand(word);
  }
  uint32_t operand(const Token& word) const {
    if (const auto named = names_.find(word.text); named != names_.end()) return named->second;
    uint32_t i = 0;
    const char* end = word.text.data() + word.text.size();
    if (word.text[0] == 'x' && std::from_chars(word.text.data() + 1, end, i).ptr == end &&
        word.text.size() > 1 && i < n_inputs_)
      return i;
    return kUnknown;
  }
  uint32_t call(const Token& word) {
    uint32_t code = 1;
    while (code < std::size(kNames) && word.text != kNames[code]) ++code;
    if (code == std::size(kNames))
      lexer_.fail_at(word, "found '" + word.text + "', expected a function" +
                               did_you_mean(nearest(word.text, kNames)));
    const auto arity = static_cast<size_t>(kit::map_arity(code));
    std::vector<uint32_t> of;
    lexer_.expect_mark('(');
    while (of.size() < arity) {
      if (!of.empty()) lexer_.expect_mark(',');
      const Token first = lexer_.peek();
      of.push_back(sum());
      known(of.back(), first);
    }
    lexer_.expect_mark(')');
    return emit(code, of);
  }

  Lexer& lexer_;
  const size_t n_inputs_;
  MapExpr map_;
  std::map<std::string, uint32_t> names_;
  int depth_ = 0;
};

}  // namespace

std::string expression_text(const MapExpr& map, size_t n_inputs) {
  return Writer(map, n_inputs).text();
}

MapExpr read_expression(Lexer& lexer, size_t n_inputs) { return Reader(lexer, n_inputs).read(); }

}  // namespace plait::program::text_form
