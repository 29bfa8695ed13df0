#include "bindings/cli/app.hpp"
#include "bindings/cli/crash.hpp"

#include <fcntl.h>
#include <locale.h>
#include <unistd.h>

#include <cstdlib>

namespace {

// A daemon may close the standard streams. The next file that is opened would take the place of
// one, and what is printed would go to that file.
void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  // This process does nothing but train, so its compute threads may have cores of their own.
  setenv("PLAIT_BIND", "all", 0);
  setlocale(LC_CTYPE, "");  // whether the terminal takes UTF-8
  plait::cli::report_crashes();
  const int code = plait::cli::run_app(argc, argv);
  plait::cli::expect_exit();
  return code;
}
