"""Which congestion control the connections between hosts have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.hosts import Hosts, launch_on_hosts, why_no_hosts

pytestmark = pytest.mark.skipif(why_no_hosts() is not None, reason=str(why_no_hosts()))

Group = Any
SYSTEM = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
NEAR = "reno" if SYSTEM.startswith("bbr") else SYSTEM


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Two, a few microseconds from each other."""
    with Hosts(2) as made:
        yield made


def control_of_links(world: Group) -> list[str]:
    """By the kernel, of this process's connections to the other rank, which those to the store are not."""
    import os
    import socket

    store = 29400  # launch_on_hosts' port
    world.all_reduce(np.ones(100_000, dtype=np.float32))
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as it:
                ports = (it.getsockname()[1], it.getpeername()[1]) if it.family == socket.AF_INET else (store,)
                if store not in ports:
                    found.append(it.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode())
        except OSError:
            continue  # one that listens, or is gone
    world.barrier()
    return found


@pytest.mark.parametrize(
    ("wanted", "expected"), [("", NEAR), (SYSTEM, SYSTEM), ("reno", "reno")], ids=["default", "the_system's", "reno"]
)
def test_all_connections_have_it(hosts: Hosts, wanted: str, expected: str) -> None:
    env = {"UNISONO_TCP_CONGESTION": wanted, "UNISONO_TCP_STREAMS": "2", "UNISONO_LOG": "info"}
    job = launch_on_hosts(control_of_links, hosts, 1, env=env)
    assert [set(found) for found in job.values()] == [{expected}] * 2  # one that the other rank opens may come later
    assert (f"reno instead of the system's {SYSTEM}" in job.output) == (wanted == "" and SYSTEM != NEAR), job.output


def test_what_the_system_does_not_have_is_an_error(hosts: Hosts) -> None:
    job = launch_on_hosts(control_of_links, hosts, 1, env={"UNISONO_TCP_CONGESTION": "no_such"})
    assert 'UNISONO_TCP_CONGESTION is "no_such"' in job.failure(0).message
