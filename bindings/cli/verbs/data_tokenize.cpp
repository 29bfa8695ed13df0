// plait data tokenize: texts to files of token ids.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/documents.hpp"
#include "bindings/cli/data/token_files.hpp"
#include "bindings/cli/item_toml.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct TokenizeArguments {
  std::vector<std::string> files, options;
  std::string tokenizer, out, field = "text";
  bool append_eod = false, strict = false, plain = false;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

// The description of a tokenizer: a type, or a file that tells by its name which type reads it.
std::string tokenizer_toml(const std::string& given, const std::vector<std::string>& options) {
  std::error_code ignored;
  const bool model_folder = fs::exists(fs::path(given) / "tokenizer.json", ignored) ||
                            fs::exists(fs::path(given) / "vocab.json", ignored);
  if (given.find_first_of("/.") == std::string::npos && !model_folder)
    return item_toml(given, options);
  const fs::path path = fs::path(given).lexically_normal();
  const std::string extension = path.extension();
  const char* type = extension == ".json" || fs::is_directory(path, ignored) ? "hf"
                     : extension == ".model"                                 ? "sentencepiece"
                     : extension == ".tiktoken"                              ? "tiktoken"
                                                                             : nullptr;
  if (!type)
    throw CliError(kUsage, "[data] --tokenizer '" + given +
                               "': expected a type, as `plait plugins tokenizer` lists them, "
                               "tokenizer.json, or the folder with it");
  std::vector<std::string> all = options;
  all.push_back("path=" + Json(fs::absolute(path).string()).dump());
  return item_toml(type, all);
}

Tokenizer open_tokenizer(const Engine& engine, const std::string& toml) {
  try {
    return Tokenizer(engine, toml, "--tokenizer");
  } catch (const HostError& e) {
    throw HostError(e.code(), std::string(e.what()) +
                                  "\nplait plugins tokenizer lists types and options; --option "
                                  "KEY=VALUE gives an option");
  }
}

class Tokenize {
 public:
  Tokenize(Context& context, const TokenizeArguments& arguments)
      : context_(context),
        arguments_(arguments),
        toml_(tokenizer_toml(arguments.tokenizer, arguments.options)),
        engine_(context.open_engine()),
        tokenizer_(open_tokenizer(engine_, toml_)),
        facts_(Json::parse(tokenizer_.describe())),
        reader_(arguments.files, arguments.field) {}
  int run();

 private:
  struct Encoded {
    Document document;
    std::vector<int32_t> ids;
    uint64_t replaced = 0;
    std::exception_ptr error;
  };
  int32_t end_token() const;
  void check_out() const;
  bool read_batch();
  void encode(Encoded& one) const;
  void encode_batch();
  void write_batch(TokenFileWriter& to, int32_t eod);
  void tell_progress(const TokenFileWriter& to, bool last);
  Json summary(const TokenFileWriter& to, int32_t eod) const;

  Context& context_;
  const TokenizeArguments& arguments_;
  std::string toml_;
  Engine engine_;
  Tokenizer tokenizer_;
  Json facts_;
  DocumentReader reader_;
  std::vector<Encoded> batch_;
  uint64_t replaced_ = 0, text_bytes_ = 0;
  std::string first_replaced_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), told_ = begin_;
};

int32_t Tokenize::end_token() const {
  for (const Json& special : facts_.at("specials"))
    if (special.at("role") == "end") return special.at("id").get<int32_t>();
  throw CliError(kUsage, "[data] --append-eod: tokenizer '" + facts_.value("type", "") +
                             "' has no token that ends a document; leave --append-eod out");
}

void Tokenize::check_out() const {
  if (context_.yes) return;
  for (const std::string& file : TokenFileWriter::files_of(arguments_.out))
    if (fs::exists(file))
      throw CliError(kUsage, "[data] '" + file + "' exists; choose another --out, or replace it " +
                                 "with --yes");
}

// Enough text for all threads, and not so much that memory matters.
bool Tokenize::read_batch() {
  constexpr size_t kText = 8 << 20, kDocuments = 1 << 14;
  batch_.clear();
  size_t bytes = 0;
  for (Document document; bytes < kText && batch_.size() < kDocuments && reader_.next(document);) {
    bytes += document.text.size();
    batch_.emplace_back();
    batch_.back().document = std::move(document);
  }
  text_bytes_ += bytes;
  return !batch_.empty();
}

void Tokenize::encode(Encoded& one) const {
  const uint32_t flags =
      (arguments_.strict ? PLAIT_ENCODE_STRICT : 0) | (arguments_.plain ? PLAIT_ENCODE_PLAIN : 0);
  try {
    one.ids = tokenizer_.encode(one.document.text, flags, &one.replaced);
  } catch (const HostError& e) {
    one.error = std::make_exception_ptr(
        HostError(e.code(), "[data] " + one.document.place + ": " + e.what()));
  } catch (...) {
    one.error = std::current_exception();
  }
}

