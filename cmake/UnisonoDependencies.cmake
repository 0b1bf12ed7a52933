# What the library and the command need from the system. Everything that is missing is named at once, in one line, with the
# command that installs it: who runs `pip install .` sees nothing else of CMake.

option(UNISONO_SELF_CONTAINED "Put fmt, spdlog, OpenSSL's libcrypto and hwloc into the library: nothing but the C and C++ libraries is loaded" OFF)

set(missing)
set(missing_deb)
set(missing_rpm)

macro(unisono_missing what deb rpm)
  list(APPEND missing "${what}")
  list(APPEND missing_deb "${deb}")
  list(APPEND missing_rpm "${rpm}")
endmacro()

find_package(Threads REQUIRED)
if(UNISONO_SELF_CONTAINED)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(fmt QUIET)
find_package(spdlog QUIET)
find_package(CLI11 QUIET)
find_package(nlohmann_json QUIET)
find_package(OpenSSL QUIET COMPONENTS Crypto)
if(NOT fmt_FOUND)
  unisono_missing(fmt libfmt-dev fmt-devel)
endif()
if(NOT spdlog_FOUND)
  unisono_missing(spdlog libspdlog-dev spdlog-devel)
endif()
if(NOT CLI11_FOUND)
  unisono_missing(CLI11 libcli11-dev cli11-devel)
endif()
if(NOT nlohmann_json_FOUND)
  unisono_missing(nlohmann-json nlohmann-json3-dev json-devel)
endif()
if(NOT OPENSSL_FOUND)
  unisono_missing(OpenSSL libssl-dev openssl-devel)
endif()
if(UNISONO_PYTHON)
  # Found again where it is used: here only to name it beside the others.
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
  if(NOT Python_FOUND)
    unisono_missing("Python's headers (3.10 or newer)" python3-dev python3-devel)
  endif()
endif()

find_package(PkgConfig QUIET)
if(UNISONO_HWLOC AND PkgConfig_FOUND)
  pkg_check_modules(hwloc QUIET IMPORTED_TARGET hwloc>=2.1)
endif()
if(UNISONO_SELF_CONTAINED AND NOT TARGET PkgConfig::hwloc)
  unisono_missing("hwloc and pkg-config" "libhwloc-dev pkg-config" "hwloc-devel pkgconf-pkg-config")
endif()

if(missing)
  list(JOIN missing ", " missing)
  list(JOIN missing_deb " " missing_deb)
  list(JOIN missing_rpm " " missing_rpm)
  # CMake leaves lines alone that begin with a space, and wraps others.
  message(FATAL_ERROR
    "\n  unisono: missing: ${missing}; install: apt-get install ${missing_deb} (Debian, Ubuntu) or dnf install ${missing_rpm} (Fedora)")
endif()
if(NOT TARGET PkgConfig::hwloc)
  message(STATUS "unisono: without hwloc (libhwloc-dev, pkg-config): every host counts as one NUMA node")
endif()

# The form in which layers link them. The system's shared libraries need its own C library and newer, and Debian packages no
# static ones; the headers hold all of both.
if(UNISONO_SELF_CONTAINED)
  set(UNISONO_FMT fmt::fmt-header-only)
  set(UNISONO_SPDLOG spdlog::spdlog_header_only)
  # spdlog's target names the shared fmt as well, of which nothing is used.
  add_link_options(LINKER:--as-needed)
else()
  set(UNISONO_FMT fmt::fmt)
  set(UNISONO_SPDLOG spdlog::spdlog)
endif()
