#include "engine/observe/metrics.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "tests/unit/observe/temp_folder.hpp"

namespace {

using plait::observe::NamedValue;
using plait::observe::NdjsonWriter;
using plait::observe::StepRecord;

StepRecord record(int64_t step) {
  return {.step = step,
          .samples = step * 32,
          .time = 1.7e9,
          .elapsed_s = 0.25,
          .loss = 2.5,
          .lr = 0.01,
          .grad_norm = 1.5,
          .step_ms = 0.5,
          .samples_per_s = 64000,
          .mean_loss = 2.25};
}

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> all;
  for (const std::string& line : plait::split(text, '\n'))
    if (!line.empty()) all.push_back(nlohmann::json::parse(line));
  return all;
}

}  // namespace

TEST_CASE("a step is one line with the fixed keys in their order") {
  const TempFolder folder;
  {
    NdjsonWriter writer(folder.files(), folder / "m", "mnist/x", no_log());
    writer.step(record(1));
  }
  CHECK(folder.read("m") ==
        "{\"schema\":1,\"run\":\"mnist/"
        "x\",\"step\":1,\"samples\":32,\"time\":1700000000,\"elapsed_s\":0.25,\"loss\":2.5,"
        "\"lr\":0.01,\"grad_norm\":1.5,\"step_ms\":0.5,\"samples_per_s\":64000,"
        "\"mean_loss\":2.25}\n");
}

TEST_CASE("what is not known of a step has no key") {
  const TempFolder folder;
  StepRecord r = record(1);
  r.tokens = 640;
  r.tokens_per_s = 1280;
  r.tflops = r.tflops_full = 0.5;
  r.mfu = r.mfu_full = 0.25;
  r.grad_norm_clipped = 1;
  r.skipped_steps = 2;
  r.loss_scale = 1;
  {
    NdjsonWriter writer(folder.files(), folder / "m", "r", no_log());
    writer.step(r);
    r.tflops_full = 1;
    r.mfu_full = 0.5;
    writer.step(r);
    r.mfu = r.mfu_full = 0;
    writer.step(r);
  }
  const auto lines = lines_of(folder.read("m"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("tokens") == 640);
  CHECK(lines[0].at("tokens_per_s") == 1280);
  CHECK(lines[0].at("tflops") == 0.5);
  CHECK(lines[0].at("mfu") == 0.25);
  CHECK(lines[0].at("grad_norm_clipped") == 1);
  CHECK(lines[0].at("skipped_steps") == 2);
  CHECK(lines[0].at("loss_scale") == 1);
  CHECK_FALSE(lines[0].contains("tflops_full"));
  CHECK_FALSE(lines[0].contains("mfu_full"));
  CHECK(lines[1].at("tflops_full") == 1);
  CHECK(lines[1].at("mfu_full") == 0.5);
  CHECK_FALSE(lines[2].contains("mfu"));
  CHECK_FALSE(lines[2].contains("mfu_full"));
}

TEST_CASE("without gathering each line is in the file at once") {
  const TempFolder folder;
  NdjsonWriter writer(folder.files(), folder / "m", "r", no_log());
  for (int64_t step = 1; step <= 5; ++step) {
    writer.step(record(step));
    CHECK(lines_of(folder.read("m")).size() == static_cast<size_t>(step));
  }
}

TEST_CASE("gathered lines go out on flush and at the end") {
  const TempFolder folder;
  {
    NdjsonWriter writer(folder.files(), folder / "m", "r", no_log(), 3'600'000);
    writer.step(record(1));
    CHECK(folder.read("m").empty());
    writer.flush();
    CHECK(lines_of(folder.read("m")).size() == 1);
    for (int64_t step = 2; step <= 3000; ++step) writer.step(record(step));
  }
  const auto lines = lines_of(folder.read("m"));
  REQUIRE(lines.size() == 3000);
  for (size_t i = 0; i < lines.size(); ++i) CHECK(lines[i].at("step") == i + 1);
}

TEST_CASE("an event goes out at once, behind the lines before it") {
  const TempFolder folder;
  NdjsonWriter writer(folder.files(), folder / "m", "r", no_log(), 3'600'000);
  writer.step(record(1));
  writer.event("evaluate", 1, 0);
  CHECK(lines_of(folder.read("m")).size() == 2);
  writer.step(record(2));
  writer.resume(1, 0);
  const auto lines = lines_of(folder.read("m"));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].at("step") == 1);
  CHECK(lines[1].at("event") == "evaluate");
  CHECK(lines[2].at("step") == 2);
  CHECK(lines[3].at("event") == "resume");
}

TEST_CASE("gathered steps keep their further values, also where the names change") {
  const TempFolder folder;
  const NamedValue two[] = {{"accuracy", 0.5}, {"lr.head", 0.25}}, one[] = {{"lr.head", 0.125}};
  const NamedValue other[] = {{"slowest", 3}};
  {
    NdjsonWriter writer(folder.files(), folder / "m", "r", no_log(), 3'600'000);
    StepRecord r = record(1);
    const auto step = [&](std::span<const NamedValue> more) {
      r.more = more;
      writer.step(r);
      ++r.step;
    };
    for (const auto more : {two, two}) step({more, 2});
    step(one);
    step({});
    step(other);
    step(two);
    writer.event("evaluate", 6, 0, one);
    step(two);
  }
  std::vector<std::string> more;
  for (auto& line : lines_of(folder.read("m"))) {
    for (const char* key : {"schema", "run", "samples", "time", "elapsed_s", "loss", "lr",
                            "grad_norm", "step_ms", "samples_per_s", "mean_loss"})
      line.erase(key);
    more.push_back(line.dump());
  }
  const std::vector<std::string> expected = {R"({"accuracy":0.5,"lr.head":0.25,"step":1})",
                                             R"({"accuracy":0.5,"lr.head":0.25,"step":2})",
                                             R"({"lr.head":0.125,"step":3})",
                                             R"({"step":4})",
                                             R"({"slowest":3,"step":5})",
                                             R"({"accuracy":0.5,"lr.head":0.25,"step":6})",
                                             R"({"event":"evaluate","lr.head":0.125,"step":6})",
                                             R"({"accuracy":0.5,"lr.head":0.25,"step":7})"};
  CHECK(more == expected);
}

