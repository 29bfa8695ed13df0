#include "items.hpp"

PLAIT_PLUGIN("acme-layers", "1.0.0", "Apache-2.0", "Two third-party layers") {
  acme::add_gate(host);
  acme::add_softsign(host);
}
