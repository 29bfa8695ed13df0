// Loads plugins that break the contract, one fault each, and checks the engine's message: it names
// the file, the fault, the supported values and the remedy.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "engine/plugin/inspect.hpp"
#include "tests/abi/fault_plugins.hpp"

using namespace plait;
using namespace plait::plugin;
using namespace plait::test;

namespace {

// A refusal names the file, the fault, the supported values and the remedy, and leaves nothing
// behind.
void check_refused(const std::string& path, std::initializer_list<const char*> parts) {
  Bench bench;
  const std::string text = bench.refusal(path);
  CAPTURE(text);
  CHECK(contains(text, "[plugin] '" + path + "': "));
  for (const char* part : parts) CHECK(contains(text, part));
  CHECK(bench.registry.plugin_names().empty());
  CHECK(bench.registry.item_names("plait.layer/1").empty());
  REQUIRE(bench.registry.report().entries.size() == 1);
  const LoadEntry& entry = bench.registry.report().entries[0];
  CHECK(entry.outcome != Outcome::kLoaded);
  CHECK(entry.path == path);
  CHECK_FALSE(entry.reason.empty());
  CHECK_FALSE(entry.fix.empty());
}

}  // namespace

TEST_CASE("a plugin without a fault loads, closes and loads again") {
  Bench bench;
  CHECK(bench.refusal(fault("none")) == "");
  CHECK(bench.registry.plugin_names() == std::vector<std::string>{"fault-none"});
  CHECK_NOTHROW(bench.registry.layer("fault_layer"));
  CHECK(bench.registry.report().entries[0].items == std::vector<std::string>{"layer fault_layer"});
  bench.registry.close();
  CHECK(bench.refusal(fault("none")) == "");
  CHECK(bench.lines.empty());
}

TEST_CASE("a plugin says what it is without being loaded") {
  const Inspection found = inspect_file(fault("none"));
  CHECK(found.matches_this_machine());
  REQUIRE(found.note);
  CHECK(found.note->name == "fault-none");
  CHECK(found.note->version == "1.0.0");
  CHECK(found.note->sanitizer == own_sanitizer());
  CHECK(std::count(found.exports.begin(), found.exports.end(), "plait_plugin_v1") == 1);
}

TEST_CASE("missing, a folder, a text file") {
  const Scratch at;
  check_refused(at.folder + "/none.so", {"there is no such file", "check the path"});
  check_refused(at.folder, {"found a folder, expected a file", "give the plugin's .so file"});
  check_refused(at.put("text.so", "hello, I am text"),
                {"found a file that is not ELF (it begins with \"hello, I am ",
                 "expected a shared library for", "give the plugin's .so file"});
  check_refused(at.put("empty.so", ""), {"found an empty file"});
}

TEST_CASE("a truncated file") {
  const Scratch at;
  const std::string whole = at.files.read_all(fault("none"), 1 << 26);
  for (const size_t n :
       {size_t{16}, size_t{63}, size_t{64}, size_t{1000}, whole.size() / 2, whole.size() - 1})
    check_refused(at.put("cut.so", whole.substr(0, n)),
                  {"the ELF file is damaged or truncated", "build or install the plugin again"});
}

TEST_CASE("another machine") {
  const Scratch at;
  std::string bytes = at.files.read_all(fault("none"), 1 << 26);
  const uint16_t other = inspect_file(fault("none")).machine == 183 ? 62 : 183;
  bytes[18] = static_cast<char>(other);
  bytes[19] = 0;
  const std::string path = at.put("foreign.so", bytes);
  check_refused(path, {"found a file for ", other == 183 ? "aarch64" : "x86-64",
                       "this engine runs ", "build the plugin for this machine"});
  CHECK(inspect_file(path).note->name == "fault-none");  // inspection works nevertheless
}

TEST_CASE("faults of the note") {
  check_refused(fault("abi"),
                {"found ABI 99, this engine supports ABI 1: the engine is the older side",
                 "use a newer engine"});
  check_refused(
      fault("no_note"),
      {"found no Plait note (section .note.plait), expected one with abi=1", "plait_add_plugin()"});
  check_refused(fault("sanitizer"),
                {"sanitizer, this engine is built with", "build both with the same one"});
}

TEST_CASE("faults of the entry and the table") {
  check_refused(fault("no_entry"),
                {"found no symbol plait_plugin_v1, expected it as the one export",
                 "define it with PLAIT_PLUGIN"});
  check_refused(
      fault("null_table"),
      {"plait_plugin_v1 returned NULL for ABI 1, expected a plugin table", "use a newer engine"});
  check_refused(fault("tiny_table"), {"found a table with struct_size 8, expected at least 64",
                                      "correct the plugin's table"});
  check_refused(
      fault("other_name"),
      {"found the name 'somebody-else' in its table, expected 'fault-other_name' as in its note"});
}

