"""Compare simulated times with measured ones, on hosts that are network namespaces with shaped links.

Needs root, ip and tc. For each number of hosts: measures what a message costs (network_constants.py), then times every
network algorithm of some collectives with `unisono bench`, and simulates the same with `unisono plan --simulate`.
Prints a table with the ratios, and writes it with --json. The exit status is 1 when the median error is above --most.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

from harness.hosts import Hosts, secret_file, why_no_hosts  # noqa: E402
from harness.launch import environment, unisono_command  # noqa: E402

TIME_LIMIT = 300
COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="2,4", help="numbers of hosts, one rank each (default: 2,4)")
    parser.add_argument("--mbit", type=int, default=100, help="what a link carries each way (default: 100)")
    parser.add_argument("--sizes", default="16K,64K,256K", help="bytes of the collective")
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--seconds", type=float, default=0.3, help="time to spend on each measured figure")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument(
        "--most", type=float, default=0.15, help="largest median error that is no failure (default: 0.15)"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args()


def on_all(hosts: Hosts, *command: str) -> str:
    """Run one rank on each host; what rank 0's host printed."""
    count = len(hosts.names)
    with tempfile.TemporaryDirectory(prefix="unisono-bench-") as folder, secret_file(folder) as secret:
        ranks = []
        for host in range(count):
            run = [unisono_command(), "run", "-n", "1", "--nnodes", str(count), "--node-rank", str(host)]
            run += ["--rdzv", f"{hosts.address(0)}:29400", "--secret-file", secret, "--", *command]
            ranks.append(
                subprocess.Popen(
                    hosts.inside(host, *run),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env=environment({"UNISONO_SPIN": "0"}),
                )
            )
        try:
            outputs = [rank.communicate(timeout=TIME_LIMIT)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    for rank, output in zip(ranks, outputs, strict=True):
        if rank.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed on a host:\n{output}")
    return outputs[0]


def model_of(hosts: Hosts) -> str:
    """A LogGP model from measured constants."""
    printed = on_all(hosts, sys.executable, str(ROOT / "bench" / "network_constants.py"))
    constants = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    times = ",".join(f"{name}={constants[name] * 1e6:.3f}us" for name in ("L", "o"))
    return f"loggp:{times},g=0,G={constants['G'] * 1e9:.4f}ns/B,ports=fair"


def algorithms(collective: str, ranks: int, model: str, sizes: str) -> list[dict]:
    """Simulated times of all that can run there."""
    command = [unisono_command(), "plan", collective, "-n", str(ranks), "--simulate", model, "--algorithm", "all"]
    done = subprocess.run([*command, "--sizes", sizes, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measured(hosts: Hosts, collective: str, algorithm: str, args: argparse.Namespace) -> dict[int, float]:
    """Times in microseconds by size, in place where that is possible, as the simulator has it: the best round's median.

    A link cannot be faster than it is: what a round takes longer than another one is what else the machine did.
    """
    times: dict[int, float] = {}
    for _ in range(args.rounds):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [unisono_command(), "bench", collective, "--algorithm", algorithm, "--sizes", args.sizes]
            on_all(hosts, *command, "--seconds", str(args.seconds), "--json", file.name)
            rows = json.loads(Path(file.name).read_text())
        last = {row["bytes"]: row["time_us"] for row in sorted(rows, key=lambda row: row["in_place"])}
        times = {size: min(time, times.get(size, time)) for size, time in last.items()}
    return times


def compare(count: int, args: argparse.Namespace) -> list[dict]:
    """All figures for so many hosts."""
    rows = []
    with Hosts(count, args.mbit, burst_kb=2) as hosts:
        for host in range(count):  # calls are so far apart here that connections would start slowly again each time
            keep = hosts.inside(host, "sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0")
            subprocess.run(keep, check=True)
        model = model_of(hosts)
        print(f"\n# {count} hosts, links of {args.mbit} Mbit/s: {model}", flush=True)
        print(
            f"# {'collective':<15} {'algorithm':<20} {'bytes':>9} {'measured us':>12} {'simulated us':>13} {'ratio':>6}"
        )
        for collective in args.collectives.split(","):
            simulated: dict[str, list[dict]] = {}
            for row in algorithms(collective, count, model, args.sizes):
                simulated.setdefault(row["algorithm"], []).append(row)
            for algorithm, predictions in simulated.items():
                times = measured(hosts, collective, algorithm, args)
                for row in predictions:
                    if row["bytes"] not in times:  # bench rounds sizes to whole blocks
                        continue
                    real = times[row["bytes"]]
                    ratio = row["time_us"] / real
                    label = f"  {collective:<15} {algorithm:<20} {row['bytes']:>9}"
                    print(f"{label} {real:>12.1f} {row['time_us']:>13.1f} {ratio:>6.2f}", flush=True)
                    rows.append({"hosts": count, "mbit": args.mbit, "measured_us": real, "ratio": ratio, **row})
    return rows


def main() -> int:
    """The exit status."""
    args = parse_arguments()
    if (missing := why_no_hosts()) is not None:
        raise SystemExit(f"bench/simulation.py: {missing}")
    rows = [row for count in args.hosts.split(",") for row in compare(int(count), args)]
    errors = sorted(abs(row["ratio"] - 1) for row in rows)
    within = sum(error <= args.most for error in errors)
    median = statistics.median(errors)
    print(f"\n{len(rows)} figures: error {median:.1%} in the median, {errors[-1]:.1%} at most,", end=" ")
    print(f"{within} within {args.most:.0%}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 1 if median > args.most else 0


if __name__ == "__main__":
    sys.exit(main())
