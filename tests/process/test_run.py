"""`unisono run`: starts, carries output, ends everything, and says what happened."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PYTHON = sys.executable


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Signals mean what they do by default, whoever started the tests (nohup, say): children inherit it."""
    before = {
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    yield
    for which, handler in before.items():
        signal.signal(which, handler)


def unisono() -> str:
    """The command that was installed beside this Python, or the one that UNISONO_COMMAND names."""
    return os.environ.get("UNISONO_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "unisono")


def run(*arguments: str, env: dict[str, str] | None = None, **kwargs: object) -> subprocess.CompletedProcess[str]:
    """`unisono run` with these arguments, to its end."""
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [unisono(), "run", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
        **kwargs,
    )


def shell(script: str, *options: str, ranks: int = 3) -> subprocess.CompletedProcess[str]:
    """Each rank runs a shell script."""
    return run("-n", str(ranks), *options, "--", "sh", "-c", script)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Look until it is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Callable[[int], list[int]]]:
    """Process ids that ranks leave as file names in $PIDS; whatever is left of them is killed after the test."""

    def read(count: int) -> list[int]:
        wait_until(lambda: len(list(tmp_path.iterdir())) >= count, f"{count} processes to report")
        return [int(p.name) for p in tmp_path.iterdir()]

    os.environ["PIDS"] = str(tmp_path)
    yield read
    del os.environ["PIDS"]
    for path in tmp_path.iterdir():
        if alive(int(path.name)):
            os.kill(int(path.name), signal.SIGKILL)


REPORT = ': > "$PIDS/$$"; '


# --- what ranks get -----------------------------------------------------------------------------------------------


def test_every_rank_knows_who_it_is() -> None:
    """torchrun's variables and unisono's own agree."""
    result = shell('echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $UNISONO_RANK $UNISONO_SIZE"')
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"[{r}] {r} {r} 3 3 0 {r} 3" for r in range(3)]


def test_what_another_launcher_left_is_not_passed_on() -> None:
    """A job within a job has ranks of its own."""
    result = run(
        "-n", "1", "--", "sh", "-c", 'echo "$RANK $WORLD_SIZE [$TORCHELASTIC_RUN_ID] [$UNISONO_SECRET]"',
        env={"RANK": "7", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "x", "UNISONO_SECRET": "00" * 32},
    )  # fmt: skip
    assert result.stdout == "[0] 0 1 [] []\n"


