// The threads of this process that live. One that was joined is in the system's list for a moment
// longer: a plain count of that list is now and then one too many.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace plait::test {

// Their ids, without those that have begun to end.
inline std::vector<int> own_threads() {
  constexpr unsigned long kEnding = 4;  // PF_EXITING of the system's flags of a task
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text, '\0');  // empty where it has ended meanwhile
    // Behind the name, which may hold anything: state, parent, group, session, terminal, its group,
    // flags.
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream rest(text.substr(name_end + 1));
    std::string skipped;
    for (int i = 0; i < 6; ++i) rest >> skipped;
    unsigned long flags = kEnding;
    rest >> flags;
    if ((flags & kEnding) == 0) found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

}  // namespace plait::test
