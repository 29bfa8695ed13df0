#include "engine/runtime/job_rendezvous.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/env_variables.hpp"

namespace plait::runtime {
namespace {

constexpr const char* kFile = "file:";
constexpr const char* kMakeSecret = "(umask 077; head -c 32 /dev/urandom > FILE)";

// Owns a descriptor and closes it, unless it is -1.
struct ScopedFd {
  int fd = -1;
  ~ScopedFd() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail_path(const char* variable, const std::string& path, const std::string& why) {
  fail_config(std::string("[job] ") + variable + " names '" + printable(path) + "', " + why);
}

// Reads from the start if possible, so that reading twice gives the same; from a pipe, the
// remaining bytes.
kit::Secret read_secret(int fd, const char* variable) {
  const bool seekable = ::lseek(fd, 0, SEEK_CUR) >= 0;
  const auto read_all = [&](char* room) {
    size_t n = 0;
    while (n < kMaxSecret + 1) {
      const size_t left = kMaxSecret + 1 - n;
      const ssize_t got = seekable ? ::pread(fd, room + n, left, static_cast<off_t>(n))
                                   : ::read(fd, room + n, left);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_io(std::string("[job] cannot read the secret of ") + variable, errno);
      if (got == 0) break;
      n += static_cast<size_t>(got);
    }
    return n;
  };
  const kit::Secret secret = kit::Secret::filled(kMaxSecret + 1, read_all);
  const size_t n = secret.size();
  if (n < kMinSecret || n > kMaxSecret)
    fail_config(std::string("[job] the secret of ") + variable + " has " +
                (n > kMaxSecret ? "more than " + std::to_string(kMaxSecret) : std::to_string(n)) +
                " bytes, expected " + std::to_string(kMinSecret) + " to " +
                std::to_string(kMaxSecret) + "; a good one is made by: " + kMakeSecret);
  return secret;
}

kit::Secret secret_of_file(const std::string& path) {
  constexpr const char* kName = "PLAIT_SECRET_FILE";
  const ScopedFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.fd < 0)
    fail_path(kName, path,
              errno == ELOOP ? "which is a symbolic link; give the file itself"
              : errno == ENOENT
                  ? std::string("and there is no such file; make one by: ") + kMakeSecret
                  : "which cannot be opened: " + std::system_category().message(errno));
  struct stat s {};
  if (::fstat(file.fd, &s) != 0) fail_io("[job] cannot examine '" + path + "'", errno);
  if (!S_ISREG(s.st_mode)) fail_path(kName, path, "which is not a regular file");
  if (s.st_uid != ::geteuid())
    fail_path(kName, path,
              "which belongs to user " + std::to_string(s.st_uid) + ", expected this user, " +
                  std::to_string(::geteuid()));
  if (s.st_mode & 077)
    fail_path(
        kName, path,
        strf(
            "which other users may access (mode %04o), expected 0600; run chmod 600 on it, and put "
            "a new secret into it if they may have read the old one",
            static_cast<unsigned>(s.st_mode & 07777)));
  return read_secret(file.fd, kName);
}

// An inherited descriptor; child processes must not inherit it further.
int inherited(const EnvVariables& v, const char* name) {
  const int fd = static_cast<int>(v.integer(name, 0, 1 << 20));
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    v.refuse(name, "the number of an open file descriptor that this process inherited");
  return fd;
}

kit::Secret secret_of(const EnvVariables& v) {
  const bool file = v.has("PLAIT_SECRET_FILE"), fd = v.has("PLAIT_SECRET_FD");
  if (file && fd)
    fail_config("[job] PLAIT_SECRET_FILE and PLAIT_SECRET_FD are both set; unset one of them");
  if (file) return secret_of_file(v.text("PLAIT_SECRET_FILE"));
  if (fd) return read_secret(inherited(v, "PLAIT_SECRET_FD"), "PLAIT_SECRET_FD");
  return {};
}

int listening_socket(const EnvVariables& v) {
  constexpr const char* kName = "PLAIT_LISTEN_FD";
  const int fd = inherited(v, kName);
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
    v.refuse(kName, "the number of a listening socket");
  return fd;
}

// Path of the file through which the ranks on this machine connect when no rendezvous is set.
std::string default_rendezvous(const Job& job, const std::string& key, const GetEnv& get) {
  if (job.local_size == job.size && !key.empty())
    return kFile + join_path(private_folder(get), file_key(key) + ".rendezvous");
  const std::string ranks = std::to_string(job.size) + " ranks";
  fail_config("[job] PLAIT_RENDEZVOUS is not set, and " +
              (job.local_size == job.size
                   ? "nothing distinguishes the " + ranks + " of this job from the ranks of another"
                   : "of the " + ranks + " of this job only " + std::to_string(job.local_size) +
                         " are on this machine") +
              "; set the rendezvous on all ranks: PLAIT_RENDEZVOUS=file:PATH, with a path in a "
              "folder that "
              "all machines share, or PLAIT_RENDEZVOUS=HOST:PORT, with a name of rank 0's "
              "machine and "
              "PLAIT_SECRET_FILE=FILE, created once by " +
              kMakeSecret + " and copied to every machine");
}

}  // namespace

bool is_file_rendezvous(const std::string& rendezvous) { return rendezvous.starts_with(kFile); }

std::string rendezvous_error(const std::string& rendezvous) {
  if (is_file_rendezvous(rendezvous)) {
    const std::string path = rendezvous.substr(std::string_view(kFile).size());
    if (!is_absolute(path)) return "has no absolute path after 'file:'";
    return path.back() == '/' ? "names a folder, not a file in it" : "";
  }
  const size_t colon = rendezvous.rfind(':');
  if (colon == std::string::npos || colon == 0) return "is neither HOST:PORT nor file:PATH";
  const std::string host = rendezvous.substr(0, colon), port = rendezvous.substr(colon + 1);
  const bool digits =
      !port.empty() && port.size() <= 5 &&
      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || std::stoi(port) < 1 || std::stoi(port) > 65535)
    return "has '" + port + "' for a port, expected a number from 1 to 65535";
  const bool brackets = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!brackets && host.find_first_of(":[]/ \t") != std::string::npos)
    return "has '" + host + "' for a host, expected a name or an address, in brackets if IPv6";
  return "";
}

