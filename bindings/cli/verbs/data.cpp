// plait data: downloads public data sets with verified checksums; shows which are present.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/fetch.hpp"
#include "bindings/cli/data/sets.hpp"
#include "bindings/cli/data/verify.hpp"
#include "bindings/cli/made_folder.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct DataArguments {
  std::string set, to;
  std::vector<std::string> from;
};

const DataSet& chosen_set(const std::string& name) {
  if (const DataSet* set = find_data_set(name)) return *set;
  std::vector<std::string> names;
  std::string all;
  for (const DataSet& one : data_sets()) {
    names.emplace_back(one.name);
    all += std::string(all.empty() ? "" : ", ") + one.name;
  }
  const std::string near = nearest(name, names);
  throw CliError(kUsage, "[data] there is no data set '" + name + "'" +
                             (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                             "; there are: " + all);
}

// The folder of a set's files: --to, else its own folder in the data folder, or the data folder
// itself if it has the set's name.
fs::path folder_of(const Context& context, const std::string& to, const std::string& set) {
  if (!to.empty()) return to;
  const std::string data = context.data_folder();
  const fs::path folder = data.empty() ? "data" : data;
  return folder.filename() == set ? folder : folder / set;
}

class Get {
 public:
  Get(Context& context, const DataArguments& arguments)
      : context_(context),
        terminal_(context.terminal),
        set_(chosen_set(arguments.set)),
        folder_(folder_of(context, arguments.to, arguments.set)) {
    for (const std::string& url : arguments.from)
      mirrors_.push_back(url.ends_with('/') ? url : url + "/");
    if (mirrors_.empty()) mirrors_.assign(set_.mirrors.begin(), set_.mirrors.end());
  }
  int run();

 private:
  void get(const SetFile& file);
  bool present(const SetFile& file, const fs::path& path);
  // "" once the file is in place; else why this mirror failed.
  std::string from_mirror(const std::string& mirror, const SetFile& file, const fs::path& path);
  FetchProgress bar(const SetFile& file) const;
  void tell(const SetFile& file, const fs::path& path, const char* status);

  Context& context_;
  Terminal& terminal_;
  const DataSet& set_;
  fs::path folder_;
  std::vector<std::string> mirrors_;
};

void Get::tell(const SetFile& file, const fs::path& path, const char* status) {
  terminal_.line(std::string(file.name) + ": " + status);
  terminal_.record({{"event", "file"},
                    {"path", path.string()},
                    {"status", status},
                    {"sha256_decoded", file.sha256}});
}

bool Get::present(const SetFile& file, const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return false;
  const std::string fault = verify(path, file);
  if (fault.empty()) {
    tell(file, path, "already there");
    return true;
  }
  if (!context_.yes)
    throw CliError(kEnvironment, "[data] '" + path.string() + "' " + fault +
                                     "; move it away, or replace it with --yes");
  return false;
}

FetchProgress Get::bar(const SetFile& file) const {
  if (terminal_.quiet || !terminal_.stderr_is_terminal()) return {};
  return [name = std::string(file.name)](uint64_t done, uint64_t total) {
    std::fprintf(stderr, "\r\033[K%s %s%s", name.c_str(),
                 bytes_text(static_cast<double>(done)).c_str(),
                 total ? (" of " + bytes_text(static_cast<double>(total))).c_str() : "");
  };
}

std::string Get::from_mirror(const std::string& mirror, const SetFile& file, const fs::path& path) {
  const std::string part = path.string() + ".part", url = mirror + file.name;
  std::error_code ignored;
  // Twice: the second time from the start, in case the partial file came from another mirror or is
  // damaged.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const bool resumed = fs::exists(part, ignored) && fs::file_size(part, ignored) > 0;
    if (resumed) terminal_.note("[data] resuming " + part);
    const FetchResult result = fetch(url, part, bar(file));
    if (terminal_.stderr_is_terminal() && !terminal_.quiet) std::fputs("\r\033[K", stderr);
    if (result.outcome == Fetched::kLocal)
      throw CliError(kEnvironment, "[data] cannot write '" + part + "': " + result.reason);
    if (result.outcome == Fetched::kTransport) {
      if (fs::exists(part, ignored) && fs::file_size(part, ignored) == 0) fs::remove(part, ignored);
      return url + ": " + result.reason;
    }
    // A server may refuse the range because the file is already complete.
    const std::string fault = verify(part, file);
    if (fault.empty()) {
      if (const std::string reason = commit(part, path); !reason.empty())
        throw CliError(kEnvironment,
                       "[data] cannot put '" + path.string() + "' in place: " + reason);
      tell(file, path, "downloaded");
      return "";
    }
    fs::remove(part, ignored);
    if (!resumed) return url + ": the downloaded file " + fault;
  }
  return url + ": the server cannot resume a partial download";
}

