// The secret of a job is in no memory that a core dump would have.
#include "kit/secret.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/runtime/control.hpp"
#include "kit/fd.hpp"
#include "kit/hmac.hpp"
#include "tests/unit/runtime/control_ranks.hpp"

using namespace plait;
using namespace plait::runtime;
using namespace plait::runtime::testing;

namespace {

constexpr char kMask = 0x5a;
constexpr size_t kSize = 32;

std::string masked(std::string text) {
  for (char& c : text) c = static_cast<char>(c ^ kMask);
  return text;
}

// A secret, and its text in a form that is not found when memory is searched for the secret.
struct Known {
  std::string hidden;
  kit::Secret secret;
  Known() {
    secret = kit::Secret::filled(kSize, [](char* room) {
      kit::fill_random(room, kSize);
      return kSize;
    });
    hidden.resize(kSize);
    std::transform(secret.view().begin(), secret.view().end(), hidden.begin(),
                   [](char c) { return static_cast<char>(c ^ kMask); });
  }
};

struct Range {
  uintptr_t begin = 0, end = 0;
  bool writable = false, dumped = true;
};

// The memory of this process; what has the flag dd is not dumped.
std::vector<Range> ranges() {
  std::vector<Range> all;
  std::ifstream file("/proc/self/smaps");
  for (std::string line; std::getline(file, line);) {
    Range r;
    char dash = 0;
    std::string mode;
    std::istringstream head(line);
    if (head >> std::hex >> r.begin >> dash >> r.end >> mode && dash == '-' && mode.size() == 4) {
      r.writable = mode[1] == 'w';
      all.push_back(r);
    } else if (line.starts_with("VmFlags:") && !all.empty()) {
      all.back().dumped = (line + " ").find(" dd ") == std::string::npos;
    }
  }
  return all;
}

// How often the masked bytes occur, unmasked, in memory that would be dumped, or in the rest.
int occurrences(const std::string& hidden, bool dumped) {
  const kit::Fd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  REQUIRE(memory);
  int n = 0;
  std::string part;
  for (const Range& r : ranges()) {
    if (!r.writable || r.dumped != dumped || r.end - r.begin > (size_t{1} << 30)) continue;
    part.resize(r.end - r.begin);
    const ssize_t got = pread(memory.get(), part.data(), part.size(), static_cast<off_t>(r.begin));
    if (got <= 0) continue;
    // Masked at once: a copy of the secret must not be found as another occurrence later.
    part = masked(std::move(part));
    const auto end = part.begin() + got;
    for (auto at = part.begin(); (at = std::search(at, end, hidden.begin(), hidden.end())) != end;
         ++at)
      ++n;
  }
  return n;
}

// The digits of the secret in a rendezvous file, masked where they were read, so that nothing of
// them remains.
std::string masked_digits(const std::string& path) {
  std::string digits;
  const auto read = [&] {
    const kit::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return false;
    std::string text(4096, '\0');
    const ssize_t n = pread(file.get(), text.data(), text.size(), 0);
    text = masked(std::move(text));
    text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
    const size_t at = text.find(masked("\nsecret "));
    if (at == std::string::npos) return false;
    digits = text.substr(at + 8, 2 * kSize);
    return true;
  };
  while (!read()) usleep(1000);
  return digits;
}

// The bytes that masked digits stand for, masked.
std::string masked_bytes(const std::string& digits) {
  const auto value = [](char c) {
    const char plain = static_cast<char>(c ^ kMask);
    return plain <= '9' ? plain - '0' : plain - 'a' + 10;
  };
  std::string bytes(digits.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>((value(digits[2 * i]) << 4 | value(digits[2 * i + 1])) ^ kMask);
  return bytes;
}

}  // namespace

TEST_CASE("a secret is kept out of dumps, shared by copies, and gone with the last of them") {
  Known known;
  CHECK(occurrences(known.hidden, true) == 0);
  CHECK(occurrences(known.hidden, false) == 1);
  kit::Secret copy = known.secret;
  CHECK(occurrences(known.hidden, false) == 1);
  known.secret = {};
  CHECK(copy.size() == kSize);
  CHECK(copy == masked(known.hidden));
  copy = {};
  CHECK(occurrences(known.hidden, false) == 0);
}

TEST_CASE("the search finds a secret that lies in ordinary memory") {
  const Known known;
  std::vector<char> plain(known.secret.view().begin(), known.secret.view().end());
  CHECK(occurrences(known.hidden, true) >= 1);  // the conversion may have left others
  std::fill(plain.begin(), plain.end(), '\0');
  asm volatile("" : : "r"(plain.data()) : "memory");
}

TEST_CASE("a code of authentication leaves nothing of its key behind") {
  const Known known;
  for (int i = 0; i < 3; ++i) kit::hmac(known.secret, "what is said");
  CHECK(occurrences(known.hidden, true) == 0);
  // As it lies in the blocks of HMAC.
  for (const char pad : {'\x36', '\x5c'}) {
    std::string block = known.hidden;
    for (char& c : block) c = static_cast<char>(c ^ pad);
    CHECK(occurrences(block, true) == 0);
  }
}

TEST_CASE("ranks that have met with a secret hold it out of dumps") {
  const Known known;
  int port = 0;
  const kit::Fd listener(listen_on_loopback(port));
  Setup setup;
  setup.listen_fd = listener.get();
  setup.rendezvous = "127.0.0.1:" + std::to_string(port);
  Lines lines;
  int dumped = -1, kept = -1;
  const auto failures = on_threads({0, 1}, [&](int rank) {
    ControlConfig config = setup.of(rank);
    config.job.secret = known.secret;
    Control control(config, lines.log());
    if (rank == 1) {
      dumped = occurrences(known.hidden, true);
      kept = occurrences(known.hidden, false);
      control.set("done", "");
    }
    control.get("done", 60);
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(dumped == 0);
  CHECK(kept == 1);
}

TEST_CASE("a secret from a rendezvous file is held out of dumps") {
  const Folder folder;
  Lines lines;
  const Setup setup = in_file(folder, 2);
  int dumped = -1, digits_dumped = -1;
  const auto failures = on_threads({0, 1}, [&](int rank) {
    // The file is gone as soon as the ranks have met.
    const std::string digits = rank == 1 ? masked_digits(folder.path("rendezvous")) : "";
    Control control(setup.of(rank), lines.log());
    if (rank == 1) {
      digits_dumped = occurrences(digits, true);
      dumped = occurrences(masked_bytes(digits), true);
      control.set("done", "");
    }
    control.get("done", 60);
  });
  for (const std::string& failure : failures) CHECK(failure == "");
  CHECK(dumped == 0);
  CHECK(digits_dumped == 0);
}