void configure_rendezvous(Job& job, const std::string& key, const GetEnv& get) {
  const EnvVariables v(get);
  job.connect_timeout = v.seconds("PLAIT_CONNECT_TIMEOUT", job.connect_timeout);
  job.timeout = v.seconds("PLAIT_TIMEOUT", job.timeout);
  if (v.has("PLAIT_MEETING"))
    fail_config("[job] PLAIT_MEETING is called PLAIT_RENDEZVOUS now; rename the variable");
  if (job.size == 1) return;  // no other rank to connect to
  const bool told = v.has("PLAIT_RENDEZVOUS");
  job.rendezvous = told ? v.text("PLAIT_RENDEZVOUS") : default_rendezvous(job, key, get);
  if (const std::string fault = rendezvous_error(job.rendezvous); told && !fault.empty())
    v.refuse("PLAIT_RENDEZVOUS", "HOST:PORT or file:PATH; it " + printable(fault));
  job.secret = secret_of(v);
  if (is_file_rendezvous(job.rendezvous)) {
    if (!job.secret.empty())
      fail_config(
          "[job] a secret is given (" +
          std::string(v.has("PLAIT_SECRET_FILE") ? "PLAIT_SECRET_FILE" : "PLAIT_SECRET_FD") +
          "), but the rendezvous is '" + printable(job.rendezvous) +
          "', a file that contains its own secret; unset the variable");
    return;
  }
  if (job.secret.empty())
    fail_config("[job] the rendezvous is PLAIT_RENDEZVOUS=" + printable(job.rendezvous) +
                ", where anybody may connect, but the job has no secret; set "
                "PLAIT_SECRET_FILE to a file that every rank can read, created once by: " +
                kMakeSecret);
  if (job.rank == 0 && v.has("PLAIT_LISTEN_FD")) job.listen_fd = listening_socket(v);
}

std::string private_folder(const GetEnv& get) {
  const EnvVariables v(get);
  struct stat s {};
  const std::string runtime = v.text("XDG_RUNTIME_DIR");
  const bool usable = is_absolute(runtime) && ::stat(runtime.c_str(), &s) == 0 &&
                      S_ISDIR(s.st_mode) && s.st_uid == ::geteuid();
  std::string folder =
      usable ? join_path(runtime, "plait") : "/tmp/plait-" + std::to_string(::geteuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail_io("[job] cannot make the folder '" + folder + "' for the rendezvous file", errno);
  // Not followed: if other users may write the folder, the link may be theirs.
  if (::lstat(folder.c_str(), &s) != 0) fail_io("[job] cannot examine '" + folder + "'", errno);
  if (!S_ISDIR(s.st_mode) || s.st_uid != ::geteuid() || (s.st_mode & 077))
    fail(PLAIT_ERR_IO, "[job] the rendezvous file would be in '" + folder +
                           "', which is not a folder of this user alone (" +
                           strf("owner %u, mode %04o", static_cast<unsigned>(s.st_uid),
                                static_cast<unsigned>(s.st_mode & 07777)) +
                           "); remove it, or set another path: PLAIT_RENDEZVOUS=file:PATH");
  return folder;
}

std::string file_key(const std::string& text) {
  std::string name;
  for (const char c : text.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-';
    name += plain ? c : '-';
  }
  return name + "-" + hex64(hash64(text));
}

std::string ancestor_key() {
  struct Process {
    std::string name, parent, start;
  };
  // /proc/<id>/stat: id (name) state parent ..., the 22nd field is the start time. The name may
  // contain any character.
  const auto read = [](const std::string& id) {
    std::ifstream in("/proc/" + id + "/stat");
    std::string line;
    std::getline(in, line);
    const size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) return Process{};
    const std::vector<std::string> rest = split(line.substr(close + 1), ' ');
    if (rest.size() < 21) return Process{};
    return Process{line.substr(open + 1, close - open - 1), rest[2], rest[20]};
  };
  const std::string parent = std::to_string(::getppid());
  std::string id = parent;
  for (int depth = 0; depth < 32 && id != "0" && !id.empty(); ++depth) {
    const Process p = read(id);
    if (p.name.find("pmi_proxy") != std::string::npos) return id + "-" + p.start;
    id = p.parent;
  }
  return parent + "-" + read(parent).start;
}

}  // namespace plait::runtime
