#include "bindings/cli/help/help_examples.hpp"

#include <vector>

namespace plait::cli {
namespace {

struct Examples {
  const char* verb;
  std::vector<const char*> lines;
};

const Examples kExamples[] = {
    {"run",
     {"plait run demo", "plait run demo optimizer.learning_rate=0.003 run.steps=600",
      "plait run demo topology.data=2 --run-dir runs/two",
      "plait run demo topology.data=2 run.steps=400 --run-dir runs/two --resume must"}},
    {"check", {"plait check demo", "plait check demo 'model.layers[0].out=64' --json"}},
    {"plan",
     {"plait plan demo -v", "plait plan demo topology.data=8 --rank 3",
      "plait plan demo topology.pipeline=2 batch.accumulation=4 --picture schedule.svg",
      "plait profile demo topology.pipeline=2 --to profile.json",
      "plait plan demo topology.pipeline=2 --measured profile.json"}},
    {"profile", {"plait profile demo --steps 20"}},
    {"sweep", {"plait sweep demo optimizer.learning_rate=1e-3,3e-3,1e-2 run.seed=1,2"}},
    {"submit",
     {"plait submit demo --time 24:00:00 --print",
      "plait submit demo topology.data=16 run.device=cuda --nodes 2 --cpus 8 --time 24:00:00",
      "plait submit demo optimizer.learning_rate=1e-3,3e-3 --at-once 1"}},
    {"runs", {"plait runs", "plait runs --json"}},
    {"status", {"plait status runs/two"}},
    {"compare", {"plait compare runs/two runs/demo/*"}},
    {"plot", {"plait plot runs/two", "plait plot runs/two --svg loss.svg"}},
    {"board", {"plait board --once", "plait board runs --html runs.html"}},
    {"bind", {"plait bind demo > complete.toml", "plait bind demo run.seed=7 --given"}},
    {"new",
     {"plait new demo --from tiny", "plait new digits --from mnist_mlp", "plait new --list"}},
    {"eval",
     {"plait eval runs/two", "plait eval demo --checkpoint runs/two --dataset train",
      "plait eval runs/two --require 'loss<=2' --require 'accuracy>=0.5'"}},
    {"predict",
     {"plait predict runs/two --to predictions.csv",
      "plait predict demo --checkpoint runs/two --dataset train --to predictions.npz --resume"}},
    {"generate", {"plait generate MODEL --checkpoint RUN --prompt \"ROMEO:\" --temperature 0.8"}},
    {"import", {"plait import hf FOLDER model"}},
    {"export", {"plait export runs/two weights.safetensors"}},
    {"merge",
     {"plait merge RUN --to merged", "plait merge FILE --from RUN/ckpt/best --to merged",
      "plait merge RUN --adapter NAME --to merged"}},
    {"adapters",
     {"plait adapters ls runs/two", "plait adapters add RUN code --from OTHER --to both",
      "plait adapters rm CHECKPOINT poems --to rest"}},
    {"checkpoint",
     {"plait checkpoint ls", "plait checkpoint verify runs/two",
      "plait checkpoint convert runs/two/ckpt/latest whole"}},
    {"plugins", {"plait plugins optimizer", "plait plugins linear", "plait plugins --report"}},
    {"keys", {"plait keys run.seed", "plait keys optimizer", "plait keys linear"}},
    {"ops", {"plait ops matmul"}},
    {"data", {"plait data show", "plait data show demo"}},
    {"data get", {"plait data get mnist"}},
    {"data show", {"plait data show", "plait data show demo --count 1"}},
    {"data tokenize",
     {"plait data tokenize texts/*.txt --tokenizer bytes --append-eod --out train"}},
    {"devices", {"plait devices", "plait devices --json"}},
    {"env", {"plait env", "plait env --json"}},
    {"completion",
     {"source <(plait completion bash)", "plait completion zsh > ~/.zfunc/_plait",
      "plait completion fish | source"}},
};

}  // namespace

std::string help_examples(const std::string& verb) {
  for (const Examples& one : kExamples) {
    if (verb != one.verb) continue;
    std::string text = "Examples:\n";
    for (const char* line : one.lines) text += std::string("  ") + line + "\n";
    return text;
  }
  return "";
}

}  // namespace plait::cli
