// plait/checkpoint.hpp against the real library, and the line that shows progress.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>
#include <plait/checkpoint.hpp>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/terminal/bar.hpp"

namespace {

namespace fs = std::filesystem;

const std::string kToml = R"(
[run]
steps = 2
[batch]
global = 4
[data.train]
type = "synthetic"
samples = 16
shape = [3]
classes = 2
[model]
layers = [{type = "linear", out = 2}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adam"
learning_rate = 0.1
)";

// A folder with the checkpoints of steps 1 and 2.
struct Saved {
  std::string path;
  plait::Engine engine;
  explicit Saved(const std::string& toml = kToml) {
    path = (fs::temp_directory_path() / "plait-test-XXXXXX").string();
    REQUIRE(mkdtemp(path.data()));
    plait::Experiment experiment = plait::Experiment::parse(engine, toml, "test.toml");
    plait::Plan plan(experiment);
    plait::SessionSettings settings;
    settings.no_files = true;
    plait::Session session(plan, settings);
    for (int i = 0; i < 2; ++i) {
      session.step();
      session.save(path + "/ckpt");
    }
  }
  ~Saved() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string step(int n) const { return path + "/ckpt/step-000000000" + std::to_string(n); }
};

uint32_t code_of(plait_error* e) {
  const uint32_t code = plait_error_code(e);
  plait_error_free(e);
  return code;
}

}  // namespace

