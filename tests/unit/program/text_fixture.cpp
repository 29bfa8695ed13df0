#include "tests/unit/program/text_fixture.hpp"

#include <algorithm>
#include <vector>

#include "engine/base/text.hpp"

namespace plait::program {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n'))
    if (!trim(line).empty()) lines.emplace_back(trim(line));
  return lines;
}

std::string whole(const std::string& lines, const std::string& float_type) {
  return "program \"\" " + float_type + " {\n" + lines + "\n}\n";
}

}  // namespace

// By the longest common subsequence; texts of tests are short.
std::string line_diff(const std::string& expected, const std::string& found) {
  const std::vector<std::string> a = lines_of(expected), b = lines_of(found);
  if (a == b) return "";
  std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t j = b.size(); j-- > 0;)
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::string diff;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      diff += "  " + a[i] + "\n";
      ++i;
      ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      diff += "- " + a[i++] + "\n";
    } else {
      diff += "+ " + b[j++] + "\n";
    }
  }
  return diff;
}

void TextFixture::read(const std::string& lines, const std::string& float_type) {
  auto programs = parse(whole(lines, float_type), ops, "test");
  REQUIRE(programs.size() == 1);
  g = std::move(*programs[0].graph);
}

void TextFixture::expect(const std::string& lines, const std::string& float_type) const {
  const std::string diff = line_diff(whole(lines, float_type), print(g));
  if (!diff.empty()) FAIL_CHECK("the program is not what is expected:\n" << diff);
}

}  // namespace plait::program
