"""How ranks meet: every way, and what goes wrong on the way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import unisono
from harness import free_port, launch, unisono_command
from harness.launch import environment

Group = Any


def total(world: Group) -> list[Any]:
    x = np.array([world.rank + 1.0])
    world.all_reduce(x)
    y = np.full(50_000, world.rank + 1.0)
    world.all_reduce(y)
    assert (y == x[0]).all()
    return [world.rank, world.size, x[0], world.transport]


@pytest.mark.parametrize("through", ["run", "tcp", "file"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ways_to_meet(through: str, ranks: int) -> None:
    for rank, value in enumerate(launch(total, ranks, through=through).values()):
        assert value[:3] == [rank, ranks, ranks * (ranks + 1) / 2]


def test_the_variables_of_torchrun() -> None:
    program = "import unisono\nw = unisono.init()\nprint(w.rank, w.size, unisono.Config.from_env().launcher)\n"
    port = str(free_port())
    processes = []
    for rank in range(2):
        env = environment({"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)})
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none"}
        processes.append(subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=60)[0].split() for process in processes]
    assert outputs == [["0", "2", "torchrun"], ["1", "2", "torchrun"]]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_transport_may_be_forced(transport: str) -> None:
    values = launch(total, 3, init={"transport": transport}).values()
    assert [value[3] for value in values] == [transport] * 3


def test_a_world_of_one_without_a_launcher() -> None:
    program = """
import numpy as np, unisono
with unisono.init() as world:
    assert (world.rank, world.size) == (0, 1), world
    x = np.ones(3)
    world.all_reduce(x)
    world.barrier()
    assert x.tolist() == [1, 1, 1]
assert world.destroyed and "destroyed" in repr(world)
again = unisono.init()  # after destroy it may be joined anew
again.barrier()
"""
    subprocess.run([sys.executable, "-c", program], env=environment({}), timeout=60, check=True)


def joining(rank: int, size: int, init_method: str, init_timeout: float) -> None:
    unisono.init(rank=rank, size=size, init_method=init_method, init_timeout=init_timeout)


def join_failing(arguments: dict[str, Any], env: dict[str, str] | None = None) -> tuple[str, dict[str, Any], float]:
    """Join in a process of its own; the kind of the exception, its message and fields, and the seconds it took."""
    program = f"""
import json, sys, time, unisono
start = time.monotonic()
try:
    unisono.init(**{arguments!r})
except unisono.Error as error:
    fields = {{k: v for k, v in vars(error).items()}}
    print(json.dumps([type(error).__name__, str(error), fields, time.monotonic() - start]))
else:
    print(json.dumps(["nothing", "joined", {{}}, 0]))