void Get::get(const SetFile& file) {
  const fs::path path = folder_ / file.name;
  if (present(file, path)) return;
  std::string reasons;
  for (const std::string& mirror : mirrors_) {
    const std::string reason = from_mirror(mirror, file, path);
    if (reason.empty()) return;
    reasons += "\n" + reason;
  }
  std::string advice =
      "\ncheck the network and try again (partial downloads are kept), or name another mirror with "
      "--from URL";
  if (std::string_view(set_.name) == "fashion-mnist")
    advice += "; Debian also packages the files: apt-get install dataset-fashion-mnist";
  throw CliError(kEnvironment, "[data] '" + std::string(file.name) + "' could not be downloaded" +
                                   reasons + advice);
}

// The folders above and at `folder` that are not there, the innermost first.
std::vector<fs::path> missing_folders(fs::path folder) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (; !folder.empty() && !fs::exists(folder, ignored); folder = folder.parent_path())
    missing.push_back(folder);
  return missing;
}

int Get::run() {
  std::error_code error;
  const std::vector<fs::path> made = missing_folders(folder_);
  make_folders(folder_, "data", "with --data");
  try {
    for (const SetFile& file : set_.files) get(file);
  } catch (const CliError&) {
    for (const fs::path& folder : made) fs::remove(folder, error);  // if nothing has come
    throw;
  }
  terminal_.record({{"event", "done"}, {"set", set_.name}, {"folder", folder_.string()}});
  terminal_.line(std::string(set_.name) + " (" + set_.licence + ") is in " + folder_.string());
  terminal_.line("use it with --data " + shell_quoted(folder_.string()));
  return kOk;
}

int show(Context& context) {
  for (const DataSet& set : data_sets()) {
    const fs::path folder = folder_of(context, "", set.name);
    size_t there = 0;
    std::vector<std::string> faults;
    std::error_code ignored;
    for (const SetFile& file : set.files) {
      if (!fs::exists(folder / file.name, ignored)) continue;
      if (const std::string fault = verify(folder / file.name, file); !fault.empty())
        faults.push_back(std::string(file.name) + " " + fault);
      else
        ++there;
    }
    const std::string state = !faults.empty()             ? "damaged"
                              : there == set.files.size() ? "complete"
                              : there                     ? "partial"
                                                          : "absent";
    context.terminal.line(strf("%-16s %-9s %s", set.name, state.c_str(), folder.c_str()));
    context.terminal.line(strf("%-26s %s", "", set.help));
    for (const std::string& fault : faults) context.terminal.line(strf("%-26s ", "") + fault);
    if (!faults.empty())
      context.terminal.line(strf("%-26s plait data get %s --yes downloads it again", "", set.name));
    context.terminal.record({{"set", set.name},
                             {"help", set.help},
                             {"licence", set.licence},
                             {"folder", folder.string()},
                             {"state", state},
                             {"files", set.files.size()},
                             {"present", there},
                             {"faults", faults}});
  }
  return kOk;
}

}  // namespace

void add_data(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "data",
      "shows what files of data hold, downloads public data sets, turns texts into token ids");
  verb->require_subcommand(1);
  const auto arguments = std::make_shared<DataArguments>();
  CLI::App* get =
      verb->add_subcommand("get", "downloads a set, verifies checksums, resumes partial downloads");
  get->add_option("SET", arguments->set, "mnist, fashion-mnist or tinyshakespeare")->required();
  get->add_option("--to", arguments->to, "folder for the files; default: SET in the data folder")
      ->type_name("DIR");
  get->add_option(
         "--from", arguments->from,
         "URL of a folder with the files, used instead of the usual mirrors; may be repeated")
      ->type_name("URL")
      ->allow_extra_args(false);
  get->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return Get(context, *arguments).run(); };
  });
  add_data_tokenize(*verb, context);
  add_data_show(*verb, context, [&context] { return show(context); });
}

}  // namespace plait::cli
