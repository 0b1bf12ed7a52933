"""The groups `tcp` and `hosts` of bench/compare: all_reduce over sockets beside what sockets and links allow.

tcp     on loopback: unisono over tcp, Gloo, Open MPI over tcp, and one plain socket on which two processes
        exchange as much
hosts   between network namespaces (needs root and `ip`): unshaped, beside the plain socket; with links of
        1 Gbit/s, beside the time that the bytes occupy a link; and what of an asynchronous all_reduce is hidden
        behind a matrix product, and what of a bare exchange

Programs take turns within a round, and ratios are taken within a round, as the machine's state changes between
them; a figure is the median over rounds. Run alone: bench/network.py [tcp] [hosts] [--rounds N] [--seconds S].
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import libraries
import report
from figures import Bar, Figures
from libraries import LibraryError, Sample

sys.path.insert(0, str(libraries.ROOT / "tests" / "python"))

NAMES = ("tcp", "hosts")
TINY, SMALL, MEDIUM, LARGE = 8, 64 << 10, 1 << 20, 64 << 20
HOSTS_SIZE = 16 << 20
MBIT, PORT = 1000, 29471
EXPOSED, BARE = "exposed beside a product", "a bare exchange"
EXCHANGE, MESH, THREAD = (
    libraries.ROOT / "build/peers" / name for name in ("tcp_exchange", "tcp_mesh", "exchange_thread")
)


TCP_BARS = (
    Bar("loopback", 2, LARGE, ("exchange",), 0.95),
    Bar("loopback", 2, LARGE, ("gloo", "openmpi"), 1.0),
    *(Bar("loopback", 2, size, ("openmpi",), 1.0) for size in (TINY, SMALL, MEDIUM)),
    *(
        Bar("loopback", 4, size, ("gloo", "openmpi"), factor)
        for size, factor in ((SMALL, 2), (MEDIUM, 2), (LARGE, 1.2))
    ),
    *(Bar("loopback", 4, size, ("bare sockets",), None) for size in (SMALL, MEDIUM, LARGE)),
)
HOSTS_BARS = (
    Bar("2 hosts, unshaped", 2, LARGE, ("exchange",), 0.95),
    Bar("2 hosts, 1 Gbit/s", 2, HOSTS_SIZE, ("link",), 1 / 1.05),
    Bar("4 hosts, 1 Gbit/s", 4, HOSTS_SIZE, ("link",), 1 / 1.05),
    Bar("4 hosts, 1 Gbit/s", 4, SMALL, ("link",), 1 / 1.8),
    *(
        Bar("2 hosts x 2, 1 Gbit/s", 4, size, ("link",), 1 / factor)
        for size, factor in ((HOSTS_SIZE, 1.08), (MEDIUM, 1.2), (SMALL, 2.0))
    ),
    Bar("2 hosts, 1 Gbit/s", 2, HOSTS_SIZE, ours=EXPOSED, most=10.0, unit="%"),
    Bar("2 hosts, 1 Gbit/s", 2, HOSTS_SIZE, (BARE,), None, EXPOSED, unit="%"),
)


class UnisonoTcp(libraries.Unisono):
    """`unisono bench` with tcp forced."""

    options = ("--transport", "tcp")


def openmpi_tcp() -> libraries.Mpi:
    """Open MPI that may use nothing but sockets."""
    only_tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
    return libraries.openmpi("Open MPI over TCP", *only_tcp)


def build_exchange() -> None:
    """The programs of plain sockets."""
    for program in (EXCHANGE, MESH, THREAD):
        kind = ["-shared", "-fPIC"] if program == THREAD else []
        libraries.compile_program("g++", f"{program.name}.cc", "-O2", "-std=c++20", "-pthread", *kind)


def measure_tcp(args: argparse.Namespace, figures: Figures) -> None:
    """Loopback, all libraries by turns."""
    peers = [UnisonoTcp(args.unisono), openmpi_tcp(), libraries.Gloo(args.torch_python)]
    for peer in peers:
        peer.prepare()
    build_exchange()
    for turn in range(args.rounds):
        print(f"tcp: round {turn + 1}/{args.rounds}", file=sys.stderr, flush=True)
        exchange = libraries.run_program([EXCHANGE, str(args.seconds), str(LARGE)])
        figures.add("loopback", libraries.parse_lines("exchange", exchange))
        for ranks, sizes in ((2, [TINY, SMALL, MEDIUM, LARGE]), (4, [SMALL, MEDIUM, LARGE])):
            for peer in peers:
                figures.add("loopback", peer.turn(ranks, sizes, args.seconds))
        mesh = libraries.run_program([MESH, str(args.seconds), "4", *map(str, (SMALL, MEDIUM, LARGE))])
        figures.add("loopback", libraries.parse_lines("bare sockets", mesh))
    figures.reasons |= {peer.name: peer.reason for peer in peers if peer.reason}


@contextmanager
def job_secret() -> Iterator[Path]:
    """A file with a fresh secret."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.key"
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32))
        yield path


def run_on_all(commands: list[list[str]]) -> str:
    """The output of the first of commands that run together; an error when one fails."""
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        for command in commands
    ]
    try:
        outputs = [process.communicate(timeout=libraries.TIME_LIMIT) for process in started]
    except subprocess.TimeoutExpired:
        raise LibraryError(f"{commands[0][-1]} took longer than {libraries.TIME_LIMIT} s") from None
    finally:
        for process in started:
            process.kill()
            process.wait()
    for process, (_, error) in zip(started, outputs, strict=True):
        if process.returncode != 0:
            raise LibraryError(f"ended with {process.returncode}: {(error.strip() or 'no output').splitlines()[-1]}")
    return outputs[0][0]


