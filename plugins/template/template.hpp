// The null plugin's parts: one function per file that adds the items of that file.
#pragma once

#include <plait/plugin.hpp>

#include <string>

namespace plait::null {

// The answer of every function here until you write it. Exceptions end at the plugin boundary: the
// host gets this one as a plait_error.
[[noreturn]] inline void unimplemented(const char* what, const char* where) {
  fail(PLAIT_ERR_UNIMPLEMENTED,
       std::string("[template] ") + what + " is unimplemented; write it in " + where);
}

void add_model_items(const Host& host);    // model_items.cpp: layer, loss, metric
void add_train_items(const Host& host);    // train_items.cpp: optimizer, schedule, dataset, peft
void add_op_and_kernel(const Host& host);  // op.cpp
void add_device(const Host& host);         // device.cpp
void add_comm(const Host& host);           // comm.cpp

}  // namespace plait::null