"""
    import json

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(env), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    kind, message, fields, took = json.loads(done.stdout.splitlines()[-1])
    return f"{kind}: {message}", fields, took


def test_a_world_that_never_fills_names_the_missing_ranks(tmp_path: Path) -> None:
    method = f"file://{tmp_path}/store"
    arguments = {"size": 4, "init_method": method, "init_timeout": 3.0}
    results: dict[int, Any] = {}

    def join(rank: int) -> None:
        results[rank] = join_failing({**arguments, "rank": rank})

    threads = [threading.Thread(target=join, args=(rank,)) for rank in (0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for message, _, took in results.values():
        assert message.startswith("Timeout: ") and "1" in message and "3" in message, message
        assert took < 15
    message, fields, _ = results[0]
    assert fields["missing"] == [1, 3], message


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # With a secret: without one, ranks that meet over loopback need no port.
        method = f"tcp://127.0.0.1:{port}"
        arguments = {"rank": 0, "size": 2, "init_method": method, "init_timeout": 3, "secret": "ab" * 16}
        message, _, _ = join_failing(arguments)
    assert message.startswith("SystemError: ") and str(port) in message and "in use" in message, message


def test_an_unreachable_address() -> None:
    port = free_port()
    method = f"tcp://127.0.0.1:{port}"
    arguments = {"rank": 1, "size": 2, "init_method": method, "init_timeout": 2, "secret": "ab" * 16}
    message, _, took = join_failing(arguments)
    assert f"127.0.0.1:{port}" in message and message.split(":")[0] in ("Timeout", "SystemError"), message
    assert took < 20


def test_a_name_that_does_not_resolve() -> None:
    arguments = {"rank": 1, "size": 2, "init_method": "tcp://no-such-host.invalid:29500", "init_timeout": 2}
    message, _, _ = join_failing(arguments)
    assert "no-such-host.invalid" in message, message


def test_a_wrong_secret() -> None:
    port = free_port()
    arguments = {"size": 2, "init_method": f"tcp://127.0.0.1:{port}", "init_timeout": 4.0}
    results: dict[int, Any] = {}

    def join(rank: int) -> None:
        results[rank] = join_failing({**arguments, "rank": rank, "secret": "ab" * 16 if rank == 0 else "cd" * 16})

    threads = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[1][0].startswith("AuthenticationError: "), results
    assert results[0][0].split(":")[0] in ("AuthenticationError", "Timeout"), results


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rank": 2, "size": 2, "init_method": "file:///tmp/none"}, ("rank", "2")),
        ({"rank": -1, "size": 2, "init_method": "file:///tmp/none"}, ("rank", "-1")),
        ({"rank": 0, "size": 0, "init_method": "file:///tmp/none"}, ("0 ranks",)),
        ({"rank": 0, "size": 2, "init_method": "pigeon://loft"}, ("pigeon",)),
        ({"rank": 0, "size": 2, "init_method": "tcp://nowhere"}, ("nowhere", "HOST:PORT")),
        ({"rank": 0}, ("rank was given without size",)),
        ({"size": 3}, ("size was given without rank",)),
        ({"rank": 0, "size": 2, "init_method": "file:///tmp/none", "transport": "pigeon"}, ("pigeon",)),
        ({"rank": 0, "size": 2, "init_method": "file:///tmp/none", "secret": "not hexadecimal"}, ("hex",)),
        ({"rank": 0, "size": 1, "algorithm": "all_reduce:0-8K=magic"}, ("magic",)),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    message, _, took = join_failing({**arguments, "init_timeout": 5})
    assert message.startswith("InvalidArgument: "), message
    assert all(word in message for word in words), message
    assert took < 5


@pytest.mark.parametrize(
    ("name", "value"), [("UNISONO_RANK", "two"), ("UNISONO_SIZE", "-4"), ("UNISONO_TIMEOUT", "soon")]
)
def test_variables_that_make_no_sense(name: str, value: str) -> None:
    env = {"UNISONO_RANK": "0", "UNISONO_SIZE": "1", name: value}
    message, _, _ = join_failing({}, env)
    assert message.startswith("InvalidArgument: ") and name in message and value in message, message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "-n", "0", "--", "true"], ("0",)),
        (["run", "-n", "2", "--", "no-such-program-anywhere"], ("no-such-program-anywhere",)),
        (["run", "-n", "2"], ("program",)),
    ],
)
def test_a_launcher_that_cannot(arguments: list[str], words: tuple[str, ...]) -> None:
    done = subprocess.run([unisono_command(), *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert all(word in (done.stdout + done.stderr).lower() for word in words), done


def test_threads_with_a_memory_store() -> None:
    store = unisono.make_memory_store()
    sums: dict[int, float] = {}

    def rank_of(rank: int) -> None:
        with unisono.Context(unisono.Config()).create_group(store, rank, 3, "threads") as group:
            x = np.array([rank + 1.0])
            group.all_reduce(x)
            sums[rank] = float(x[0])

    threads = [threading.Thread(target=rank_of, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sums == {0: 6.0, 1: 6.0, 2: 6.0}


def test_init_with_a_store(tmp_path: Path) -> None:
    def through_a_store(rank: int) -> subprocess.Popen[str]:
        program = f"""
