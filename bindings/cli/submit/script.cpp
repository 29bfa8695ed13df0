#include "bindings/cli/submit/script.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

// A word behind #SBATCH, which Slurm splits at blanks and ends at a #.
std::string directive_word(const std::string& text) {
  const bool plain = std::none_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isspace(c) || c == '"' || c == '\'' || c == '\\' || c == '#';
  });
  if (plain) return text;
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + "\"";
}

std::string directive(const std::string& name, const std::string& value) {
  return value.empty() ? "" : "#SBATCH --" + name + "=" + directive_word(value) + "\n";
}

std::string directive(const std::string& name, int64_t value) {
  return value > 0 ? directive(name, std::to_string(value)) : "";
}

std::string all_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_quoted(word);
  return text;
}

// A comment may not end before its line does.
std::string comment(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return "# " + text + "\n";
}

std::string directives(const BatchScript& s) {
  std::string text = directive("job-name", s.name) + directive("chdir", s.folder) +
                     directive("output", output_path(s)) + "#SBATCH --open-mode=append\n";
  if (!s.trials.empty())
    text += "#SBATCH --array=0-" + std::to_string(s.trials.size() - 1) +
            (s.at_once > 0 ? "%" + std::to_string(s.at_once) : "") + "\n";
  text += directive("nodes", s.nodes) + directive("ntasks", s.ranks) +
          directive("ntasks-per-node", s.ranks_per_node) + directive("cpus-per-task", s.cpus) +
          directive("gpus-per-node", s.gpus) + directive("time", s.time) +
          directive("partition", s.partition) + directive("account", s.account) +
          directive("signal", "B:USR1@" + std::to_string(s.save_before)) + "#SBATCH --requeue\n";
  for (const std::string& option : s.options) {
    const size_t equals = option.find('=');
    const bool named = option.starts_with("--") && equals < option.size() - 1;
    text += named ? directive(option.substr(2, equals - 2), option.substr(equals + 1))
                  : "#SBATCH " + option + "\n";
  }
  return text;
}

// Sets `run`, and `trial` to the words of one trial.
std::string run_lines(const BatchScript& s) {
  if (s.trials.empty()) return "run=" + path_word(s.run_dir) + "\n";
  std::string text = "run=" + path_word(s.run_dir) +
                     "/$(printf %04d \"$SLURM_ARRAY_TASK_ID\")\ncase $SLURM_ARRAY_TASK_ID in\n";
  for (size_t i = 0; i < s.trials.size(); ++i)
    text += "  " + std::to_string(i) + ") trial=(" + all_words(s.trials[i]) + ") ;;\n";
  return text + "esac\n";
}

std::string rendezvous_lines(const BatchScript& s) {
  if (s.nodes < 2) return "";
  return "\n# The ranks meet by this file, so all nodes must see its folder.\n"
         "case $run in /*) at=$run ;; *) at=$PWD/$run ;; esac\n"
         "mkdir -p \"$(dirname \"$at\")\"\n"
         "export "
         "PLAIT_RENDEZVOUS=\"file:$at.$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}.rendezvous\"\n";
}

std::string srun_lines(const BatchScript& s) {
  std::string text = "srun --kill-on-bad-exit=0";  // ranks end each other, when all have saved
  if (s.nodes > 1) text += " --distribution=block";
  if (s.cpus > 0) text += " --cpus-per-task=" + std::to_string(s.cpus);
  return text + " \\\n  " + all_words(s.command) + (s.trials.empty() ? "" : " \"${trial[@]}\"") +
         " \\\n  --run-dir \"$run\" --resume auto &\nranks=$!\n";
}

// Waits for srun. A signal ends a wait and not the ranks, also one that came just before: its trap
// has run then, and the ranks still do. bash keeps the code of those that ended.
constexpr std::string_view kWait = R"(
while
  seen=$signals
  wait "$ranks"
  code=$?
  [ "$seen" != "$signals" ] || kill -0 "$ranks" 2>/dev/null
do :; done
)";

}  // namespace

std::string script_path(const std::string& run_dir) { return run_dir + ".sbatch"; }

std::string output_path(const BatchScript& script) {
  std::string path = std::filesystem::path(script.folder) / script.run_dir;
  for (size_t at = path.find('%'); at != std::string::npos; at = path.find('%', at + 2))
    path.insert(at, "%");  // which stands for itself
  return path + (script.trials.empty() ? ".%j.out" : "/%a.%A.out");
}

std::string script_text(const BatchScript& s) {
  const std::string script = path_word(script_path(s.run_dir));
  std::string text = "#!/bin/bash\n" + comment(s.about + ". Made by plait submit, yours to edit.") +
                     comment("Once more, to go on from the newest checkpoint: sbatch " + script);
  text += directives(s);
  if (!s.before.empty()) text += "\n";
  for (const std::string& line : s.before) text += line + "\n";
  text += "\n" + run_lines(s) + rendezvous_lines(s);
  text += strf(
      "\n# %lld s before the time limit this shell gets USR1: the ranks save and end, and "
      "the job is\n# queued again. scancel sends TERM, to the ranks, too: they save, and "
      "that is the end.\n",
      static_cast<long long>(s.save_before));
  text +=
      "signals=0 again= ended=\n"
      "trap '[ \"$again$ended\" ] || kill -USR1 \"$ranks\"; again=yes signals=$((signals + 1))' "
      "USR1\n"
      "trap 'ended=yes signals=$((signals + 1))' TERM\n\n";
  text += srun_lines(s) + std::string(kWait);
  return text +
         "if [ \"$again\" ] && [ ! \"$ended\" ] && [ \"$code\" -eq 4 ]; then  # 4: saved\n"
         "  echo \"the time is up: job $SLURM_JOB_ID is queued again\"\n"
         "  scontrol requeue \"$SLURM_JOB_ID\" || echo \"it is not; to go on: sbatch \"" +
         script +
         "\nelif [ \"$code\" -ne 0 ] && [ \"$code\" -ne 4 ] && [ -d \"$run/log\" ]; then\n"
         "  # srun may lose the last lines of ranks when one of them is killed.\n"
         "  echo \"srun ended with $code; what each rank reported: $run/log/rank-*.log\"\n"
         "fi\nexit \"$code\"\n";
}

}  // namespace plait::cli
