"""How programs end while a daemon thread is in a call, and interpreters that may not use the library."""

from __future__ import annotations

import subprocess
import sys

import pytest
from harness.launch import environment, unisono_command

DAEMON = """
import sys, threading
import numpy as np
import unisono

case = sys.argv[1]
world = unisono.init(timeout=60)
group = world.split(0)
right = (world.rank + 1) % world.size
came = threading.Semaphore(0)

def again(call):
    while True:
        call()
        came.release()

def recv():
    x = np.zeros(4)
    again(lambda: world.recv(x, tag=9))

def irecv():
    x = np.zeros(4)
    again(lambda: world.irecv(x, tag=9).wait())

def all_reduce():
    again(lambda: group.all_reduce(np.ones(2)))

def large():
    again(lambda: group.all_reduce(np.ones(100_000)))

def barrier():
    again(group.barrier)

def async_op():
    again(lambda: group.barrier(async_op=True).wait())

def split():
    again(lambda: group.split(0))

def refused():  # raises, each time
    def call():
        try:
            group.all_reduce(np.ones(3, "M8[s]"))
        except unisono.InvalidArgument:
            pass
    again(call)

class Exporter:
    def __dlpack__(self, **kwargs):
        array = np.ones(3)
        for _ in range(100):  # enough Python to be stopped in it
            array = array + 0
        return array.__dlpack__()

def dlpack():
    out = np.empty((world.size, 3))
    again(lambda: group.all_gather(Exporter(), out))

def threads():
    def rank(pool):
        again(lambda: pool.all_reduce(np.ones(2)))
    unisono.spawn_threads(2, rank)

def store():
    kept = unisono.make_memory_store()
    came.release()
    kept.wait(["never"], 60)

def get():
    kept = unisono.make_memory_store()
    kept.set("there", b"1")
    again(lambda: kept.get("there"))

def subgroup():
    came.release()
    world.subgroup([world.rank, right], timeout=30)  # the other rank never comes

def pool():
    from multiprocessing.pool import ThreadPool
    x = [np.zeros(4) for _ in range(3)]
    ThreadPool(3).map(lambda i: again(lambda: world.recv(x[i], tag=9)), range(3), chunksize=1)

threading.Thread(target=globals()[case], daemon=True).start()
if case in ("recv", "irecv", "pool"):
    for _ in range(5):
        world.send(np.ones(4), right, 9)
for _ in range(1 if case in ("store", "subgroup") else 5):
    came.acquire()
"""

WITHOUT_A_PEER = ["store", "get", "threads", "refused"]
WITH_PEERS = ["recv", "irecv", "all_reduce", "large", "barrier", "async_op", "split", "dlpack", "subgroup", "pool"]


@pytest.mark.parametrize("case", [*WITHOUT_A_PEER, *WITH_PEERS])
def test_a_program_ends_while_a_daemon_thread_is_in_a_call(case: str) -> None:
    command = [unisono_command(), "run", "-n", "2", "--", sys.executable, "-c", DAEMON, case]
    for transport in ("shm", "shm", "tcp"):
        env = environment({"UNISONO_TRANSPORT": transport})
        done = subprocess.run(command, env=env, timeout=100, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "terminate" not in done.stderr and "FATAL" not in done.stderr, done.stderr


SUBINTERPRETER = """
import sys
if sys.argv[1] == "after":
    import unisono
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
inside = '''
try:
    import unisono
except ImportError as error:
    print(error, flush=True)
else:
    print("imported", flush=True)
'''
interpreters.run_string(interpreters.create(), inside)
import unisono
print(unisono.init().size, flush=True)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_subinterpreter_may_not_import_it(when: str) -> None:
    command = [sys.executable, "-c", SUBINTERPRETER, when]
    done = subprocess.run(command, env=environment({}), timeout=60, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said, size = done.stdout.splitlines()
    assert "subinterpreter" in said, said  # Python 3.13 refuses it itself, in words of its own
    assert sys.version_info >= (3, 13) or "main interpreter" in said, said
    assert size == "1"
