// plait predict: what a checkpoint makes of the samples of a dataset, as a file.
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/checkpoint_argument.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/data/stop_request.hpp"
#include "bindings/cli/launch/checkpoint_command.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/predictions/fed_samples.hpp"
#include "bindings/cli/predictions/parts.hpp"
#include "bindings/cli/predictions/prediction_file.hpp"
#include "bindings/cli/terminal/bar.hpp"

namespace plait::cli {
namespace {

struct PredictArguments : CheckpointArguments {
  std::string to = "-", format;
  std::vector<std::string> outputs;
};

// The samples that each replica predicts, one share after the other; its first rank keeps them.
struct Share {
  int replica = 0, replicas = 1, ranks_between = 1;
  bool keeps = true;

  explicit Share(const Json& topology) {
    const int rank = topology.at("rank"), data = topology.at("data"),
              tensor = topology.at("tensor");
    replica = rank / tensor % data;
    replicas = data;
    ranks_between = tensor;
    keeps = rank / tensor / data == 0 && rank % tensor == 0;
  }
  int64_t begin(int64_t n, int of) const {
    return n / replicas * of + std::min<int64_t>(of, n % replicas);
  }
  int64_t size(int64_t n, int of) const { return begin(n, of + 1) - begin(n, of); }
  int first_rank(int of) const { return of * ranks_between; }
};

// Standard output, a pipe or a device: what is written there stays, and nothing lies beside it.
bool is_stream(const std::string& to) {
  struct stat now {};
  return to == "-" ||
         (stat(to.c_str(), &now) == 0 && !S_ISREG(now.st_mode) && !S_ISDIR(now.st_mode));
}

class Prediction {
 public:
  Prediction(Context& context, const PredictArguments& arguments)
      : context_(context), arguments_(arguments) {}
  int run();

 private:
  void check_place(int64_t replicas) const;
  int work(const Plan& plan);
  void choose(const Json& outputs, const FedSamples& samples);
  void check_normalization() const;
  void open(const Share& share, int64_t samples, int rank);
  void predict(Session& session, FedSamples& samples, const Share& share, int64_t batch);
  void collect(Session& session, const Share& share, int64_t samples, int64_t batch);
  std::string written(int64_t samples) const;
  void tell(const Session& session, int64_t samples) const;

