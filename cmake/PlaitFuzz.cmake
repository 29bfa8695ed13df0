# plait_fuzz_targets(<folder>): each <folder>/<name>_fuzz.cpp defines LLVMFuzzerTestOneInput and
# becomes the target fuzz_<name>, linked with the targets and sources listed in
# <folder>/<name>_fuzz.link.txt, so that a change elsewhere does not link it again; without the targets
# in <name>_fuzz.needs.txt it is left out. Seeds are in <folder>/corpus/<name>/.
#
# With -DPLAIT_FUZZ=ON (clang) the target is a libFuzzer binary in fuzz/. Otherwise it links
# tests/fuzz/replay_main.cpp, which replays the seeds and mutations of them, as the test
# fuzz_<name>, so that a crash once found stays fixed.
function(plait_fuzz_targets folder)
  add_custom_target(fuzz_targets)
  if(NOT PLAIT_FUZZ)
    add_library(plait_fuzz_replay OBJECT ${folder}/replay_main.cpp)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*_fuzz.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM stem)
    string(REGEX REPLACE "_fuzz$" "" name ${stem})
    plait_has_needs(possible ${folder}/${stem}.needs.txt)
    if(NOT possible)
      continue()
    endif()
    add_executable(fuzz_${name} ${source})
    target_link_libraries(fuzz_${name} PRIVATE plait_tree)
    plait_link_list(fuzz_${name} ${folder}/${stem}.link.txt)
    set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    if(PLAIT_FUZZ)
      target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    else()
      target_link_libraries(fuzz_${name} PRIVATE plait_fuzz_replay)
      plait_add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${folder}/corpus/${name})
    endif()
    add_dependencies(fuzz_targets fuzz_${name})
  endforeach()
endfunction()
