// Stands in for libudev where hwloc is linked into the library (UNISONO_SELF_CONTAINED). hwloc asks udev for names of disks and
// network cards, which nobody here reads. It does without when udev_new fails, as on a system without udev.
// Only what is linked into the same library sees these symbols: all of them are hidden.

extern "C" {
struct udev;
struct udev_device;

udev* udev_new() { return nullptr; }
udev* udev_unref(udev*) { return nullptr; }
udev_device* udev_device_new_from_subsystem_sysname(udev*, const char*, const char*) { return nullptr; }
udev_device* udev_device_unref(udev_device*) { return nullptr; }
const char* udev_device_get_property_value(udev_device*, const char*) { return nullptr; }
}