  Context& context_;
  const PredictArguments& arguments_;
  std::string checkpoint_, format_;
  const Experiment* experiment_ = nullptr;
  Values values_;
  std::optional<WholeFile> file_;           // of rank 0
  std::unique_ptr<PredictionFile> keeper_;  // of the ranks that keep what they predict
  std::optional<Bar> bar_;
  StopRequest stop_;
  int64_t done_ = 0;  // samples of this replica that are predicted; on rank 0 all that it wrote
};

int Prediction::run() {
  checkpoint_ = checkpoint_argument(arguments_.file, arguments_.checkpoint, "predict");
  format_ = prediction_format(arguments_.to, arguments_.format);
  RankedCommand command;
  command.inspect = [&](const Experiment& experiment) {
    experiment_ = &experiment;
    if (arguments_.one_rank) return;
    const Json values = Json::parse(experiment.describe());
    check_place(values.at("topology.data").at("value").get<int64_t>());
  };
  command.work = [&](const Plan& plan, const RankInfo&) { return work(plan); };
  return run_on_checkpoint(context_, arguments_, "predict", command);
}

void Prediction::check_place(int64_t replicas) const {
  if (replicas <= 1 || !is_stream(arguments_.to)) return;
  throw CliError(kUsage,
                 strf("[predict] %lld replicas leave their parts beside the file, and %s has no "
                      "place; name a file with --to, or add --one-rank",
                      static_cast<long long>(replicas),
                      arguments_.to == "-" ? "standard output" : arguments_.to.c_str()));
}

int Prediction::work(const Plan& plan) {
  const Json described = Json::parse(plan.describe());
  const Share share(described.at("topology"));
  check_place(share.replicas);
  const auto is_predict = [](const Json& e) { return e.at("name") == "predict"; };
  const Json& entries = described.at("entry_points");
  const auto entry = std::find_if(entries.begin(), entries.end(), is_predict);
  if (entry == entries.end())
    throw CliError(kUsage,
                   "[predict] the experiment generates and nothing else; leave out "
                   "generate.only");
  check_normalization();
  FedSamples samples(*experiment_, arguments_.dataset, *entry);
  if (samples.size() == 0)
    throw CliError(kUsage, "[predict] [data." + arguments_.dataset + "] has no samples");
  choose(described.at("outputs"), samples);
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  Session session(plan, settings);
  report_connected();
  session.load_parameters(checkpoint_);
  const auto batch = entry->at("samples").get<int64_t>();
  const int rank = described.at("topology").at("rank");
  open(share, samples.size(), rank);
  predict(session, samples, share, batch);
  collect(session, share, samples.size(), batch);
  if (rank == 0) tell(session, samples.size());
  return kOk;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
  return all.empty() ? "none" : all;
}

[[noreturn]] void refuse_nothing(const std::vector<std::string>& known) {
  throw CliError(kUsage,
                 "[predict] what the last layer makes has no row for each sample, which a file of "
                 "predictions needs; values that have: " +
                     list_of(known) +
                     (known.empty() ? "; name one with `as` in the model, and with --output"
                                    : "; name one with --output"));
}

// The values of --output, or what the last layers make.
void Prediction::choose(const Json& outputs, const FedSamples& samples) {
  const auto is_last = [](const std::string& name) {
    return name == "output" || name.ends_with(".output");
  };
  std::vector<std::string> wanted = arguments_.outputs, known;
  for (const Json& o : outputs) known.push_back(o.at("name"));
  if (wanted.empty()) std::copy_if(known.begin(), known.end(), std::back_inserter(wanted), is_last);
  if (wanted.empty()) refuse_nothing(known);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string& name = wanted[i];
    if (std::find(wanted.begin(), wanted.begin() + static_cast<ptrdiff_t>(i), name) !=
        wanted.begin() + static_cast<ptrdiff_t>(i))
      continue;  // named twice
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) {
      const std::string near = nearest(name, known);
      throw CliError(kUsage, "[predict] there is no output '" + name + "'" +
                                 (near.empty() ? "" : "; did you mean '" + near + "'?") +
                                 "; there are: " + list_of(known));
    }
    const Json& o = outputs.at(static_cast<size_t>(at - known.begin()));
    if (!o.at("kept").get<bool>())
      throw CliError(kUsage, "[predict] the output '" + name + "', " +
                                 bytes_text(o.at("bytes").get<double>()) +
                                 " for a sample, is not kept; add evaluate.outputs=all");
    PredictedValue value{name, o.at("dtype"), o.at("shape"), o.at("bytes")};
    if (is_last(name) && value.shape.size() == 1) value.classes = samples.classes(value.shape[0]);
    values_.push_back(std::move(value));
  }
}

// The programs normalise as the dataset that they were planned for.
void Prediction::check_normalization() const {
  const Json all = Json::parse(experiment_->describe());
  const auto of = [&](const std::string& name) {
    Json found = Json::object();
    const std::string prefix = "data." + name + ".normalize";
    for (const auto& [key, entry] : all.items())
      if (key.starts_with(prefix)) found[key.substr(prefix.size())] = entry.at("value");
    return found;
  };
  bool has_eval = false;
  for (const auto& [key, entry] : all.items()) has_eval = has_eval || key.starts_with("data.eval.");
  const std::string planned = has_eval ? "eval" : "train";
  if (of(planned) != of(arguments_.dataset))
    throw CliError(kUsage, "[predict] [data." + arguments_.dataset +
                               "] is normalised differently from [data." + planned +
                               "], which the programs were planned for; give both the same "
                               "`normalize`");
}

void Prediction::open(const Share& share, int64_t samples, int rank) {
  if (rank == 0) {
    file_.emplace(arguments_.to);
    keeper_ = open_predictions(format_, *file_, values_, samples);
    bar_.emplace(context_.terminal, "predicting", "samples");
  } else if (share.keeps) {
    keeper_ = std::make_unique<PartWriter>(part_path(arguments_.to, rank));
  }
}

