// The items of this plugin; plugin.cpp registers them with the host.
#pragma once

#include <plait/plugin.hpp>

namespace acme {

// gate.cpp: a layer composed of ops
void add_gate(const plait::Host& host);
// softsign.cpp: a layer with an op and kernels of its own
void add_softsign(const plait::Host& host);

}  // namespace acme
