// What this plugin offers; plugin.cpp hands it to the host.
#pragma once

#include <plait/plugin.hpp>

namespace acme {

void add_gate(const plait::Host& host);  // gate.cpp: a layer composed of ops
void add_softsign(
    const plait::Host& host);  // softsign.cpp: a layer with an op and kernels of its own

}  // namespace acme
