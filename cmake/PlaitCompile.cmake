# Language levels, warnings, visibility and sanitizers for every target of the tree.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_options(-Wall -Wextra)
# Without errno and traps, sqrt and similar functions vectorise. Never -ffast-math: results must be
# the same everywhere.
add_compile_options(-fno-math-errno -fno-trapping-math)
add_link_options(-Wl,--as-needed)

if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

if(PLAIT_SANITIZE STREQUAL "address")
  set(PLAIT_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(PLAIT_SANITIZE STREQUAL "thread")
  set(PLAIT_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
elseif(PLAIT_SANITIZE)
  message(FATAL_ERROR "[build] PLAIT_SANITIZE is '${PLAIT_SANITIZE}'; expected 'address', 'thread' or nothing")
endif()
if(PLAIT_SANITIZE)
  add_compile_options(${PLAIT_SANITIZE_FLAGS} -O1) # after the build type's own level: instrumented code takes long to optimise and gains little
  add_link_options(${PLAIT_SANITIZE_FLAGS})
  # Of a test that builds other projects: what they build must have the sanitizer of the library.
  list(JOIN PLAIT_SANITIZE_FLAGS " " flags)
  set(PLAIT_SANITIZE_ENV "CFLAGS=${flags}" "CXXFLAGS=${flags}" "LDFLAGS=${flags}")
endif()

if(PLAIT_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "[build] PLAIT_COVERAGE needs GCC, found ${CMAKE_CXX_COMPILER_ID}; use 'cmake --preset coverage'")
  endif()
  add_compile_options(--coverage ${PLAIT_COVERAGE}) # after the build type's own level, which merges lines
  add_link_options(--coverage)
endif()

if(PLAIT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "[build] PLAIT_FUZZ needs clang, found ${CMAKE_CXX_COMPILER_ID}; use 'cmake --preset fuzz'")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
