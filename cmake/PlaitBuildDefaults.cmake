# Defaults that must be set before project(): build type, flags per build type, ccache. Each is a
# cache entry, so a value given on the command line or in a preset wins.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo (assertions on) or Debug" FORCE)
endif()

# -g1 keeps backtraces with line numbers at a tenth of the size; assertions are on in RelWithDebInfo
# and off in Release.
foreach(lang IN ITEMS C CXX)
  set(CMAKE_${lang}_FLAGS_RELEASE "-O2 -g1 -DNDEBUG" CACHE STRING "Flags of a release build")
  set(CMAKE_${lang}_FLAGS_RELWITHDEBINFO "-O2 -g1" CACHE STRING "Flags of a development build")
endforeach()

find_program(PLAIT_CCACHE ccache)
mark_as_advanced(PLAIT_CCACHE)
if(PLAIT_CCACHE)
  set(launcher ${PLAIT_CCACHE})
  if(PLAIT_PCH)
    # By default ccache refuses files with a precompiled header, and reads the whole of it for each.
    set(launcher env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_INODECACHE=1
        ${PLAIT_CCACHE})
  endif()
  foreach(lang IN ITEMS C CXX)
    if(NOT DEFINED CMAKE_${lang}_COMPILER_LAUNCHER)
      set(CMAKE_${lang}_COMPILER_LAUNCHER ${launcher})
    endif()
  endforeach()
endif()