TEST_CASE("faults of open()") {
  check_refused(fault("throws"),
                {"open() threw an exception: nobody catches me, expected a plait_error",
                 "report it to the plugin's author"});
  check_refused(fault("open_fails"),
                {"open() failed: the moon is in the wrong place", "see the plugin's own error"});
  check_refused(fault("tiny_item"),
                {"layer 'fault_layer'", "has struct_size 16, expected at least 56"});
}

TEST_CASE("a symbol that is nowhere is found when loading, not later") {
  check_refused(fault("unbound"), {"the system cannot load it: ", "a_function_that_is_nowhere",
                                   "install what it needs"});
}

TEST_CASE("a file that others may write") {
  const Scratch at;
  const std::string path = at.copy(fault("none"), "x.so");
  REQUIRE(chmod(path.c_str(), 0646) == 0);
  check_refused(path, {"mode 0646, expected a file owned by you or root that nobody else may write",
                       "run chmod go-w"});
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  REQUIRE(chmod(at.folder.c_str(), 0777) == 0);
  check_refused(path,
                {"its folder has ", "expected one owned by you or root that nobody else may write",
                 "run chmod go-w"});
  // A group of others, which only root can give a folder to.
  constexpr gid_t kOthers = 4321;
  if (chown(at.folder.c_str(), static_cast<uid_t>(-1), kOthers) == 0) {
    REQUIRE(chmod(at.folder.c_str(), 0775) == 0);
    check_refused(path, {"its folder has ", "mode 0775"});
  }
  REQUIRE(chmod(at.folder.c_str(), 0755) == 0);
  CHECK(Bench().refusal(path) == "");
}

TEST_CASE("a folder above the plugin's whose entries others may replace") {
  const Scratch at;
  const std::string inner = at.folder + "/inner";
  REQUIRE(mkdir(inner.c_str(), 0755) == 0);
  const std::string path = at.copy(fault("none"), "inner/x.so");
  REQUIRE(chmod(at.folder.c_str(), 0777) == 0);
  const std::string found = "the folder '" + at.folder + "' above it has ";
  check_refused(path, {found.c_str(), "mode 0777", "run chmod o-w on that folder"});
  REQUIRE(chmod(at.folder.c_str(), 01777) == 0);  // as /tmp is
  CHECK(Bench().refusal(path) == "");
  REQUIRE(chmod(at.folder.c_str(), 0755) == 0);
  CHECK(Bench().refusal(path) == "");
  // Other users and groups, which only root can give a folder to.
  if (chown(at.folder.c_str(), static_cast<uid_t>(-1), 4321) != 0) return;
  REQUIRE(chmod(at.folder.c_str(), 0775) == 0);
  check_refused(path, {found.c_str(), "mode 0775, expected one that no group of others may write",
                       "run chmod g-w on that folder"});
  REQUIRE(chmod(at.folder.c_str(), 01775) == 0);
  CHECK(Bench().refusal(path) == "");
  REQUIRE(chmod(at.folder.c_str(), 0755) == 0);
  REQUIRE(chown(at.folder.c_str(), 4322, static_cast<gid_t>(-1)) == 0);
  check_refused(path, {found.c_str(), "owner 4322, mode 0755, expected one owned by you or root",
                       "move the plugin to a folder of yours"});
}

TEST_CASE("a folder that several plugins are refused for is told once, with their number") {
  const Scratch at;
  at.copy(fault("none"), "one/plait-a.so");
  at.copy(fault("twin"), "one/plait-b.so");
  at.copy(fault("exports"), "two/plait-c.so");
  const std::string one = at.folder + "/one", two = at.folder + "/two";
  REQUIRE(chmod(one.c_str(), 0777) == 0);
  REQUIRE(chmod(two.c_str(), 0777) == 0);
  {
    Bench bench;
    bench.registry.load_all({{one, "user", false}, {two, "engine", false}});
    CHECK(std::count(bench.lines.begin(), bench.lines.end(), '\n') == 2);
    CHECK(contains(bench.lines,
                   "2 [plugin] 2 plugins are not loaded: the folder '" + one + "' has owner "));
    CHECK(contains(bench.lines,
                   "mode 0777, expected one owned by you or root that nobody else may write; run "
                   "chmod go-w on the folder, or move the plugins"));
    CHECK(contains(bench.lines, "2 [plugin] '" + two + "/plait-c.so': its folder has "));
    const std::string summary = bench.registry.load_summary();
    CHECK(contains(summary, ": 2 plugins (the folder '" + one + "' has "));
    CHECK(contains(summary, ", fault-exports (its folder has "));
    // The report has each of them.
    for (const LoadEntry& entry : bench.registry.report().entries)
      CHECK(contains(entry.reason, "its folder has "));
  }
  // One folder above all; a plugin asked for by name is an error of its own, and no line.
  REQUIRE(chmod(one.c_str(), 0755) == 0);
  REQUIRE(chmod(two.c_str(), 0755) == 0);
  REQUIRE(chmod(at.folder.c_str(), 0777) == 0);
  Bench bench;
  std::string text;
  try {
    bench.registry.load_all(
        {{one, "given", true}, {two, "engine", false}, {two + "/plait-c.so", "experiment", true}});
  } catch (const Error& e) {
    text = e.text();
  }
  CHECK(contains(
      text, "[plugin] '" + two + "/plait-c.so': the folder '" + at.folder + "' above it has "));
  CHECK(std::count(bench.lines.begin(), bench.lines.end(), '\n') == 1);
  CHECK(contains(bench.lines, "3 plugins are not loaded: the folder '" + at.folder + "' has "));
  CHECK(contains(bench.lines, "run chmod o-w on that folder, or move the plugins"));
}

