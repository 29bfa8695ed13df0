// A plugin with a loss, a metric, an optimizer and PEFT methods that break their contract.
#pragma once

#include <plait/plugin.h>

#include <string>

namespace plait::test {

extern std::string fault;  // what the items do wrong; one that none knows: nothing
extern const plait_plugin kOddPlugin;

}  // namespace plait::test
