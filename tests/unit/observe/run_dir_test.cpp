#include "engine/observe/run_dir.hpp"

#include <plait/base.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/observe/run_lock.hpp"
#include "tests/unit/observe/temp_folder.hpp"

namespace {

using plait::observe::RunDir;
using plait::observe::RunEnvironment;

RunEnvironment environment() {
  RunEnvironment e;
  e.engine_version = "0.1.0";
  e.abi = 1;
  e.device = "cpu";
  e.arguments = {"plait", "run", "a b.toml"};
  e.command = "plait run 'a b.toml'";
  return e;
}

}  // namespace

TEST_CASE("safe names are one plain folder") {
  using plait::observe::is_safe_name;
  for (const char* good : {"a", "mnist", "run-1_b.2", "A", "0"}) CHECK(is_safe_name(good));
  for (const char* bad :
       {"", ".", "..", ".hidden", "-rf", "a/b", "a b", "a\nb", "a\\b", "~", "\xC3\xA9", "a:b"})
    CHECK_FALSE(is_safe_name(bad));
  CHECK(is_safe_name(std::string(128, 'a')));
  CHECK_FALSE(is_safe_name(std::string(129, 'a')));
}

TEST_CASE("a run directory holds the experiment, the overrides and the environment") {
  const TempFolder folder;
  const double begun = plait::unix_seconds();
  auto e = environment();
  folder.files().replace(folder / "p.so", "plugin");
  e.plugins = {{"p", "1.0", folder / "p.so"}, {"gone", "1.0", folder / "gone.so"}};
  const RunDir run =
      RunDir::create(folder.files(), folder / "runs", "mnist", "a = 1\n", {"a=1", "b.c=2"}, e);
  REQUIRE(run.path().size() == (folder / "runs/mnist/20260131-235959-0a1b2c").size());
  CHECK(run.id() == "mnist/" + run.path().substr(run.path().rfind('/') + 1));
  const auto read = [&](const std::string& name) {
    return folder.files().read_all(run.path() + "/" + name, 1u << 20);
  };
  CHECK(read("run.toml") == "a = 1\n");
  CHECK((folder.files().info(run.path() + "/run.toml").mode & 0777u) == 0444u);
  CHECK(read("overrides.txt") == "a=1\nb.c=2\n");
  const auto env = nlohmann::json::parse(read("env.json"));
  CHECK(env.at("arguments").at(2) == "a b.toml");
  CHECK(env.at("command") == "plait run 'a b.toml'");
  CHECK(env.at("device") == "cpu");
  CHECK(env.at("schema") == 1);
  CHECK(env.at("time") >= begun);
  CHECK(env.at("time") <= plait::unix_seconds());
  CHECK(env.at("plugins").at(0).at("xxh3_128") == plait::hash128("plugin").hex());
  CHECK(env.at("plugins").at(1).at("xxh3_128").is_null());
  CHECK(folder.files().is_folder(run.checkpoint_folder()));
  CHECK(run.metrics_path() == run.path() + "/metrics.ndjson");
  CHECK(plait::observe::rank_log_path(run.path(), 3) == run.path() + "/log/rank-3.log");

  run.write_status({.state = "running", .step = 5, .steps = 10, .loss = 0.5});
  run.write_status({.state = "failed", .step = 6, .message = "line \"1\"\nline 2"});
  CHECK(read("status.json").find("\n  \"state\"") != std::string::npos);  // for people, too
  const auto status = nlohmann::json::parse(read("status.json"));
  CHECK(status.at("schema") == 1);
  CHECK(status.at("state") == "failed");
  CHECK(status.at("step") == 6);
  CHECK(status.at("loss").is_null());  // that of no step is known
  CHECK(status.at("message") == "line \"1\"\nline 2");

  const RunDir again =
      RunDir::reopen(folder.files(), run.path(), read("run.toml"), {"c=3"}, environment());
  CHECK_FALSE(folder.files().exists(run.path() + "/run-1.toml"));
  const std::string first = read("run.toml"), words = read("overrides.txt");
  RunDir::reopen(folder.files(), run.path(), "other = 1\n", {"other=1"}, environment());
  RunDir::reopen(folder.files(), run.path(), "third = 1\n", {}, environment());
  CHECK(read("run.toml") == "third = 1\n");
  CHECK(read("overrides.txt") == "");
  CHECK(read("run-1.toml") == first);
  CHECK(read("overrides-1.txt") == words);
  CHECK(read("run-2.toml") == "other = 1\n");
  CHECK(read("overrides-2.txt") == "other=1\n");
  CHECK(again.id() == run.id());
  CHECK(nlohmann::json::parse(read("env-2.json")).at("abi") == 1);
  CHECK_THROWS_AS(RunDir::reopen(folder.files(), folder.path(), "", {}, environment()),
                  plait::Error);
}

