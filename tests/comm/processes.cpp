#include "tests/comm/processes.hpp"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace comm_test {
namespace {

using std::chrono::steady_clock;

std::string new_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "plait-comm-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder for the store");
  return name;
}

void write(const std::string& path, uint32_t code, const std::string& text) {
  std::ofstream(path) << code << "\n" << text;
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

}  // namespace

Processes::Processes(uint32_t size,
                     const std::function<void(uint32_t rank, const plait_store*)>& body,
                     double store_timeout)
    : folder_(new_folder()) {
  for (uint32_t rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("cannot fork");
    if (child > 0) {
      children_.push_back(child);
      continue;
    }
    const std::string result = folder_ + "/result." + std::to_string(rank);
    try {
      FileStore store(folder_, store_timeout);
      body(rank, store.raw());
      write(result, PLAIT_OK, "");
    } catch (const Failure& e) {
      write(result, e.code, e.what());
    } catch (const std::exception& e) {
      write(result, UINT32_MAX, e.what());
    }
    _exit(0);
  }
}

Processes::~Processes() {
  for (const pid_t child : children_)
    if (child > 0) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Processes::signal(uint32_t rank, int signal) const { kill(children_[rank], signal); }

bool Processes::marked(const std::string& name) const {
  return std::filesystem::exists(folder_ + "/" + name);
}

void Processes::wait_for_mark(const std::string& name) const {
  const auto end = steady_clock::now() + std::chrono::seconds(20);
  while (!marked(name)) {
    if (steady_clock::now() > end) throw std::runtime_error("no mark '" + name + "'");
    pause();
  }
}

ProcessResult Processes::wait(uint32_t rank, double seconds) {
  const auto end = steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (waitpid(children_[rank], &status, WNOHANG) == 0) {
    if (steady_clock::now() > end)
      throw std::runtime_error("rank " + std::to_string(rank) + " still runs");
    pause();
  }
  children_[rank] = 0;
  if (WIFSIGNALED(status)) return {WTERMSIG(status), PLAIT_OK, ""};
  ProcessResult result;
  std::ifstream file(folder_ + "/result." + std::to_string(rank));
  file >> result.code;
  file.get();
  result.text.assign(std::istreambuf_iterator<char>(file), {});
  return result;
}

void mark(const plait_store* store, const std::string& name) {
  check(store->set(store->self, name.c_str(), "1", 1));
}

}  // namespace comm_test