TEST_CASE("a gathered step whose line is too long is refused, and no other one") {
  // Each of the latter bytes takes six.
  for (const std::string& name : {std::string(20000, 'x'), std::string(2720, '\1')}) {
    const TempFolder folder;
    const NamedValue huge[] = {{name, 1}};
    {
      NdjsonWriter writer(folder.files(), folder / "m", "r", no_log(), 3'600'000);
      writer.step(record(1));
      StepRecord r = record(2);
      r.more = huge;
      CHECK_THROWS_AS(writer.step(r), plait::Error);
      writer.step(record(3));
    }
    std::vector<int> steps;
    for (const auto& line : lines_of(folder.read("m"))) steps.push_back(line.at("step"));
    CHECK(steps == std::vector{1, 3});
  }
}

TEST_CASE("an event that is added goes out with what follows") {
  const TempFolder folder;
  NdjsonWriter writer(folder.files(), folder / "m", "r", no_log());
  writer.add_event("statistics", 1, 0, {}, "tensor", "a");
  writer.add_event("statistics", 1, 0, {}, "tensor", "b");
  CHECK(folder.read("m").empty());
  writer.flush();
  CHECK(lines_of(folder.read("m")).size() == 2);
  writer.add_event("statistics", 2, 0, {}, "tensor", "c");
  writer.step(record(3));
  const auto lines = lines_of(folder.read("m"));
  REQUIRE(lines.size() == 4);
  CHECK(lines[1].at("tensor") == "b");
  CHECK(lines[2].at("tensor") == "c");
  CHECK(lines[3].at("step") == 3);
}

TEST_CASE("a line that follows a pause of the length of a batch goes out at once") {
  const TempFolder folder;
  NdjsonWriter writer(folder.files(), folder / "m", "r", no_log(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  writer.step(record(1));
  CHECK(lines_of(folder.read("m")).size() == 1);
}

TEST_CASE(
    "values that are not finite are texts, skipped steps say so, and there may be more values") {
  const TempFolder folder;
  NdjsonWriter writer(folder.files(), folder / "m", "r", no_log());
  StepRecord r = record(7);
  r.loss = std::numeric_limits<double>::quiet_NaN();
  r.grad_norm = -std::numeric_limits<double>::infinity();
  r.skipped = true;
  const NamedValue more[] = {{"student.loss", 0.5}};
  r.more = more;
  writer.step(r);
  const auto line = lines_of(folder.read("m")).at(0);
  CHECK(line.at("loss") == "nan");
  CHECK(line.at("grad_norm") == "-inf");
  CHECK(line.at("skipped") == true);
  CHECK(line.at("student.loss") == 0.5);
}

TEST_CASE("events have a name") {
  const TempFolder folder;
  NdjsonWriter writer(folder.files(), folder / "m", "r", no_log());
  const NamedValue values[] = {{"loss", 0.25}, {"accuracy", 0.975}};
  writer.event("evaluate", 100, 1.5e9, values);
  writer.event("stop", 101, 1.5e9, {}, "reason", "a \"signal\"");
  writer.resume(90, 1.5e9);
  const auto lines = lines_of(folder.read("m"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("event") == "evaluate");
  CHECK(lines[0].at("accuracy") == 0.975);
  for (const auto& line : lines) CHECK(line.at("time") == 1.5e9);
  CHECK(lines[1].at("reason") == "a \"signal\"");
  CHECK(lines[2].at("event") == "resume");
  CHECK(lines[2].at("from_step") == 90);
}

TEST_CASE("a new writer appends, after a torn line on a line of its own") {
  const TempFolder folder;
  folder.files().replace(folder / "m", "{\"step\":1}\n{\"st");
  { NdjsonWriter(folder.files(), folder / "m", "r", no_log()).step(record(2)); }
  { NdjsonWriter(folder.files(), folder / "m", "r", no_log()).step(record(3)); }
  const auto lines = plait::split(folder.read("m"), '\n');
  REQUIRE(lines.size() >= 4);
  CHECK(lines[1] == "{\"st");
  CHECK(nlohmann::json::parse(lines[2]).at("step") == 2);
  CHECK(nlohmann::json::parse(lines[3]).at("step") == 3);
}

TEST_CASE("a line that is too long is refused, the next one goes through") {
  const TempFolder folder;
  NdjsonWriter writer(folder.files(), folder / "m", "r", no_log());
  const std::string huge(20000, 'x');
  CHECK_THROWS_AS(writer.event("stop", 1, 0, {}, "reason", huge), plait::Error);
  writer.step(record(1));
  CHECK(lines_of(folder.read("m")).size() == 1);
}
