// Tells whose code ended the process: a crash, or a call of exit() by a plugin.
#pragma once

namespace plait::cli {

// From now on a fatal signal prints a line that names the library whose code was running, and then
// ends the process as it would have, with its core dump. exit() from anywhere but the end of main()
// prints such a line, too, and is a failure whatever its code. Not under sanitizers, which report
// crashes themselves. Once, before any plugin is loaded.
void report_crashes();
// The end of main(): exit() is expected now.
void expect_exit();

}  // namespace plait::cli
