#include "tests/unit/host/random_model.hpp"

#include <initializer_list>
#include <random>
#include <vector>

namespace host {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // From a to b, inclusive. Does not use std's distributions, which differ between libraries.
  int64_t between(int64_t a, int64_t b) {
    return a + static_cast<int64_t>(engine_() % static_cast<uint64_t>(b - a + 1));
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }
  template <class T>
  T of(std::initializer_list<T> all) {
    return all.begin()[between(0, static_cast<int64_t>(all.size()) - 1)];
  }
  std::string text_of(std::initializer_list<const char*> all) { return of(all); }
  // Mostly small and odd, sometimes larger than a vector or a tile.
  int64_t width() {
    if (one_in(6)) return of<int64_t>({16, 32, 64});
    return one_in(8) ? between(40, 130) : between(1, 20);
  }

 private:
  std::mt19937_64 engine_;
};

using Shape = std::vector<int64_t>;

int64_t elements(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

std::string list(const Shape& shape) {
  std::string text;
  for (const int64_t d : shape) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return "[" + text + "]";
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

class Writer {
 public:
  explicit Writer(uint64_t seed) : dice_(seed), seed_(seed) {}

  RandomModel write() {
    classes_ = dice_.one_in(2) ? dice_.between(2, 12) : 0;
    for (int64_t rank = dice_.of<int64_t>({1, 1, 1, 2, 2, 3}); rank > 0; --rank)
      shape_.push_back(rank > 1 ? dice_.between(1, 6) : dice_.width());
    run();
    data();
    for (int64_t n = dice_.between(0, 6); n > 0; --n) body();
    head();
    losses();
    optimizer();
    return std::move(model_);
  }

 private:
  void line(const std::string& text) { model_.toml += text + "\n"; }
  void layer(const std::string& type, const std::string& options = "") {
    line("[[model.layers]]\ntype = " + quoted(type) + (options.empty() ? "" : "\n" + options));
    ++model_.layers;
  }

  void run() {
    line("# random model " + std::to_string(seed_));
    line("[run]\nsteps = 3\nseed = " + std::to_string(dice_.between(0, 1000)));
    const int64_t global = dice_.between(1, 40);
    int64_t micro = global;
    if (dice_.one_in(2)) do
        micro = dice_.between(1, global);
      while (global % micro != 0);
    line("[batch]\nglobal = " + std::to_string(global) + "\nmicro = " + std::to_string(micro));
    if (dice_.one_in(4)) line("eval = " + std::to_string(dice_.between(1, 50)));
    // One to three batches, so that some are padded.
    samples_ = dice_.between(1, 3 * global);
  }

  void data() {
    line("[data.train]\ntype = \"synthetic\"\nsamples = " + std::to_string(samples_) +
         "\nshape = " + list(shape_) + "\nclasses = " + std::to_string(classes_) +
         "\nseed = " + std::to_string(dice_.between(0, 100)));
    if (dice_.one_in(2)) line(dice_.one_in(2) ? "shuffle = true" : "shuffle = false");
    if (dice_.one_in(4)) line("normalize.x = {divide = 1.7, mean = 0.2, std = 0.8}");
  }

  void linear(int64_t out, bool output = false) {
    std::string o = "out = " + std::to_string(out);
    if (dice_.one_in(4) && !output) o += "\nbias = false";
    if (dice_.one_in(3) && !output)
      o += "\ninit = " +
           quoted(dice_.text_of({"kaiming_uniform", "xavier_uniform", "xavier_normal"}));
    if (dice_.one_in(6)) o += "\ninit = \"normal\"\ninit_std = 0.3", o = last_init_only(o);
    layer("linear", o);
    shape_.back() = out;
  }
  // TOML forbids a key twice.
  static std::string last_init_only(std::string o) {
    const size_t first = o.find("\ninit = "), last = o.rfind("\ninit = ");
    if (first != last) o.erase(first, o.find('\n', first + 1) - first);
    return o;
  }

  void activation() {
    const std::string type = dice_.text_of({"relu", "tanh", "sigmoid", "gelu", "gelu_tanh", "silu",
                                            "leaky_relu", "softplus", "softmax"});
    layer(type, type == "leaky_relu" && dice_.one_in(2) ? "slope = 0.2"
                : type == "softplus" && dice_.one_in(2) ? "beta = 2.5"
                                                        : "");
  }

  // Keeps the value, transforms it, and joins both.
  void residual() {
    const std::string name = "kept" + std::to_string(++kept_);
    layer("linear", "out = " + std::to_string(shape_.back()) + "\nas = [\"" + name + "\"]");
    activation();
    const std::string other = "other" + std::to_string(kept_);
    layer("linear", "out = " + std::to_string(shape_.back()) + "\nas = [\"" + other + "\"]");
    const std::string type = dice_.text_of({"add", "mul", "concat"});
    layer(type, "from = [\"" + name + "\", \"" + other + "\"]");
    if (type == "concat") shape_.back() *= 2;
  }

  void tied() {
    const std::string out = "out = " + std::to_string(shape_.back()),
                      name = "tied" + std::to_string(++kept_);
    layer("linear", "name = " + quoted(name) + "\n" + out);
    layer("linear", out + "\ntie = {weight = \"model." + name + ".weight\"}");
  }

  void slice() {
    const int64_t last = shape_.back(), start = dice_.between(0, last - 1),
                  stop = dice_.between(start + 1, last);
    layer("slice", "start = " + std::to_string(start) + "\nstop = " + std::to_string(stop));
    shape_.back() = stop - start;
  }

  void reshape() {
    const int64_t n = elements(shape_);
    int64_t rows = 1;
    for (const int64_t d : {2, 3, 4, 5}) rows = n % d == 0 && dice_.one_in(2) ? d : rows;
    shape_ = rows > 1 ? Shape{rows, n / rows} : Shape{n};
    layer("reshape", "shape = " + list(rows > 1 && dice_.one_in(2) ? Shape{rows, -1} : shape_));
  }

  void body() {
    switch (dice_.between(1, 12)) {
      case 1:
      case 2:
      case 3:
        return linear(dice_.width());
      case 4:
      case 5:
      case 6:
        return activation();
      case 7:
        return layer("layer_norm", dice_.one_in(2) ? "eps = 0.01" : "");
      case 8:
        return layer("rms_norm", dice_.one_in(2) ? "eps = 0.01" : "");
      case 9:
        return layer("dropout", "p = " + dice_.text_of({"0.1", "0.5", "0.0"}));
      case 10:
        return residual();
      case 11:
        return tied();
      default:
        return dice_.one_in(2) ? slice() : reshape();
    }
  }

  void head() {
    if (shape_.size() > 1) {
      layer("flatten");
      shape_ = {elements(shape_)};
    }
    linear(classes_ > 0 ? classes_ : 1, true);
  }

  void losses() {
    if (classes_ > 0) {
      line("[loss]\ntype = \"cross_entropy\"");
      if (dice_.one_in(2)) line("label_smoothing = 0.1");
      line("[[metrics]]\ntype = \"accuracy\"");
      return;
    }
    const bool two = dice_.one_in(3);
    for (int k = 0; k < (two ? 2 : 1); ++k) {
      const std::string type = dice_.text_of({"mse", "mae", "huber"});
      line(two ? "[[losses]]\nname = \"loss" + std::to_string(k) + "\"" : "[loss]");
      line("type = " + quoted(type));
      if (type == "huber") line("delta = 0.7");
      if (dice_.one_in(3)) line("weight = 0.6");
    }
    line("[[metrics]]\ntype = \"mae\"");
  }

  void optimizer() {
    const std::string type =
        dice_.text_of({"sgd", "sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"});
    model_.sign_like = type == "lion";
    line("[optimizer]\ntype = " + quoted(type));
    line("learning_rate = " +
         (type == "lion" ? "0.0005" : dice_.text_of({"0.1", "0.02", "0.005"})));
    if (type == "sgd" && dice_.one_in(2))
      line(dice_.text_of({"momentum = 0.9", "momentum = 0.8\nnesterov = true",
                          "momentum = 0.5\ndampening = 0.3"}));
    if (type == "adam" || type == "adamw" || type == "rmsprop") line("eps = 0.01");
    if (type == "adagrad")
      line("eps = 0.01\ninitial_accumulator_value = 0.1\nlearning_rate_decay = 0.1");
    if (type == "adamw" && dice_.one_in(2)) line("independent_weight_decay = true");
    if (type == "rmsprop" && dice_.one_in(2)) line("momentum = 0.9\ncentered = true");
    if (dice_.one_in(3)) line("weight_decay = 0.03");
    if (dice_.one_in(3)) line("clip_grad_norm = " + dice_.text_of({"0.1", "1.0"}));
    if (dice_.one_in(2))
      line("[optimizer.schedule]\ntype = " +
           quoted(dice_.text_of({"constant", "cosine", "linear", "inverse_sqrt", "wsd"})) +
           "\nwarmup_steps = " + std::to_string(dice_.between(0, 2)));
    if (dice_.one_in(4))
      line("[[optimizer.groups]]\nmatch = [\"*.weight\"]\n" +
           dice_.text_of({"learning_rate = 0.01", "weight_decay = 0.1", "frozen = true"}));
  }

  Dice dice_;
  uint64_t seed_;
  RandomModel model_;
  Shape shape_;
  int64_t classes_ = 0, samples_ = 0;
  int kept_ = 0;
};

}  // namespace

RandomModel random_model(uint64_t seed) { return Writer(seed).write(); }

}  // namespace host
