#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/hash.hpp"
#include "tests/unit/error_of.hpp"

using namespace plait;
using test::error_of;

namespace {

// A folder that is removed with the test.
struct Scratch {
  FileSystem& files = FileSystem::posix();
  std::string folder;
  Scratch() {
    char name[] = "./plait-files-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    folder = files.real_path(name);
  }
  ~Scratch() { files.remove_all(folder); }
  std::string operator/(const std::string& name) const { return folder + "/" + name; }
};

// While it lives, this thread has no right to pass over the permissions of files, as root has.
class RightsOfAnyUser {
 public:
  RightsOfAnyUser() {
    REQUIRE(syscall(SYS_capget, &of_, before_) == 0);
    __user_cap_data_struct fewer[2] = {before_[0], before_[1]};
    fewer[0].effective &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH);
    REQUIRE(syscall(SYS_capset, &of_, fewer) == 0);
  }
  ~RightsOfAnyUser() { syscall(SYS_capset, &of_, before_); }
  RightsOfAnyUser(const RightsOfAnyUser&) = delete;
  RightsOfAnyUser& operator=(const RightsOfAnyUser&) = delete;

 private:
  __user_cap_header_struct of_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2]{};
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("files are written, read, mapped, hashed and removed") {
  const Scratch at;
  const std::string path = at / "a";
  auto file = at.files.open(path, OpenMode::kCreate);
  file->write("hello");
  file->write_at(0, "J", 1);
  file->sync();
  file->close();
  CHECK(at.files.read_all(path, 100) == "Jello");
  CHECK(at.files.map(path)->text() == "Jello");
  CHECK(hash128_file(at.files, path) == hash128("Jello"));
  CHECK(at.files.info(path).kind == FileKind::kRegular);
  CHECK(at.files.info(path).size == 5);
  at.files.open(path, OpenMode::kAppend)->write("!");
  CHECK(at.files.read_all(path, 100) == "Jello!");
  at.files.open(path, OpenMode::kReplace)->write("");
  CHECK(at.files.map(path)->size() == 0);
  CHECK(at.files.map(path)->data() == nullptr);
  at.files.remove(path);
  CHECK_FALSE(at.files.exists(path));
}

TEST_CASE("replace leaves the new content and nothing else") {
  const Scratch at;
  at.files.replace(at / "s", "one");
  at.files.replace(at / "s", "two");
  CHECK(at.files.read_all(at / "s", 10) == "two");
  CHECK(at.files.list(at.folder) == std::vector<std::string>{"s"});
}

TEST_CASE("folders: made with parents, listed in order, removed as a tree") {
  const Scratch at;
  at.files.make_folders(at / "x/y/z");
  at.files.make_folders(at / "x/y/z");
  at.files.replace(at / "x/b", "");
  at.files.replace(at / "x/a", "");
  CHECK(at.files.list(at / "x") == std::vector<std::string>{"a", "b", "y"});
  at.files.sync_folder(at / "x");
  at.files.rename(at / "x", at / "w");
  CHECK(at.files.is_folder(at / "w/y"));
  CHECK(at.files.free_bytes(at.folder) > 0);
  at.files.remove_all(at / "w");
  at.files.remove_all(at / "w");
  CHECK_FALSE(at.files.exists(at / "w"));
}

TEST_CASE("remove_all removes a link and leaves its target") {
  const Scratch at;
  at.files.make_folders(at / "kept");
  at.files.replace(at / "kept/file", "x");
  at.files.make_folders(at / "tree");
  REQUIRE(symlink((at / "kept").c_str(), (at / "tree/link").c_str()) == 0);
  REQUIRE(symlink("nowhere", (at / "tree/dangling").c_str()) == 0);
  at.files.remove_all(at / "tree");
  CHECK_FALSE(at.files.exists(at / "tree"));
  CHECK(at.files.exists(at / "kept/file"));
}

