# cmake -DSOURCE=<tree> -DOUT=<file.cpp> -P revision.cmake: writes source_revision() of
# engine/session/revision.hpp. Runs in every build, so that the revision is correct; does not touch
# a file that is up to date.
set(revision "")
find_program(git git)
if(git)
  set(run COMMAND ${git} -C ${SOURCE})
  execute_process(${run} rev-parse --show-toplevel OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE}" tree)
  if(top STREQUAL tree) # and not a repository around an unpacked archive
    execute_process(${run} rev-parse --verify HEAD OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(${run} diff --quiet HEAD -- RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
    if(revision AND differs)
      string(APPEND revision "+")
    endif()
  endif()
endif()
set(text "#include \"engine/session/revision.hpp\"

const char* plait::session::source_revision() { return \"${revision}\"\; }
")
string(REPLACE "\\;" ";" text "${text}")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
