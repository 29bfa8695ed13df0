# Device code of CUDA without CMake's CUDA language: nvcc compiles a .cu file to a fat binary, which a generated source file
# embeds. The host code of a plugin is compiled by the host's compiler alone.
#
# Sets PLAIT_CUDA_FOUND, or PLAIT_CUDA_MISSING to what is missing; target plait_cuda_headers, whose property PLAIT_CUDA_MAJOR is the
# major version, by which the libraries are named.
find_program(PLAIT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
mark_as_advanced(PLAIT_NVCC)
set(PLAIT_CUDA_FOUND FALSE)
set(PLAIT_CUDA_MISSING "no nvcc")
if(PLAIT_NVCC)
  file(REAL_PATH ${PLAIT_NVCC} real)
  cmake_path(GET real PARENT_PATH folder)
  cmake_path(GET folder PARENT_PATH folder)
  find_path(PLAIT_CUDA_INCLUDE cuda.h HINTS ${folder}/include ${folder}/targets/x86_64-linux/include ${folder}/targets/sbsa-linux/include)
  mark_as_advanced(PLAIT_CUDA_INCLUDE)
  set(PLAIT_CUDA_MISSING "")
  foreach(header IN ITEMS cuda.h cublasLt.h nvrtc.h cuda_fp16.h)
    if(NOT EXISTS ${PLAIT_CUDA_INCLUDE}/${header})
      set(PLAIT_CUDA_MISSING "no ${header}")
    endif()
  endforeach()
  if(NOT PLAIT_CUDA_MISSING)
    file(STRINGS ${PLAIT_CUDA_INCLUDE}/cuda.h version REGEX "^#define CUDA_VERSION +[0-9]+")
    string(REGEX REPLACE "[^0-9]" "" version "${version}")
    if(version LESS 12040)
      set(PLAIT_CUDA_MISSING "cuda.h is of version ${version}")
    endif()
  endif()
  if(NOT PLAIT_CUDA_MISSING)
    set(PLAIT_CUDA_FOUND TRUE)
    set(architectures "80;90a")
    if(version GREATER_EQUAL 12080) # older ones do not know it
      list(APPEND architectures 100a)
    endif()
    set(PLAIT_CUDA_ARCHITECTURES "${architectures}"
        CACHE STRING "Architectures that device code is compiled for; the first also as PTX, for newer ones")
    # nvcc would take the first g++ of PATH, whatever compiles the rest.
    set(host "")
    if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
      set(host ${CMAKE_CXX_COMPILER})
    endif()
    set(PLAIT_CUDA_HOST_COMPILER "${host}" CACHE FILEPATH "Host compiler that nvcc calls; empty: nvcc's own choice")
    mark_as_advanced(PLAIT_CUDA_HOST_COMPILER)
    if(version GREATER_EQUAL 12080) # a fifth of the size
      set(PLAIT_CUDA_COMPRESSION --compress-mode=size)
    endif()
    if(NOT TARGET plait_cuda_headers)
      add_library(plait_cuda_headers INTERFACE)
      target_include_directories(plait_cuda_headers SYSTEM INTERFACE ${PLAIT_CUDA_INCLUDE})
      math(EXPR major "${version} / 1000")
      set_target_properties(plait_cuda_headers PROPERTIES PLAIT_CUDA_MAJOR ${major})
    endif()
  endif()
endif()

# plait_embed_cuda(<target> <file.cu>...): compiles the files and defines plait::cuda::embedded_module(), which finds the code of a
# file by its name without the ending. --fmad=false: a formula gives the same bits wherever it is written.
function(plait_embed_cuda target)
  set(targets "")
  foreach(architecture IN LISTS PLAIT_CUDA_ARCHITECTURES)
    list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET PLAIT_CUDA_ARCHITECTURES 0 oldest)
  list(APPEND targets -gencode arch=compute_${oldest},code=compute_${oldest})
  set(flags -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr ${PLAIT_CUDA_COMPRESSION})
  if(PLAIT_CUDA_HOST_COMPILER)
    list(APPEND flags -ccbin ${PLAIT_CUDA_HOST_COMPILER})
  endif()
  if(CMAKE_COMPILE_WARNING_AS_ERROR)
    list(APPEND flags -Werror all-warnings)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/fatbins)
  file(MAKE_DIRECTORY ${folder})
  set(declarations "")
  set(table "")
  set(images "")
  foreach(source IN LISTS ARGN)
    cmake_path(GET source STEM name)
    set(image ${folder}/${name}.fatbin)
    add_custom_command(
      OUTPUT ${image}
      COMMAND ${PLAIT_NVCC} ${flags} ${targets}
              -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/abi -fatbin -MD -MF ${image}.d -MT ${image} -o ${image} ${source}
      DEPENDS ${source}
      DEPFILE ${image}.d
      COMMENT "nvcc ${name}.cu"
      VERBATIM)
    list(APPEND images ${image})
    string(APPEND declarations
           "__asm__(\".pushsection .rodata\\n.balign 64\\n.hidden plait_cuda_${name}\\n.global plait_cuda_${name}\\n\"\n"
           "        \"plait_cuda_${name}:\\n.incbin \\\"${image}\\\"\\n.popsection\\n\");\n"
           "extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned char plait_cuda_${name}[];\n")
    string(APPEND table "  if (name == \"${name}\") return plait_cuda_${name};\n")
  endforeach()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded_modules.cpp)
  file(WRITE ${out}.new
       "// Written by cmake/PlaitCuda.cmake.\n#include <string_view>\n\n${declarations}\nnamespace plait::cuda {\n"
       "const void* embedded_module(std::string_view name);\n"
       "const void* embedded_module(std::string_view name) {\n${table}  return nullptr;\n}\n}  // namespace plait::cuda\n")
  file(COPY_FILE ${out}.new ${out} ONLY_IF_DIFFERENT)
  set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS "${images}" SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${out})
endfunction()
