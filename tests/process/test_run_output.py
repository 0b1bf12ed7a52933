"""`unisono run` when its output cannot be written, or nobody reads it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_run import PYTHON, alive, heard, pids, unisono, wait_until  # noqa: F401  (fixtures)

PRINTS = 'i=0; while [ $i -lt 2000 ]; do echo "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" || exit 9; i=$((i+1)); done; '


def redirected(where: str, script: str, *options: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Two ranks run this shell script while the launcher's descriptors are redirected; status and standard error."""
    command = ["bash", "-c", f'"$@" {where}', "bash", unisono(), "run", "-n", "2", *options, "--", "sh", "-c", script]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, env={**os.environ, **(env or {})})
    return done.returncode, done.stderr


@pytest.mark.parametrize("prefix", ["--no-prefix", "--grace=1"])
@pytest.mark.parametrize("where", [">/dev/full", ">&-", "</dev/null >/dev/full", "<&- >&-"])
def test_output_that_cannot_be_written_ends_nothing(where: str, prefix: str, tmp_path: Path) -> None:
    """It is said once; the ranks never see it, and end well."""
    status, said = redirected(where, f'{PRINTS} : > "$DONE/$RANK"', prefix, env={"DONE": str(tmp_path)})
    assert status == 0, said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]
    assert said.count("standard output cannot be written") == 1
    assert len(said.splitlines()) == 1


def test_a_file_that_may_not_grow_ends_nothing(tmp_path: Path) -> None:
    """`ulimit -f` is a signal to whoever writes: the launcher, which goes on, and ends with the job's status."""
    out = tmp_path / "out"
    limited = f'ulimit -f 8; "$@" >{out}'
    command = ["bash", "-c", limited, "bash", unisono(), "run", "-n", "2", "--", "sh", "-c", f"{PRINTS} exit 5"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 5, done.stderr
    assert done.stderr.count("standard output cannot be written: File too large") == 1
    assert out.stat().st_size == 8 * 1024


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", ">/dev/full 2>&1", ">&- 2>&- <&-"])
def test_errors_that_cannot_be_written_end_nothing(where: str, tmp_path: Path) -> None:
    """Nobody can be told; the status tells."""
    env = {"DONE": str(tmp_path)}
    script = 'echo lost >&2; : > "$DONE/$RANK"; exit $RANK'
    assert redirected(where, script, env=env)[0] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_do_not_become_others(closed: str, tmp_path: Path) -> None:
    """What the launcher opens does not take their place, nor is it given to ranks as such."""
    look = 'readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 > "$DONE/$RANK"; echo out; echo error >&2'
    status, said = redirected(closed, look, env={"DONE": str(tmp_path)})
    assert status == 0, said
    for rank in "01":
        places = (tmp_path / rank).read_text().split()
        assert len(places) == 3
        assert not any("socket" in place or "anon" in place or "memfd" in place for place in places)


def test_a_terminal_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    """As with nohup: EIO from then on."""
    master, slave = os.openpty()
    script = f'while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo lost; : > "{tmp_path}/done"'
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    with subprocess.Popen([*ignoring, unisono(), "run", "-n", "1", "--", "sh", "-c", script], stdin=subprocess.DEVNULL,
                          stdout=slave, stderr=subprocess.PIPE, text=True) as p:  # fmt: skip
        os.close(slave)
        os.close(master)
        (tmp_path / "go").touch()
        _, said = p.communicate(timeout=30)
    assert p.returncode == 0, said
    assert (tmp_path / "done").exists()
    assert "standard output cannot be written: Input/output error" in said


def test_input_output_and_errors_into_one_place_stay_in_order() -> None:
    """`2>&1`: one sink, so lines do not mix."""
    script = "i=0; while [ $i -lt 300 ]; do echo out $i; echo error $i >&2; i=$((i+1)); done"
    done = subprocess.run([unisono(), "run", "-n", "2", "--", "sh", "-c", script], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)  # fmt: skip
    assert sorted(done.stdout.splitlines()) == sorted(
        f"[{rank}] {kind} {i}" for rank in range(2) for kind in ("out", "error") for i in range(300)
    )


FLOOD = "yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"


def start_stalled(script: str, *options: str) -> subprocess.Popen[bytes]:
    """Two ranks, whose output nobody reads until it is full."""
    p = subprocess.Popen([unisono(), "run", "-n", "2", *options, "--", "sh", "-c", script],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert p.stdout is not None
    writable = Path(f"/proc/{p.pid}/fd/1")

    def full() -> bool:
        fd = os.open(writable, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return not select.select([], [fd], [], 0)[1]
        finally:
            os.close(fd)

    wait_until(full, "the pipe to be full")  # fmt: skip
    return p


def test_a_stalled_reader_hides_no_death(tmp_path: Path) -> None:
    """The launcher says at once that a rank failed, and ends the others; what is left waits for the reader."""
    with start_stalled(f'if [ $RANK = 1 ]; then while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 7; fi; {FLOOD}',
                       "--grace", "0.2") as p:  # fmt: skip
        (tmp_path / "go").touch()
        assert p.stderr is not None and p.stdout is not None
        said = b""
        while b"of output wait for whoever reads them" not in said:
            said += os.read(p.stderr.fileno(), 4096)
        assert b"rank 1 (pid" in said and b"exited with status 7" in said and b"the job failed after" in said
        assert p.poll() is None
        lines = p.stdout.read().splitlines()
        assert p.wait(20) == 7
    assert set(lines[:-1]) == {b"[0] " + b"x" * 55}


def test_a_stalled_reader_hides_no_interrupt() -> None:
    """Ctrl-C ends the job and the launcher, although nobody reads."""
    with start_stalled(f"exec {FLOOD}") as p:
        p.send_signal(signal.SIGINT)
        assert p.wait(30) == 130
        assert p.stderr is not None
        assert b"nobody read the last" in p.stderr.read()


def test_a_slow_reader_gets_everything() -> None:
    """Nothing is lost, and the ranks wait for the reader."""
    count = 200_000
    with subprocess.Popen([unisono(), "run", "-n", "2", "--", "sh", "-c", f"seq {count}"], stdout=subprocess.PIPE) as p:
        assert p.stdout is not None
        time.sleep(0.5)  # a reader that is slow, which is what is tested
        lines = p.stdout.read().decode().splitlines()
        assert p.wait(20) == 0
    for rank in range(2):
        mine = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert mine == [f"[{rank}] {i}" for i in range(1, count + 1)]


def test_a_time_limit_and_a_stalled_reader() -> None:
    """Whoever sets a limit wants an end."""
    with start_stalled(f"exec {FLOOD}", "--timeout", "1") as p:
        assert p.wait(30) == 124


def test_a_daemon_that_a_rank_leaves_is_not_waited_for(pids: Callable[[int], list[int]]) -> None:  # noqa: F811
    """It holds the rank's output open, ignores signals and has a session of its own; it is ended with the job."""
    daemon = ("import os, signal, sys, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
              "for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
              "open(os.environ['PIDS'] + '/' + str(os.getpid()), 'w')\ntime.sleep(300)")  # fmt: skip
    wait = "while [ $(ls $PIDS | wc -l) -lt 2 ]; do sleep 0.01; done"
    start = time.monotonic()
    script = f'{PYTHON} -c "$0"; {wait}; echo end'
    done = subprocess.run([unisono(), "run", "-n", "2", "--", "sh", "-c", script, daemon],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] end", "[1] end"]
    assert time.monotonic() - start < 30
    assert not [pid for pid in pids(2) if alive(pid)]
