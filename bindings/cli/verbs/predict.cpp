// plait predict: what a checkpoint makes of the samples of a dataset, as a file.
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <plait/checkpoint.hpp>
#include <string>
#include <vector>

#include "bindings/cli/checkpoint_argument.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/data/stop_request.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/launch/checkpoint_command.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/predictions/chosen_values.hpp"
#include "bindings/cli/predictions/fed_samples.hpp"
#include "bindings/cli/predictions/parts.hpp"
#include "bindings/cli/predictions/prediction_file.hpp"
#include "bindings/cli/predictions/progress.hpp"
#include "bindings/cli/predictions/share.hpp"
#include "bindings/cli/predictions/subject.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/terminal/bar.hpp"

namespace plait::cli {
namespace {

struct PredictArguments : CheckpointArguments {
  std::string to = "-", format;
  bool resume = false;
  std::vector<std::string> outputs;
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
  void describe_subject(const Share& share, int64_t batch, const Json& dataset);
  void find_start(const Share& share, int64_t samples, int64_t batch);
  void agree(Session& session) const;
  int work(const Plan& plan);
  void open(Session& session, const Share& share, int64_t samples, int rank);
  void note_progress();
  void predict(Session& session, FedSamples& samples, const Share& share, int64_t batch);
  void collect(Session& session, const Share& share, int64_t samples, int64_t batch);
  std::string kept(const Share& share, int64_t samples, int64_t calls, int64_t batch) const;
  void tell(const Session& session, int64_t samples) const;

