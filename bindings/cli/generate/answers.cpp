#include "bindings/cli/generate/answers.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>

#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

using Clock = std::chrono::steady_clock;

void show(const Sequences& all, const Sequence& s) {
  Terminal& terminal = all.terminal;
  if (!all.arguments.ids.empty() && s.text.empty()) {
    std::string list;
    for (const int32_t id : s.ids) list += (list.empty() ? "" : ",") + std::to_string(id);
    return terminal.line(s.prompt + " -> " + list);
  }
  terminal.line(terminal.bold(s.prompt) + s.text);
}

void summarize(const Sequences& sequences, Clock::duration took) {
  size_t n = 0;
  for (const Sequence& s : sequences.all) n += s.ids.size();
  const double seconds = std::chrono::duration<double>(took).count();
  const std::string end =
      sequences.all.size() == 1 ? ", ended by " + sequences.end_of(sequences.all[0]) : "";
  sequences.terminal.note(
      counted(static_cast<long long>(n), "token") + " in " + seconds_text(seconds) +
      strf(", %.1f a second", static_cast<double>(n) / std::max(seconds, 1e-9)) + end);
}

}  // namespace

int answer(Sequences& sequences, const Prompts& prompts) {
  Terminal& terminal = sequences.terminal;
  const GenerateArguments& arguments = sequences.arguments;
  sequences.context.failed = kUsage;  // characters or ids that the model does not have
  for (const TextPrompt& p : prompts.texts) {
    sequences.generator.add(std::string_view(p.text), sequences.prompt_of(p.adapter));
    sequences.all.push_back({p.text, "", {}});
  }
  for (size_t i = 0; i < prompts.ids.size(); ++i) {
    const plait_prompt prompt = sequences.prompt_of(prompts.ids[i]);
    sequences.generator.add(std::span<const int32_t>(prompt.ids, prompt.n_ids), prompt);
    sequences.all.push_back({arguments.ids[i], "", {}});
  }
  sequences.context.failed = kFailed;
  sequences.streams = sequences.all.size() == 1 && terminal.human();
  if (sequences.streams)
    terminal.raw(arguments.ids.empty() ? terminal.bold(sequences.all[0].prompt)
                                       : sequences.all[0].prompt + " -> ");
  const Clock::time_point start = Clock::now();
  const Sequences::End end = sequences.run_out();
  if (!sequences.streams)
    for (const Sequence& s : sequences.all) show(sequences, s);
  summarize(sequences, Clock::now() - start);
  if (end.failed) std::rethrow_exception(end.failed);
  return end.signal ? kInterrupted : kOk;
}

}  // namespace plait::cli
