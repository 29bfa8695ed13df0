#include "tests/parallel/models.hpp"

#include <fstream>
#include <vector>

namespace parallel {
namespace {

constexpr int kFeatures = 16, kClasses = 4, kIds = 6;

// Pseudo-random numbers, the same on every machine.
class Noise {
 public:
  explicit Noise(uint32_t seed) : state_(seed) {}
  int below(int n) {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<int>((state_ >> 8) % static_cast<uint32_t>(n));
  }

 private:
  uint32_t state_;
};

// The start of every experiment: `data` trains and evaluates.
std::string begin(int seed, const std::string& data) {
  return "[run]\nseed = " + std::to_string(seed) +
         "\nthreads = 1\n[topology]\ntimeout = 60.0\n[batch]\nglobal = 16\n[data.train]\n" + data +
         "shuffle = true\n[data.eval]\n" + data;
}

// Points around the corner of their class, with weights. Every ignored-th label is -1; 0: none.
std::string points(const Folder& folder, int ignored = 0) {
  const std::string path = folder / "data.csv";
  std::ofstream csv(path);
  for (int f = 0; f < kFeatures; ++f) csv << "x" << f << ",";
  csv << "label,importance\n";
  Noise noise(12345);
  for (int s = 0; s < 46; ++s) {
    const int label = noise.below(kClasses);
    for (int f = 0; f < kFeatures; ++f)
      csv << (noise.below(200) - 100) * 0.01 + (f % kClasses == label) << ",";
    csv << (ignored && s % ignored == 0 ? -1 : label) << "," << 0.25 + noise.below(8) * 0.25
        << "\n";
  }
  return "type = \"csv\"\npath = \"" + path +
         "\"\ntarget = [\"label\"]\ntarget_type = \"i32\"\nweight = \"importance\"\n";
}

// `dims` are the extents of `values`, row-major.
void write_npy(const std::string& path, const std::string& dims, const std::vector<int>& values) {
  std::string head = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + dims + "), }";
  head.resize(117, ' ');  // pads the header to a multiple of 64
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(head.size() + 1) << '\0' << head << "\n";
  for (const int value : values) file.put(static_cast<char>(value));
}

constexpr int kTexts = 40;

// Texts of `length` ids each; `dims` are the extents of a text's targets.
std::string texts(const Folder& folder, const std::vector<int>& ids, const std::string& dims,
                  const std::vector<int>& targets, int length = kIds) {
  const std::string n = std::to_string(kTexts) + ", ";
  write_npy(folder / "ids.npy", n + std::to_string(length), ids);
  write_npy(folder / "targets.npy", n + dims, targets);
  return "type = \"npy\"\ninput = \"" + (folder / "ids.npy") + "\"\ntarget = \"" +
         (folder / "targets.npy") + "\"\n";
}

// The MLP; `middle`: layers before the last one.
std::string mlp(const Folder& folder, const std::string& middle, int ignored = 0) {
  return begin(7, points(folder, ignored)) + R"(
[[model.layers]]
type = "linear"
name = "first"
out = 16
parallel = "column"
[[model.layers]]
type = "relu"
[[model.layers]]
type = "dropout"
p = 0.2
[[model.layers]]
type = "layer_norm"
[[model.layers]]
type = "linear"
name = "again"
out = 16
parallel = "column"
tie = { weight = "model.first.weight" }
[[model.layers]]
type = "gelu"
)" + middle +
         R"([[model.layers]]
type = "linear"
name = "head"
out = 4
parallel = "row"
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "adamw"
learning_rate = 0.003
clip_grad_norm = 0.5
[[optimizer.groups]]
match = ["*.bias"]
weight_decay = 0.0
learning_rate = 0.006
)";
}

}  // namespace

std::string model(const Folder& folder, int ignored) { return mlp(folder, "", ignored); }

std::string deep_model(const Folder& folder) {
  return mlp(folder, R"([[model.layers]]
type = "linear"
name = "wide"
out = 32
parallel = "column"
[[model.layers]]
type = "silu"
[[model.layers]]
type = "linear"
name = "narrow"
out = 16
parallel = "row"
[[model.layers]]
type = "rms_norm"
[[model.layers]]
type = "linear"
name = "kept"
out = 16
parallel = "column"
[[model.layers]]
type = "tanh"
[[model.layers]]
type = "dropout"
p = 0.1
[[model.layers]]
type = "linear"
name = "third"
out = 16
tie = { weight = "model.first.weight" }
[[model.layers]]
type = "relu"
)") + R"([[optimizer.groups]]
match = ["model.kept.weight"]
frozen = true
)";
}