TEST_CASE("errors name the path and the reason") {
  const Scratch at;
  Error e = error_of([&] { at.files.read_all(at / "none", 10); });
  CHECK(e.code() == PLAIT_ERR_NOT_FOUND);
  CHECK(contains(e.text(), "none'"));
  at.files.replace(at / "big", std::string(100, 'x'));
  e = error_of([&] { at.files.read_all(at / "big", 99); });
  CHECK(e.code() == PLAIT_ERR_DATA);
  CHECK(contains(e.text(), "has 100 B, expected at most 99 B"));
  e = error_of([&] { at.files.read_stream(at / "big", 99); });
  CHECK(contains(e.text(), "has more than 99 B"));
  e = error_of([&] { at.files.map(at / "big", 99); });
  CHECK(e.code() == PLAIT_ERR_DATA);
  CHECK(contains(e.text(), "has 100 B, expected at most 99 B"));
  CHECK(error_of([&] { at.files.map(at.folder); }).code() == PLAIT_ERR_IO);
  CHECK(error_of([&] { at.files.open(at / "big", OpenMode::kCreate); }).code() == PLAIT_ERR_IO);
  CHECK(error_of([&] { at.files.make_folder(at.folder); }).code() == PLAIT_ERR_IO);
  e = error_of([&] { at.files.open(at / "no/such", OpenMode::kReplace); });
  CHECK(e.code() == PLAIT_ERR_IO);
  CHECK(contains(e.text(),
                 "there is no folder '" + (at / "no") + "'; make it, or name another place"));
  e = error_of([&] { at.files.make_folder(at / "big"); });
  CHECK(contains(e.text(), "it is a file, not a folder; name another place"));
  e = error_of([&] { at.files.make_folder(at / "big/x/y"); });
  CHECK(e.code() == PLAIT_ERR_IO);
  CHECK(contains(e.text(), ": '" + (at / "big") + "' is a file, not a folder; name another"));
  REQUIRE(::symlink("gone", (at / "link").c_str()) == 0);
  for (const char* path : {"link", "link/x/y"}) {
    CAPTURE(path);
    e = error_of([&] { at.files.make_folders(at / path); });
    CHECK(e.code() == PLAIT_ERR_IO);
    CHECK(contains(e.text(),
                   "/link': it is a link to 'gone', which is not there; remove the "
                   "link, or name another place"));
  }
  e = error_of([&] { at.files.rename(at / "p", at / "q"); });
  CHECK(contains(e.text(), "/p'"));
  CHECK(contains(e.text(), "/q'"));
  e = error_of([&] { at.files.replace(at / "no/such", "x"); });
  CHECK(contains(e.text(), "no/such"));
}

TEST_CASE("what is in the way of a new file or folder is told") {
  const Scratch at;
  const auto of_folder = [&](const std::string& path) {
    const Error e = error_of([&] { at.files.make_folder(path); });
    CHECK(e.code() == PLAIT_ERR_IO);
    return e.text();
  };
  const auto of_file = [&](const std::string& path) {
    const Error e = error_of([&] { at.files.open(path, OpenMode::kCreate); });
    CHECK(e.code() == PLAIT_ERR_IO);
    return e.text();
  };
  const std::string another = "name another place";
  REQUIRE(symlink("nowhere", (at / "link").c_str()) == 0);
  const std::string broken =
      "': it is a link to 'nowhere', which is not there; remove the link, or " + another;
  CHECK(of_folder(at / "link") == "[files] cannot make the folder '" + (at / "link") + broken);
  CHECK(contains(of_file(at / "link"), broken));
  at.files.make_folder(at / "folder");
  CHECK_FALSE(contains(of_folder(at / "folder"), "not a folder"));
  CHECK_FALSE(contains(of_folder(at / "folder"), "may not write"));
  at.files.replace(at / "file", "");
  CHECK(contains(of_file(at / "file/x/y"),
                 "': '" + (at / "file") + "' is a file, not a folder; " + another));
  CHECK(contains(of_folder(at / "no/such/folder"),
                 "': there is no folder '" + (at / "no/such") + "'; make it, or " + another));
  CHECK(contains(of_file("/proc/plait-test"), "': '/proc' takes no new files; " + another));
}

// As for a user who is not root: without the right to pass over permissions.
TEST_CASE("permissions that are missing are told, with whose they are") {
  const Scratch at;
  at.files.make_folder(at / "closed");
  at.files.replace(at / "file", "x");
  REQUIRE(chmod((at / "closed").c_str(), 0500) == 0);
  REQUIRE(chmod((at / "file").c_str(), 0400) == 0);
  const RightsOfAnyUser any;
  Error e = error_of([&] { at.files.open(at / "closed/new", OpenMode::kCreate); });
  CHECK(e.code() == PLAIT_ERR_IO);
  CHECK(contains(
      e.text(), "closed/new': you may not write in '" + (at / "closed") + "'; name another place"));
  e = error_of([&] { at.files.make_folder(at / "closed/a"); });
  CHECK(contains(e.text(), "': you may not write in '" + (at / "closed") + "'; name another"));
  e = error_of([&] { at.files.open(at / "file", OpenMode::kAppend); });
  CHECK(e.code() == PLAIT_ERR_IO);
  CHECK(contains(e.text(), "/file': you may not write it; name another place"));
}

