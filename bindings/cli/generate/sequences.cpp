#include "bindings/cli/generate/sequences.hpp"

#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bindings/cli/interrupt.hpp"
#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

const char* finish_name(uint32_t finish) {
  static const char* const kNames[] = {"", "end", "stop", "length", "cancelled", "failed"};
  return finish < std::size(kNames) ? kNames[finish] : "";
}

int64_t whole(const Json& values, const char* key) {
  return values.at(key).at("value").get<int64_t>();
}

}  // namespace

Sequences::Sequences(Context& of, const GenerateArguments& given, const Session& session,
                     Generator& by, const Json& values)
    : context(of),
      terminal(of.terminal),
      arguments(given),
      generator(by),
      limits{whole(values, "generate.length"), whole(values, "generate.max_tokens")},
      session_(session),
      placeholders_(values, given.placeholders) {}

plait_prompt Sequences::prompt_of(const std::string& adapter) {
  const std::string& used = adapter.empty() ? arguments.adapter : adapter;
  plait_prompt prompt{};
  prompt.adapter = used.empty() ? nullptr : used.c_str();
  front_ = placeholders_.of(used);
  prompt.ids = front_.data();
  prompt.n_ids = front_.size();
  return prompt;
}

plait_prompt Sequences::prompt_of(const std::vector<int32_t>& ids) {
  plait_prompt prompt = prompt_of(std::string());
  front_.insert(front_.end(), ids.begin(), ids.end());
  prompt.ids = front_.data();
  prompt.n_ids = front_.size();
  return prompt;
}

void Sequences::tell_placeholders() const {
  const std::string of = placeholders_.adapter_of(arguments.adapter);
  if (!of.empty())
    terminal.note(
        counted(static_cast<long long>(placeholders_.of(arguments.adapter).size()), "placeholder") +
        " in front of each prompt, for the vectors of adapter '" + of +
        "'; --placeholders 0 where prompts have them");
}

void Sequences::on_token(const plait_token& t) {
  Sequence& s = all.at(t.sequence);
  if (t.id >= 0) s.ids.push_back(t.id);
  const std::string_view text(t.text ? t.text : "", t.size);
  s.text += text;
  s.finish = t.finish;
  if (streams) {
    if (arguments.ids.empty())
      terminal.raw(text);
    else if (t.id >= 0)
      terminal.raw((s.ids.size() > 1 ? "," : "") + std::to_string(t.id));
    std::fflush(stdout);
  }
  if (t.id >= 0)
    terminal.record({{"event", "token"},
                     {"sequence", t.sequence},
                     {"index", t.index},
                     {"id", t.id},
                     {"text", std::string(text)}});
  if (t.finish != PLAIT_FINISH_NONE)
    terminal.record({{"event", "sequence"},
                     {"sequence", t.sequence},
                     {"prompt", s.prompt},
                     {"text", s.text},
                     {"ids", s.ids},
                     {"reused", t.n_reused},
                     {"finish", finish_name(t.finish)}});
}

// By what a sequence ended, and of a length by which.
std::string Sequences::end_of(const Sequence& s) const {
  const std::string name = finish_name(s.finish);
  if (s.finish != PLAIT_FINISH_LENGTH) return name;
  if (limits.max_tokens > 0 && static_cast<int64_t>(s.ids.size()) >= limits.max_tokens)
    return name + strf(": generate.max_tokens = %lld", static_cast<long long>(limits.max_tokens));
  return name + strf(": generate.length = %lld, the prompt included; --length N allows more",
                     static_cast<long long>(limits.length));
}

Sequences::End Sequences::run_out() {
  const Interrupt interrupt(session_.get(), {.announce = false});
  const auto each = [this](const plait_token& t) {
    on_token(t);
    return true;
  };
  End end;
  bool works = true;
  for (uint64_t left = 1; left > 0 && works;) {
    try {
      left = generator.step(each);
    } catch (const HostError& e) {
      if (!end.failed) end.failed = std::current_exception();
      works = e.code() == PLAIT_ERR_NUMERIC;
    }
  }
  if (streams) terminal.line("");
  end.signal = interrupt.signal();
  // A signal during the last token would end the next turn.
  if (end.signal && works) generator.step(each);
  return end;
}

}  // namespace plait::cli
