// How long cases take a processor, to find those to make smaller.
#pragma once

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace conformance {

struct Slowest {
  bool asked = false;
  std::vector<std::pair<double, std::string>> cases;  // seconds

  void print() {
    if (!asked) return;
    constexpr size_t kShown = 20;
    double all = 0;
    for (const auto& c : cases) all += c.first;
    std::sort(cases.rbegin(), cases.rend());
    std::printf("[conformance] %zu cases took %.1f s of a processor; slowest:\n", cases.size(),
                all);
    for (size_t i = 0; i < std::min(kShown, cases.size()); ++i)
      std::printf("%8.2f s  %s\n", cases[i].first, cases[i].second.c_str());
  }
};
inline Slowest& slowest() {
  static Slowest s;
  return s;
}

// Adds the time from its beginning to its end, of all threads.
class Timed {
 public:
  explicit Timed(std::string name) : name_(std::move(name)) {}
  ~Timed() {
    const double taken = static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC;
    if (slowest().asked) slowest().cases.emplace_back(taken, std::move(name_));
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  std::string name_;
  std::clock_t begin_ = std::clock();
};

}  // namespace conformance
