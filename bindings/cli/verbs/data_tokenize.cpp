// plait data tokenize: texts to files of token ids.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/documents.hpp"
#include "bindings/cli/data/stop_request.hpp"
#include "bindings/cli/data/token_files.hpp"
#include "bindings/cli/data/tokenizer_argument.hpp"
#include "bindings/cli/made_folder.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

constexpr std::chrono::seconds kMarkEvery{1};

struct TokenizeArguments {
  std::vector<std::string> files, options;
  std::string tokenizer, out, field = "text";
  bool append_eod = false, strict = false, plain = false, restart = false;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

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
  Json inputs(int32_t eod) const;
  Json resume_from(const Json& inputs);
  void mark(TokenFileWriter& to, const Json& inputs);
  bool read_batch();
  void encode(Encoded& one) const;
  void encode_batch();
  void write_batch(TokenFileWriter& to, int32_t eod);
  int interrupted(const TokenFileWriter& to);
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
  uint64_t replaced_ = 0, text_bytes_ = 0, text_before_ = 0;  // before: of an earlier run
  std::string first_replaced_;
  double bytes_before_ = 0;  // of the files, read by an earlier run
  bool resumable_ = true;    // all texts are files, which can be read from a place on
  std::chrono::steady_clock::time_point marked_{};
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

// All that decides the files: a run goes on where another stopped only if it is the same.
Json Tokenize::inputs(int32_t eod) const {
  Json files = Json::array();
  for (const std::string& file : arguments_.files) {
    std::error_code ignored;
    const auto time = fs::last_write_time(file, ignored).time_since_epoch().count();
    files.push_back({fs::absolute(file).string(), fs::file_size(file, ignored), time});
  }
  return {{"files", files},
          {"tokenizer", toml_},
          {"fingerprint", facts_.at("fingerprint")},
          {"field", arguments_.field},
          {"eod", eod},
          {"flags", {arguments_.strict, arguments_.plain}}};
}

// What an interrupted run of the same command marked; null: there is none.
Json Tokenize::resume_from(const Json& inputs) {
  Json state = TokenFileWriter::marked(arguments_.out, facts_.at("vocabulary").get<int64_t>());
  if (state.is_null()) return state;
  if (arguments_.restart || state.value("inputs", Json()) != inputs) {
    context_.terminal.note("[data] '" + arguments_.out + ".resume' is of " +
                           (arguments_.restart ? "an interrupted run" : "other texts or options") +
                           "; starting anew");
    return {};
  }
  try {
    const Json& place = state.at("place");
    text_bytes_ = text_before_ = state.at("text_bytes").get<uint64_t>();
    replaced_ = state.at("replaced").get<uint64_t>();
    first_replaced_ = state.at("first_replaced").get<std::string>();
    if (!reader_.seek({place.at(0).get<uint64_t>(), place.at(1).get<uint64_t>(),
                       place.at(2).get<uint64_t>()}))
      throw CliError(kUsage, "");
    bytes_before_ = static_cast<double>(reader_.bytes_read());
  } catch (const std::exception&) {
    throw CliError(kUsage,
                   "[data] '" + arguments_.out + ".resume' is damaged; start anew with --restart");
  }
  context_.terminal.note(strf("[data] going on behind document %llu, where an earlier run stopped",
                              static_cast<unsigned long long>(state.at("documents"))));
  return state;
}

void Tokenize::mark(TokenFileWriter& to, const Json& inputs) {
  const DocumentPlace place = reader_.place();
  to.mark({{"inputs", inputs},
           {"place", {place.file, place.byte, place.line}},
           {"text_bytes", text_bytes_},
           {"replaced", replaced_},
           {"first_replaced", first_replaced_}});
  marked_ = std::chrono::steady_clock::now();
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
  try {
    for (size_t t = 1; t < n; ++t) others.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: these take all documents
  }
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
  const double seconds = std::chrono::duration<double>(now - begin_).count(),
               done = static_cast<double>(reader_.bytes_read()),
               all = static_cast<double>(reader_.total_bytes()), here = done - bytes_before_;
  const std::string left =
      here > 0 && all > done ? strf(", %.0f s left", (all - done) / here * seconds) : "";
  std::fprintf(stderr, "\r\033[K%3.0f %% of %s, %.1f M tokens, %.1f MB of text/s%s",
               all > 0 ? 100 * done / all : 0, bytes_text(all).c_str(),
               static_cast<double>(to.tokens()) / 1e6,
               static_cast<double>(text_bytes_ - text_before_) / 1e6 / seconds, left.c_str());
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

int Tokenize::interrupted(const TokenFileWriter& to) {
  tell_progress(to, true);
  context_.terminal.notice(strf("[data] interrupted behind document %llu (%s of %s)",
                                static_cast<unsigned long long>(to.documents()),
                                bytes_text(static_cast<double>(reader_.bytes_read())).c_str(),
                                bytes_text(static_cast<double>(reader_.total_bytes())).c_str()) +
                           "; the same command continues from there");
  context_.terminal.record({{"event", "interrupted"}, {"documents", to.documents()}});
  return kInterrupted;
}

int Tokenize::run() {
  check_out();
  if (const fs::path folder = fs::path(arguments_.out).parent_path(); !folder.empty())
    make_folders(folder, "data", "with --out");
  const int32_t eod = arguments_.append_eod ? end_token() : -1;
  for (const std::string& file : arguments_.files) resumable_ &= fs::is_regular_file(file);
  const Json same = inputs(eod);
  const Json state = resumable_ ? resume_from(same) : Json();
  TokenFileWriter to(arguments_.out, facts_.at("vocabulary").get<int64_t>(), state);
  std::optional<StopRequest> stop;
  if (resumable_) stop.emplace();
  while (read_batch()) {
    encode_batch();
    write_batch(to, eod);
    tell_progress(to, false);
    const bool asked = stop && stop->asked();
    if (resumable_ && (asked || std::chrono::steady_clock::now() - marked_ > kMarkEvery))
      mark(to, same);
    if (asked) return interrupted(to);
  }
  stop.reset();
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
  verb->add_option("--option", a->options, "an option of the tokenizer; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--out", a->out, "writes PATH.bin, PATH.idx and PATH.json")
      ->required()
      ->type_name("PATH");
  verb->add_option("--field", a->field, "the key of the text in JSON Lines; default: text")
      ->type_name("KEY");
  verb->add_flag("--append-eod", a->append_eod,
                 "ends each document with the tokenizer's end token");
  verb->add_flag("--strict", a->strict, "refuses texts that are not UTF-8");
  verb->add_flag("--plain", a->plain, "special tokens that a text writes are ordinary text");
  verb->add_flag("--restart", a->restart, "starts anew where an interrupted run could go on");
  verb->add_option("--threads", a->threads,
                   "threads that encode; default: all cores; the files are the same")
      ->check(CLI::Range(1, 1024));
  verb->callback([&context, a] {
    context.run_command = [&context, a] { return Tokenize(context, *a).run(); };
  });
}

}  // namespace plait::cli
