#include "bindings/cli/sweep/outcome.hpp"

#include "bindings/cli/runs/line_reader.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {

std::vector<std::string> ranked_values(const Json& plan, bool evaluates) {
  const Json metrics = plan.value("metrics", Json::object());
  const bool tokens = plan.value("tokens_per_sample", 0.0) > 0;
  std::vector<std::string> names;
  if (evaluates) {
    names.emplace_back("eval/loss");
    if (tokens) names.emplace_back("eval/token_perplexity");
    for (const Json& name : metrics.value("evaluation", Json::array()))
      names.push_back("eval/" + name.get<std::string>());
  }
  for (const char* name : {"mean_loss", "loss"}) names.emplace_back(name);
  for (const Json& name : metrics.value("train", Json::array())) names.push_back(name);
  for (const char* name : {"grad_norm", "grad_norm_clipped", "lr", "loss_scale", "skipped_steps",
                           "step_ms", "samples_per_s"})
    names.emplace_back(name);
  if (tokens) names.emplace_back("tokens_per_s");
  for (const char* name : {"tflops", "tflops_full", "mfu", "mfu_full"}) names.emplace_back(name);
  return names;
}

std::string last_error(const std::string& log) {
  constexpr std::string_view kError = "error: ";
  constexpr int64_t kTail = 1 << 16;
  std::string found;
  bool follows = false;  // the next line is the first of a list
  LineReader lines(log, kTail);
  lines.read({[] {},
              [&](std::string_view line) {
                const size_t at = line.find(kError);
                if (at != line.npos && (at == 0 || line.starts_with("[rank "))) {
                  found = line.substr(at + kError.size());
                } else if (follows) {
                  const size_t begin = line.find_first_not_of(' ');
                  found += " " + std::string(line.substr(begin == line.npos ? 0 : begin));
                  follows = false;
                  return true;
                }
                if (at != line.npos) follows = found.ends_with(':');
                return true;
              }});
  return plain(found);
}

}  // namespace plait::cli
