// How a Failure that no test expected reads in the report.
#include "tests/unit/host/host.hpp"

REGISTER_EXCEPTION_TRANSLATOR(const host::Failure& f) {
  return ("code " + std::to_string(f.code) + ": " + f.text).c_str();
}
