// Which sources this engine was built from.
#pragma once

namespace plait::session {

// The commit, with a + behind it when tracked files differed; "" outside of a repository. Defined in a source file that the build
// makes (cmake/revision.cmake).
const char* source_revision();

}  // namespace plait::session