// All ranks make equally many calls, those with fewer samples the last ones with none.
void Prediction::predict(Session& session, FedSamples& samples, const Share& share, int64_t batch) {
  const int64_t all = samples.size(), begin = share.begin(all, share.replica),
                own = share.size(all, share.replica), most = share.size(all, 0);
  std::vector<std::string> rooms(values_.size());
  for (int64_t at = 0; at < most; at += batch) {
    if (stop_.asked())
      throw CliError(kInterrupted, "[predict] stopped on request; " + written(all));
    const int64_t n = std::clamp<int64_t>(own - at, 0, batch);
    std::vector<plait_prediction> wanted;
    for (size_t i = 0; i < values_.size(); ++i) {
      rooms[i].resize(static_cast<size_t>(n) * values_[i].bytes);
      wanted.push_back({values_[i].name.c_str(), rooms[i].data(), rooms[i].size()});
    }
    const std::span<const plait_feed> feeds = samples.read(begin + at, n);
    host_detail::check(plait_session_predict_all(session.get(), feeds.data(),
                                                 static_cast<uint32_t>(feeds.size()), wanted.data(),
                                                 static_cast<uint32_t>(wanted.size())));
    if (keeper_ && n > 0)
      keeper_->add(n, std::vector<std::string_view>(rooms.begin(), rooms.end()));
    done_ += n;
    if (bar_) bar_->update(static_cast<uint64_t>(done_), static_cast<uint64_t>(all));
  }
}

std::string Prediction::written(int64_t samples) const {
  if (!is_stream(arguments_.to)) return "nothing was written";
  return strf("%lld of %lld samples were written", static_cast<long long>(done_),
              static_cast<long long>(samples));
}

// Rank 0 adds what the other replicas have left, and the file takes its place.
void Prediction::collect(Session& session, const Share& share, int64_t samples, int64_t batch) {
  if (!file_ && keeper_) keeper_->finish();
  session.any_rank(false);  // the parts are complete
  if (file_) {
    const auto added = [&](int64_t n) {
      done_ += n;
      bar_->update(static_cast<uint64_t>(done_), static_cast<uint64_t>(samples));
    };
    for (int d = 1; d < share.replicas; ++d)
      add_part(part_path(arguments_.to, share.first_rank(d)), values_, share.size(samples, d),
               batch, *keeper_, added);
    keeper_->finish();
    file_->commit();
    bar_->clear();
  }
  session.any_rank(false);  // they are read
  keeper_.reset();
}

void Prediction::tell(const Session& session, int64_t samples) const {
  const auto step = Json::parse(session.describe()).at("step").get<long long>();
  std::string outputs;
  Json names = Json::array();
  for (const PredictedValue& v : values_) {
    std::string shape;
    for (const int64_t extent : v.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    outputs += (outputs.empty() ? "" : ", ") + v.name + " (" + shape + ") " + v.dtype;
    names.push_back({{"name", v.name}, {"dtype", v.dtype}, {"shape", v.shape}});
  }
  const std::string text =
      strf("%s of %lld samples of [data.%s], by the checkpoint of step %lld", outputs.c_str(),
           static_cast<long long>(samples), arguments_.dataset.c_str(), step);
  if (arguments_.to == "-") return context_.terminal.note(text);
  context_.terminal.line(arguments_.to + ": " + text);
  context_.terminal.record({{"file", arguments_.to},
                            {"format", format_},
                            {"dataset", arguments_.dataset},
                            {"samples", samples},
                            {"step", step},
                            {"outputs", names}});
}

}  // namespace

void add_predict(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "predict",
      "writes what a checkpoint of FILE makes of each sample of a data set, on the ranks of its "
      "[topology]; data.NAME.limit=N uses N samples");
  const auto arguments = std::make_shared<PredictArguments>();
  add_checkpoint_arguments(*verb, *arguments, "predicts");
  verb->add_option(
          "--to", arguments->to,
          "the file, by its end .npy, .npz, .safetensors, .csv or .jsonl; replaced when it "
          "is complete; -: standard output, as jsonl")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_option("--format", arguments->format, "its format, whatever its end")
      ->type_name("NAME")
      ->check(CLI::IsMember(prediction_formats()));
  verb->add_option("--output", arguments->outputs,
                   "a value to write, by the name that `as` gives it; may be repeated; default: "
                   "what the last layer of each model makes")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return Prediction(context, *arguments).run(); };
  });
}

}  // namespace plait::cli
