#include "tests/parallel/random_experiment.hpp"

#include <algorithm>
#include <fstream>

namespace parallel {
namespace {

// std::mt19937 is the same everywhere; the standard's distributions are not.
class Draw {
 public:
  explicit Draw(uint32_t seed) : state_(seed * 2654435761u + 12345u) {}
  int in(int low, int high) {
    return low + static_cast<int>(next() % static_cast<uint32_t>(high - low + 1));
  }
  bool one_of(int n) { return in(1, n) == 1; }
  double real(double low, double high) { return low + (high - low) * in(0, 1000) / 1000.0; }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<size_t>(in(0, static_cast<int>(all.size()) - 1))];
  }

 private:
  // Marsaglia 2003, with a multiplier behind it.
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return (state_ * 0x9E3779B1u) >> 8;
  }
  uint32_t state_;
};

constexpr int kSamples = 46, kTokens = 3;

struct Grid {
  int pipeline = 1, data = 1, tensor = 1;
  int ranks() const { return pipeline * data * tensor; }
};

class Generator {
 public:
  Generator(uint32_t seed, const Folder& folder) : draw_(seed), folder_(folder) {
    result_.seed = seed;
  }

  RandomExperiment make() {
    choose_grid();
    const std::string data = write_data();
    input_ = width_;
    std::string models;
    const int others = draw_.in(0, 5);  // in a third of the draws
    if (others == 0) models = teacher() + model("student", draw_.one_of(2) ? "learner" : "");
    if (others == 1) models = model("first", "") + model("second", "");
    if (others > 1) models = model("", "");
    result_.toml = head() + data + models;
    write_layout();
    return result_;
  }

 private:
  enum class Task { kLabels, kValues, kTokenLabels };

  // A part of the model's configuration. Only a model among several has a name of its own.
  std::string section(const std::string& part) const {
    if (name_.empty()) return part == "layers" ? "model.layers" : part;
    return "models." + name_ + "." + part;
  }
  // The layers' values and parameters by their full names.
  std::string full(const std::string& inner) const {
    return (name_.empty() ? "model" : name_) + "." + inner;
  }
  void begin_model(const std::string& name) {
    name_ = name;
    width_ = input_;
    n_layers_ = 0;
    layers_.clear();
  }

  // second: another model that is trained to say what the teacher says ("learner"), or nothing.
  std::string model(const std::string& name, const std::string& second) {
    begin_model(name);
    write_layers();
    std::string own = layers_ + write_losses() + write_optimizer();
    if (second.empty()) return own;
    begin_model(second);
    write_layers();
    return own + layers_ + imitation() + write_optimizer();
  }

  // A frozen model that others read from: a hidden value, and what it says.
  std::string teacher() {
    begin_model("teacher");
    first_layers();
    const int blocks = draw_.in(0, 2);
    for (int i = 0; i < blocks; ++i) block();
    hint_ = draw_.in(2, 12);
    layer("linear", linear_keys(hint_));
    width_ = hint_;
    layer("tanh", "as = [\"hint\"]\n");
    fill_stages();
    last_layer();
    return "[models.teacher]\nfrozen = true\n" + layers_;
  }

  // The last hidden value of the model meets that of the teacher.
  void take_hint() {
    if (hint_ == 0 || !draw_.one_of(2)) return;
    linear(hint_);
    const std::string own = "h" + std::to_string(n_layers_);
    layer("tanh", "as = [\"" + own + "\"]\n");
    layer(draw_.one_of(2) ? "mul" : "add", "from = [\"" + own + "\", \"teacher.hint\"]\n");
  }

  std::string imitation() {
    return "[[" + section("losses") + "]]\ntype = \"" + (draw_.one_of(2) ? "mse" : "huber") +
           "\"\nfrom = [\"says\", \"teacher.says\"]\n";
  }

