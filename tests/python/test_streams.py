"""Several connections to a rank on another host: everything is as over one, in order, until one of them breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness.hosts import Hosts, launch_on_hosts, why_no_hosts

pytestmark = pytest.mark.skipif(why_no_hosts() is not None, reason=str(why_no_hosts()))

Group = Any
STORE = 29400  # launch_on_hosts' port
ESTABLISHED = "01"


BOTH = {"UNISONO_INTERFACE": "eth0,eth1"}


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Two of them, on two networks."""
    with Hosts(2, networks=2) as made:
        yield made


def connections(table: str) -> list[int]:
    """Of a host (where nothing else runs) on each network, but for those to the store, by its /proc/net/tcp."""
    counts = [0, 0]
    for line in table.splitlines()[1:]:
        fields = line.split()
        ports = [int(end.split(":")[1], 16) for end in fields[1:3]]
        address = bytes.fromhex(fields[2].split(":")[0])[::-1]  # as the processor has it: the last byte first
        if fields[3] == ESTABLISHED and STORE not in ports:
            counts[address[2]] += 1
    return counts


def large_and_small(world: Group) -> dict[str, Any]:
    """Messages of all sizes both ways at once, and sums: what is wrong, and the host's connections."""
    from pathlib import Path

    n, r, wrong = world.size, world.rank, []
    other = (r + n // 2) % n
    counts = [3, 400_000, 1, 20_000, 1_000_000, 16_384, 16_383, 2]
    received = [np.zeros(count) for count in counts]
    works = [world.irecv(x, src=other) for x in received]
    for i, count in enumerate(counts):
        world.send(np.arange(count) + 100.0 * r + i, dst=other)
    for i, (work, x) in enumerate(zip(works, received, strict=True)):
        work.wait()
        if not np.array_equal(x, np.arange(counts[i]) + 100.0 * other + i):
            wrong.append(f"message {i}")
    for count in (1, 50_000, 2_000_000):
        x = np.arange(count, dtype=np.float64) + r
        world.all_reduce(x)
        if not np.array_equal(x, n * np.arange(count) + n * (n - 1) / 2):
            wrong.append(f"all_reduce of {count}")
    world.barrier()
    return {"wrong": wrong, "connections": Path("/proc/net/tcp").read_text()}


@pytest.mark.parametrize("streams", ["1", "2", "4"])
def test_results_are_the_same_over_any_number(hosts: Hosts, streams: str) -> None:
    job = launch_on_hosts(large_and_small, hosts, 1, env={"UNISONO_TCP_STREAMS": streams})
    for report in job.values():
        assert report["wrong"] == []
        assert connections(report["connections"]) == [int(streams), 0]
    assert job.status == 0, job.output  # nobody took the other's leaving for a death


@pytest.mark.parametrize(("streams", "expected"), [("", [1, 1]), ("1", [1, 0]), ("3", [2, 1])])
def test_interfaces_are_used_by_turns(hosts: Hosts, streams: str, expected: list[int]) -> None:
    job = launch_on_hosts(large_and_small, hosts, 1, env={**BOTH, "UNISONO_TCP_STREAMS": streams})
    for report in job.values():
        assert report["wrong"] == []
        assert connections(report["connections"]) == expected
    assert job.status == 0, job.output


def test_an_interface_that_is_not_there_is_named(hosts: Hosts) -> None:
    job = launch_on_hosts(large_and_small, hosts, 1, env={"UNISONO_INTERFACE": "eth0,eth7"})
    failure = job.outcomes[0].failure
    assert failure is not None, job.output
    assert '"eth7" is neither an interface nor an address' in failure.message
    assert "eth1 (10.77.1.1)" in failure.message


def test_what_is_measured_is_used_and_kept(hosts: Hosts, tmp_path: Path) -> None:
    env = {"UNISONO_TUNING": "auto", "UNISONO_CACHE": str(tmp_path), "UNISONO_LOG": "info"}
    for turn in range(2):
        job = launch_on_hosts(large_and_small, hosts, 1, env=env)
        (file,) = [path for path in (tmp_path / "tuning").glob("*.json") if "measured" not in path.name]
        streams = json.loads(file.read_text())["streams"]
        assert streams in (1, 2, 4)
        assert ("GB/s" in job.output) == (turn == 0), job.output
        for report in job.values():
            assert report["wrong"] == []
            assert connections(report["connections"]) == [streams, 0]  # what was opened to measure is closed


def test_two_ranks_a_host(hosts: Hosts) -> None:
    for report in launch_on_hosts(large_and_small, hosts, 2, env={**BOTH, "UNISONO_TCP_STREAMS": "4"}).values():
        assert report["wrong"] == []


def one_breaks(world: Group, network: str, late: bool) -> dict[str, Any]:
    """In the middle of the job rank 0's host loses what goes over one network; `late`: rank 0 looks when 1 has left."""
    import re
    import subprocess
    import time
    from pathlib import Path

    def ss(*options: str) -> str:
        return subprocess.run(["ss", *options, "dst", network], capture_output=True, check=True, text=True).stdout

    x = np.ones(1_000_000)
    used = world.rank != 0
    try:
        for _ in range(10**9):
            # One that breaks while it is being opened is opened again: it has to carry something first.
            if (
                not used
                and (carried := re.search(r"bytes_received:(\d+)", ss("-Htin")))
                and int(carried[1]) > 1_000_000
            ):
                used = True
                ss("-K")
                while late and " 08 " not in Path("/proc/net/tcp").read_text():  # CLOSE_WAIT: the other side is done
                    time.sleep(0.01)
            world.all_reduce(x)
    except unisono.RankFailure as error:
        return {"rank": error.rank, "text": str(error)}
    raise AssertionError("the loop ended")


@pytest.mark.parametrize("late", [False, True])
def test_one_that_breaks_is_named(hosts: Hosts, late: bool) -> None:
    reports = launch_on_hosts(one_breaks, hosts, 1, env=BOTH, network="10.77.1.0/24", late=late).values()
    assert [report["rank"] for report in reports] == [1, 0]
    assert f"tcp to {hosts.address(1, 1)}:" in reports[0]["text"], reports