import numpy as np, unisono
store = unisono.make_prefix_store("job", unisono.make_file_store({str(tmp_path / "store")!r}))
world = unisono.init(rank={rank}, size=2, store=store)
x = np.ones(2)
world.all_reduce(x)
print(x.sum())
"""
        return subprocess.Popen([sys.executable, "-c", program], env=environment({}), stdout=subprocess.PIPE, text=True)

    processes = [through_a_store(rank) for rank in range(2)]
    assert [process.communicate(timeout=60)[0].strip() for process in processes] == ["4.0", "4.0"]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_spawn_threads(size: int) -> None:
    def body(group: Group) -> list[Any]:
        x = np.full(20_000, group.rank + 1.0)
        group.all_reduce(x)
        parts = group.all_gather(np.array([group.rank]))
        return [group.rank, float(x[0]), [int(part[0]) for part in parts]]

    expected = [[rank, size * (size + 1) / 2, list(range(size))] for rank in range(size)]
    assert unisono.spawn_threads(size, body) == expected


def test_spawn_threads_raises_the_first_exception() -> None:
    def body(group: Group) -> None:
        if group.rank == 1:
            raise KeyError("mine")
        group.barrier()  # never ends well: the exception ends it

    with pytest.raises(KeyError, match="mine"):
        unisono.spawn_threads(3, body)
    with pytest.raises(unisono.InvalidArgument, match="size is 0"):
        unisono.spawn_threads(0, body)


def stores(tmp_path: Path) -> list[unisono.Store]:
    memory = unisono.make_memory_store()
    return [memory, unisono.make_file_store(str(tmp_path / "s")), unisono.make_prefix_store("p", memory)]


@pytest.mark.parametrize("index", range(3), ids=["memory", "file", "prefix"])
def test_stores(tmp_path: Path, index: int) -> None:
    store = stores(tmp_path)[index]
    store.set("a", b"1\0\xff")
    assert store.get("a") == b"1\0\xff" and store.check(["a"]) and not store.check(["a", "b"])
    assert store.add("n", 5) == 5 and store.add("n", -7) == -2 and store.get("n") == b"-2"
    assert store.compare_set("c", b"", b"x") == b"x" and store.compare_set("c", b"y", b"z") == b"x"
    assert store.erase("a") and not store.erase("a")
    start = time.monotonic()
    with pytest.raises(unisono.Timeout, match="b"):
        store.get("b", timeout=timedelta(milliseconds=250))
    assert 0.2 < time.monotonic() - start < 5
    with pytest.raises(unisono.Timeout):
        store.wait(["n", "late"], 0)
    threading.Timer(0.1, lambda: store.set("late", b"here")).start()
    assert store.get("late", 10) == b"here"
    store.wait(["n", "late"])
    assert repr(store).startswith("<unisono.Store: ")
    with pytest.raises(unisono.InvalidArgument, match="negative"):
        store.get("b", timeout=-1)


def test_configuration() -> None:
    config = unisono.Config()
    config.timeout = timedelta(minutes=2)
    config.init_timeout = 7
    assert (config.timeout, config.init_timeout, config.size, config.launcher) == (120.0, 7.0, 1, "none")
    with pytest.raises(unisono.InvalidArgument):
        config.timeout = -3
    assert unisono.Context(config).config.timeout == 120.0


def test_a_child_of_fork_may_not_use_the_group() -> None:
    program = """
import os, numpy as np, unisono
world = unisono.init()
child = os.fork()
if child == 0:
    try:
        world.all_reduce(np.zeros(1))
    except unisono.InvalidArgument as error:
        os._exit(0 if "fork" in str(error) else 2)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
x = np.array([world.rank + 1.0])
world.all_reduce(x)
assert x[0] == 3, x
"""
    command = [unisono_command(), "run", "-n", "2", "--", sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, env=environment({}), timeout=60, check=True)


def test_python_m_unisono_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unisono", "--help"], capture_output=True, text=True, timeout=30, check=True
    )
    assert "run" in done.stdout and "bench" in done.stdout
    assert os.path.basename(unisono_command()) == "unisono"
