#include "group/crowded.h"

#include <unistd.h>

#include <fstream>

namespace unisono::group {

bool crowded() {
  std::ifstream file("/proc/loadavg");
  double load = 0;
  long running = 0;
  return file >> load >> load >> load >> running && running > ::sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace unisono::group
