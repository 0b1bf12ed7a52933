"""Groups over several hosts measure their links once, keep what they find, and choose by it; all ranks alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness import launch
from harness.hosts import Hosts, launch_on_hosts, why_no_hosts

pytestmark = pytest.mark.skipif(why_no_hosts() is not None, reason=str(why_no_hosts()))


def table_and_sum(world: unisono.Group) -> dict[str, Any]:
    """The table in force, how often something was done before, and a sum over all ranks."""
    before = world.sequence_number
    x = np.full(5000, float(world.rank + 1))
    world.all_reduce(x)
    half = world.split(world.rank % 2)
    assert half is not None
    half.all_reduce(x)
    return {"table": world.algorithms, "topology": world.topology, "before": before, "sum": float(x[-1])}


def run(hosts: Hosts, cache: Path, **env: str) -> tuple[str, str]:
    """The table that all ranks share, and what they said."""
    env = {"UNISONO_TUNING": "auto", "UNISONO_CACHE": str(cache), "UNISONO_LOG": "info", **env}
    job = launch_on_hosts(table_and_sum, hosts, 2, env=env)
    values = job.values()
    assert len({value["table"] for value in values}) == 1
    assert len({value["topology"] for value in values}) == 1
    assert all(value["before"] == 0 for value in values)
    total = len(values) * (len(values) + 1) / 2
    assert {value["sum"] for value in values} == {total * len(values) / 2}  # of all, then of every second one
    return values[0]["table"], job.output


def records(cache: Path) -> list[dict[str, str]]:
    return [json.loads(file.read_text()) for file in sorted((cache / "tuning").glob("*.json"))]


def test_links_are_measured_once(tmp_path: Path) -> None:
    with Hosts(3, mbit=1000) as hosts:
        first, said = run(hosts, tmp_path)
        assert said.count("links of 3 hosts") == 1
        (record,) = records(tmp_path)
        assert "ranks 0x2 1x2 2x2\n" in record["topology"]
        links = dict(part.split("=") for part in record["constants"].split("; "))
        assert set(links) == {"gamma", "within", "between", "0-1", "0-2", "1-2"}
        for pair in ("0-1", "0-2", "1-2"):
            alpha, gap, beta = links[pair].split(",")
            assert float(alpha.removesuffix("us")) > 0
            assert float(gap.removesuffix("us")) >= 0
            assert float(beta.removesuffix("ns/B")) > 0
        assert record["rules"] in first
        second, said = run(hosts, tmp_path)
        assert second == first
        assert "links of" not in said
        assert said.count("algorithms are chosen by") == 1
        assert len(records(tmp_path)) == 1


def test_what_is_set_is_not_measured(tmp_path: Path) -> None:
    with Hosts(2) as hosts:
        built_in, said = run(hosts, tmp_path, UNISONO_TUNING="off")
        assert "links of" not in said
        assert run(hosts, tmp_path, UNISONO_TUNING="cached")[0] == built_in
        assert not (tmp_path / "tuning").exists()
        # Latency is all: what has the fewest rounds. Bytes are nothing.
        constants = "within=100us,0us,0ns/B; between=100us,0us,0ns/B"
        table, said = run(hosts, tmp_path, UNISONO_CONSTANTS=constants)
        assert "algorithms are chosen by UNISONO_CONSTANTS" in said
        assert "all_reduce@hosts[4]:" in table.removeprefix(built_in)
        assert "recursive_doubling" in table.removeprefix(built_in)
        assert not (tmp_path / "tuning").exists()
        override = "all_reduce:0-=ring"
        table, _ = run(hosts, tmp_path, UNISONO_CONSTANTS=constants, UNISONO_ALGORITHM=override)
        assert table.endswith(";" + override)


def topology(world: unisono.Group) -> str:
    return world.topology


def test_hosts_of_one_name_are_not_one_host() -> None:
    # Containers may bear their host's name: what is measured between them must not decide for ranks that meet in one.
    with Hosts(2) as hosts:
        (apart, *_) = launch_on_hosts(topology, hosts, 1).values()
    (together, *_) = launch(topology, 2, env={"UNISONO_TRANSPORT": "tcp"}).values()
    assert "over tcp\nranks 0x1 1x1\n" in apart
    assert "over tcp within one host\nranks 0x1 1x1\n" in together
    assert apart.splitlines()[1:] == together.splitlines()[1:]