// Each thread takes the next document that no thread has; the results stay in their order.
void Tokenize::encode_batch() {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < batch_.size();) encode(batch_[i]);
  };
  std::vector<std::thread> others;
  const size_t n = std::min<size_t>(arguments_.threads, batch_.size());
  for (size_t t = 1; t < n; ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
}

void Tokenize::write_batch(TokenFileWriter& to, int32_t eod) {
  for (Encoded& one : batch_) {
    if (one.error) std::rethrow_exception(one.error);
    if (one.replaced > 0 && replaced_ == 0) first_replaced_ = one.document.place;
    replaced_ += one.replaced;
    if (eod >= 0) one.ids.push_back(eod);
    to.add(one.ids, one.document.place);
  }
}

void Tokenize::tell_progress(const TokenFileWriter& to, bool last) {
  if (context_.terminal.quiet || !context_.terminal.stderr_is_terminal()) return;
  if (last) {
    std::fputs("\r\033[K", stderr);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - told_ < std::chrono::milliseconds(100)) return;
  told_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  std::fprintf(stderr, "\r\033[K%s of %s, %.1f M tokens, %.1f MB of text/s",
               bytes_text(static_cast<double>(reader_.bytes_read())).c_str(),
               bytes_text(static_cast<double>(reader_.total_bytes())).c_str(),
               static_cast<double>(to.tokens()) / 1e6,
               static_cast<double>(text_bytes_) / 1e6 / seconds);
}

Json Tokenize::summary(const TokenFileWriter& to, int32_t eod) const {
  Json tokenizer = facts_;
  tokenizer.erase("schema");
  tokenizer["toml"] = toml_;
  Json facts = {{"schema", 1},         {"documents", to.documents()}, {"tokens", to.tokens()},
                {"dtype", to.dtype()}, {"text_bytes", text_bytes_},   {"replaced", replaced_}};
  facts["eod"] = eod >= 0 ? Json(eod) : Json();
  facts["tokenizer"] = std::move(tokenizer);
  return facts;
}

int Tokenize::run() {
  check_out();
  const int32_t eod = arguments_.append_eod ? end_token() : -1;
  TokenFileWriter to(arguments_.out, facts_.at("vocabulary").get<int64_t>());
  while (read_batch()) {
    encode_batch();
    write_batch(to, eod);
    tell_progress(to, false);
  }
  tell_progress(to, true);
  const Json facts = summary(to, eod);
  to.finish(facts);
  if (replaced_ > 0)
    context_.terminal.notice(strf("[data] %llu sequences of bytes were not UTF-8 and became U+FFFD",
                                  static_cast<unsigned long long>(replaced_)) +
                             ", the first in " + first_replaced_ + "; --strict refuses such texts");
  Json record = facts;
  record["files"] = TokenFileWriter::files_of(arguments_.out);
  context_.terminal.record(record);
  context_.terminal.line(strf("%llu tokens of %llu document%s, %lld ids, in %s.bin",
                              static_cast<unsigned long long>(to.tokens()),
                              static_cast<unsigned long long>(to.documents()),
                              to.documents() == 1 ? "" : "s",
                              facts_.at("vocabulary").get<long long>(), arguments_.out.c_str()));
  return kOk;
}

}  // namespace

void add_data_tokenize(CLI::App& data, Context& context) {
  CLI::App* verb = data.add_subcommand("tokenize", "turns texts into files of token ids");
  const auto a = std::make_shared<TokenizeArguments>();
  verb->add_option("FILE", a->files,
                   "texts: NAME.jsonl has a document per line, any other file is one; .gz, too")
      ->required();
  verb->add_option("--tokenizer", a->tokenizer,
                   "a type (bytes, chars, ...), or a file: tokenizer.json or the folder with it, "
                   "NAME.tiktoken, NAME.model")
      ->required()
      ->type_name("TYPE|PATH");
  verb->add_option("--option", a->options, "an option of that type; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--out", a->out, "writes PATH.bin, PATH.idx and PATH.json")
      ->required()
      ->type_name("PATH");
  verb->add_option("--field", a->field, "the key of the text in JSON Lines; default: text");
  verb->add_flag("--append-eod", a->append_eod,
                 "ends each document with the tokenizer's end token");
  verb->add_flag("--strict", a->strict, "refuses texts that are not UTF-8");
  verb->add_flag("--plain", a->plain, "special tokens that a text writes are ordinary text");
  verb->add_option("--threads", a->threads, "default: all cores; the files are the same")
      ->check(CLI::Range(1, 1024));
  verb->callback([&context, a] {
    context.run_command = [&context, a] { return Tokenize(context, *a).run(); };
  });
}

}  // namespace plait::cli
