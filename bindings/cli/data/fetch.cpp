#include "bindings/cli/data/fetch.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace plait::cli {
namespace {

struct File {
  int fd;
  explicit File(int descriptor) : fd(descriptor) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

struct Transfer {
  int fd;
  uint64_t before;  // bytes present before
  int error = 0;    // errno of a write
  const FetchProgress* progress;
};

size_t on_data(char* data, size_t size, size_t n, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  size_t left = size * n;
  while (left > 0) {
    const ssize_t written = write(transfer->fd, data, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      transfer->error = written < 0 ? errno : EIO;
      return 0;
    }
    data += written;
    left -= static_cast<size_t>(written);
  }
  return size * n;
}

int on_progress(void* user, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  const auto* transfer = static_cast<const Transfer*>(user);
  if (*transfer->progress)
    (*transfer->progress)(transfer->before + static_cast<uint64_t>(now),
                          total > 0 ? transfer->before + static_cast<uint64_t>(total) : 0);
  return 0;
}

void restrict_protocols(CURL* curl, bool file) {
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, file ? "file" : "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS,
                   file ? CURLPROTO_FILE : CURLPROTO_HTTP | CURLPROTO_HTTPS);
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

void set_up(CURL* curl, const std::string& url, Transfer& transfer) {
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(transfer.before));
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 15L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);  // do not wait for a stalled server
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 30L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "plait/" PLAIT_VERSION);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  restrict_protocols(curl, url.starts_with("file:"));
}

FetchResult judge(CURL* curl, CURLcode code, const Transfer& transfer, const char* detail) {
  if (code == CURLE_OK) return {};
  if (transfer.error) return {Fetched::kLocal, std::strerror(transfer.error)};
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  const bool no_range =
      code == CURLE_RANGE_ERROR || code == CURLE_BAD_DOWNLOAD_RESUME || status == 416;
  return {no_range && transfer.before > 0 ? Fetched::kNoRange : Fetched::kTransport,
          *detail ? detail : curl_easy_strerror(code)};
}

}  // namespace

FetchResult fetch(const std::string& url, const std::string& part, const FetchProgress& progress) {
  const File file(open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  struct stat info = {};
  if (file.fd < 0 || fstat(file.fd, &info) != 0) return {Fetched::kLocal, std::strerror(errno)};
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) return {Fetched::kLocal, "libcurl does not start"};
  Transfer transfer{file.fd, static_cast<uint64_t>(info.st_size), 0, &progress};
  char detail[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, detail);
  set_up(curl.get(), url, transfer);
  return judge(curl.get(), curl_easy_perform(curl.get()), transfer, detail);
}

std::string commit(const std::string& part, const std::string& to) {
  const File file(open(part.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0 || fsync(file.fd) != 0) return std::strerror(errno);
  if (std::rename(part.c_str(), to.c_str()) != 0) return std::strerror(errno);
  const std::string folder = std::filesystem::path(to).parent_path();
  const File parent(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.fd >= 0 && fsync(parent.fd) != 0) return std::strerror(errno);
  return "";
}

}  // namespace plait::cli