TEST_CASE("a host lists, describes, verifies, compares and rewrites checkpoints") {
  const Saved saved;
  using nlohmann::json;
  const json listed = json::parse(plait::list_checkpoints(saved.engine, saved.path));
  CHECK(listed["kind"] == "run");
  REQUIRE(listed["checkpoints"].size() == 2);
  CHECK(listed["checkpoints"][0]["path"] == saved.step(2));
  CHECK(json::parse(plait::describe_checkpoint(saved.engine, saved.path))["step"] == 2);
  const json described = json::parse(plait::describe_checkpoint(saved.engine, saved.step(1)));
  CHECK(described["step"] == 1);
  CHECK(described["format_version"] == 1);
  CHECK(described["saved_at"] > 1'700'000'000);
  CHECK(described["tensors"].size() == 6);

  uint64_t calls = 0, last = 0, of = 0;
  const plait::ProgressCallback count = [&](uint64_t done, uint64_t total) {
    ++calls;
    CHECK(done >= last);
    last = done;
    of = total;
    return false;
  };
  const json verified = json::parse(plait::verify_checkpoint(saved.engine, saved.step(1), count));
  CHECK(verified["intact"] == true);
  CHECK(calls > 0);
  CHECK((last == of && of == verified["bytes"]));

  last = 0;
  const json diff = json::parse(plait::compare_checkpoints(
      saved.engine, saved.step(1), saved.step(2), PLAIT_COMPARE_EVERYTHING, count));
  CHECK(diff["equal"] == false);
  CHECK(diff["changed"].size() == 6);
  CHECK(last == of);

  last = 0;
  plait::ConvertSettings settings;
  settings.progress = count;
  const std::string out = saved.path + "/out";
  const json done =
      json::parse(plait::convert_checkpoint(saved.engine, saved.step(1), out, settings));
  CHECK(done["files"].size() == 3);  // this session had no run.toml
  CHECK((last == of && of == done["bytes"]));
  CHECK(json::parse(plait::compare_checkpoints(saved.engine, saved.step(1), out))["equal"] == true);
}

TEST_CASE("progress tells what is done every 4 MiB, and the end") {
  std::string toml = kToml;  // tensors of 8 MiB, three with Adam's states
  toml.replace(toml.find("shape = [3]"), 11, "shape = [1024]");
  toml.replace(toml.find("layers = ["), 10, "layers = [{type = \"linear\", out = 2048}, ");
  const Saved saved(toml);
  std::vector<uint64_t> told;
  uint64_t all = 0;
  plait::verify_checkpoint(saved.engine, saved.step(1), [&](uint64_t done, uint64_t total) {
    told.push_back(done);
    all = total;
    return false;
  });
  CHECK(all > uint64_t{24} << 20);
  REQUIRE(told.size() > 3);
  CHECK(told.size() <= 7);
  CHECK(told.front() >= uint64_t{4} << 20);
  for (size_t i = 1; i + 1 < told.size(); ++i) CHECK(told[i] - told[i - 1] >= uint64_t{4} << 20);
  CHECK(told[told.size() - 2] < all);
  CHECK(told.back() == all);
}

TEST_CASE("a checkpoint among those of a run is written while the run's lock is held") {
  const Saved saved;
  std::ofstream(saved.path + "/run.toml") << "# a run\n";
  const auto lock = [&] {
    const int file = open((saved.path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const bool held = flock(file, LOCK_EX | LOCK_NB) == 0;
    return std::pair(file, held);
  };
  plait::ConvertSettings settings;
  int n = 0;
  settings.progress = [&](uint64_t, uint64_t) {
    const auto [file, held] = lock();
    CHECK_FALSE(held);  // so no run starts, and removes what is not complete
    close(file);
    ++n;
    return false;
  };
  plait::convert_checkpoint(saved.engine, saved.step(1), saved.step(3), settings);
  CHECK(n > 0);
  CHECK(fs::exists(saved.step(3) + "/MANIFEST.json"));
  const auto [file, held] = lock();
  REQUIRE(held);  // as a run in progress has it
  for (const std::string& out : {saved.step(4), saved.path + "/ckpt/./step-0000000005"}) {
    try {
      plait::convert_checkpoint(saved.engine, saved.step(1), out, settings);
      CHECK(false);
    } catch (const plait::HostError& e) {
      CHECK(e.code() == PLAIT_ERR_STATE);
      CHECK(std::string(e.what()).find("is in use by") != std::string::npos);
      CHECK(std::string(e.what()).find("write to another folder") != std::string::npos);
    }
    CHECK_FALSE(fs::exists(out));
  }
  settings.progress = nullptr;
  plait::convert_checkpoint(saved.engine, saved.step(1), saved.path + "/elsewhere", settings);
  close(file);
}

TEST_CASE("progress stops a call, which leaves nothing") {
  const Saved saved;
  const std::string out = saved.path + "/out";
  plait::ConvertSettings settings;
  settings.progress = [](uint64_t, uint64_t) { return true; };
  const auto code = [](const auto& f) -> uint32_t {
    try {
      f();
    } catch (const plait::HostError& e) {
      return e.code();
    }
    return PLAIT_OK;
  };
  CHECK(code([&] { plait::convert_checkpoint(saved.engine, saved.step(1), out, settings); }) ==
        PLAIT_ERR_CANCELLED);
  CHECK(code([&] { plait::verify_checkpoint(saved.engine, saved.step(1), settings.progress); }) ==
        PLAIT_ERR_CANCELLED);
  CHECK(code([&] {
          plait::compare_checkpoints(saved.engine, saved.step(1), saved.step(2),
                                     PLAIT_COMPARE_TENSORS, settings.progress);
        }) == PLAIT_ERR_CANCELLED);
  settings.progress = [](uint64_t, uint64_t) -> bool { throw 7; };
  CHECK_THROWS_AS(plait::convert_checkpoint(saved.engine, saved.step(1), out, settings), int);
  // The engine refuses to be called from there.
  settings.progress = [&](uint64_t, uint64_t) {
    plait::list_checkpoints(saved.engine, saved.path);
    return false;
  };
  CHECK(code([&] { plait::convert_checkpoint(saved.engine, saved.step(1), out, settings); }) ==
        PLAIT_ERR_STATE);
  CHECK_FALSE(fs::exists(out));
  CHECK(std::distance(fs::directory_iterator(saved.path), {}) == 1);
}

TEST_CASE("arguments of the checkpoint functions are checked") {
  const Saved saved;
  plait_engine* e = saved.engine.get();
  const char* c = saved.path.c_str();
  plait_text* text = nullptr;
  CHECK(code_of(plait_checkpoint_list(nullptr, c, &text)) == PLAIT_ERR_INVALID);
  CHECK(code_of(plait_checkpoint_list(e, nullptr, &text)) == PLAIT_ERR_INVALID);
  CHECK(code_of(plait_checkpoint_list(e, c, nullptr)) == PLAIT_ERR_INVALID);
  CHECK(code_of(plait_checkpoint_describe(e, nullptr, &text)) == PLAIT_ERR_INVALID);
  CHECK(code_of(plait_checkpoint_verify(e, nullptr, nullptr, nullptr, &text)) == PLAIT_ERR_INVALID);
  CHECK(code_of(plait_checkpoint_verify(e, c, nullptr, nullptr, &text)) == PLAIT_ERR_NOT_FOUND);
  CHECK(code_of(plait_checkpoint_compare(e, c, nullptr, 0, nullptr, nullptr, &text)) ==
        PLAIT_ERR_INVALID);
  CHECK(code_of(plait_checkpoint_compare(e, c, c, 3, nullptr, nullptr, &text)) ==
        PLAIT_ERR_INVALID);
  CHECK(code_of(plait_checkpoint_convert(e, c, nullptr, nullptr, &text)) == PLAIT_ERR_INVALID);
  plait_convert_options o{};
  o.struct_size = 8;
  const std::string out = saved.path + "/out";
  CHECK(code_of(plait_checkpoint_convert(e, c, out.c_str(), &o, &text)) == PLAIT_ERR_INVALID);
  CHECK(code_of(plait_checkpoint_list(e, "/nowhere/at/all", &text)) == PLAIT_ERR_NOT_FOUND);
  CHECK(text == nullptr);
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("the line of progress fits its window") {
  using plait::cli::bar_text;
  const uint64_t gib = 1u << 30;
  CHECK(bar_text("verifying x", gib / 2, gib, 2, 80, true) ==
        "verifying x  50 % ██████████           of 1.0 GiB, 256.0 MiB/s, 2 s left");
  CHECK(bar_text("verifying x", gib / 2, gib, 2, 80, false) ==
        "verifying x  50 % ##########.......... of 1.0 GiB, 256.0 MiB/s, 2 s left");
  CHECK(bar_text("x", gib * 9 / 16, gib, 0, 80, true) == "x  56 % ███████████▎         of 1.0 GiB");
  CHECK(bar_text("x", 0, 0, 0, 80, false) == "x 100 % #################### of 0 B");
  CHECK(bar_text("verifying x", gib / 2, gib, 2, 60, false) ==
        "verifying x  50 % of 1.0 GiB, 256.0 MiB/s, 2 s left");
  CHECK(bar_text("verifying x", gib / 2, gib, 2, 30, false) == "verifying x  50 %");
  CHECK(bar_text("verifying x", gib / 2, gib, 2, 10, false) == "verifying");
  CHECK(bar_text("verifying x", gib / 2, gib, 2, 0, false) == "");
}
