// Lines of a file that grows, is cut, replaced and written by hand.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/runs/line_reader.hpp"

namespace {
namespace fs = std::filesystem;
using plait::cli::LineReader;

struct File {
  File() {
    char name[] = "/tmp/plait-lines-XXXXXX";
    folder = mkdtemp(name);
    path = folder + "/metrics.ndjson";
  }
  ~File() { fs::remove_all(folder); }
  void append(const std::string& text) { std::ofstream(path, std::ios::app) << text; }
  void replace(const std::string& text) { std::ofstream(path) << text; }
  std::string folder, path;
};

struct Seen {
  std::vector<std::string> lines;
  int restarts = 0;
  LineReader::Sink sink() {
    return {[this] { lines.clear(), ++restarts; },
            [this](std::string_view line) {
              if (line.ends_with("?}")) return false;  // the beginning of a line
              lines.emplace_back(line);
              return true;
            }};
  }
};
using Lines = std::vector<std::string>;

TEST_CASE("only what is new is read, and half a line waits") {
  File file;
  LineReader reader(file.path);
  Seen seen;
  CHECK_FALSE(reader.read(seen.sink()));  // there is no file
  file.append("a\nb\nhal");
  CHECK_FALSE(reader.read(seen.sink()));
  CHECK(seen.lines == Lines{"a", "b"});
  file.append("f\n\nc");
  reader.read(seen.sink());
  CHECK(seen.lines == Lines{"a", "b", "half"});
  file.append("\n");
  reader.read(seen.sink());
  reader.read(seen.sink());
  CHECK(seen.lines == Lines{"a", "b", "half", "c"});
  CHECK(seen.restarts == 0);
}

TEST_CASE("a file that is cut or replaced is read again") {
  File file;
  LineReader reader(file.path);
  Seen seen;
  file.append("one\ntwo\n");
  reader.read(seen.sink());
  file.replace("new\n");
  reader.read(seen.sink());
  CHECK(seen.lines == Lines{"new"});
  file.replace("longer than before\n");  // in place
  reader.read(seen.sink());
  CHECK(seen.lines == Lines{"longer than before"});
  fs::rename(file.path, file.path + ".old");
  file.append("longer than before\nx\n");  // another file
  reader.read(seen.sink());
  CHECK(seen.lines == Lines{"longer than before", "x"});
  CHECK(seen.restarts == 3);
}

TEST_CASE("the end of a file, and blocks of it") {
  File file;
  std::string all;
  for (int i = 0; i < 100'000; ++i) all += "line " + std::to_string(i) + "\n";
  file.append(all);
  LineReader end(file.path, 30), whole(file.path);
  Seen last, every;
  end.read(last.sink());
  CHECK(last.lines == Lines{"line 99998", "line 99999"});
  int reads = 1;
  while (whole.read(every.sink(), 100'000)) ++reads;
  CHECK(reads > 3);
  CHECK(every.lines.size() == 100'000);
  CHECK(plait::cli::last_line_with(file.path, "77777", SIZE_MAX) == "line 77777");
  CHECK(plait::cli::last_line_with(file.path, "line 1\n", 1000).empty());
}

TEST_CASE("an object without a newline is a line, once") {
  File file;
  LineReader reader(file.path);
  Seen seen;
  file.append("{1}");
  reader.read(seen.sink());
  CHECK(seen.lines == Lines{"{1}"});
  file.append("\n{2?}");
  reader.read(seen.sink());
  file.append(",3}\n");
  reader.read(seen.sink());
  CHECK(seen.lines == Lines{"{1}", "{2?},3}"});
}

TEST_CASE("a line without an end takes no memory") {
  File file;
  LineReader reader(file.path);
  Seen seen;
  file.append("a\n" + std::string(3 << 20, 'x'));
  reader.read(seen.sink());
  file.append("\nb\n");
  reader.read(seen.sink());
  CHECK(seen.lines == Lines{"a", "b"});
}

TEST_CASE("what is no regular file has no lines") {
  File file;
  Seen seen;
  LineReader folder(file.folder), nothing("/dev/zero");
  CHECK_FALSE(folder.read(seen.sink()));
  CHECK_FALSE(nothing.read(seen.sink()));
  CHECK(seen.lines.empty());
  CHECK(plait::cli::read_small_file("/dev/zero").empty());
}

TEST_CASE("curves grow, and a resumed run takes points back") {
  File file;
  plait::cli::CurveReader reader(file.path, [](const std::string& name) { return name == "loss"; });
  file.append("{\"step\":1,\"loss\":3,\"lr\":1}\n{\"step\":2,\"loss\":2}\n{\"step\":3,\"lo");
  reader.read();
  REQUIRE(reader.curves().size() == 1);
  CHECK(reader.curves()[0].points.size() == 2);
  file.append("ss\":1}\n{\"event\":\"resume\",\"from_step\":1}\n{\"step\":2,\"loss\":9}\n");
  reader.read();
  CHECK(reader.curves()[0].points == std::vector<std::pair<int64_t, double>>{{1, 3}, {2, 9}});
  CHECK(reader.names() == std::set<std::string>{"loss", "lr"});
}

}  // namespace
