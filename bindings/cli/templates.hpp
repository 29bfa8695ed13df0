// Starter experiments for `plait new`.
#pragma once

#include <span>

namespace plait::cli {

struct Template {
  const char* name;
  const char* help;
  const char* toml;  // "@NAME@" stands for the run's name
  const char* data;  // the data set that it reads, for `plait data get`; "" for none
};

std::span<const Template> templates();

}  // namespace plait::cli
