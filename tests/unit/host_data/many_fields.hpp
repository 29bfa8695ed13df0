// A dataset of many fields.
#pragma once

#include "tests/unit/host_data/datasets.hpp"

namespace host {

// A csv of one line: an input, and so many columns that are fields of their own.
inline std::string table_of_integers(const std::string& path, int n) {
  std::string names = "x", line = "1", fields;
  for (int i = 0; i < n; ++i) {
    names += ",c" + std::to_string(i);
    line += ",1";
    fields += (i ? ", \"c" : "\"c") + std::to_string(i) + "\"";
  }
  write(path, names + "\n" + line + "\n");
  return "{type = \"csv\", path = \"" + path + "\", integers = [" + fields + "]}";
}

}  // namespace host