  Context& context_;
  const PredictArguments& arguments_;
  std::string checkpoint_, format_;
  const Experiment* experiment_ = nullptr;
  Values values_;
  std::optional<WholeFile> file_;           // of rank 0
  std::unique_ptr<PredictionFile> keeper_;  // of rank 0, in that file
  std::unique_ptr<PartWriter> part_;        // of the other ranks that keep what they predict
  std::optional<Progress> progress_;        // of file_, if that can be continued
  Json subject_;                            // what is predicted
  std::vector<Reached> starts_;             // by replica: what an earlier command left
  std::optional<Bar> bar_;
  StopRequest stop_;
  bool is_alone_ = true;
  bool is_kept_ = false;  // progress_ of rank 0, as all ranks know it
  int64_t calls_ = 0;     // that all ranks make
  int64_t done_ = 0;      // samples that rank 0 has in its file
};

// values: of the experiment.
void check_dataset(const Json& values, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [key, value] : values.items())
    if (key.starts_with("data.") && key.ends_with(".type") &&
        std::count(key.begin(), key.end(), '.') == 2)
      names.push_back(key.substr(5, key.size() - 10));
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string near = nearest(name, names);
  throw CliError(kUsage, "[predict] there is no [data." + name + "]" +
                             (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                             "; there are: " + joined(names, ", ") +
                             "; add it, or name another one (plait predict --dataset NAME)");
}

int Prediction::run() {
  checkpoint_ = checkpoint_argument(arguments_.file, arguments_.checkpoint, "predict");
  format_ = prediction_format(arguments_.to, arguments_.format);
  RankedCommand command;
  command.inspect = [&](const Experiment& experiment) {
    experiment_ = &experiment;
    const Json values = Json::parse(experiment.describe());
    check_dataset(values, arguments_.dataset);
    check_replaced(context_, "predict", arguments_.to);
    if (arguments_.one_rank) return;
    check_place(values.at("topology.data").at("value").get<int64_t>());
  };
  command.work = [&](const Plan& plan, const RankInfo&) { return work(plan); };
  return run_on_checkpoint(context_, arguments_, "predict", command);
}

void Prediction::check_place(int64_t replicas) const {
  if (arguments_.resume && is_stream(arguments_.to))
    throw CliError(kUsage, "[predict] --resume continues a file, and " +
                               (arguments_.to == "-" ? "standard output" : arguments_.to) +
                               " is none; name one with --to");
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
  check_normalization(*experiment_, arguments_.dataset);
  FedSamples samples(*experiment_, arguments_.dataset, *entry);
  if (samples.size() == 0)
    throw CliError(kUsage, "[predict] [data." + arguments_.dataset + "] has no samples");
  values_ = chosen_values(described.at("outputs"), arguments_.outputs, samples);
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  const auto batch = entry->at("samples").get<int64_t>();
  if (!is_stream(arguments_.to)) describe_subject(share, batch, samples.described());
  find_start(share, samples.size(), batch);
  Session session = context_.open_session(plan, settings);
  report_connected();
  session.load_parameters(checkpoint_);
  agree(session);
  const int rank = described.at("topology").at("rank");
  is_alone_ = described.at("topology").at("ranks") == 1;
  open(session, share, samples.size(), rank);
  predict(session, samples, share, batch);
  collect(session, share, samples.size(), batch);
  if (rank == 0 && !file_->is_unread()) tell(session, samples.size());
  return kOk;
}

void Prediction::describe_subject(const Share& share, int64_t batch, const Json& dataset) {
  const Json checkpoint = Json::parse(describe_checkpoint(context_.open_engine(), checkpoint_));
  checkpoint_ = checkpoint.at("checkpoint");  // this one, though a run may save another meanwhile
  subject_ = subject_of({*experiment_, checkpoint, arguments_.dataset, dataset, values_, format_,
                         batch, share.replicas});
}

// What an earlier command left of the share of each replica. All ranks look, for all make equally
// many calls.
void Prediction::find_start(const Share& share, int64_t samples, int64_t batch) {
  starts_.resize(static_cast<size_t>(share.replicas));
  calls_ = 0;
  for (int d = 0; d < share.replicas; ++d) {
    Reached& start = starts_[static_cast<size_t>(d)];
    if (arguments_.resume)
      start =
          left_of(d == 0 ? arguments_.to : part_path(arguments_.to, share.first_rank(d)), subject_);
    const int64_t own = share.size(samples, d), left = own - std::min(start.samples, own);
    calls_ = std::max(calls_, (left + batch - 1) / batch);
  }
}

// The ranks have looked each for itself, and make as many calls as follow from what they found. No
// file is opened before all have.
void Prediction::agree(Session& session) const {
  bool differs = false;
  if (arguments_.resume)
    for (const Reached& start : starts_)
      for (int bit = 0; bit < 63; ++bit) {
        const bool own = (start.samples >> bit & 1) != 0;
        differs = session.any_rank(own) != own || differs;
      }
  if (session.any_rank(differs))
    throw CliError(kEnvironment, "[predict] the ranks see different states of " +
                                     partial_path(arguments_.to) +
                                     ", which --resume continues; put it into a folder that all "
                                     "ranks see, or leave out --resume to begin anew");
}

void Prediction::open(Session& session, const Share& share, int64_t samples, int rank) {
  const Reached start = starts_[static_cast<size_t>(share.replica)];
  if (rank == 0) {
    file_.emplace(arguments_.to, is_stream(arguments_.to) ? WholeFile::Part::kTemporary
                                                          : WholeFile::Part::kPartial);
    if (start.samples > 0) file_->keep();  // whatever fails from here on
    if (file_->is_partial()) {
      progress_.emplace(arguments_.to, subject_, start);
      if (start.samples == 0) file_->cut(0);
    } else if (start.samples > 0) {
      throw CliError(kEnvironment, "[predict] " + partial_path(arguments_.to) +
                                       " cannot be continued, since it cannot be written; allow "
                                       "that, or leave out --resume to begin anew");
    }
    keeper_ = open_predictions(format_, *file_, values_, samples);
    if (start.samples > 0) {
      keeper_->resume(start.samples);
      file_->cut(start.bytes);
      context_.terminal.note(strf("continues behind sample %lld of %lld, which %s has",
                                  static_cast<long long>(start.samples),
                                  static_cast<long long>(samples),
                                  partial_path(arguments_.to).c_str()));
    }
    done_ = start.samples;
    bar_.emplace(context_.terminal, "predicting", "samples");
  } else if (share.keeps) {
    part_ = std::make_unique<PartWriter>(part_path(arguments_.to, rank), subject_, start);
  }
  is_kept_ = session.any_rank(progress_.has_value());
}

// Of rank 0, behind samples that were added to its file.
void Prediction::note_progress() {
  if (!progress_) return;
  progress_->reached({done_, file_->size()});
  file_->keep();
}

// All ranks make equally many calls, those with fewer samples the last ones with none.
void Prediction::predict(Session& session, FedSamples& samples, const Share& share, int64_t batch) {
  const int64_t all = samples.size(), begin = share.begin(all, share.replica),
                own = share.size(all, share.replica);
  const int64_t first = std::min(starts_[static_cast<size_t>(share.replica)].samples, own);
  PredictionFile* const keeper = part_ ? part_.get() : keeper_.get();
  std::vector<std::string> rooms(values_.size());
  // Several ranks make all their calls: the others do not know of the reader.
  const auto is_over = [&] { return file_ && file_->is_unread() && is_alone_; };
  for (int64_t call = 0; call < calls_ && !is_over(); ++call) {
    const int64_t at = first + call * batch;
    if (stop_.asked())
      throw CliError(kInterrupted,
                     "[predict] stopped on request; " + kept(share, all, call, batch));
    const int64_t n = std::clamp<int64_t>(own - at, 0, batch);
    std::vector<plait_prediction> wanted;
    for (size_t i = 0; i < values_.size(); ++i) {
      rooms[i].resize(static_cast<size_t>(n) * values_[i].bytes);
      wanted.push_back({values_[i].name.c_str(), rooms[i].data(), rooms[i].size()});
    }
    const std::span<const plait_feed> feeds = samples.read(begin + std::min(at, own), n);
    host_detail::check(plait_session_predict_all(session.get(), feeds.data(),
                                                 static_cast<uint32_t>(feeds.size()), wanted.data(),
                                                 static_cast<uint32_t>(wanted.size())));
    if (keeper && n > 0) {
      keeper->add(n, std::vector<std::string_view>(rooms.begin(), rooms.end()));
      done_ += n;
      note_progress();
    }
    if (bar_) bar_->update(static_cast<uint64_t>(done_), static_cast<uint64_t>(all));
  }
}

// What there is after so many calls. All ranks say the same, so that it is printed once; how far
// other replicas are none of them knows.
std::string Prediction::kept(const Share& share, int64_t samples, int64_t calls,
                             int64_t batch) const {
  const std::string advice = "; the same command with --resume continues, without it begins anew";
  const std::string part = partial_path(arguments_.to);
  if (share.replicas > 1 && is_kept_)
    return "what was predicted is kept in " + part + " and beside it" + advice;
  const int64_t done = std::min(samples, starts_[0].samples + calls * batch);
  const std::string count =
      strf("%lld of %lld samples ", static_cast<long long>(done), static_cast<long long>(samples));
  if (is_stream(arguments_.to)) return count + "were written";
  if (done == 0 || !is_kept_) return "nothing was written";
  return count + "are kept in " + part + advice;
}

// Rank 0 adds what the other replicas have left, and the file takes its place.
void Prediction::collect(Session& session, const Share& share, int64_t samples, int64_t batch) {
  session.any_rank(false);  // the parts are complete
  if (file_) {
    const auto added = [&](int64_t n) {
      done_ += n;
      note_progress();
      bar_->update(static_cast<uint64_t>(done_), static_cast<uint64_t>(samples));
    };
    for (int d = 1; d < share.replicas; ++d) {
      const int64_t own = share.size(samples, d),
                    from = std::clamp<int64_t>(done_ - share.begin(samples, d), 0, own);
      add_part(part_path(arguments_.to, share.first_rank(d)), values_, from, own, batch, *keeper_,
               added);
    }
    keeper_->finish();
    file_->commit();
    if (progress_) progress_->forget();
    bar_->clear();
  }
  session.any_rank(false);  // they are read
  if (part_) part_->taken();
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
  CLI::App* verb =
      app.add_subcommand("predict",
                         "writes the outputs of the model for each sample of a data set, from a "
                         "checkpoint of FILE, on "
                         "the ranks of its [topology]; data.NAME.limit=N uses N samples");
  const auto arguments = std::make_shared<PredictArguments>();
  add_checkpoint_arguments(*verb, *arguments, "predicts");
  verb->add_option("--to", arguments->to,
                   "the file, by its end .npy, .npz, .safetensors, .csv or .jsonl, which is there "
                   "when it is complete; -: standard output, as jsonl")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_flag("--resume", arguments->resume,
                 "continues behind the last sample that an interrupted command left in "
                 "FILE.partial; begins with the first where there is none");
  verb->add_option("--format", arguments->format, "the format of FILE, whatever its end")
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
