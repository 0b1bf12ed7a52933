"""Every way to start a program of unisono.distributed, and the places where its ranks meet."""

from __future__ import annotations

import importlib.util
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from harness.hosts import Hosts, why_no_hosts
from harness.launch import environment, free_port, unisono_command

PROGRAM = """
import multiprocessing, sys
import numpy as np
import unisono.distributed as dist

def program(rank, arguments, times):
    for _ in range(times):
        dist.init_process_group("gloo", **(arguments if rank is None else dict(arguments, rank=rank)))
        assert dist.is_initialized() and dist.get_backend() == "unisono"
        x = np.array([dist.get_rank() + 1.0])
        dist.all_reduce(x)
        assert x[0] == sum(range(1, dist.get_world_size() + 1)), x
        dist.destroy_process_group()
        assert not dist.is_initialized()
    assert "torch" not in sys.modules or SPAWN == "torch"
    sys.stdout.write(f"sum {{int(x[0])}}\\n")

ARGUMENTS, SPAWN, TIMES = {arguments!r}, {spawn!r}, {times}
if __name__ == "__main__":
    if SPAWN == "torch":
        import torch.multiprocessing as mp
        mp.spawn(program, args=(ARGUMENTS, TIMES), nprocs=2)
    elif SPAWN:
        ranks = [multiprocessing.get_context(SPAWN).Process(target=program, args=(r, ARGUMENTS, TIMES)) for r in (0, 1)]
        for each in ranks:
            each.start()
        for each in ranks:
            each.join()
        sys.exit(max(each.exitcode for each in ranks))
    else:
        program(None, ARGUMENTS, TIMES)
"""


