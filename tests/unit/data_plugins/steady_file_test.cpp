// Files on a network: reads that fail for a while are tried again, on the file opened anew.
#include "plugins/support/steady_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "plugins/support/tensor_file.hpp"
#include "tests/support/descriptors.hpp"
#include "tests/unit/data_plugins/dataset_bench.hpp"

using namespace plait;
using support::FileCalls;
using support::SteadyFile;

namespace {

// What the next reads do: an errno, 0 for an empty read, -1 for a read as it should be, -2 for an
// empty read behind a call that was interrupted; and what opening the file does the next times, and
// asking for its size.
struct Script {
  std::vector<int> reads;
  size_t at = 0;
  std::vector<double> waits;
  int opens = 0;
  uint64_t shrunk_to = UINT64_MAX;
  std::vector<int> openings{}, sizes{};  // errors; -1 for none
} script;

// Whether the next of these fails; sets errno.
bool fails_next(std::vector<int>& errors) {
  if (errors.empty()) return false;
  errno = errors.front();
  errors.erase(errors.begin());
  return errno >= 0;
}

const FileCalls kCalls = {
    [](const char* path) {
      ++script.opens;
      return fails_next(script.openings) ? -1 : support::system_calls().open(path);
    },
    [](int fd, void* to, size_t n, off_t at) -> ssize_t {
      const int what = script.at < script.reads.size() ? script.reads[script.at++] : -1;
      if (what == -1) return support::system_calls().pread(fd, to, std::min<size_t>(n, 3), at);
      errno = what == -2 ? EINTR : what;
      return what <= 0 ? 0 : -1;
    },
    [](int fd, uint64_t& bytes) {
      if (fails_next(script.sizes)) return -1;
      const int failed = support::system_calls().size(fd, bytes);
      bytes = std::min(bytes, script.shrunk_to);
      return failed;
    },
    [](double seconds) { script.waits.push_back(seconds); },
};

std::string read_all(const SteadyFile& file) {
  std::string text(file.size(), ' ');
  file.read(0, text.data(), text.size());
  return text;
}

std::string error_of(const SteadyFile& file, uint32_t code) {
  try {
    read_all(file);
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "no error";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("stale handles, errors of a network and empty reads are tried again") {
  const fake::Folder folder;
  const support::SourceFile source{"data.tokens", "path", folder.path("f.bin")};
  std::ofstream(source.path) << "some tokens";
  script = {{-1, ESTALE, EIO, 0, -1, ETIMEDOUT}, 0, {}, 0, UINT64_MAX};
  const SteadyFile file(source, "hint", kCalls);
  CHECK(read_all(file) == "some tokens");
  CHECK(script.waits == std::vector<double>{1, 2, 4, 1});  // a read that succeeds begins anew
  CHECK(script.opens == 5);
  script = {{ESTALE, ESTALE, ESTALE, ESTALE, ESTALE}, 0, {}, 0, UINT64_MAX};
  CHECK(contains(error_of(file, PLAIT_ERR_IO), "offset 0: cannot read it, in 5 attempts: Stale"));
  CHECK(script.waits == std::vector<double>{1, 2, 4, 8});
  CHECK(read_all(file) == "some tokens");  // later it is there again
}

TEST_CASE("a read that a signal interrupts is repeated at once, an empty one is not") {
  const fake::Folder folder;
  const support::SourceFile source{"data.tokens", "path", folder.path("f.bin")};
  std::ofstream(source.path) << "ten tokens";
  script = {{EINTR, -1, EINTR, EINTR}, 0, {}, 0, UINT64_MAX};
  const SteadyFile file(source, "", kCalls);
  CHECK(read_all(file) == "ten tokens");
  CHECK(script.waits.empty());  // nor behind the last read, which has one byte
  script = {{-2}, 0, {}, 0, UINT64_MAX};
  CHECK(read_all(file) == "ten tokens");
  CHECK(script.waits == std::vector<double>{1});
  script = {{0, 0, 0, 0, 0}, 0, {}, 0, UINT64_MAX};
  CHECK(contains(error_of(file, PLAIT_ERR_IO),
                 "offset 0: cannot read it, in 5 attempts: reads are empty; "));
}

TEST_CASE("a file that cannot be opened for a while is tried again") {
  const fake::Folder folder;
  const support::SourceFile source{"data.images", "path", folder.path("f.png")};
  std::ofstream(source.path) << "an image";
  script = {};
  script.openings = {ESTALE, EIO, -1};
  script.sizes = {ESTALE};  // of the third attempt
  const SteadyFile file(source, "", kCalls);
  CHECK(read_all(file) == "an image");
  CHECK(script.opens == 4);
  CHECK(script.waits == std::vector<double>{1, 2, 4});
  const auto opening_error = [&](std::vector<int> errors) {
    script = {};
    script.openings = std::move(errors);
    try {
      const SteadyFile other(source, "", kCalls);
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_IO);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  CHECK(contains(opening_error({ESTALE, ESTALE, ESTALE, ESTALE, ESTALE}),
                 "f.png': cannot open it, in 5 attempts: Stale file handle; "));
  CHECK(script.waits == std::vector<double>{1, 2, 4, 8});
  CHECK(contains(opening_error({EACCES}), "f.png': cannot open it: Permission denied; "));
  CHECK(script.waits.empty());
}

TEST_CASE("what does not pass is an error at once") {
  const fake::Folder folder;
  const support::SourceFile source{"data.tokens", "path", folder.path("f.bin")};
  std::ofstream(source.path) << "some tokens";
  script = {{EACCES}, 0, {}, 0, UINT64_MAX};
  const SteadyFile file(source, "hint", kCalls);
  CHECK(contains(error_of(file, PLAIT_ERR_IO), "cannot read it: Permission denied"));
  script = {{-1, 0}, 0, {}, 0, 5};
  CHECK(contains(error_of(file, PLAIT_ERR_DATA), "the file ended while it was read, 11 bytes"));
  CHECK(script.waits.empty());
  const support::SourceFile none{"data.tokens", "path", folder.path("none")};
  try {
    const SteadyFile missing(none, "make it so");
    CHECK(false);
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_NOT_FOUND);
    CHECK(contains(e.what(), "No such file"));
    CHECK(contains(e.what(), "make it so"));
  }
}

TEST_CASE("a file that was replaced by a shorter one is not read in its place") {
  const fake::Folder folder;
  const support::SourceFile source{"data.tokens", "path", folder.path("f.bin")};
  std::ofstream(source.path) << "some tokens";
  script = {{ESTALE}, 0, {}, 0, UINT64_MAX};
  const SteadyFile file(source, "hint", kCalls);
  std::filesystem::rename(source.path, folder.path("old"));
  std::ofstream(source.path) << "other";
  CHECK(read_all(file) == "some tokens");
}

TEST_CASE("the system waits as long as it is asked to") {
  for (const double seconds : {0.01, 1.01}) {  // below a second, and with whole ones
    const auto begin = std::chrono::steady_clock::now();
    support::system_calls().wait(seconds);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    CHECK(waited.count() >= seconds);
    CHECK(waited.count() < seconds + 5);  // a busy machine wakes late
  }
}

TEST_CASE("a file is opened once, whatever failed before, and where its number is 0") {
  const fake::Folder folder;
  const std::string path = folder.path("f.bin");
  std::ofstream(path) << "some tokens";
  const int input = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  ::close(0);
  errno = EINTR;  // of another call
  const int fd = support::system_calls().open(path.c_str());
  if (input >= 0) ::dup2(input, 0), ::close(input);
  CHECK(fd == 0);
}

TEST_CASE("a file is closed with its reader, and one that is not open has no size") {
  const fake::Folder folder;
  const support::SourceFile source{"data.tokens", "path", folder.path("f.bin")};
  std::ofstream(source.path) << "some tokens";
  const size_t before = test::open_descriptors().size();
  {
    const SteadyFile file(source, "");
    CHECK(test::open_descriptors().size() == before + 1);
  }
  CHECK(test::open_descriptors().size() == before);
  uint64_t bytes = 0;
  CHECK(support::system_calls().size(-1, bytes) != 0);
}

// Opening a pipe that nobody writes would wait for a writer; a terminal would become that of the
// process.
TEST_CASE("a pipe is refused at once, whether somebody writes it or not") {
  const fake::Folder folder;
  const support::SourceFile source{"data.tokens", "path", folder.path("pipe")};
  REQUIRE(::mkfifo(source.path.c_str(), 0600) == 0);
  const int writer = ::open(source.path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(writer >= 0);
  const int fd = support::system_calls().open(source.path.c_str());
  REQUIRE(fd >= 0);
  const bool waits = (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
  ::close(fd);
  ::close(writer);
  REQUIRE_FALSE(waits);  // else the next line has no end
  try {
    const SteadyFile file(source, "");
    CHECK(false);
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_IO);
    CHECK(contains(e.what(), "pipe': is not a regular file; give the path of a file"));
  }
}

TEST_CASE("a program that the host starts gets no descriptor of a file of data") {
  const fake::Folder folder;
  const std::vector<std::string> before = test::passed_on();
  const auto n_open = [](const std::string& path) {
    const auto all = test::open_descriptors();
    return std::count_if(all.begin(), all.end(), [&](const test::OpenDescriptor& one) {
      return one.leads_to == std::filesystem::canonical(path);
    });
  };
  const support::SourceFile source{"data.tokens", "path", folder.path("f.bin")};
  std::ofstream(source.path) << "some tokens";
  script = {{ESTALE}, 0, {}, 0, UINT64_MAX};
  const SteadyFile file(source, "", kCalls);
  CHECK(n_open(source.path) == 1);
  CHECK(test::passed_on() == before);
  read_all(file);  // opens it anew
  CHECK(script.opens == 2);
  CHECK(n_open(source.path) == 1);
  CHECK(test::passed_on() == before);
  const support::SourceFile other{"data.safetensors", "path", folder.path("g.bin")};
  std::ofstream(other.path) << "tensors";
  {
    const support::TensorFile tensors(other);
    CHECK(n_open(other.path) == 1);
    CHECK(test::passed_on() == before);
  }
  CHECK(n_open(other.path) == 0);
}
