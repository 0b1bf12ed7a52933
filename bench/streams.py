"""Several connections to a rank, and several interfaces: what they give between two hosts (network namespaces).

one wire      1 Gbit/s each way: more connections carry no more
two wires     of 1 Gbit/s: UNISONO_INTERFACE=eth0,eth1 uses both
limited       every connection by itself is held to 250 Mbit/s, as clouds and policers do
unshaped      the processors are the limit

All settings take turns within a round; a figure is the median over rounds. `chosen` is what ranks find out by
themselves (UNISONO_TUNING=auto). Needs root, `ip` and `tc`.   bench/streams.py [--rounds N] [--seconds S]
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import libraries
import report
from network import Cluster

sys.path.insert(0, str(libraries.ROOT / "tests" / "python"))

from harness.hosts import Hosts, why_no_hosts

SIZE, MBIT, LIMIT, CLASSES = 16 << 20, 1000, 250, 16
COLLECTIVES = ("broadcast", "all_reduce")  # of two ranks: one way, and both ways at once


@dataclass(frozen=True)
class Layout:
    """Hosts, and the settings that are compared there."""

    name: str
    make: Callable[[], Hosts]
    settings: tuple[dict[str, str], ...]
    limited: bool = False


def streams(*counts: int) -> tuple[dict[str, str], ...]:
    """Settings with so many connections, and the one that chooses."""
    return (*({"UNISONO_TCP_STREAMS": str(count)} for count in counts), {"UNISONO_TUNING": "auto"})


BOTH = {"UNISONO_INTERFACE": "eth0,eth1"}
LAYOUTS = (
    Layout("one wire", lambda: Hosts(2, MBIT), streams(1, 2, 4)),
    Layout("two wires", lambda: Hosts(2, MBIT, networks=2), ({}, BOTH, BOTH | {"UNISONO_TUNING": "auto"})),
    Layout("limited", lambda: Hosts(2), streams(1, 2, 4), limited=True),
    Layout("unshaped", lambda: Hosts(2), streams(1, 2, 4)),
)


@dataclass
class Figures:
    """Microseconds by layout, setting and collective, round by round, and what was chosen."""

    times: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    chosen: dict[str, list[int]] = field(default_factory=dict)


def limit_each(hosts: Hosts) -> None:
    """Hold every connection to LIMIT: one of many classes takes it, by the bits of its caller's port."""
    for host, name in enumerate(hosts.names):

        def tc(*arguments: str, where: str = name) -> None:
            subprocess.run(["ip", "netns", "exec", where, "tc", *arguments], check=True)

        tc("qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "999")
        tc("class", "add", "dev", "eth0", "parent", "1:", "classid", "1:999", "htb", "rate", "10gbit")
        for i in range(CLASSES):
            rate = ["htb", "rate", f"{LIMIT}mbit", "burst", "64kb", "cburst", "64kb", "quantum", "60000"]
            tc("class", "add", "dev", "eth0", "parent", "1:", "classid", f"1:{i + 1:x}", *rate)
            end = "dport" if host == 0 else "sport"  # the higher rank calls
            match = ["u32", "match", "ip", end, str(i << 1), hex((CLASSES - 1) << 1)]
            tc("filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", *match, "flowid", f"1:{i + 1:x}")


def measure(cluster: Cluster, layout: Layout, setting: dict[str, str], figures: Figures, seconds: float) -> None:
    """All collectives with one setting."""
    automatic = setting.get("UNISONO_TUNING") == "auto"
    for collective in COLLECTIVES:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            own = {"UNISONO_TUNING": "off", "UNISONO_CACHE": folder, "UNISONO_ALGORITHM": ""}
            program = ["env", *(f"{name}={value}" for name, value in (own | setting).items())]
            program += [str(cluster.ours.command), "bench", collective, "--sizes", str(SIZE), "--json", str(file)]
            cluster.job(1, [*program, "--seconds", str(seconds)])
            rows = [row for row in json.loads(file.read_text()) if row["in_place"] or collective == "broadcast"]
            kept = [json.loads(path.read_text()) for path in Path(folder).glob("tuning/*.json")]
        name = "chosen" if automatic else " ".join(f"{key}={value}" for key, value in setting.items()) or "-"
        figures.times.setdefault((layout.name, name, collective), []).append(rows[0]["time_us"])
        if automatic:
            figures.chosen.setdefault(layout.name, []).append(kept[0]["streams"])


def to_markdown(figures: Figures) -> str:
    """A table: Mbit/s one way, of what a call has to move that way."""
    lines = [f"# {report.size_text(SIZE)} between two hosts", ""]
    lines += ["| where | setting | what | us | Mbit/s each way | rounds |", "|---|---|---|---:|---:|---|"]
    for (where, setting, collective), times in figures.times.items():
        middle = statistics.median(times)
        # Both of these move as many bytes over each way of the wire that they use.
        rates = [SIZE * 8 / time for time in times]
        spread = f"{min(rates):.0f} to {max(rates):.0f}"
        shown = f"{setting} {sorted(set(figures.chosen[where]))}" if setting == "chosen" else setting
        lines.append(f"| {where} | {shown} | {collective} | {middle:.0f} | {SIZE * 8 / middle:.0f} | {spread} |")
    return re.sub("UNISONO_", "", "\n".join(lines)) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of calls a setting and turn")
    parser.add_argument("--unisono", type=Path, help="the command (default: .venv/bin/unisono)")
    parser.add_argument("--only", nargs="*", default=[layout.name for layout in LAYOUTS])
    args = parser.parse_args()
    if reason := why_no_hosts():
        print(f"SKIPPED: {reason}", file=sys.stderr)
        return 2
    figures = Figures()
    for turn in range(args.rounds):
        print(f"round {turn + 1}/{args.rounds}", file=sys.stderr, flush=True)
        for layout in LAYOUTS:
            if layout.name not in args.only:
                continue
            with layout.make() as hosts:
                if layout.limited:
                    limit_each(hosts)
                cluster = Cluster(args, hosts)
                for setting in layout.settings:
                    measure(cluster, layout, setting, figures, args.seconds)
    print(to_markdown(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
