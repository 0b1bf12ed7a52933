# UNISONO_MANYLINUX=2_28: what is linked runs on systems as old as that policy of auditwheel's (tools/wheel/old_glibc.py says how).
# For wheels alone, with UNISONO_SELF_CONTAINED. UNISONO_MANYLINUX_PYTHON is an interpreter that has pyelftools.

set(UNISONO_MANYLINUX "" CACHE STRING "Run on systems as old as manylinux_... says: 2_28, or empty")
set(UNISONO_MANYLINUX_PYTHON "python3" CACHE STRING "An interpreter that has pyelftools")

if(UNISONO_MANYLINUX)
  if(NOT UNISONO_SELF_CONTAINED)
    message(FATAL_ERROR "\n  unisono: UNISONO_MANYLINUX needs UNISONO_SELF_CONTAINED=ON: the system's shared libraries are newer")
  endif()
  set(old ${PROJECT_BINARY_DIR}/old_glibc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/tools/wheel/old_glibc.py ${PROJECT_SOURCE_DIR}/tools/wheel/old_glibc.cc
    ${PROJECT_SOURCE_DIR}/tools/wheel/old_glibc_start.cc)
  # pip leads interpreters to its own packages with PYTHONPATH.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=PYTHONPATH ${UNISONO_MANYLINUX_PYTHON} ${PROJECT_SOURCE_DIR}/tools/wheel/old_glibc.py
    --cxx ${CMAKE_CXX_COMPILER} --output ${old} --tag ${UNISONO_MANYLINUX} COMMAND_ERROR_IS_FATAL ANY)
  # The old library first, then the static one for what that lacks, then what only a newer C library has.
  string(APPEND CMAKE_CXX_STANDARD_LIBRARIES " -L${old} -Wl,--start-group -lstdc++ -l:libstdc++.a ${old}/libold_glibc.a -lgcc_s -lgcc -lm -lc -Wl,--end-group")
  string(APPEND CMAKE_CXX_STANDARD_LIBRARIES " -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -l:librt.so.1 -Wl,--as-needed")
  # No library of ours shows what it took from the static ones.
  add_link_options(LINKER:--exclude-libs,libstdc++.a:libold_glibc.a:libhwloc_inside.a:libcrypto.a)
endif()

# A program's own constructors run on an old system, too.
function(unisono_old_glibc_program target)
  if(UNISONO_MANYLINUX)
    target_link_options(${target} PRIVATE LINKER:--entry=unisono_old_glibc_start,--undefined=unisono_old_glibc_start)
  endif()
endfunction()