  void choose_grid() {
    do {
      grid_ = {draw_.in(1, 4), draw_.in(1, 4), draw_.in(1, 4)};
    } while (grid_.ranks() < 2 || grid_.ranks() > 8);
    if (draw_.one_of(3)) grid_.pipeline = std::max(1, grid_.pipeline / 2);
    if (grid_.ranks() < 2) grid_.data = 2;
    // Divisible by the replicas, and by what they and the micro-batches make.
    passes_ = draw_.of(std::vector<int>{1, 2, 3, 4});
    schedule_ = draw_.of(std::vector<std::string>{"gpipe", "1f1b", "interleaved", "zero_bubble"});
    if (grid_.pipeline == 1) schedule_ = "1f1b";
    if (schedule_ == "interleaved") passes_ = grid_.pipeline * draw_.in(1, 2);
    micro_ = draw_.in(1, 3);
    // Rows that the tensor ranks divide; else partial sums are replicated as without it.
    sequence_ = grid_.tensor > 1 && draw_.one_of(2);
    if (sequence_ && !draw_.one_of(4)) micro_ = grid_.tensor * draw_.in(1, 2);
    while (grid_.data * passes_ * micro_ < 8) micro_ *= 2;
    global_ = grid_.data * passes_ * micro_;
  }

  std::string head() {
    std::string toml =
        "[run]\nseed = " + std::to_string(draw_.in(0, 1000)) +
        "\nsteps = 10\nthreads = 1\n[precision]\ncompute = \"f64\"\n[batch]\nglobal = " +
        std::to_string(global_) + "\neval = " + std::to_string(4 * grid_.data) + "\n";
    // One rank may take the batch in several passes, too.
    if (draw_.one_of(3))
      for (int n : {4, 3, 2})
        if (global_ % n == 0) {
          toml += "micro = " + std::to_string(global_ / n) + "\n";
          break;
        }
    return toml;
  }

  std::string csv(bool labels) {
    const bool weighted = draw_.one_of(2);
    const std::string path = folder_ / "data.csv";
    std::ofstream out(path);
    for (int f = 0; f < width_; ++f) out << "x" << f << ",";
    out << (weighted ? "y,importance\n" : "y\n");
    for (int s = 0; s < kSamples; ++s) {
      const int label = draw_.in(0, classes_ - 1);
      double sum = 0;
      for (int f = 0; f < width_; ++f) {
        const double x = draw_.in(-100, 100) * 0.01 + (f % classes_ == label);
        sum += f % 2 ? x : -x;
        out << x << ",";
      }
      if (labels)
        out << label;
      else
        out << sum;
      if (weighted) out << "," << 0.25 + draw_.in(0, 7) * 0.25;
      out << "\n";
    }
    return "type = \"csv\"\npath = \"" + path + "\"\ntarget = [\"y\"]\ntarget_type = \"" +
           (labels ? "i32" : "f32") + "\"\n" + (weighted ? "weight = \"importance\"\n" : "");
  }

  void npy(const std::string& path, const std::string& dims, const std::vector<int>& values) {
    std::string head = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + dims + "), }";
    head.resize(117, ' ');
    std::ofstream file(path, std::ios::binary);
    file << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(head.size() + 1) << '\0' << head
         << "\n";
    for (const int value : values) file.put(static_cast<char>(value));
  }

  std::string texts() {
    std::vector<int> ids, next;
    for (int i = 0; i < kSamples * kTokens; ++i) {
      ids.push_back(draw_.in(0, classes_ - 1));
      next.push_back((ids.back() * 3 + 1) % classes_);
    }
    const std::string dims = std::to_string(kSamples) + ", " + std::to_string(kTokens);
    npy(folder_ / "ids.npy", dims, ids);
    npy(folder_ / "next.npy", dims, next);
    return "type = \"npy\"\ninput = \"" + (folder_ / "ids.npy") + "\"\ntarget = \"" +
           (folder_ / "next.npy") + "\"\n";
  }