namespace {
std::string distillation(const std::string& data, const std::string& more_losses) {
  return begin(11, data) + R"(
[models.teacher]
frozen = true
[[models.teacher.layers]]
type = "linear"
out = 24
parallel = "column"
[[models.teacher.layers]]
type = "tanh"
as = ["inner"]
[[models.teacher.layers]]
type = "dropout"
p = 0.5
[[models.teacher.layers]]
type = "linear"
out = 4
parallel = "row"
as = ["says"]
[[models.student.layers]]
type = "linear"
out = 24
parallel = "column"
[[models.student.layers]]
type = "relu"
as = ["own"]
[[models.student.layers]]
type = "mul"
from = ["own", "teacher.inner"]
[[models.student.layers]]
type = "linear"
out = 16
parallel = "row"
[[models.student.layers]]
type = "gelu"
[[models.student.layers]]
type = "linear"
out = 4
as = ["says"]
[[models.student.losses]]
type = "mse"
from = ["says", "teacher.says"]
[[models.student.losses]]
type = "mae"
from = ["says", "teacher.says"]
weight = 0.25
)" + more_losses +
         R"([[models.student.metrics]]
type = "accuracy"
[models.student.optimizer]
type = "adamw"
learning_rate = 0.01
clip_grad_norm = 1.0
)";
}
}  // namespace

std::string distillation_model(const Folder& folder) { return distillation(points(folder), ""); }

std::string labelled_distillation_model(const Folder& folder) {
  return distillation(points(folder, 3),
                      "[[models.student.losses]]\ntype = \"cross_entropy\"\nweight = 2.0\n");
}

namespace {

// Sequences in which each id decides the next one, which is the label.
std::string sequences(const Folder& folder, int vocabulary, uint32_t seed) {
  Noise noise(seed);
  std::vector<int> ids, next_ids;
  for (int i = 0; i < kTexts * kIds; ++i) {
    ids.push_back(noise.below(vocabulary));
    next_ids.push_back((ids.back() * 3 + 1) % vocabulary);
  }
  return texts(folder, ids, std::to_string(kIds), next_ids);
}

constexpr char kNextId[] = R"([loss]
type = "cross_entropy"
label_smoothing = 0.1
[[metrics]]
type = "accuracy"
[optimizer]
type = "adamw"
learning_rate = 0.01
clip_grad_norm = 1.0
)";

}  // namespace

std::string vocabulary_model(const Folder& folder, int vocabulary) {
  const std::string v = std::to_string(vocabulary);
  return begin(3, sequences(folder, vocabulary, 5)) +
         "[[model.layers]]\ntype = \"embedding\"\nname = \"ids\"\nvocabulary = " + v + R"(
width = 8
[[model.layers]]
type = "linear"
out = 8
parallel = "row"
[[model.layers]]
type = "tanh"
[[model.layers]]
type = "linear"
name = "head"
parallel = "column"
tie = { weight = "model.ids.weight" }
out = )" +
         v + "\n" + kNextId;
}

std::string transformer_model(const Folder& folder) {
  const std::string shared = R"(heads = 4, std = 0.2, attention_dropout = 0.2, parallel = "heads")";
  const std::string blocks =
      R"({type = "decoder_block", name = "h", out_bias = true, mlp_bias = true, window = 4, )"
      R"(dropout = 0.1, )" +
      shared +
      R"(}, {type = "decoder_block", name = "g", repeat = 2, kv_heads = 2, head_dim = 6, )"
      R"(ffn = 24, )"
      R"(mlp = "swiglu", norm = "rms_norm", rope = "half", qk_norm = "head", depth = 3, )" +
      shared +
      R"(}, {type = "decoder_block", name = "f", norm_at = "both", norm = "rms_norm", )"
      R"(mlp = "geglu_tanh", rope = "adjacent", qk_norm = "all", softcap = 3.0, clip_qkv = 1.5, )" +
      shared + "},";
  return begin(3, sequences(folder, 13, 17)) + R"(
[model]
layers = [
  {type = "embedding", name = "ids", vocabulary = 13, width = 16, std = 0.3},
  {type = "positions", length = 8, std = 0.3},
  {type = "dropout"},
)" + blocks +
         R"(
  {type = "rms_norm"},
  {type = "linear", name = "head", out = 13, bias = false, parallel = "column",)"
         R"( tie = {weight = "model.ids.weight"}},
]
)" + kNextId;
}

std::string experts_model(const Folder& folder) {
  const std::string shared = R"(heads = 4, std = 0.2, parallel = "heads", )"
                             R"(type = "decoder_block", rope = "half", norm = "rms_norm")";
  return begin(3, sequences(folder, 13, 17)) + R"(
[model]
layers = [
  {type = "embedding", name = "ids", vocabulary = 13, width = 16, std = 0.3},
  {name = "h", experts = 5, balance = 0.3, mlp = "swiglu", ffn = 12, dropout = 0.1, )" +
         shared + R"(},
  {name = "g", repeat = 2, experts = 4, top_k = 1, norm_top_k = false, balance = 0.2, ffn = 10, )" +
         shared + R"(},
  {name = "f", experts = 2, mlp = "geglu", ffn = 8, )" +
         shared + R"(},
  {type = "rms_norm"},
  {type = "linear", name = "head", out = 13, bias = false, parallel = "column"},
]
)" + kNextId;
}

