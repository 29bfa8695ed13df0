// `extends = ["base.toml"]`: an experiment that is written as what differs from others.
#pragma once

#include "engine/config/document.hpp"

namespace plait::config {

// Puts the files that `extends` of the document names, and those that they extend, below its own
// values, and removes the key. Names are relative to the file that extends. A later file of the
// list counts more than one before, the document most; tables are merged key by key, lists and
// items of other types replace each other: a table with another `type` starts anew. A relative
// path is looked up beside the file that gives it first (written_path.hpp). What cannot be read, or
// extends itself, is a problem. Errors: PLAIT_ERR_MEMORY.
void extend(FileSystem& files, Document& document, Problems& problems);

}  // namespace plait::config
