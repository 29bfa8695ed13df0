// Datasets that count who opens, describes, closes and reads them: "described" has open_metadata(),
// "counted" has not. And the layer test.sum, which adds two values.
#pragma once

#include <plait/plugin.h>

#include <map>

namespace plait::test {

struct Counts {
  int opened = 0, described = 0, closed = 0, read = 0;
};
inline std::map<int, Counts> counts;    // by rank; written under a lock
inline thread_local int this_rank = 0;  // of what this thread opens
extern const plait_plugin kCountingPlugin;

}  // namespace plait::test
