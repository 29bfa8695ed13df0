// The records of collectives that ranks leave, whole and damaged.
#include "bindings/cli/runs/last_calls.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/folder.hpp"

namespace {

using Texts = std::vector<std::string>;

std::string group(const std::string& name, const std::string& number,
                  const std::string& ranks = "[0, 1]") {
  return R"({"group": ")" + name + R"(", "backend": "gloo", "ranks": )" + ranks +
         R"(, "finished": 3, "calls": [{"number": )" + number + R"(, "call": "all_reduce"}]})";
}
std::string record(const std::string& rank, const std::string& groups) {
  return R"({"schema": 1, "rank": )" + rank + R"(, "groups": [)" + groups + "]}";
}

struct Run {
  plait::test::Folder folder;
  Run() { std::filesystem::create_directory(folder / "log"); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / ("log/" + name)) << text;
  }
  Texts calls() const {
    Texts all;
    for (const plait::cli::ApartGroup& group : plait::cli::last_calls(folder.path()))
      all.push_back(plait::cli::text_of(group));
    return all;
  }
};

const std::string kBehind = "group data.0: rank 0 started call 9 (all_reduce), rank 1 only call 5";
const std::string kSilent =
    "group data.0: rank 0 started call 9 (all_reduce); rank 1 left no record";

}  // namespace

TEST_CASE("a group is told as an object, too: what is not known of a member is null") {
  const Run run;
  run.write("rank-0.calls.json", record("0", group("data.0", "9")));
  const auto groups = plait::cli::last_calls(run.folder.path());
  REQUIRE(groups.size() == 1);
  CHECK(plait::cli::record_of(groups[0]).dump() ==
        R"({"group":"data.0","backend":"gloo","number":9,"call":"all_reduce","ranks":[)"
        R"({"rank":0,"started":9,"finished":3,"call":"all_reduce"},)"
        R"({"rank":1,"started":null,"finished":null,"call":null}]})");
}

TEST_CASE("a record that is damaged is as good as none, in whatever group the damage is") {
  const Run run;
  run.write("rank-0.calls.json", record("0", group("data.0", "9")));
  run.write("rank-1.calls.json", record("1", group("data.0", "5")));
  CHECK(run.calls() == Texts{kBehind});
  const std::string good = group("data.0", "5");
  for (const std::string& damaged :
       {record("1", good + ", 7"), record("1", good + ", {}"),
        record("1", good + ", " + group("data.1", "\"x\"")),
        record("1", good + ", " + group("data.1", "-1")),
        record("1", good + ", " + group("data.1", "1e300")),
        record("1", good + ", " + group("data.1", "5", "[0, 99999999999]")), record("0", good),
        record("-1", good), record("1.5", good), std::string("[1]"),
        record("1", good).substr(0, 60)}) {
    CAPTURE(damaged);
    run.write("rank-1.calls.json", damaged);
    CHECK(run.calls() == Texts{kSilent});
  }
}

TEST_CASE("what a rank had not written to its end when it was killed is no record") {
  const Run run;
  run.write("rank-0.calls.json", record("0", group("data.0", "9")));
  run.write("rank-1.calls.json.tmp-4711", record("1", group("data.0", "5")));
  CHECK(run.calls() == Texts{kSilent});
}
