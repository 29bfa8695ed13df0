// Starter experiments for `plait new`: the folders of examples/, and one that needs no data.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plait::cli {

struct Template {
  std::string name, help;
  std::vector<std::pair<std::string, std::string>> files;  // name in the folder, and text
  // The commands that its README begins with, as they run beside the folder of examples: those up
  // to the first that needs something of the user's.
  std::vector<std::string> commands;
};

// tiny first, then the examples by name.
const std::vector<Template>& templates();

// The files of a template for a folder `path`, whose experiment has the name `name`; commands of
// the README then name the folder.
Template filled(const Template& from, const std::string& path, const std::string& name);

}  // namespace plait::cli
