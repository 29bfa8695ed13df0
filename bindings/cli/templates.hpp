// Starter experiments for `plait new`.
#pragma once

#include <span>

namespace plait::cli {

struct Template {
  const char* name;
  const char* help;
  const char* toml;  // "@NAME@" stands for the run's name
  const char* next;  // what to do before the first run; "" for nothing
};

std::span<const Template> templates();

}  // namespace plait::cli