TEST_CASE("a second plugin with an item of the same name loads without that item, naming both") {
  Bench bench;
  CHECK(bench.refusal(fault("none")) == "");
  CHECK(bench.refusal(fault("twin")) == "");
  const std::string text =
      "left out items: layer 'fault_layer' is offered already by plugin 'fault-none'";
  CHECK(contains(bench.lines, "2 [plugin fault-twin] " + text + "; rename the items"));
  CHECK(bench.registry.report().entries[1].reason == text);
  CHECK(bench.registry.plugin_names() == std::vector<std::string>{"fault-none", "fault-twin"});
  CHECK(bench.registry.plugin_of(&bench.registry.layer("fault_layer")) == "fault-none");
}

TEST_CASE("exporting too much is a warning") {
  Bench bench;
  CHECK(bench.refusal(fault("exports")) == "");
  CHECK(contains(bench.lines, "2 [plugin] '" + fault("exports") +
                                  "' exports 1 symbols besides plait_plugin_v1: fault_helper"));
  CHECK(contains(bench.registry.report().json(), "hide them with a version script"));
}

TEST_CASE("a library beside a plugin resolves, and is itself no plugin") {
  Bench bench;
  bench.registry.load_all({{kFolder + "/with_private", "given", true}});
  const auto& entries = bench.registry.report().entries;
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].outcome == Outcome::kIgnored);
  CHECK(entries[0].reason == "a library without a Plait note");
  CHECK(entries[1].outcome == Outcome::kLoaded);
  CHECK(bench.lines.empty());
}

TEST_CASE("one bad plugin of a folder is reported, and the others load") {
  Bench bench;
  bench.registry.load_all({{kFolder, "engine", false}});
  CHECK(contains(bench.lines, "2 [plugin] '" + fault("abi") + "': found ABI 99"));
  const auto names = bench.registry.plugin_names();
  CHECK(std::count(names.begin(), names.end(), "fault-exports") == 1);
  CHECK(contains(bench.registry.load_summary(), "fault-abi (found ABI 99"));
}

TEST_CASE("the first of a name wins; asked for by path, the second is an error") {
  const Scratch at;
  const std::string first = at.copy(fault("none"), "first/plait-a.so"),
                    second = at.copy(fault("none"), "second/plait-b.so");
  Bench bench;
  bench.registry.load_all(
      {{folder_of(first), "user", false}, {folder_of(second), "engine", false}});
  const auto& entries = bench.registry.report().entries;
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].outcome == Outcome::kLoaded);
  CHECK(entries[1].outcome == Outcome::kShadowed);
  CHECK(contains(entries[1].reason, "a plugin named 'fault-none' is already loaded from " + first));
  CHECK(contains(bench.refusal(second),
                 "a plugin named 'fault-none' is already loaded from " + first));
  CHECK(bench.refusal(first) == "");  // the very file again is fine
}

TEST_CASE("only allowed plugins are loaded") {
  Bench bench(RegistrySettings{{"fault-exports"}, true});
  const std::string text = bench.refusal(fault("none"));
  CHECK(contains(
      text,
      "plugin 'fault-none' is not in the list of allowed plugins: fault-exports; add it to "
      "[plugins].allow"));
  CHECK(bench.refusal(fault("exports")) == "");
}

TEST_CASE("two engines load the same plugin, and one may go first") {
  Bench one, two;
  CHECK(one.refusal(fault("none")) == "");
  CHECK(two.refusal(fault("none")) == "");
  one.registry.close();
  CHECK(std::string(two.registry.layer("fault_layer").help) == "passes its input on");
}