TEST_CASE("two runs never share a directory") {
  const TempFolder folder;
  const auto make = [&] {
    return RunDir::create(folder.files(), folder.path(), "a/b", "", {}, environment());
  };
  const RunDir one = make(), two = make();
  CHECK(one.path() != two.path());
  CHECK(one.id().find("a/b/") == 0);
}

TEST_CASE("a run directory can be made where the user says") {
  const TempFolder folder;
  const RunDir run =
      RunDir::create_at(folder.files(), folder / "x/here", "a = 1\n", {}, environment());
  CHECK(run.path() == folder / "x/here");
  CHECK(run.id() == "x/here");
  CHECK(folder.read("x/here/run.toml") == "a = 1\n");
  try {
    RunDir::create_at(folder.files(), folder / "x", "", {}, environment());
    FAIL("accepted a folder with other things in it");
  } catch (const plait::Error& e) {
    CHECK(e.code() == PLAIT_ERR_STATE);
    CHECK(e.text().find("name another folder") != std::string::npos);
  }
}

TEST_CASE("a holder notices that another process has taken its run directory over") {
  const TempFolder folder;
  auto& files = folder.files();
  const plait::observe::RunLock lock(files, folder.path());
  lock.check();
  const std::string own = folder.read("lock");
  // The same process id of another machine, or container.
  for (const std::string& other : {std::string("host other, process 7\nsince 1\n"),
                                   own.substr(0, own.find('\n')) + "\nsince 2\n"}) {
    files.replace(folder / "lock", other);
    CHECK(plait::observe::RunLock::is_in(files, folder.path()));
    try {
      lock.check();
      FAIL("not noticed");
    } catch (const plait::Error& e) {
      CHECK(e.code() == PLAIT_ERR_STATE);
      CHECK(e.text().find("has been taken over by " + other.substr(0, other.find('\n')) +
                          " while") != std::string::npos);
    }
  }
  files.replace(folder / "lock", own);
  lock.check();
}

TEST_CASE("a run directory has one holder, and the second learns its name") {
  const TempFolder folder;
  auto& files = folder.files();
  {
    const plait::observe::RunLock lock(files, folder.path());
    for (int i = 0; i < 50; ++i) {
      try {
        const plait::observe::RunLock second(files, folder.path());
        FAIL("two holders");
      } catch (const plait::Error& e) {
        CHECK(e.code() == PLAIT_ERR_STATE);
        CHECK(e.text().find("is in use by host ") != std::string::npos);
        CHECK(e.text().find(plait::strf("process %d", getpid())) != std::string::npos);
      }
    }
  }
  const plait::observe::RunLock again(files, folder.path());
}

TEST_CASE("a run name can't lead out of the folder") {
  const TempFolder folder;
  for (const char* name :
       {"", "..", "../x", "a/../../x", "/etc", "a//b", "a/", ".x", "a\tb", "$(x)", "a;b"}) {
    try {
      RunDir::create(folder.files(), folder / "runs", name, "", {}, environment());
      FAIL("accepted " << name);
    } catch (const plait::Error& e) {
      CHECK(e.code() == PLAIT_ERR_CONFIG);
      CHECK(e.text().find("change run.name") != std::string::npos);
    }
  }
  CHECK(folder.files().list(folder.path()).empty());
}

TEST_CASE("log files have time, level and no control characters") {
  const TempFolder folder;
  {
    plait::observe::LogFile log(folder.files(), folder / "rank-0.log");
    log.line(PLAIT_LOG_WARN, "beware \x1b[2J");
    log.line(PLAIT_LOG_INFO, "two\nlines");
    log.line(99, "");
    log.line(PLAIT_LOG_DEBUG, "earlier", 0.25);
  }
  const std::string text = folder.read("rank-0.log");
  CHECK(text.find(" warn  beware \\x1b[2J\n") != std::string::npos);
  CHECK(text.find(" info  two\n  lines\n") != std::string::npos);
  CHECK(text.find(" error ") != std::string::npos);
  CHECK(text.ends_with("1970-01-01T00:00:00.250Z debug earlier\n"));
  CHECK(text.find('\x1b') == std::string::npos);
}
