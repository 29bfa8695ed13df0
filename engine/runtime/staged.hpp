// A group for memory of a device which no backend of that device connects: its calls go by way of
// host memory and a backend for that.
//
// The host takes part in every call: it waits for the copy of the operand before it starts the call
// of the backend behind, and for that call before it copies the result. So such calls are no part
// of graphs.
#pragma once

#include <plait/comm.h>

#include <memory>

#include "engine/runtime/device.hpp"
#include "engine/runtime/hierarchical.hpp"

namespace plait::runtime {

// Connects this rank; host: the backend behind, for host memory. The result is for staged_item().
// Errors: as the backend. [blocks: yes]
plait_comm* open_staged(const CommBackend& host, std::shared_ptr<const Device> device,
                        const plait_comm_setup& setup);

// The functions for the group, which cannot be opened through the item. Operands are in device
// memory. start() and finish() are given the queue of the device, which must be empty at start().
const plait_comm_item& staged_item();

}  // namespace plait::runtime