TEST_CASE("a link into a folder that is closed is not called broken") {
  const Scratch at;
  at.files.make_folders(at / "closed/runs");
  REQUIRE(symlink("closed/runs", (at / "runs").c_str()) == 0);
  REQUIRE(chmod((at / "closed").c_str(), 0) == 0);
  {
    const RightsOfAnyUser any;
    const auto told = [](const Error& e, const std::string& end) {
      CAPTURE(e.text());
      return e.code() == PLAIT_ERR_IO && contains(e.text(), end + "; name another place") &&
             !contains(e.text(), "is not there") && !contains(e.text(), "not a folder");
    };
    const std::string in = ": you may not write in '" + (at / "runs") + "'";
    CHECK(told(error_of([&] { at.files.make_folder(at / "runs/demo"); }), in));
    CHECK(told(error_of([&] { at.files.make_folder(at / "runs/demo/x"); }), in));
    CHECK(told(error_of([&] { at.files.open(at / "runs/new", OpenMode::kCreate); }), in));
    CHECK(told(error_of([&] { at.files.make_folder(at / "runs"); }), ": you may not write it"));
  }
  REQUIRE(chmod((at / "closed").c_str(), 0700) == 0);
}

TEST_CASE("a pipe is no regular file, and nothing waits for its other end") {
  const Scratch at;
  const std::string pipe = at / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const auto refused = [&](const auto& what) {
    const Error e = error_of(what);
    CAPTURE(e.text());
    return e.code() == PLAIT_ERR_DATA && contains(e.text(), pipe + "'") &&
           (contains(e.text(), "is a pipe") || contains(e.text(), "is not a regular file"));
  };
  CHECK(refused([&] { at.files.read_all(pipe, 10); }));
  CHECK(refused([&] { at.files.map(pipe); }));
  CHECK(refused([&] { at.files.open_input(pipe); }));
  CHECK(refused([&] { at.files.open(pipe, OpenMode::kReplace); }));
  CHECK(refused([&] { at.files.lock(pipe); }));
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  CHECK(refused([&] { at.files.open(pipe, OpenMode::kReplace); }));
  ::close(reader);
  std::thread writer([&] { std::ofstream(pipe) << "an experiment"; });
  CHECK(at.files.read_stream(pipe, 100) == "an experiment");
  writer.join();
  CHECK(!at.files.read_all("/proc/self/status", 1 << 20).empty());  // its size is 0
}

TEST_CASE("a file that is opened never takes the place of a standard stream") {
  const Scratch at;
  const int before = dup(STDIN_FILENO);
  close(STDIN_FILENO);
  const auto file = at.files.open(at / "a", OpenMode::kCreate);
  const bool is_free = fcntl(STDIN_FILENO, F_GETFD) < 0;
  if (before >= 0) {
    dup2(before, STDIN_FILENO);
    close(before);
  }
  CHECK(is_free);
  file->write("x", 1);
  file->close();
  CHECK(at.files.read_all(at / "a", 10) == "x");
}