def run(
    folder: Path, command: list[str], *, spawn: str = "", times: int = 3, env: dict[str, str], **arguments: object
) -> str:
    path = folder / "program.py"
    path.write_text(PROGRAM.format(arguments=arguments, spawn=spawn, times=times))
    clean = {k: v for k, v in environment(env).items() if k not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(
        [*command, str(path)], capture_output=True, text=True, env=clean, timeout=100, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sum 3") == 2, done.stdout + done.stderr
    assert done.stderr.count('the back end is "unisono", not "gloo"') >= 1, done.stderr
    return done.stderr


def address() -> dict[str, str]:
    return {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}


def test_unisono_run(tmp_path: Path) -> None:
    run(tmp_path, [unisono_command(), "run", "-n", "2", "--", sys.executable], env={})


def test_unisono_run_with_what_the_environment_says(tmp_path: Path) -> None:
    run(
        tmp_path,
        [unisono_command(), "run", "-n", "2", "--", sys.executable],
        env={},
        init_method="env://",
        world_size=2,
    )


@pytest.mark.parametrize("spawn", ["spawn", "fork"])
def test_multiprocessing_at_an_address(tmp_path: Path, spawn: str) -> None:
    run(tmp_path, [sys.executable], spawn=spawn, env=address(), world_size=2)


@pytest.mark.parametrize("place", ["tcp", "tcp-query", "file"])
def test_places_to_meet(tmp_path: Path, place: str) -> None:
    method = {
        "tcp": f"tcp://localhost:{free_port()}",
        "tcp-query": f"tcp://127.0.0.1:{free_port()}?world_size=2",
        "file": f"file://{tmp_path}/store",
    }[place]
    size = {} if "query" in place else {"world_size": 2}
    run(tmp_path, [sys.executable], spawn="fork", env={}, init_method=method, **size)


def own_address() -> str:
    """Not a loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this host has no address but the loopback's")
        return str(probe.getsockname()[0])


def test_an_address_of_this_hosts_own(tmp_path: Path) -> None:
    # No secret: the ranks agree on one, as under torch.
    host = own_address()
    env = {"MASTER_ADDR": host, "MASTER_PORT": str(free_port())}
    run(tmp_path, [sys.executable], spawn="fork", env=env, world_size=2)
    method = f"tcp://{host}:{free_port()}"
    output = run(tmp_path, [sys.executable], spawn="fork", env={}, init_method=method, world_size=2)
    assert "UNISONO_ALLOW_INSECURE" not in output


AGAIN = """
import multiprocessing, sys, time
import numpy as np
import unisono.distributed as dist

def program(rank, method, comes_again):
    for turn in range(2):
        if rank == 1 and turn == 1:
            comes_again.set()
        dist.init_process_group(init_method=method, rank=rank, world_size=2)
        x = np.array([rank + 1.0])
        dist.all_reduce(x)
        assert x[0] == 3, x
        if rank == 0 and turn == 0:  # serves the first world's store while rank 1 asks for the second's
            assert comes_again.wait(60)
            time.sleep(0.3)
        dist.destroy_process_group()

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    comes_again = context.Event()
    ranks = [context.Process(target=program, args=(r, sys.argv[1], comes_again)) for r in (0, 1)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    sys.exit(max(each.exitcode for each in ranks))
"""


@pytest.mark.parametrize("where", ["loopback", "own"])
def test_a_rank_that_comes_again_before_the_store_of_the_last_world_is_gone(where: str) -> None:
    method = f"tcp://{own_address() if where == 'own' else '127.0.0.1'}:{free_port()}"
    command = [sys.executable, "-c", AGAIN, method]
    done = subprocess.run(command, capture_output=True, text=True, env=environment({}), timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


BETWEEN_HOSTS = """
import numpy as np
import unisono.distributed as dist
try:
    dist.init_process_group()
except ValueError as error:
    print("refused:", error)
else:
    x = np.ones(3)
    dist.all_reduce(x)
    print("sum", x[0], dist.group.WORLD.core.transport)
    dist.destroy_process_group()
"""


@pytest.mark.skipif(why_no_hosts() is not None, reason=str(why_no_hosts()))
@pytest.mark.parametrize("strict", ["0", "1"])
def test_two_hosts_without_a_secret(strict: str) -> None:
    with Hosts(2) as hosts:
        ranks = [
            subprocess.Popen(
                hosts.inside(rank, sys.executable, "-c", BETWEEN_HOSTS),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment(
                    {
                        "RANK": str(rank),
                        "WORLD_SIZE": "2",
                        "MASTER_ADDR": hosts.address(0),
                        "MASTER_PORT": "29500",
                        "UNISONO_STRICT": strict,
                    }
                ),
            )
            for rank in range(2)
        ]
        outputs = [each.communicate(timeout=60)[0] for each in ranks]
    for output in outputs:
        if strict == "1":
            assert "refused:" in output and "secret" in output, outputs
        else:
            assert "sum 2.0 tcp" in output, outputs
    assert strict == "1" or "secret" in outputs[0], "a warning"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torchrun(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    run(tmp_path, torchrun, env={})


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_multiprocessing_spawn(tmp_path: Path) -> None:
    run(tmp_path, [sys.executable], spawn="torch", times=1, env=address(), world_size=2)


PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "distributed.md"


def test_the_programs_of_the_page(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    outputs = []
    for program in programs:
        (tmp_path / "program.py").write_text(program)
        command = [unisono_command(), "run", "-n", "2", "--", sys.executable, str(tmp_path / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment({}), timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        outputs.append(done.stdout)
    assert len(programs) == 2
    assert "[1] 1 1.0" in outputs[0] and "0.1 1 0.5" in outputs[1], outputs


WRONG = """
import unisono.distributed as dist
try:
    dist.init_process_group({arguments})
except Exception as error:
    print(type(error).__name__, error)
    assert not dist.is_initialized()
    assert isinstance(error, ({kind})), type(error)
else:
    raise SystemExit("no error")
"""


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ("", "ValueError", "environment variable RANK expected"),
        ("rank=0", "ValueError", "environment variable WORLD_SIZE expected"),
        ("rank=0, world_size=2", "ValueError", "MASTER_ADDR is not set"),
        ("init_method='tcp://localhost:29500'", "ValueError", "needs rank and world_size"),
        ("init_method='tcp://localhost:29500?rank=x'", "ValueError", "invalid literal"),
        ("init_method='tcp://localhost:29500?size=2'", "ValueError", "size behind the question mark"),
        ("init_method='udp://localhost:1', rank=0, world_size=2", "ValueError", "expected tcp://HOST:PORT"),
        ("rank=2, world_size=2, init_method='file:///nowhere/x'", "dist.DistError", "rank 2"),
        ("store=dist.HashStore()", "ValueError", "both rank and world_size"),
        ("store=dist.HashStore(), init_method='env://'", "ValueError", "Cannot specify both"),
        ("store={}, rank=0, world_size=1", "ValueError", "store is a dict"),
        ("timeout=5", "TypeError", "datetime.timedelta"),
        ("device_id=0", "ValueError", "main memory"),
    ],
)
def test_what_cannot_be_joined(arguments: str, kind: str, words: str) -> None:
    env = {k: v for k, v in environment({}).items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    program = WRONG.format(arguments=arguments, kind=kind)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    assert done.returncode == 0 and words in done.stdout, done.stdout + done.stderr


STORES = """
import sys
from datetime import timedelta
import numpy as np
import unisono.distributed as dist
rank, path = int(sys.argv[1]), sys.argv[2]
if path.isdigit():
    store = dist.TCPStore("localhost", int(path), 2, rank == 0, timedelta(seconds=60))
    assert store.port == int(path) and store.host == "localhost"
else:
    store = dist.FileStore(path, 2)
for _ in range(2):
    prefix = dist.PrefixStore("one", store)
    dist.init_process_group(store=prefix, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    x = np.ones(3)
    dist.all_reduce(x)
    assert x[0] == 2
    dist.destroy_process_group()
store.set("text", "value")
assert store.get("text") == b"value"
assert store.add("count", rank + 1) in (1, 2, 3)
# Both at once: nothing is lost, nothing comes twice.
for i in range(20):
    store.append("both", "x")
    store.queue_push("shared", f"{rank}.{i}")
mine = [store.queue_pop("shared") for _ in range(20)]
store.set(f"popped{rank}", b" ".join(mine))
popped = store.get(f"popped{1 - rank}").split() + mine
assert sorted(popped) == sorted(f"{r}.{i}".encode() for r in (0, 1) for i in range(20)), popped
assert store.get("both") == b"x" * 40
store.wait(["count"], timedelta(seconds=10))
if rank == 0:
    assert store.compare_set("new", "", "first") == b"first"
    assert store.compare_set("new", "other", "second") == b"first"
    assert store.compare_set("new", "first", "third") == b"third"
    assert store.compare_set("absent", "something", "x") == b"something" and not store.check(["absent"])
    store.append("log", "a")
    store.append("log", "b")
    assert store.multi_get(["log", "new"]) == [b"ab", b"third"]
    store.multi_set(["m", "n"], ["1", b"2"])
    assert store.delete_key("m") and not store.delete_key("m") and store.check(["n"])
    store.queue_push("q", "1")
    store.queue_push("q", b"2")
    assert store.queue_len("q") == 2 and store.queue_pop("q") == b"1" and store.queue_pop("q", False) == b"2"
    try:
        store.queue_pop("q", False)
    except dist.QueueEmptyError:
        pass
    store.set_timeout(timedelta(milliseconds=50))
    try:
        store.get("never")
    except dist.DistStoreError as error:
        assert "never" in str(error)
    else:
        raise SystemExit("no error")
    try:
        store.num_keys()
    except NotImplementedError as error:
        assert "add()" in str(error)
print("fine")
"""


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_stores(tmp_path: Path, kind: str) -> None:
    place = str(tmp_path / "store") if kind == "file" else str(free_port())
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", STORES, str(rank), place],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment({}),
        )
        for rank in range(2)
    ]
    outputs = [each.communicate(timeout=60)[0] for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0] and "fine" in outputs[0], outputs
