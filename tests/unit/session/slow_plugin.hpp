// A plugin with the layer test.crawl, whose op copies its input: on the first rank, a thread, that
// runs it after a quarter of a second.
#pragma once

#include <plait/plugin.h>

namespace plait::test {

const plait_plugin* slow_plugin();  // the next rank that runs the op is the slow one

}  // namespace plait::test
