/// The command `unisono`.

#include "cli/commands.h"

int main(int argc, char** argv) { return unisono::cli::run_command({argv + 1, argv + argc}); }
