// plait checkpoint verify: reads every byte of checkpoints, and tells all faults.
#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <plait/checkpoint.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/stop_request.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/terminal/bar.hpp"

namespace plait::cli {
namespace {

class Verify {
 public:
  explicit Verify(Context& context)
      : context_(context), engine_(context.open_engine()), bar_(context.terminal, "verifying") {}

  int run(const std::vector<std::string>& places) {
    std::vector<Json> all;
    for (const std::string& place : places) {
      const Json listed = Json::parse(list_checkpoints(engine_, place)).at("checkpoints");
      if (listed.empty())
        throw CliError(kUsage, "[checkpoint] there are no checkpoints in '" + place +
                                   "'; name a checkpoint, a run directory, or a folder of runs");
      all.insert(all.end(), listed.begin(), listed.end());
    }
    for (const Json& c : all) total_ += c.at("bytes").get<uint64_t>();
    for (const Json& c : all) one(c);
    context_.terminal.record({{"event", "done"},
                              {"intact", intact_},
                              {"damaged", damaged_},
                              {"unreadable", unreadable_}});
    const std::string all_of = counted(intact_ + damaged_ + unreadable_, "checkpoint");
    if (damaged_ > 0)
      throw CliError(kFailed, strf("[checkpoint] %d of %s %s damaged", damaged_, all_of.c_str(),
                                   damaged_ == 1 ? "is" : "are"));
    if (unreadable_ > 0)
      throw CliError(kEnvironment,
                     strf("[checkpoint] %d of %s cannot be read", unreadable_, all_of.c_str()));
    if (newer_) std::rethrow_exception(newer_);
    if (unfinished_ == all.size())
      throw CliError(kUsage,
                     "[checkpoint] there is nothing to verify: no save was finished; name a "
                     "checkpoint, a run directory, or a folder of runs");
    return kOk;
  }

 private:
  void one(const Json& c) {
    const auto path = c.at("path").get<std::string>();
    if (c.at("state") == "not_committed") {
      // No checkpoint: nothing ever reads it, and the next save removes it.
      context_.terminal.note("[checkpoint] " + path + " is not committed: it lacks " +
                             plain(c.at("fault").get<std::string>()));
      ++unfinished_;
    } else {
      verify(path);
    }
    done_ += c.at("bytes").get<uint64_t>();
  }

  // One that this engine cannot read does not keep the others from being verified; nor does one
  // that a run has removed since they were listed.
  void verify(const std::string& path) {
    try {
      const Json done = Json::parse(verify_checkpoint(engine_, path, [&](uint64_t bytes, uint64_t) {
        bar_.update(done_ + bytes, total_);
        return stop_.asked();
      }));
      bar_.clear();
      tell(done);
    } catch (const HostError& e) {
      bar_.clear();
      if (e.code() == PLAIT_ERR_UNIMPLEMENTED) {
        if (!newer_) newer_ = std::current_exception();
        record_unread(path, "newer_format");
        context_.terminal.line(plain(path) +
                               ": not verified, its format is newer than this engine");
      } else if (e.code() == PLAIT_ERR_NOT_FOUND) {
        record_unread(path, "removed");
        context_.terminal.note("[checkpoint] " + path + " is not there any more");
      } else {
        throw;
      }
    }
  }

  void record_unread(const std::string& path, const char* state) {
    context_.terminal.record(
        {{"event", "checkpoint"}, {"checkpoint", path}, {"intact", nullptr}, {"state", state}});
  }

  void tell(const Json& done) {
    Json record = {{"event", "checkpoint"}};
    record.update(done);
    context_.terminal.record(record);
    const bool intact = done.at("intact").get<bool>();
    const bool unreadable = done.at("unreadable").get<bool>();
    const bool left_out = done.at("states_left_out").get<bool>();
    ++(intact ? intact_ : unreadable ? unreadable_ : damaged_);
    const std::string path = plain(done.at("checkpoint").get<std::string>());
    if (intact) {
      context_.terminal.line(strf("%s: intact, %llu tensors, %s%s", path.c_str(),
                                  done.at("tensors").get<unsigned long long>(),
                                  bytes_text(done.at("bytes").get<double>()).c_str(),
                                  left_out ? ", optimizer states left out" : ""));
      return;
    }
    context_.terminal.line(path + (unreadable ? ": cannot be read" : ": damaged"));
    for (const Json& fault : done.at("faults"))
      context_.terminal.line("  " + plain(fault.get<std::string>()));
  }

  Context& context_;
  Engine engine_;
  StopRequest stop_;
  Bar bar_;
  uint64_t done_ = 0, total_ = 0;  // bytes of all checkpoints
  size_t unfinished_ = 0;
  int intact_ = 0, damaged_ = 0, unreadable_ = 0;
  std::exception_ptr newer_;  // the error of the first one of a newer format
};

}  // namespace

void add_checkpoint_verify(CLI::App& checkpoint, Context& context) {
  CLI::App* verb = checkpoint.add_subcommand(
      "verify", "reads every byte, compares all checksums, and lists every fault");
  const auto places = std::make_shared<std::vector<std::string>>();
  verb->add_option("PLACE", *places,
                   "checkpoints, run directories or folders of runs; of a folder all checkpoints")
      ->required()
      ->type_name("PATH");
  verb->callback([&context, places] {
    context.run_command = [&context, places] { return Verify(context).run(*places); };
  });
}

}  // namespace plait::cli
