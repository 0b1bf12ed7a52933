// What hwloc's archive asks for where it is linked into the library (UNISONO_SELF_CONTAINED). Only
// what is linked into the same library sees these symbols: all of them are hidden.

#include <cerrno>
#include <cstdio>

extern "C" {

// hwloc asks udev for names of disks and network cards, which nobody here reads. It does without
// when udev_new fails, as on a system without udev.
struct udev;
struct udev_device;
udev* udev_new() { return nullptr; }
udev* udev_unref(udev*) { return nullptr; }
udev_device* udev_device_new_from_subsystem_sysname(udev*, const char*, const char*) { return nullptr; }
udev_device* udev_device_unref(udev_device*) { return nullptr; }
const char* udev_device_get_property_value(udev_device*, const char*) { return nullptr; }

// Debian's archive is compiled for programs, which may refer to another library's variables without
// a detour; a library may not. UnisonoDependencies.cmake gives them these names.
FILE* unisono_hwloc_stdout = nullptr;
FILE* unisono_hwloc_stderr = nullptr;
char* unisono_hwloc_program = nullptr;

__attribute__((constructor)) static void unisono_hwloc_variables() {
  unisono_hwloc_stdout = stdout;
  unisono_hwloc_stderr = stderr;
  unisono_hwloc_program = program_invocation_name;
}
}