namespace {

// Texts of the small language models below. Two ids decide the next one, which is the label, but
// for a quarter of the ids: attention has something to learn, and the loss stays above zero.
constexpr int kVocabulary = 64, kLength = 12;
std::string walks(const Folder& folder) {
  Noise noise(21);
  std::vector<int> ids, next_ids;
  for (int i = 0; i < kTexts; ++i) {
    int before = noise.below(kVocabulary), id = noise.below(kVocabulary);
    for (int k = 0; k < kLength; ++k) {
      const int next =
          noise.below(4) == 0 ? noise.below(kVocabulary) : (3 * id + 5 * before + 1) % kVocabulary;
      ids.push_back(id);
      next_ids.push_back(next);
      before = id;
      id = next;
    }
  }
  return texts(folder, ids, std::to_string(kLength), next_ids, kLength);
}

// How such models are trained as a rule: at a moderate rate, with a warm-up.
constexpr char kRecipe[] = R"([loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "adamw"
learning_rate = 0.003
beta2 = 0.95
weight_decay = 0.1
clip_grad_norm = 1.0
groups = [{match = ["*.gain"], weight_decay = 0.0}]
schedule = {type = "cosine", warmup_steps = 10, total_steps = 50, min_ratio = 0.1}
)";

}  // namespace

std::string llama_model(const Folder& folder) {
  return begin(5, walks(folder)) +
         R"(
[model]
layers = [
  {type = "embedding", name = "ids", vocabulary = 64, width = 32, std = 0.1},
  {type = "decoder_block", name = "h", repeat = 3, depth = 3, heads = 4, kv_heads = 2, ffn = 80,)"
         R"( mlp = "swiglu", norm = "rms_norm", rope = "half", std = 0.1, parallel = "heads"},
  {type = "rms_norm", name = "norm"},
  {type = "linear", name = "head", out = 64, bias = false, parallel = "column"},
]
)" + kRecipe;
}

std::string gpt2_model(const Folder& folder) {
  return begin(6, walks(folder)) +
         R"(
[model]
layers = [
  {type = "embedding", name = "ids", vocabulary = 64, width = 32, std = 0.1},
  {type = "positions", name = "positions", length = 12, std = 0.1},
  {type = "dropout", p = 0.1},
  {type = "decoder_block", name = "h", repeat = 3, depth = 3, heads = 4, bias = true,)"
         R"( dropout = 0.1, attention_dropout = 0.1, std = 0.1,)"
         R"( parallel = "heads"},
  {type = "layer_norm", name = "norm"},
  {type = "linear", name = "head", out = 64, bias = false, parallel = "column",)"
         R"( tie = {weight = "model.ids.weight"}},
]
)" + kRecipe;
}

std::string mixed_model(const Folder& folder) {
  Noise noise(99);
  std::vector<int> ids, labels;
  for (int i = 0; i < kTexts; ++i) {
    labels.push_back(noise.below(4));
    // Two of three ids indicate the label.
    for (int k = 0; k < kIds; ++k)
      ids.push_back(noise.below(3) == 0 ? noise.below(16) : labels.back() * 4 + noise.below(4));
  }
  return begin(3, texts(folder, ids, "", labels)) + R"(
[[model.layers]]
type = "embedding"
vocabulary = 16
width = 8
[[model.layers]]
type = "flatten"
as = ["flat"]
[[model.layers]]
type = "linear"
out = 32
parallel = "column"
[[model.layers]]
type = "silu"
as = ["gate"]
[[model.layers]]
type = "linear"
from = ["flat"]
out = 32
parallel = "column"
as = ["up"]
[[model.layers]]
type = "mul"
from = ["gate", "up"]
as = ["both"]
[[model.layers]]
type = "linear"
out = 48
parallel = "row"
as = ["down"]
[[model.layers]]
type = "add"
from = ["flat", "down"]
[[model.layers]]
type = "rms_norm"
as = ["normed"]
[[model.layers]]
type = "concat"
from = ["normed", "both"]
[[model.layers]]
type = "reshape"
shape = [4, 20]
[[model.layers]]
type = "linear"
out = 8
parallel = "column"
[[model.layers]]
type = "softmax"
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "linear"
out = 4
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "sgd"
learning_rate = 0.05
momentum = 0.9
)";
}

}  // namespace parallel