TEST_CASE("a file is read at any place, and one that was cut short is an error") {
  const Scratch at;
  const std::string path = at / "a";
  at.files.replace(path, "0123456789");
  const auto file = at.files.open_input(path);
  CHECK(file->size() == 10);
  char out[4] = {};
  file->read_at(3, out, 3);
  CHECK(std::string(out) == "345");
  file->read_at(10, out, 0);
  Error e = error_of([&] { file->read_at(8, out, 4); });
  CHECK(e.code() == PLAIT_ERR_DATA);
  CHECK(contains(
      e.text(),
      "ends at byte 10, expected to read up to byte 12; it had 10 bytes when it was opened: "
      "the read extends past its end"));
  REQUIRE(truncate(path.c_str(), 5) == 0);
  e = error_of([&] { file->read_at(3, out, 4); });
  CHECK(e.code() == PLAIT_ERR_DATA);
  CHECK(e.text() ==
        "[files] '" + path +
            "' ends at byte 5, expected to read up to byte 7; it had 10 bytes when it was "
            "opened: it was truncated meanwhile; copy it again");
  CHECK_THROWS_AS(hash128_file(at.files, at.folder), Error);
  CHECK(error_of([&] { at.files.open_input(at / "none"); }).code() == PLAIT_ERR_NOT_FOUND);
  CHECK(error_of([&] { at.files.open_input(path, 4); }).code() == PLAIT_ERR_DATA);
  CHECK(error_of([&] { at.files.open_input(at.folder); }).code() == PLAIT_ERR_IO);
  // More than one block.
  const std::string big(600'000, 'b');
  at.files.replace(path, big);
  CHECK(hash128_file(at.files, path) == hash128(big));
}

TEST_CASE("what is known of a file: size, rights, owner, when it was changed") {
  const Scratch scratch;
  const auto file = scratch.files.open(scratch / "f", OpenMode::kCreate);
  file->write("0123456789");
  CHECK(file->written() == 10);
  file->write_at(4, "ab", 2);
  file->write("xyz");
  CHECK(file->written() == 13);
  file->close();
  CHECK(scratch.files.read_all(scratch / "f", 100) == "0123ab6789xyz");
  REQUIRE(chmod((scratch / "f").c_str(), 01640) == 0);
  const timespec times[2] = {{1'700'000'000, 5}, {1'600'000'000, 123'456'789}};
  REQUIRE(utimensat(AT_FDCWD, (scratch / "f").c_str(), times, 0) == 0);
  const FileInfo info = scratch.files.info(scratch / "f");
  CHECK(info.kind == FileKind::kRegular);
  CHECK(info.size == 13);
  struct stat kept {};  // a file system may keep less than it was told
  REQUIRE(stat((scratch / "f").c_str(), &kept) == 0);
  CHECK(info.mode == (kept.st_mode & 07777));
  CHECK((info.mode & 0777) == 0640);
  CHECK(info.owner == kept.st_uid);
  CHECK(info.group == kept.st_gid);
  CHECK(info.modified_ns / 1'000'000'000 == 1'600'000'000);
  CHECK(info.modified_ns % 1'000'000'000 == kept.st_mtim.tv_nsec);
  CHECK(scratch.files.info(scratch / "none").kind == FileKind::kNone);
  CHECK(scratch.files.info(scratch / "f/none").kind == FileKind::kNone);
}

TEST_CASE("new folders have the rights that the process leaves") {
  const Scratch scratch;
  {
    struct Umask {
      mode_t before = umask(027);
      ~Umask() { umask(before); }
    } const of_this_block;
    scratch.files.make_folders(scratch / "a/b");
  }
  for (const char* name : {"a", "a/b"})
    CHECK((scratch.files.info(scratch / name).mode & 0777) == 0750);
  scratch.files.make_folders("");
}

TEST_CASE("a stream is read to its end, up to a size; one that is open elsewhere from its start") {
  const Scratch scratch;
  scratch.files.replace(scratch / "f", "begin" + std::string(99'995, 'x') + "end");
  const int fd = open((scratch / "f").c_str(), O_RDONLY);
  REQUIRE(fd >= 0);
  REQUIRE(lseek(fd, 99'999, SEEK_SET) == 99'999);
  const std::string again = scratch.files.read_stream("/dev/fd/" + std::to_string(fd), 1 << 20);
  CHECK(again.starts_with("begin"));
  CHECK(again.ends_with("xend"));
  close(fd);
  CHECK(scratch.files.read_stream(scratch / "f", 100'003).size() == 100'003);
  CHECK(error_of([&] { scratch.files.read_stream(scratch / "f", 100'002); }, PLAIT_ERR_DATA) ==
        "[files] '" + scratch / "f" +
            "' has more than 97.66 KiB, the most accepted here; check that it is the right file");
}

TEST_CASE("a lock is held by one") {
  const Scratch at;
  auto first = at.files.lock(at / "lock");
  CHECK(error_of([&] { at.files.lock(at / "lock"); }).code() == PLAIT_ERR_STATE);
  first.reset();
  CHECK_NOTHROW(at.files.lock(at / "lock"));
}

TEST_CASE("texts of paths") {
  CHECK(join_path("a", "b") == "a/b");
  CHECK(join_path("a/", "b") == "a/b");
  CHECK(join_path("", "b") == "b");
  CHECK(join_path("a", "/b") == "/b");
  CHECK(folder_of("a/b") == "a");
  CHECK(folder_of("b") == ".");
  CHECK(folder_of("/b") == "/");
  CHECK(folder_of("a/b/") == "a");
  CHECK(folder_of("/") == "/");
  CHECK(name_of("a/b") == "b");
  CHECK(name_of("b/") == "b");
  CHECK(name_of("/") == "/");
}
