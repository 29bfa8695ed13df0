# plait_add_test(NAME <name> COMMAND <command>... [TIMEOUT <seconds>]
#                [WORKING_DIRECTORY <folder>] [ENV <NAME=value>...])
#
# add_test() with settings that every test of the tree needs: no plugin or data path from the
# caller's shell, a log without colours, our generator for projects that a test configures, a time
# limit (default 300 s, five times that with a sanitizer), and sanitizers that stop at the first
# error.
function(plait_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT;WORKING_DIRECTORY" "COMMAND;ENV")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_WORKING_DIRECTORY)
    set(arg_WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  if(PLAIT_SANITIZE)
    if(PLAIT_SANITIZE STREQUAL "thread")
      math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 15")
    else()
      math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
    endif()
    # First, so that a test may set its own.
    list(PREPEND arg_ENV "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1"
         "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tools/lsan.supp:print_suppressions=0"
         "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
         "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tools/tsan.supp")
  endif()
  if(PLAIT_SANITIZE STREQUAL "thread")
    # The sanitizer can't see libgomp's barriers: with a pool of one thread kernels have no false races, which it would
    # spend minutes on to suppress. All threads of the engine itself are as always.
    list(APPEND arg_ENV "OMP_THREAD_LIMIT=1")
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${arg_WORKING_DIRECTORY})
  set_tests_properties(
    ${arg_NAME}
    PROPERTIES TIMEOUT ${arg_TIMEOUT}
               ENVIRONMENT "NO_COLOR=1;PLAIT_VERIFY=1;CMAKE_GENERATOR=${CMAKE_GENERATOR};${arg_ENV}"
               ENVIRONMENT_MODIFICATION "PLAIT_PLUGIN_PATH=unset:;PLAIT_DATA=unset:;PLAIT_EXPLAIN=unset:")
endfunction()