def test_variables_and_threads() -> None:
    """--env wins; OMP_NUM_THREADS is shared out when nobody set it."""
    result = run("-n", "2", "--env", "A=x=y", "--env", "RANK=z", "--", "sh", "-c", 'echo "$A $RANK $OMP_NUM_THREADS"',
                 env={"OMP_NUM_THREADS": "3"})  # fmt: skip
    assert sorted(result.stdout.splitlines()) == ["[0] x=y z 3", "[1] x=y z 3"]
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    result = subprocess.run([unisono(), "run", "-n", "1000", "--help"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    cores = len(os.sched_getaffinity(0))
    result = subprocess.run([unisono(), "run", "-n", str(2 * cores), "--", "sh", "-c", "echo $OMP_NUM_THREADS"],
                            capture_output=True, text=True, timeout=60, env=environment)  # fmt: skip
    assert {line.split()[1] for line in result.stdout.splitlines()} == {"1"}


CPUS = sorted(os.sched_getaffinity(0))
# Of these two processors the first is on node 0, the last on node 1.
TWO_NODES = f"numa:2 core:{CPUS[-1]} pu:1"


def core_of(cpu: int) -> str:
    """The processors that are threads of this one's core."""
    return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()


@pytest.fixture
def two_processors() -> Iterator[None]:
    """What is started here runs on the first and the last processor only, however many there are."""
    if len(CPUS) < 2:
        pytest.skip("SKIPPED: one processor, nothing to be bound to")
    os.sched_setaffinity(0, {CPUS[0], CPUS[-1]})
    yield
    os.sched_setaffinity(0, CPUS)


def where(*options: str, ranks: int) -> tuple[list[str], str]:
    """The processors of each rank, in rank order, and what the launcher said."""
    result = shell('echo "$RANK $(sed -n s/^Cpus_allowed_list:.//p /proc/self/status)"', "--no-prefix", *options,
                   ranks=ranks)  # fmt: skip
    assert result.returncode == 0, result.stderr
    lines = sorted((line.split() for line in result.stdout.splitlines()), key=lambda line: int(line[0]))
    return [processors for _, processors in lines], result.stderr


def test_cores_of_their_own(two_processors: None) -> None:
    """Disjoint, and said; the default leaves ranks as they are."""
    if core_of(CPUS[0]) == core_of(CPUS[-1]):
        pytest.skip("SKIPPED: the two processors are threads of one core")
    everywhere, said = where(ranks=2)
    assert everywhere[0] == everywhere[1]
    assert said == ""
    assert where("--bind", "none", ranks=2) == (everywhere, "")
    bound, said = where("--bind", "core", ranks=2)
    assert bound[0] != bound[1]
    assert f"bound local rank 0 to processors {bound[0]}, local rank 1 to processors {bound[1]}" in said


def test_nodes_of_their_own(two_processors: None) -> None:
    """On two pretended nodes: when told to, and by itself where plans over nodes pay."""
    topology = ("--env", f"UNISONO_TOPOLOGY={TWO_NODES}")
    bound, said = where("--bind", "node", *topology, ranks=2)
    first, last = str(CPUS[0]), str(CPUS[-1])
    assert bound == [first, last]
    assert f"local rank 0 to node 0 (processors {first}), local rank 1 to node 1 (processors {last})" in said
    many, said = where(*topology, ranks=16)
    assert set(many) == {first, last}
    assert many == sorted(many, key=lambda processors: processors != first), "neighbours together"
    assert "--bind none leaves them to the system" in said
    few, said = where(*topology, ranks=15)
    assert len(set(few)) == 1
    assert said == ""


def test_the_secret_is_nowhere_to_be_read() -> None:
    """It is in a sealed memfd: not in the arguments, not in the environment, and not to be changed."""
    script = """
import fcntl, os
fd = int(os.environ["UNISONO_SECRET_FD"])
secret = os.pread(fd, 100, 0).decode()
assert len(secret) == 64, len(secret)
for pid in ("self", str(os.getppid())):
    for what in ("cmdline", "environ"):
        assert secret not in open(f"/proc/{pid}/{what}").read(), (pid, what)
F_GET_SEALS, WRITE = 1034, 8
assert fcntl.fcntl(fd, F_GET_SEALS) & WRITE
try:
    os.pwrite(fd, b"0", 0)
except PermissionError:
    print("sealed")
"""
    result = run("-n", "2", "--", PYTHON, "-c", script)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["[0] sealed", "[1] sealed"]


def test_one_host_opens_no_tcp_port() -> None:
    """The store is an abstract unix socket."""
    script = """
import os
from pathlib import Path
print(os.environ["UNISONO_INIT_METHOD"])
listening = {line.split()[9] for t in ("tcp", "tcp6") for line in open(f"/proc/net/{t}") if line.split()[3] == "0A"}
mine = {os.readlink(fd) for fd in Path(f"/proc/{os.getppid()}/fd").iterdir()}
print(sum(f"socket:[{inode}]" in mine for inode in listening), any(name.startswith("socket:") for name in mine))
"""
    result = run("-n", "1", "--", PYTHON, "-c", script)
    method, found = (line.removeprefix("[0] ") for line in result.stdout.splitlines())
    assert method.startswith("unix:@unisono-run-")
    assert found == "0 True"  # it has a socket, and none that listens on TCP


def test_input_goes_to_rank_0() -> None:
    """The others read nothing."""
    result = run("-n", "2", "--", "sh", "-c", 'echo "got $(cat)"', input="hello")
    assert sorted(result.stdout.splitlines()) == ["[0] got hello", "[1] got "]


# --- output -------------------------------------------------------------------------------------------------------


def test_streams_stay_apart_and_lines_stay_whole() -> None:
    """Thousands of lines written in pieces by four ranks: none is broken."""
    script = """
import os, sys
rank = os.environ["RANK"]
for i in range(2000):
    os.write(1, f"{rank} {i} ".encode()); os.write(1, b"x" * 50); os.write(1, b"\\n")
os.write(2, b"to stderr\\n")
"""
    result = run("-n", "4", "--", PYTHON, "-c", script)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert sorted(lines) == sorted(f"[{r}] {r} {i} " + "x" * 50 for r in range(4) for i in range(2000))
    for r in range(4):  # and each rank's in its own order
        mine = [line for line in lines if line.startswith(f"[{r}]")]
        assert mine == [f"[{r}] {r} {i} " + "x" * 50 for i in range(2000)]
    assert sorted(result.stderr.splitlines()) == [f"[{r}] to stderr" for r in range(4)]


def test_partial_lines_progress_bars_and_no_prefix() -> None:
    """A last line without its end is a line; so is each state of a progress bar when nobody watches."""
    assert shell("printf partial", ranks=1).stdout == "[0] partial\n"
    assert shell(r"printf '\r10%%\r20%%\r\ndone\n'", ranks=1).stdout == "[0] 10%\n[0] 20%\n[0] done\n"
    assert shell("printf 'a\nb'", "--no-prefix", ranks=1).stdout == "a\nb"
    assert "\x1b" not in shell("echo plain").stdout


def test_python_output_is_not_held_back() -> None:
    """What a rank printed is there while the rank still runs."""
    with subprocess.Popen([unisono(), "run", "-n", "1", "--", PYTHON, "-c", "print('now'); input()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:  # fmt: skip
        assert p.stdout is not None and p.stdin is not None
        assert p.stdout.readline() == "[0] now\n"
        p.stdin.write("\n")
        p.stdin.close()
        assert p.wait(20) == 0


def test_a_reader_that_leaves_ends_the_job() -> None:
    """`unisono run ... | head -1` comes to an end."""
    result = subprocess.run(f"{unisono()} run -n 2 -- sh -c 'while :; do echo y; done' | head -n 1",
                            shell=True, capture_output=True, text=True, timeout=30)  # fmt: skip
    assert result.stdout.endswith("y\n")


# --- ends ---------------------------------------------------------------------------------------------------------


def test_exit_status_and_reason_of_the_first_failure() -> None:
    """Rank 2 fails; the others only because of it."""
    result = shell('if [ $RANK = 2 ]; then exit 7; fi; trap "exit 9" TERM; sleep 30 & wait', "--grace", "0.2")
    assert result.returncode == 7
    assert "rank 2 (pid " in result.stderr
    assert "exited with status 7" in result.stderr
    assert "first was rank 2" in result.stderr
    assert "ranks 0,1: exited with status 9" in result.stderr


@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_is_named_and_is_128_more(which: signal.Signals) -> None:
    """As in a shell."""
    result = shell(f"ulimit -c 0; if [ $RANK = 1 ]; then kill -{int(which)} $$; fi; sleep 30", "--grace", "0.1")
    assert result.returncode == 128 + which
    assert f"killed by signal {int(which)} ({which.name})" in result.stderr
    assert "first was rank 1" in result.stderr


def test_others_have_time_to_say_what_they_saw() -> None:
    """Within the grace period nobody is killed."""
    result = shell('if [ $RANK = 0 ]; then exit 1; fi; sleep 0.5; echo "rank 0 has gone"; exit 3', "--grace", "20")
    assert result.returncode == 1
    assert result.stdout.count("rank 0 has gone") == 2


def test_who_does_not_end_on_sigterm_is_killed() -> None:
    """Nobody outlives the job."""
    start = time.monotonic()
    result = shell('trap "" TERM; if [ $RANK = 0 ]; then exit 5; fi; while :; do sleep 0.1; done', "--grace", "0.1")
    assert result.returncode == 5
    assert "SIGKILL" in result.stderr
    assert time.monotonic() - start < 20


def test_the_time_limit() -> None:
    """Exit status 124, as of timeout(1)."""
    result = shell("sleep 60", "--timeout", "0.3")
    assert result.returncode == 124
    assert "time limit of 0.3 s" in result.stderr


def test_what_ranks_leave_running_is_ended(pids: Callable[[int], list[int]]) -> None:
    """Background processes go with the job, also those in a session of their own."""
    result = shell(f"sh -c '{REPORT} sleep 300' & setsid sh -c '{REPORT} sleep 300' & "
                   "while [ $(ls $PIDS | wc -l) -lt 4 ]; do sleep 0.01; done", ranks=2)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert len(pids(4)) == 4
    assert not [pid for pid in pids(4) if alive(pid)]


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_passed_on(which: signal.Signals, pids: Callable[[int], list[int]]) -> None:
    """And a rank that handles one may end in its own way."""
    script = f"trap 'echo caught; exit 0' {which.name[3:]}; {REPORT} while :; do sleep 0.05; done"
    with subprocess.Popen([unisono(), "run", "-n", "2", "--", "sh", "-c", script],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:  # fmt: skip
        pids(2)
        p.send_signal(which)
        out, err = p.communicate(timeout=20)
    assert p.returncode == 0, err
    assert sorted(out.splitlines()) == ["[0] caught", "[1] caught"]
    assert f"{which.name}: passed on" in err


def test_nohup_is_respected(pids: Callable[[int], list[int]]) -> None:
    """What was ignored when the job began is ignored by it, too: it goes on when the terminal is closed."""
    script = f"trap 'echo done; exit 0' USR1; {REPORT} while :; do sleep 0.05; done"
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    with subprocess.Popen([*ignoring, unisono(), "run", "-n", "2", "--", "sh", "-c", script],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:  # fmt: skip
        pids(2)
        p.send_signal(signal.SIGHUP)
        p.send_signal(signal.SIGUSR1)
        out, err = p.communicate(timeout=20)
    assert p.returncode == 0, err
    assert sorted(out.splitlines()) == ["[0] done", "[1] done"]
    assert "SIGHUP" not in err


def test_user_signals_are_passed_on_and_end_nothing(pids: Callable[[int], list[int]]) -> None:
    """SIGUSR1 and SIGUSR2 mean what the program wants."""
    script = f"trap 'echo one' USR1; trap 'echo two; exit 0' USR2; {REPORT} while :; do sleep 0.05; done"
    with subprocess.Popen([unisono(), "run", "-n", "1", "--", "sh", "-c", script],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:  # fmt: skip
        pids(1)
        p.send_signal(signal.SIGUSR1)
        assert p.stdout is not None
        assert p.stdout.readline() == "[0] one\n"
        p.send_signal(signal.SIGUSR2)
        assert p.stdout.readline() == "[0] two\n"
        assert p.wait(20) == 0


def test_an_interrupt_is_130(pids: Callable[[int], list[int]]) -> None:
    """A rank that SIGINT ends tells so."""
    with subprocess.Popen([unisono(), "run", "-n", "2", "--", "sh", "-c", f"{REPORT} exec sleep 60"],
                          stderr=subprocess.PIPE, text=True) as p:  # fmt: skip
        pids(2)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=20)
    assert p.returncode == 128 + signal.SIGINT
    assert "ended by SIGINT" in err


def test_killing_the_launcher_leaves_nobody(pids: Callable[[int], list[int]]) -> None:
    """Neither ranks nor what a rank's shell started."""
    script = f"{REPORT} sh -c '{REPORT} sleep 300; true'; true"
    with subprocess.Popen([unisono(), "run", "-n", "2", "--", "sh", "-c", script]) as p:
        found = pids(4)
        assert all(alive(pid) for pid in found)
        p.kill()
        p.wait(20)
    wait_until(lambda: not any(alive(pid) for pid in found), "all processes of the job to end")


# --- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["-n", "0", "--", "true"], 2, "-n 0: a job needs at least one rank"),
        (["-n", "-3", "--", "true"], 2, "at least one rank"),
        (["-n", "2"], 2, "no program to run"),
        (["-n", "2", "--", "no-such-program"], 127, 'no program "no-such-program" in PATH'),
        (["-n", "2", "--", "./no/such"], 127, 'no program "./no/such"'),
        (["-n", "2", "--", "/etc/passwd"], 126, "not executable"),
        (["-n", "2", "--", "/tmp"], 126, "it is a directory"),
        (["-n", "2", "--env", "NAME", "--", "true"], 2, "expected NAME=VALUE"),
        (["-n", "99999", "--bind", "core", "--", "true"], 2, "99999 ranks cannot each have a core of their own"),
        (["-n", "2", "--bind", "node", "--env", "UNISONO_TOPOLOGY=x", "--", "true"], 2, "UNISONO_TOPOLOGY: hwloc does"),
        (["-n", "2", "--nnodes", "2", "--", "true"], 2, "--rdzv HOST:PORT"),
        (["-n", "2", "--nnodes", "2", "--node-rank", "2", "--", "true"], 2, "they count from 0 to 1"),
        (["-n", "2", "--nnodes", "2", "--rdzv", "localhost", "--", "true"], 2, "not HOST:PORT"),
        (["-n", "2", "--nnodes", "2", "--rdzv", "localhost:29400", "--", "true"], 2, "--secret-file"),
        (["-n", "2", "--nnodes", "2", "--rdzv", "a:1", "--secret-file", "/none", "--", "true"], 2, "/none"),
    ],
)
def test_mistakes_are_told_before_anything_starts(arguments: list[str], status: int, says: str) -> None:
    """One line, nothing on standard output."""
    result = run(*arguments)
    assert result.returncode == status
    assert says in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_a_script_without_interpreter_line_is_told(tmp_path: Path) -> None:
    """Not "Exec format error" alone."""
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    script.chmod(0o700)
    result = run("-n", "2", "--", str(script))
    assert result.returncode == 126
    assert "#! line" in result.stderr


# --- several nodes ------------------------------------------------------------------------------------------------


def test_two_nodes_share_a_secret_and_meet(tmp_path: Path) -> None:
    """Two launchers on this host play two hosts; ranks are numbered through."""
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = 'echo "$RANK $WORLD_SIZE $GROUP_RANK $UNISONO_INIT_METHOD $UNISONO_JOB $MASTER_PORT"'
    nodes = [
        subprocess.Popen(
            [unisono(), "run", "-n", "2", "--nnodes", "2", "--node-rank", str(node), "--rdzv", f"127.0.0.1:{port}",
             "--secret-file", str(key), "--", "sh", "-c", command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for node in range(2)
    ]  # fmt: skip
    lines = []
    for node in nodes:
        out, err = node.communicate(timeout=30)
        assert node.returncode == 0, err
        lines += [line.partition("] ")[2].split() for line in out.splitlines()]
    assert sorted(int(line[0]) for line in lines) == [0, 1, 2, 3]
    assert {tuple(line[3:]) for line in lines} == {tuple(lines[0][3:])}
    assert lines[0][3] == f"tcp://127.0.0.1:{port}"

    key.chmod(key.stat().st_mode | stat.S_IRGRP)
    result = run("-n", "1", "--nnodes", "2", "--rdzv", f"127.0.0.1:{port}", "--secret-file", str(key), "--", "true")
    assert result.returncode == 2
    assert "chmod 600" in result.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """Node 0 cannot serve the store where somebody else listens."""
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = run("-n", "1", "--nnodes", "2", "--rdzv", f"127.0.0.1:{port}", "--secret-file", str(key), "--", "true")
    assert result.returncode == 1
    assert f"another program has port {port}" in result.stderr
