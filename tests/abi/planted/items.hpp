// The items of plugin `misfit`. All are correct until a row of faults.inc plants its fault in them.
#pragma once

#include <plait/plugin.hpp>

#include <deque>
#include <vector>

namespace misfit {

// One item as host->add() gets it.
struct Added {
  const char* kind;
  const void* item;
};

struct Items {
  Items();
  Items(const Items&) = delete;
  Items& operator=(const Items&) = delete;

  plait_option options[3];  // of the layer: scale (real), mode (text), size (integer)
  plait_option attrs[1];    // of the op: factor (real)
  plait_field fields[2];    // x (4), y (4)
  plait_dataset_info info;
  plait_device_info device_info;
  plait_layer_item layer, second;  // `second` is added only by rows that name it
  plait_loss_item loss;
  plait_metric_item metric;
  plait_op_item op;
  plait_kernel_item kernel;
  plait_optimizer_item optimizer;
  plait_schedule_item schedule;
  plait_dataset_item dataset;
  plait_device_item device;
  plait_comm_item comm;
  std::vector<plait_kernel_item> plain;  // kernels of the core ops
  std::vector<Added> added;              // what open() adds, in this order

  // What open() does after it has added the items; returns its error.
  plait_error* (*after)(const plait_host* host) = nullptr;
};

// The only set of items, with the fault of this process planted.
Items& items();

// The table of the plugin; a row may change it, too.
extern plait_plugin table;

}  // namespace misfit
