#include "engine/program/text/parse.hpp"

#include <algorithm>
#include <map>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/op_registry.hpp"
#include "engine/program/text/expression.hpp"
#include "engine/program/text/lexer.hpp"
#include "engine/program/text/number.hpp"

namespace plait::program {
namespace {

using text_form::integer_of;
using text_form::Lexer;
using text_form::Token;
using text_form::unsigned_of;

constexpr uint64_t kMostValues = 10'000'000;

class Parser {
 public:
  Parser(Lexer& lexer, const OpRegistry& registry) : lexer_(lexer), registry_(registry) {}
  ParsedProgram program();

 private:
  // A value as its line gives it.
  struct Definition {
    ValueId id = 0;
    Value value;
  };
  ValueId mention();
  ValueId id_of(const Token& token) const;
  uint32_t dtype();
  plait_shape shape();
  Definition result();
  std::vector<Definition> results();
  void line();
  void outside(std::vector<Definition> of);
  void op(std::vector<Definition> of);
  const OpDef* find(const Token& name) const;
  Attr attribute();
  Attrs attributes(const OpDef& def);
  std::vector<int64_t> integers();
  void flags(Op& op);
  void make(ParsedProgram& made);

  Lexer& lexer_;
  const OpRegistry& registry_;
  uint32_t float_type_ = PLAIT_F32;
  std::map<ValueId, Value> values_;
  std::vector<Op> ops_;
  std::vector<Token> mentions_;
};

ValueId Parser::id_of(const Token& token) const {
  uint64_t n = 0;
  for (const char c : token.text)
    n = std::min(n * 10 + static_cast<uint64_t>(c - '0'), kMostValues + 1);
  if (n == 0 || n > kMostValues)
    lexer_.fail_at(token, "found '%" + token.text + "', expected a value from %1 to %" +
                              std::to_string(kMostValues));
  return static_cast<ValueId>(n);
}

// A value that is defined somewhere in the text.
ValueId Parser::mention() {
  mentions_.push_back(lexer_.expect(Token::Kind::kValue, "a value such as %12"));
  return id_of(mentions_.back());
}

uint32_t Parser::dtype() {
  const Token word = lexer_.expect(Token::Kind::kWord, "an element type such as f32");
  const uint32_t id = kit::dtype_named(word.text);
  if (id == 0)
    lexer_.fail_at(word,
                   "found '" + word.text +
                       "', expected an element type: f32, f64, bf16, f16, i32, i64, u8, bool, "
                       "f8e4m3 or f8e5m2");
  return id;
}

plait_shape Parser::shape() {
  const Token first = lexer_.peek();
  const uint32_t type = dtype();
  Dims dims;
  lexer_.expect_mark('(');
  while (!lexer_.at_mark(')')) {
    if (!dims.empty()) lexer_.expect_mark(',');
    dims.push_back(integer_of(lexer_, "an extent"));
  }
  lexer_.expect_mark(')');
  try {
    return make_shape(type, dims);
  } catch (const Error& e) {
    lexer_.fail_at(first, e.text());
  }
}

Parser::Definition Parser::result() {
  const Token name = lexer_.expect(Token::Kind::kValue, "a value such as %12, 'removed' or '}'");
  Definition d{id_of(name), {}};
  Value& v = d.value;
  v.shape = shape();
  for (;;) {
    if (lexer_.accept_word("at")) {
      v.role = Role::kPersistent;
      if (lexer_.accept_word("none")) continue;
      const Token at = lexer_.peek();
      const uint64_t segment = unsigned_of(lexer_, "a segment or 'none'");
      if (segment > INT32_MAX)
        lexer_.fail_at(at, "found segment " + at.text + ", expected one below 2147483648");
      v.buffer.segment = static_cast<int32_t>(segment);
      lexer_.expect_mark(':');
      v.buffer.offset = unsigned_of(lexer_, "an offset in bytes");
    } else if (lexer_.accept_word("in")) {
      v.alias_of = mention();
      if (lexer_.accept_mark('+')) v.byte_offset = unsigned_of(lexer_, "an offset in bytes");
    } else if (lexer_.accept_word("grad")) {
      v.requires_grad = true;
    } else if (lexer_.accept_word("weak")) {
      v.weak = true;
    } else {
      break;
    }
  }
  if (!values_.emplace(d.id, v).second)
    lexer_.fail_at(name, "found a second line that makes %" + name.text + ", expected one");
  return d;
}

std::vector<Parser::Definition> Parser::results() {
  std::vector<Definition> all{result()};
  while (lexer_.accept_mark(',')) all.push_back(result());
  lexer_.expect_mark('=');
  return all;
}

void Parser::line() {
  if (lexer_.accept_word("removed")) {
    ops_.emplace_back();
    return;
  }
  std::vector<Definition> of = results();
  for (const char* word : {"persistent", "buffer", "view"})
    if (lexer_.at_word(word)) return outside(std::move(of));
  op(std::move(of));
}

void Parser::outside(std::vector<Definition> of) {
  const Token kind = lexer_.take();
  Value& v = values_.at(of[0].id);
  if (of.size() != 1)
    lexer_.fail_at(kind, "found several values before '" + kind.text + "', expected one");
  const bool persistent = v.role == Role::kPersistent, view = v.alias_of != 0;
  if (persistent != (kind.text == "persistent"))
    lexer_.fail_at(kind, "found '" + kind.text + "', expected " +
                             (persistent ? "'persistent', for the value lies at a place"
                                         : "'at SEGMENT:OFFSET' or 'at none' before it"));
  if (!persistent && view != (kind.text == "view"))
    lexer_.fail_at(
        kind, "found '" + kind.text + "', expected " +
                  (view ? "'view', for the value lies in another one" : "'in %VALUE' before it"));
  if (persistent) v.name = lexer_.expect(Token::Kind::kText, "a name in quotes").text;
}

const OpDef* Parser::find(const Token& name) const {
  try {
    return registry_.find(name.text);
  } catch (const Error& e) {
    lexer_.fail_at(name, e.text());
  }
}

Attr Parser::attribute() {
  const bool text_name = lexer_.peek().kind == Token::Kind::kText;
  const std::string name =
      text_name ? lexer_.take().text : lexer_.expect(Token::Kind::kWord, "an attribute").text;
  lexer_.expect_mark(':');
  const Token t = lexer_.peek();
  if (t.kind == Token::Kind::kText) return attr(name, lexer_.take().text);
  if (lexer_.accept_word("true")) return attr(name, true);
  if (lexer_.accept_word("false")) return attr(name, false);
  if (lexer_.at_mark('[')) return attr(name, integers());
  const bool negative = lexer_.accept_mark('-');
  const Token number = lexer_.peek();
  const bool real =
      number.kind == Token::Kind::kWord || number.text.find_first_of(".eE") != std::string::npos;
  if (real || number.kind != Token::Kind::kNumber) {
    if (number.kind != Token::Kind::kNumber && number.text != "inf" && number.text != "nan")
      lexer_.fail_expected("true, false, a number, a text or a list of integers");
    const double f = text_form::real_of(lexer_);
    return attr(name, negative ? -f : f);
  }
  const auto i = static_cast<int64_t>(unsigned_of(lexer_, "an integer"));
  return attr(name, negative ? -i : i);
}

// With defaults, as apply() checks them.
Attrs Parser::attributes(const OpDef& def) {
  const Token first = lexer_.peek();
  Attrs all;
  if (lexer_.accept_mark('{')) {
    do {
      all.set(attribute());
    } while (lexer_.accept_mark(','));
    lexer_.expect_mark('}');
  }
  try {
    return checked(def, std::move(all), def.name + std::string(":"));
  } catch (const Error& e) {
    lexer_.fail_at(first, e.text());
  }
}

std::vector<int64_t> Parser::integers() {
  std::vector<int64_t> all;
  lexer_.expect_mark('[');
  while (!lexer_.at_mark(']')) {
    if (!all.empty()) lexer_.expect_mark(',');
    all.push_back(integer_of(lexer_, "an integer"));
  }
  lexer_.expect_mark(']');
  return all;
}

void Parser::flags(Op& op) {
  if (const Token t = lexer_.peek(); lexer_.accept_word("in_place")) {
    for (const int64_t i : integers()) {
      if (i < -1 || i >= static_cast<int64_t>(op.in.size()))
        lexer_.fail_at(
            t, "found in_place " + std::to_string(i) + ", expected -1 or an operand's index");
      op.alias.push_back(static_cast<int32_t>(i));
    }
    if (op.alias.size() != op.out.size())
      lexer_.fail_at(t, "found " + std::to_string(op.alias.size()) +
                            " numbers, expected one for each of " + std::to_string(op.out.size()) +
                            " results");
  }
  if (lexer_.accept_mark('@')) {
    if (lexer_.peek().kind != Token::Kind::kText && lexer_.peek().kind != Token::Kind::kWord)
      lexer_.fail_expected("a scope");
    op.scope = lexer_.take().text;
  }
  if (lexer_.accept_word("stage")) {
    const Token t = lexer_.peek();
    const uint64_t stage = unsigned_of(lexer_, "the number of a stage");
    if (stage > INT32_MAX)
      lexer_.fail_at(t, "found stage " + t.text + ", expected one below 2147483648");
    op.stage = static_cast<int32_t>(stage);
  }
  op.backward = lexer_.accept_word("backward");
  op.not_deferred = lexer_.accept_word("not_deferred");
}

void Parser::op(std::vector<Definition> of) {
  const bool text_name = lexer_.peek().kind == Token::Kind::kText;
  const Token name =
      text_name ? lexer_.take()
                : lexer_.expect(Token::Kind::kWord, "an op, 'persistent', 'buffer' or 'view'");
  Op op;
  op.def = find(name);
  op.name = op.def->name;
  for (const Definition& d : of) op.out.push_back(d.id);
  lexer_.expect_mark('(');
  while (!lexer_.at_mark(')')) {
    if (!op.in.empty()) lexer_.expect_mark(',');
    op.in.push_back(mention());
  }
  lexer_.expect_mark(')');
  op.attrs = attributes(*op.def);
  if (op.def->lower)
    lexer_.fail_at(name, "found '" + name.text + "', expected 'map' with an expression in []: '" +
                             name.text + "' is a name that becomes one");
  if (op.def->is_map) {
    lexer_.expect_mark('[');
    const Token first = lexer_.peek();
    op.map = text_form::read_expression(lexer_, op.in.size());
    lexer_.expect_mark(']');
    if (op.map.outputs.size() != op.out.size())
      lexer_.fail_at(first, "found " + std::to_string(op.map.outputs.size()) +
                                " results of the expression, expected " +
                                std::to_string(op.out.size()));
  }
  flags(op);
  for (const Definition& d : of) {
    Value& v = values_.at(d.id);
    if (op.def->is_view && v.alias_of == 0 && !op.in.empty()) v.alias_of = op.in[0];
  }
  ops_.push_back(std::move(op));
}

void Parser::make(ParsedProgram& made) {
  for (const Token& t : mentions_)
    if (!values_.contains(id_of(t)))
      lexer_.fail_at(t, "found %" + t.text + ", expected a value that some line makes");
  made.graph = std::make_unique<Graph>(&registry_, float_type_);
  Graph& g = *made.graph;
  const ValueId last = values_.empty() ? 0 : values_.rbegin()->first;
  while (g.n_values() <= last) g.buffer(make_shape(PLAIT_F32, {}));
  for (const auto& [id, value] : values_) g.value(id) = value;
  for (size_t i = 0; i < ops_.size(); ++i) g.append(Op{}, {});
  for (size_t i = 0; i < ops_.size(); ++i)
    if (ops_[i].def) g.replace(i, std::move(ops_[i]));
}

ParsedProgram Parser::program() {
  ParsedProgram made;
  if (!lexer_.accept_word("program")) lexer_.fail_expected("'program'");
  made.name = lexer_.expect(Token::Kind::kText, "the program's name in quotes").text;
  const Token type = lexer_.peek();
  float_type_ = dtype();
  if (!is_float(float_type_))
    lexer_.fail_at(type, "found '" + type.text + "', expected a float type");
  lexer_.expect_mark('{');
  while (!lexer_.accept_mark('}')) line();
  make(made);
  return made;
}

}  // namespace

std::vector<ParsedProgram> parse(std::string_view text, const OpRegistry& registry,
                                 const std::string& origin) {
  Lexer lexer(text, origin);
  std::vector<ParsedProgram> all;
  while (lexer.peek().kind != Token::Kind::kEnd) all.push_back(Parser(lexer, registry).program());
  return all;
}

}  // namespace plait::program
