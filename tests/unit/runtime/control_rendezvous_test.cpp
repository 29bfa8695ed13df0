// The rendezvous of ranks, and its possible failures.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/runtime/control.hpp"
#include "engine/runtime/control/rendezvous.hpp"
#include "tests/unit/runtime/control_ranks.hpp"

using namespace plait;
using namespace plait::runtime;
using namespace plait::runtime::testing;

namespace {

std::string failure_of(const ControlConfig& config, uint32_t code) {
  Lines lines;
  try {
    const Control control(config, lines.log());
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.text();
  }
  FAIL_CHECK("expected an error");
  return "";
}

std::string read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
}

const std::string kStale = "plait rendezvous 1\naddress 127.0.0.1:PORT\nrun " +
                           std::string(32, 'a') + "\nsecret " + std::string(64, 'b') + "\n";

std::string stale(int port) {
  std::string text = kStale;
  return text.replace(text.find("PORT"), 4, std::to_string(port));
}

// Two ranks join, though there is an obstacle.
void meet_in(const Folder& folder, Lines& lines) {
  const Setup setup = in_file(folder, 2);
  const auto failures = on_threads({0, 1}, [&](int rank) {
    // The other rank reads the existing file first.
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const Control control(setup.of(rank), lines.log());
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

}  // namespace

TEST_SUITE_BEGIN("control_rendezvous");

TEST_CASE("jobs that make no sense") {
  const Folder folder;
  ControlConfig config = in_file(folder, 2).of(0);
  const auto failing = [&](const std::function<void(Job&)>& change) {
    ControlConfig changed = config;
    change(changed.job);
    return failure_of(changed, PLAIT_ERR_INVALID);
  };
  CHECK(has(failing([](Job& j) { j.rank = 2; }), "rank 2 of 2 is invalid"));
  CHECK(has(failing([](Job& j) { j.rank = -1; }), "rank -1 of 2"));
  CHECK(has(failing([](Job& j) { j.size = 0; }), "of 0"));
  CHECK(has(failing([](Job& j) { j.timeout = 0; }), "more than 0 seconds"));
  CHECK(has(failing([](Job& j) { j.connect_timeout = NAN; }), "more than 0 seconds"));
  CHECK(has(failing([](Job& j) { j.rendezvous = ""; }), "no rendezvous"));
  for (const char* text :
       {"host", "host:", ":1", "host:0", "host:65536", "host:1x", "a:b:1", "[]:1", "http://host:1"})
    CHECK(has(failing([&](Job& j) {
                j.rendezvous = text;
                j.secret = "sixteen bytes or more";
              }),
              "neither HOST:PORT nor file:PATH"));
  CHECK(has(failing([](Job& j) { j.rendezvous = "file:"; }), "names no file"));
  CHECK(has(failing([](Job& j) { j.rendezvous = "file:/tmp/"; }), "names no file"));
  CHECK(has(failing([](Job& j) { j.rendezvous = "localhost:1"; }), "secret of 0 bytes"));
  CHECK(has(failing([](Job& j) {
              j.rendezvous = "localhost:1";
              j.secret = "fifteen bytes..";
            }),
            "secret of 15 bytes"));
  CHECK(has(failing([](Job& j) { j.listen_fd = 999; }), "999 is not a listening socket"));
}

TEST_CASE("addresses with a number in brackets") {
  Job job;
  job.size = 2;
  job.timeout = job.connect_timeout = 60;
  job.secret = "sixteen bytes or more";
  job.rendezvous = "[::1]:29400";
  const control::Rendezvous rendezvous = control::parse_rendezvous(job);
  CHECK(rendezvous.host == "::1");
  CHECK(rendezvous.port == 29400);
}

TEST_CASE("every rank is told which ranks are missing") {
  const Folder folder;
  // Until then the others have to connect, on a busy machine as well.
  const Setup setup = in_file(folder, 5, {.connect_timeout = 4});
  Lines lines;
  std::vector<uint32_t> codes;
  const auto failures = on_threads(
      {0, 2, 4}, [&](int rank) { const Control control(setup.of(rank), lines.log()); }, &codes);
  for (const uint32_t code : codes) CHECK(code == PLAIT_ERR_PEER);
  CHECK(has(failures[0], "did not connect within 4 s; missing: rank 1, rank 3 of 5"));
  CHECK(failures[1] == failures[0]);
  CHECK(failures[2] == failures[0]);
  CHECK(access(folder.path("rendezvous").c_str(), F_OK) != 0);
}

TEST_CASE("rank 0 says which ranks it waits for before it gives up") {
  const Folder folder;
  Setup setup = in_file(folder, 4);
  setup.times.notice = 1;  // until then rank 2 has to connect, on a busy machine as well
  Lines lines;
  const std::string text =
      "[control] after 1 s rank 0 still waits for rank 1, rank 3 of 4, to "
      "connect at ";
  const auto failures = on_threads({0, 1, 2, 3}, [&](int rank) {
    if (rank % 2 == 1) eventually([&] { return lines.has("still waits"); });
    const Control control(setup.of(rank), lines.log());
    CHECK(lines.has(text));
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  const std::string all = lines.all();
  CHECK(all.find("still waits") == all.rfind("still waits"));
  CHECK(has(all, "; the job ends 60 s after it began to wait"));
}

TEST_CASE("a rank that does not find rank 0 names the address") {
  const Folder folder;
  Setup setup = in_file(folder, 2, {.connect_timeout = 0.4});
  std::string text = failure_of(setup.of(1), PLAIT_ERR_PEER);
  CHECK(has(text, "rank 1 of 2 did not reach rank 0 at " + setup.rendezvous + " within 0.4 s"));
  CHECK(has(text, "there is no file " + folder.path("rendezvous")));

  const FreePort port;
  setup.rendezvous = "127.0.0.1:" + std::to_string(port.number());
  setup.secret = "sixteen bytes or more";
  text = failure_of(setup.of(1), PLAIT_ERR_PEER);
  CHECK(has(text, "tried " + setup.rendezvous + " (Connection refused)"));

  setup.rendezvous = "no-such-host.invalid:1";
  CHECK(has(failure_of(setup.of(1), PLAIT_ERR_PEER), "host 'no-such-host.invalid' has no address"));
}

TEST_CASE("a port that is taken is an error of rank 0") {
  int port = 0;
  const int fd = listen_on_loopback(port);
  Setup setup;
  setup.rendezvous = "127.0.0.1:" + std::to_string(port);
  setup.secret = "sixteen bytes or more";
  const std::string text = failure_of(setup.of(0), PLAIT_ERR_IO);
  CHECK(has(text, "rank 0 cannot listen at " + setup.rendezvous + " (Address already in use)"));
  close(fd);
}

TEST_CASE("every rank is told every difference") {
  const Folder folder;
  const Setup setup = in_file(folder, 3);
  Lines lines;
  std::vector<uint32_t> codes;
  const auto failures = on_threads(
      {0, 1, 2},
      [&](int rank) {
        ControlConfig config = setup.of(rank);
        config.identity.emplace_back("plugin layer-dense", rank == 2 ? "0.2.0 abc" : "0.1.0 def");
        if (rank == 1) config.identity.emplace_back("plugin optimizer-new", "1.0.0 123");
        if (rank == 2) config.identity.erase(config.identity.begin());
        const Control control(config, lines.log());
      },
      &codes);
  for (const uint32_t code : codes) CHECK(code == PLAIT_ERR_CONFIG);
  for (const std::string& text : failures) CHECK(text == failures[0]);
  const std::string& text = failures[0];
  CHECK(has(text, "rank 2 (data 2) on "));
  CHECK(has(text, " has plugin layer-dense 0.2.0 abc, rank 0 has 0.1.0 def"));
  CHECK(has(text, " has plugin optimizer-new 1.0.0 123, rank 0 has none"));
  CHECK(has(text, " has no engine version, rank 0 has 0.1.0"));
  CHECK(has(text, "install the same engine and plugins"));
}

TEST_CASE("an identity of any length meets, and of all its keys the one that differs is named") {
  const Folder folder;
  Lines lines;
  for (const bool differs : {false, true}) {
    const Setup setup = in_file(folder, 2);
    const auto failures = on_threads({0, 1}, [&](int rank) {
      ControlConfig config = setup.of(rank);
      for (int i = 0; i < 20000; ++i)
        config.identity.emplace_back("model.layers[" + std::to_string(i) + "].out", "64");
      std::string long_value(100000, 'x');
      if (differs && rank == 1) {
        config.identity.back().second = "32";
        long_value.back() = 'y';
      }
      config.identity.emplace_back("data.train.path", long_value);
      const Control control(config, lines.log());
    });
    for (const std::string& text : failures) {
      CHECK(has(text, "has model.layers[19999].out 32, rank 0 has 64") == differs);
      CHECK(has(text, "has data.train.path xxx") == differs);
      CHECK(has(text, "xxx... (100000 bytes, hash ") == differs);
      CHECK(!has(text, "model.layers[19998]"));
      if (!differs) CHECK(text == "");
    }
  }
}

TEST_CASE("a rank that counts the ranks in another way") {
  const Folder folder;
  const Setup setup = in_file(folder, 3), other = in_file(folder, 8);
  Lines lines;
  lines.log().set_level(PLAIT_LOG_DEBUG);
  std::vector<uint32_t> codes;
  const auto failures = on_threads(
      {0, 1, 2},
      [&](int rank) {
        // Rank 0 tells those that are there, and others only for a while.
        if (rank == 2) CHECK(eventually([&] { return lines.has("rank 1 has reached rank 0"); }));
        const Control control(rank == 2 ? other.of(7) : setup.of(rank), lines.log());
      },
      &codes);
  for (const uint32_t code : codes) CHECK(code == PLAIT_ERR_CONFIG);
  for (const std::string& text : failures)
    CHECK(has(text, "rank 7 counts 8 ranks in the job, rank 0 counts 3"));
}

TEST_CASE("a rank that is started twice is refused, and the job continues") {
  const Folder folder;
  Setup setup;
  int port = 0;
  setup.size = 2;
  setup.listen_fd = listen_on_loopback(port);
  setup.rendezvous = "127.0.0.1:" + std::to_string(port);
  setup.secret = "sixteen bytes or more";
  Lines lines;
  const auto failures = on_threads({0, 1}, [&](int rank) {
    Control control(setup.of(rank), lines.log());
    if (rank == 1) {
      const std::string text = failure_of(setup.of(1), PLAIT_ERR_CONFIG);
      CHECK(has(text, "rank 1 (data 1) is already connected (process " + std::to_string(getpid())));
      control.set("done", "");
    }
    control.get("done", 60);
    CHECK(control.end_reason() == "");
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(lines.has("refused a connection from 127.0.0.1:"));
  CHECK(lines.has("is already connected"));
  close(setup.listen_fd);
}

TEST_CASE("the file is there for its user alone, and gone when all have met") {
  const Folder folder;
  const Setup setup = in_file(folder, 2);
  Lines lines;
  const mode_t before = umask(0);
  const auto failures = on_threads({0, 1}, [&](int rank) {
    if (rank == 1) {
      struct stat info {};
      CHECK(eventually([&] { return stat(folder.path("rendezvous").c_str(), &info) == 0; }));
      CHECK((info.st_mode & 07777) == 0600);
    }
    const Control control(setup.of(rank), lines.log());
    if (rank == 0) CHECK(access(folder.path("rendezvous").c_str(), F_OK) != 0);
  });
  umask(before);
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("leftovers of an earlier run do not disturb: no process listens there") {
  const Folder folder;
  Lines lines;
  const FreePort port;
  write(folder.path("rendezvous"), stale(port.number()), 0600);
  meet_in(folder, lines);
}

TEST_CASE("leftovers of an earlier run do not disturb: another process listens there") {
  const Folder folder;
  Lines lines;
  int port = 0;
  const int fd = listen_on_loopback(port);
  std::atomic<bool> done{false};
  std::thread other([&] {  // answers every connection with an invalid message
    while (!done) {
      const int one = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
      send_bytes(one, "HTTP/1.0 400 Bad Request\r\n\r\n");
      close(one);
    }
  });
  write(folder.path("rendezvous"), stale(port), 0600);
  meet_in(folder, lines);
  done = true;
  close(connect_to_port(port));
  other.join();
  close(fd);
}

TEST_CASE("leftovers of an earlier run do not disturb: its rank 0 still waits there") {
  const Folder folder, elsewhere;
  Lines lines;
  Setup old = in_file(elsewhere, 2, {.connect_timeout = 4});
  old.times.late = 0.2;
  const auto failures = on_threads({0, 1}, [&](int i) {
    if (i == 0) {
      failure_of(old.of(0), PLAIT_ERR_PEER);  // fails after that time
      return;
    }
    CHECK(eventually([&] { return access(elsewhere.path("rendezvous").c_str(), F_OK) == 0; }));
    // The address of the old run, but not its secret.
    const std::string text = read(elsewhere.path("rendezvous"));
    const size_t at = text.find("127.0.0.1:") + 10;
    write(folder.path("rendezvous"), stale(std::stoi(text.substr(at))), 0600);
    meet_in(folder, lines);
  });
  for (const std::string& failure : failures) CHECK(failure == "");
}

TEST_CASE("files and folders that others may write are refused") {
  const Folder folder;
  Setup setup = in_file(folder, 2, {.connect_timeout = 5});
  setup.times.late = 0.05;
  const std::string path = folder.path("rendezvous");

  for (const mode_t mode : {0660, 0602, 0640, 0604}) {
    write(path, stale(1), mode);
    CHECK(has(failure_of(setup.of(1), PLAIT_ERR_IO), "others may read or write it"));
  }
  unlink(path.c_str());

  CHECK(symlink("/dev/null", path.c_str()) == 0);
  CHECK(has(failure_of(setup.of(0), PLAIT_ERR_IO), "another kind of file has that name"));
  CHECK(has(failure_of(setup.of(1), PLAIT_ERR_IO), "cannot read the rendezvous file"));
  unlink(path.c_str());

  CHECK(mkdir(path.c_str(), 0700) == 0);
  CHECK(has(failure_of(setup.of(0), PLAIT_ERR_IO), "another kind of file has that name"));
  CHECK(has(failure_of(setup.of(1), PLAIT_ERR_IO), "not a regular file"));
  rmdir(path.c_str());

  for (const mode_t mode : {0770, 0702, 01777}) {
    chmod(folder.text().c_str(), mode);
    for (const int rank : {0, 1})
      CHECK(has(failure_of(setup.of(rank), PLAIT_ERR_IO), "others may write its folder"));
  }
  chmod(folder.text().c_str(), 0700);

  Setup nowhere = setup;
  nowhere.rendezvous = "file:" + folder.path("no/such/folder");
  for (const int rank : {0, 1})
    CHECK(has(failure_of(nowhere.of(rank), PLAIT_ERR_IO), "No such file or directory"));
}

TEST_CASE("the text of a rendezvous file is read as it was written, and nothing else") {
  const control::JoinInfo one{"10.1.2.3", 4567, std::string(32, '\x01'), std::string(16, '\x02')};
  const std::string text = control::encode(one);
  const control::JoinInfo read = control::decode_join_info("f", text);
  CHECK(read.host == one.host);
  CHECK(read.port == one.port);
  CHECK(read.secret == one.secret);
  CHECK(read.run == one.run);
  for (size_t size = 0; size + 1 < text.size(); ++size)
    CHECK_THROWS_AS(control::decode_join_info("f", text.substr(0, size)), Error);
}

TEST_SUITE_END();
