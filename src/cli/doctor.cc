/// `unisono doctor`: what this host gives, which transport would be used, and why.

#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/doctor_probes.h"
#include "cli/doctor_report.h"

namespace unisono::cli {

void add_doctor(CLI::App& app, int& status) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "examine this host: what unisono can use, and what is in its way");
  command->add_flag("--json", *json, "print JSON");
  command->footer("The exit status is 1 when something is missing that unisono needs.");
  command->callback([json, &status] {
    Findings findings;
    for (const auto examine :
         {examine_processor, examine_memory, examine_shared_memory, examine_limits, examine_network, examine_job})
      examine(findings);
    fmt::print("{}", *json ? to_json(findings) : to_table(findings));
    status = anything_missing(findings) ? 1 : 0;
  });
}

}  // namespace unisono::cli
