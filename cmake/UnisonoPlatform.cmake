# Refuses, before a compiler is looked for, what cannot work: other systems than Linux, and a machine without a compiler.
# Each message is one line that says what to do.

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR
    "\n  unisono: builds on Linux only, not on ${CMAKE_SYSTEM_NAME}; a container or a virtual machine with Linux will do")
endif()

if(NOT CMAKE_CXX_COMPILER AND NOT CMAKE_TOOLCHAIN_FILE AND NOT DEFINED ENV{CXX})
  find_program(UNISONO_ANY_CXX NAMES c++ g++ clang++)
  if(NOT UNISONO_ANY_CXX)
    message(FATAL_ERROR
      "\n  unisono: no C++ compiler found; install one: apt-get install g++ (Debian, Ubuntu) or dnf install gcc-c++ (Fedora), or set CXX")
  endif()
endif()
