// A plugin with a loss, a metric, an optimizer and PEFT methods that break their contract.
#pragma once

#include <plait/device.h>
#include <plait/plugin.h>

#include <string>

namespace plait::test {

extern std::string fault;  // what the items do wrong; one that none knows: nothing
extern const plait_plugin kOddPlugin;

// A device with the name "odd", which is another one but for the threads that it says it has.
extern plait_device_item odd_device;
extern uint32_t odd_threads;
extern const plait_plugin kOddDevice;

}  // namespace plait::test