  std::string write_data() {
    task_ = draw_.of(
        std::vector<Task>{Task::kLabels, Task::kLabels, Task::kValues, Task::kTokenLabels});
    classes_ = task_ == Task::kTokenLabels ? draw_.in(3, 14) : draw_.in(2, 6);
    width_ = draw_.in(3, 13);
    std::string data;
    if (task_ == Task::kTokenLabels)
      data = texts();
    else if (draw_.one_of(2))
      data = csv(task_ == Task::kLabels);
    else
      data = "type = \"synthetic\"\nsamples = " + std::to_string(kSamples) + "\nshape = [" +
             std::to_string(width_) +
             "]\nclasses = " + std::to_string(task_ == Task::kLabels ? classes_ : 0) +
             "\nseed = " + std::to_string(draw_.in(0, 99)) + "\n";
    // Not drawn: the experiments of the other seeds stay what they were.
    const bool normalized = task_ != Task::kTokenLabels && result_.seed % 3 == 0;
    return "[data.train]\n" + data + (draw_.one_of(2) ? "shuffle = true\n" : "") +
           (normalized ? "normalize = \"auto\"\n" : "") + "[data.eval]\n" + data;
  }

  void layer(const std::string& type, const std::string& keys = "") {
    layers_ += "[[" + section("layers") + "]]\ntype = \"" + type + "\"\n" + keys;
    ++n_layers_;
  }

  // How tensor ranks share a product. Along its inputs only in equal parts.
  std::string parallel(int inputs) {
    std::vector<std::string> ways{"", "column"};
    if (inputs % grid_.tensor == 0) ways.emplace_back("row");
    const std::string& way = draw_.of(ways);
    return way.empty() ? "" : "parallel = \"" + way + "\"\n";
  }

  std::string linear_keys(int out) {
    return "out = " + std::to_string(out) + "\n" + (draw_.one_of(4) ? "bias = false\n" : "") +
           parallel(width_);
  }

  void linear(int out) {
    layer("linear", linear_keys(out));
    width_ = out;
  }

