# PLAIT_ABI_VERSION, read from its definition in base.h.
set(header ${CMAKE_CURRENT_LIST_DIR}/../abi/plait/base.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
file(STRINGS ${header} line REGEX "^#define PLAIT_ABI_VERSION [0-9]+" LIMIT_COUNT 1)
if(NOT line MATCHES "PLAIT_ABI_VERSION ([0-9]+)")
  message(FATAL_ERROR "[build] ${header} has no line '#define PLAIT_ABI_VERSION <number>'; restore it")
endif()
set(PLAIT_ABI_VERSION ${CMAKE_MATCH_1})