class Cluster:
    """Namespaces, and unisono jobs and plain exchanges between them."""

    def __init__(self, args: argparse.Namespace, hosts: object) -> None:
        self.args, self.hosts = args, hosts
        self.ours = libraries.Unisono(args.unisono)
        self.ours.find()

    def job(self, per_host: int, program: list[str]) -> str:
        """Run a program on the ranks of all hosts; what the first host's printed."""
        count = len(self.hosts.names)
        with job_secret() as secret:
            commands = []
            for host in range(count):
                run = [str(self.ours.command), "run", "-n", str(per_host), "--no-prefix"]
                run += ["--nnodes", str(count), "--node-rank", str(host), "--secret-file", str(secret)]
                run += ["--rdzv", f"{self.hosts.address(0)}:{PORT}", "--", *program]
                commands.append(self.hosts.inside(host, *run))
            return run_on_all(commands)

    def all_reduce(self, per_host: int, sizes: list[int]) -> list[Sample]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.json"
            self.job(per_host, self.ours.command_line(sizes, self.args.seconds, file))
            return self.ours.samples(file)

    def exchange(self, size: int) -> list[Sample]:
        program = [str(EXCHANGE), str(self.args.seconds), str(size)]
        where = [self.hosts.address(0), str(PORT)]
        served = self.hosts.inside(0, *program, "serve", *where)
        return libraries.parse_lines("exchange", run_on_all([served, self.hosts.inside(1, *program, "call", *where)]))

    def exposed(self, size: int) -> list[Sample]:
        """Per cent of an asynchronous all_reduce's time that a product does not hide, and of a bare exchange's."""
        python = self.args.python or self.ours.command.parent / "python"
        program = [str(python), str(libraries.PROGRAMS / "unisono_overlap.py"), str(size), str(THREAD)]
        program += [self.hosts.address(0), str(PORT + 1)]
        row = next(json.loads(line) for line in self.job(1, program).splitlines() if line.startswith("{"))
        hidden = {EXPOSED: row["hidden"], BARE: row["exchange_hidden"]}
        return [Sample(who, 2, size, 100 * (1 - part)) for who, part in hidden.items()]


def link_time(hosts: int, size: int) -> float:
    """Microseconds that the bytes of an all_reduce of so many hosts occupy a link each way."""
    return 2 * (hosts - 1) / hosts * size * 8 / MBIT


def measure_hosts(args: argparse.Namespace, figures: Figures) -> None:
    """Between namespaces."""
    from harness.hosts import Hosts, why_no_hosts  # the tests' own; needs what they need

    if reason := why_no_hosts():
        figures.reasons |= dict.fromkeys(("unisono", "exchange", "link", EXPOSED, BARE), reason)
        return
    build_exchange()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a rank is a core
    layouts = (
        (2, 1, [SMALL, MEDIUM, HOSTS_SIZE]),
        (4, 1, [SMALL, MEDIUM, HOSTS_SIZE]),
        (2, 2, [SMALL, MEDIUM, HOSTS_SIZE]),
    )
    for turn in range(args.rounds):
        print(f"hosts: round {turn + 1}/{args.rounds}", file=sys.stderr, flush=True)
        with Hosts(2) as hosts:
            cluster = Cluster(args, hosts)
            figures.add("2 hosts, unshaped", cluster.exchange(LARGE))
            figures.add("2 hosts, unshaped", cluster.all_reduce(1, [LARGE]))
        for count, per_host, sizes in layouts:
            where = f"{count} hosts{f' x {per_host}' if per_host > 1 else ''}, 1 Gbit/s"
            with Hosts(count, MBIT) as hosts:
                cluster = Cluster(args, hosts)
                figures.add(where, cluster.all_reduce(per_host, sizes))
                for size in sizes:
                    figures.add(where, [Sample("link", count * per_host, size, link_time(count, size))])
                if (count, per_host) == (2, 1):
                    figures.add(where, cluster.exposed(HOSTS_SIZE))


def measure(args: argparse.Namespace, groups: list[str]) -> list[dict]:
    """A row for each bar of the groups."""
    figures, rows = Figures(), []
    for name, take, bars in (("tcp", measure_tcp, TCP_BARS), ("hosts", measure_hosts, HOSTS_BARS)):
        if name not in groups:
            continue
        try:
            take(args, figures)
        except LibraryError as failure:
            print(f"{name}: SKIPPED: {failure}", file=sys.stderr)
            figures.reasons |= {who: str(failure) for who in ("unisono", "exchange", "link", EXPOSED, BARE)}
        rows += [figures.row(bar) for bar in bars]
    return rows


def to_markdown(rows: list[dict]) -> str:
    return "\n".join(["# all_reduce of f32 over tcp, in place", "", *report.bars_table(rows)]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("groups", nargs="*", default=list(NAMES), help="tcp, hosts; both when left out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="of calls a size and turn")
    parser.add_argument("--unisono", type=Path, help="the command (default: .venv/bin/unisono)")
    parser.add_argument("--python", type=Path, help="an interpreter that has the unisono package")
    parser.add_argument("--torch-python", type=Path, help="an interpreter that has torch, for Gloo")
    args = parser.parse_args()
    rows = measure(args, args.groups)
    print(to_markdown(rows))
    return 1 if any(row["verdict"] == "FAIL" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