  void activation() {
    const std::string type = draw_.of(std::vector<std::string>{
        "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "leaky_relu", "softplus"});
    layer(type, type == "leaky_relu" && draw_.one_of(2) ? "slope = 0.2\n" : "");
  }

  // x + f(x), or x times it.
  void branch() {
    const std::string name = "b" + std::to_string(n_layers_),
                      inner = "c" + std::to_string(n_layers_);
    layer("tanh", "as = [\"" + name + "\"]\n");
    const int width = width_;
    linear(draw_.in(2, 20));
    activation();
    layer("linear", linear_keys(width) + "as = [\"" + inner + "\"]\n");
    width_ = width;
    layer(draw_.one_of(3) ? "mul" : "add", "from = [\"" + name + "\", \"" + inner + "\"]\n");
  }

  // Another product with the same weights.
  void tied() {
    const std::string name = "t" + std::to_string(n_layers_);
    const std::string bias = draw_.one_of(2) ? "bias = false\n" : "", way = parallel(width_);
    const std::string keys = "out = " + std::to_string(width_) + "\n" + bias + way;
    layer("linear", "name = \"" + name + "\"\n" + keys);
    activation();
    layer("linear", keys + "tie = { weight = \"" + full(name) + ".weight\" }\n");
  }

  // Cut up, joined again, and as rows of smaller tensors.
  void shapes() {
    if (width_ < 4) return linear(draw_.in(4, 16));
    const std::string all = "s" + std::to_string(n_layers_), part = "p" + std::to_string(n_layers_);
    layer("tanh", "as = [\"" + all + "\"]\n");
    const int stop = draw_.in(2, width_ - 1);
    layer("slice", "start = 1\nstop = " + std::to_string(stop) + "\nas = [\"" + part + "\"]\n");
    layer("concat", "from = [\"" + all + "\", \"" + part + "\"]\n");
    width_ += stop - 1;
    if (width_ % 2 != 0 || task_ == Task::kTokenLabels) return;
    const int half = width_ / 2;
    layer("reshape", "shape = [2, " + std::to_string(half) + "]\n");
    width_ = half;
    linear(draw_.in(2, 9));
    layer("flatten");
    width_ *= 2;
  }

  void block() {
    switch (draw_.in(0, 9)) {
      case 0:
        return branch();
      case 1:
        return tied();
      case 2:
        return shapes();
      case 3:
        if (width_ >= 4) return layer("layer_norm");
        return linear(draw_.in(4, 20));
      case 4:
        if (width_ >= 4) return layer("rms_norm");
        return activation();
      case 5:
        return layer("dropout", "p = " + std::to_string(draw_.real(0.05, 0.4)) + "\n");
      default:
        linear(draw_.in(2, 24));
        return activation();
    }
  }

  void first_layers() {
    if (task_ == Task::kTokenLabels) {
      width_ = draw_.in(3, 9);
      layer("embedding", "name = \"ids\"\nvocabulary = " + std::to_string(classes_) +
                             "\nwidth = " + std::to_string(width_) + "\n");
    }
    embedded_ = width_;
    linear(draw_.in(3, 24));
    activation();
  }

  // Every stage has a layer.
  void fill_stages() {
    chunks_ = schedule_ == "interleaved" ? 2 : 1;
    while (n_layers_ < grid_.pipeline * chunks_) {
      linear(draw_.in(3, 16));
      activation();
    }
  }

  void write_layers() {
    first_layers();
    const int blocks = draw_.in(1, name_.empty() ? 5 : 2);
    for (int i = 0; i < blocks; ++i) block();
    take_hint();
    fill_stages();
    last_layer();
  }

  void last_layer() {
    const std::string says = name_.empty() ? "" : "as = [\"says\"]\n";
    if (task_ == Task::kTokenLabels &&
        draw_.one_of(2)) {  // the table once more, as the last layer's
      linear(embedded_);
      layer("linear", "out = " + std::to_string(classes_) +
                          "\nbias = false\nparallel = \"column\"\ntie = { weight = \"" +
                          full("ids.weight") + "\" }\n" + says);
      width_ = classes_;
    } else {
      layer("linear", linear_keys(task_ == Task::kValues ? 1 : classes_) + says);
    }
  }

  std::string write_losses() {
    if (task_ != Task::kValues)
      return "[" + section("loss") + "]\ntype = \"cross_entropy\"\n" +
             (draw_.one_of(3) ? "label_smoothing = 0.1\n" : "") + "[[" + section("metrics") +
             "]]\ntype = \"accuracy\"\n";
    std::vector<std::string> all{"mse", "mae", "huber"};
    const int n = draw_.in(1, 3);
    std::string toml;
    for (int i = 0; i < n; ++i) {
      const size_t k = static_cast<size_t>(draw_.in(0, static_cast<int>(all.size()) - 1));
      toml += "[[" + section("losses") + "]]\ntype = \"" + all[k] + "\"\n";
      if (i > 0) toml += "weight = " + std::to_string(draw_.real(0.2, 1.5)) + "\n";
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(k));
    }
    return toml + "[[" + section("metrics") + "]]\ntype = \"mae\"\n";
  }

  std::string number(const char* key, double low, double high) {
    return std::string(key) + " = " + std::to_string(draw_.real(low, high)) + "\n";
  }
  std::string flag(const char* key) {
    return draw_.one_of(2) ? std::string(key) + " = true\n" : "";
  }

  std::string optimizer_keys(const std::string& type) {
    if (type == "sgd") {
      std::string keys = number("learning_rate", 0.01, 0.1);
      if (draw_.one_of(3)) return keys;
      keys += number("momentum", 0.3, 0.9);
      return keys + (draw_.one_of(2) ? "nesterov = true\n" : number("dampening", 0, 0.5));
    }
    if (type == "adam" || type == "adamw")
      return number("learning_rate", 0.0005, 0.005) + number("beta1", 0.7, 0.9) +
             number("beta2", 0.9, 0.999) +
             (type == "adamw" ? flag("independent_weight_decay") : "");
    if (type == "adagrad")
      return number("learning_rate", 0.005, 0.03) + number("learning_rate_decay", 0, 0.1) +
             number("initial_accumulator_value", 0, 0.1);
    if (type == "rmsprop")
      return number("learning_rate", 0.0005, 0.003) + number("alpha", 0.8, 0.99) +
             number("momentum", 0, 0.8) + flag("centered");
    if (type == "muon")
      return number("learning_rate", 0.002, 0.02) + number("momentum", 0.5, 0.95) +
             (draw_.one_of(2) ? "nesterov = false\n" : "") + flag("head") +
             (draw_.one_of(2) ? "scale = \"rms\"\n" : "") + number("adamw_ratio", 0.1, 1);
    if (type == "adafactor")
      return number("learning_rate", 0.005, 0.05) + number("beta2_decay", -0.9, -0.5) +
             number("eps2", 0.001, 0.2) + number("clip_threshold", 1, 2);
    if (type == "lamb")
      return number("learning_rate", 0.002, 0.02) + number("beta1", 0.7, 0.9) +
             (draw_.one_of(2) ? "adapt_vectors = false\n" : "");
    return number("learning_rate", 0.0001, 0.001) + number("beta1", 0.8, 0.95) +
           number("beta2", 0.9, 0.99);
  }

  std::string schedule() {
    const std::string type = draw_.of(
        std::vector<std::string>{"", "constant", "cosine", "linear", "wsd", "inverse_sqrt"});
    if (type.empty()) return "";
    return "schedule = { type = \"" + type + "\"" +
           (type == "constant" ? "" : ", warmup_steps = " + std::to_string(draw_.in(1, 3))) +
           " }\n";
  }

  std::string write_optimizer() {
    const std::string type = draw_.of(std::vector<std::string>{
        "sgd", "adam", "adamw", "adagrad", "rmsprop", "lion", "muon", "adafactor", "lamb"});
    std::string toml =
        "[" + section("optimizer") + "]\ntype = \"" + type + "\"\n" + optimizer_keys(type);
    if (draw_.one_of(2)) toml += number("clip_grad_norm", 0.05, 2);
    if (draw_.one_of(2)) toml += number("weight_decay", 0, 0.1);
    toml += schedule();
    if (draw_.one_of(3))
      toml += "[[" + section("optimizer.groups") + "]]\nmatch = [\"" + full("linear1.*") +
              "\"]\nweight_decay = 0.0\n" +
              (type == "muon" || type == "lamb" ? flag("elementwise") : "") +
              (draw_.one_of(3) ? std::string("frozen = true\n") : "");
    return toml;
  }

  void write_layout() {
    auto& all = result_.layout;
    const auto set = [&](const std::string& key, const std::string& value) {
      all.push_back(key + "=" + value);
    };
    set("topology.pipeline", std::to_string(grid_.pipeline));
    set("topology.data", std::to_string(grid_.data));
    set("topology.tensor", std::to_string(grid_.tensor));
    if (sequence_) set("topology.sequence", "true");
    if (grid_.data > 1) set("topology.zero", std::to_string(draw_.in(0, 3)));
    if (grid_.pipeline > 1) {
      set("topology.schedule", schedule_);
      set("topology.virtual_stages", std::to_string(chunks_));
      set("topology.balance", draw_.one_of(2) ? "cost" : "count");
    }
    const std::string recompute =
        draw_.of(std::vector<std::string>{"none", "cheap", "cheap", "layer", "stage", "budget"});
    if (recompute == "budget")
      result_.budget_factor = draw_.real(1, 1.5);
    else
      set("topology.recompute", recompute);
    set("topology.recompute_flops", "1");
    set("topology.bucket_mib", draw_.one_of(3) ? "8.0" : "0.001");
    set("batch.micro", std::to_string(micro_));
    if (draw_.one_of(5)) set("topology.backend", draw_.one_of(3) ? "gloo" : "shm");
    result_.ranks = static_cast<uint32_t>(grid_.ranks());
  }

  Draw draw_;
  const Folder& folder_;
  RandomExperiment result_;
  Grid grid_;
  int passes_ = 1, micro_ = 1, global_ = 8, chunks_ = 1, classes_ = 2;
  int input_ = 0;                                // width of the data
  int width_ = 0, n_layers_ = 0, embedded_ = 0;  // of the model that is being written
  int hint_ = 0;  // width of the teacher's hidden value; 0: no teacher
  bool sequence_ = false;
  std::string schedule_, layers_, name_;
  Task task_ = Task::kLabels;
};

}  // namespace

std::string RandomExperiment::text() const {
  std::string all =
      "seed " + std::to_string(seed) + "\n" + toml + "on " + std::to_string(ranks) + " ranks:";
  for (const std::string& o : layout) all += " " + o;
  return all;
}

RandomExperiment random_experiment(uint32_t seed, const Folder& folder) {
  return Generator(seed, folder).make();
}

}  // namespace parallel
