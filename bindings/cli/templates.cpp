#include "bindings/cli/templates.hpp"

namespace plait::cli {
namespace {

// mnist_mlp and mnist_adamw are the examples of those names; a test compares them.
constexpr const char* kTiny =
    R"toml(# A classifier on synthetic samples: runs anywhere in a second, for trying things out.
# `plait bind` lists every key, `plait plugins` every layer, loss, optimizer and dataset.

[run]
name = "@NAME@"
steps = 300
seed = 42
log_every = 10

[batch]
global = 64

[evaluate]
every = 100

[data.train]
type = "synthetic"
samples = 4096
shape = [16]
classes = 4

[data.eval]
type = "synthetic"
samples = 1024
shape = [16]
classes = 4
first = 4096   # samples that training has not seen

[[model.layers]]
type = "linear"
out = 32

[[model.layers]]
type = "relu"

[[model.layers]]
type = "linear"
out = 4

[loss]
type = "cross_entropy"

[[metrics]]
type = "accuracy"

[optimizer]
type = "adamw"
learning_rate = 0.01
)toml";

constexpr const char* kMnistMlp =
    R"toml(# A multi-layer perceptron that reads handwritten digits: 784-120-84-10.
# `plait data get mnist` downloads the four files; --data or PLAIT_DATA names their folder.

[run]
name = "@NAME@"
epochs = 4
seed = 42
log_every = 100

[batch]
global = 32
eval = 1000

[data.train]
type = "idx"
images = "train-images-idx3-ubyte.gz"
labels = "train-labels-idx1-ubyte.gz"
normalize.image = {divide = 255}

[data.eval]
type = "idx"
images = "t10k-images-idx3-ubyte.gz"
labels = "t10k-labels-idx1-ubyte.gz"
normalize.image = {divide = 255}

[[model.layers]]
type = "flatten"

[[model.layers]]
type = "linear"
out = 120

[[model.layers]]
type = "relu"

[[model.layers]]
type = "linear"
out = 84

[[model.layers]]
type = "relu"

[[model.layers]]
type = "linear"
out = 10

[loss]
type = "cross_entropy"

[[metrics]]
type = "accuracy"

[optimizer]
type = "sgd"
learning_rate = 0.01
)toml";

constexpr const char* kMnistAdamw =
    R"toml(# Four hidden layers of 128, AdamW, cosine schedule, clipping; 1000 steps of 256.
# `plait data get mnist` downloads the four files; --data or PLAIT_DATA names their folder.

[run]
name = "@NAME@"
steps = 1000
seed = 42
log_every = 50

[batch]
global = 256
eval = 1000

[evaluate]
every = 250

[data.train]
type = "idx"
images = "train-images-idx3-ubyte.gz"
labels = "train-labels-idx1-ubyte.gz"
normalize.image = {divide = 255, mean = 0.5, std = 0.5}

[data.eval]
type = "idx"
images = "t10k-images-idx3-ubyte.gz"
labels = "t10k-labels-idx1-ubyte.gz"
normalize.image = {divide = 255, mean = 0.5, std = 0.5}

[model]
layers = [
  {type = "flatten"},
  {type = "linear", out = 128, init = "xavier_normal"},
  {type = "relu"},
  {type = "linear", out = 128, init = "xavier_normal"},
  {type = "relu"},
  {type = "linear", out = 128, init = "xavier_normal"},
  {type = "relu"},
  {type = "linear", out = 128, init = "xavier_normal"},
  {type = "relu"},
  {type = "linear", out = 10, init = "xavier_normal"},
]

[loss]
type = "cross_entropy"

[[metrics]]
type = "accuracy"

[optimizer]
type = "adamw"
learning_rate = 0.01
weight_decay = 1e-4
clip_grad_norm = 1.0
beta1 = 0.9
beta2 = 0.95
schedule = {type = "cosine"}
)toml";

constexpr Template kTemplates[] = {
    {"tiny", "a small classifier on synthetic data; needs no files, takes a second", kTiny, ""},
    {"mnist_mlp", "digits with 784-120-84-10 and plain SGD", kMnistMlp, "mnist"},
    {"mnist_adamw", "digits with four hidden layers of 128, AdamW and a cosine schedule",
     kMnistAdamw, "mnist"},
};

}  // namespace

std::span<const Template> templates() { return kTemplates; }

}  // namespace plait::cli
