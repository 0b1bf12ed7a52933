"""`unisono run` on a terminal: a pseudo-terminal plays the user's."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_run import PYTHON, heard, unisono, wait_until  # noqa: F401  (a fixture that is used by itself)

# The others' output would come in between.
ONLY_RANK_0 = "import os, sys\nif os.environ['RANK'] != '0': sys.exit()\n"


class Shell:
    """bash on a terminal of its own, with job control."""

    def __init__(self) -> None:
        """Start it."""
        self.master, slave = os.openpty()
        self.seen = ""
        settings = termios.tcgetattr(slave)
        settings[3] &= ~termios.ECHO  # what is typed is not what is looked for
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        self.slave = slave
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
            env={**os.environ, "PS1": "ready> ", "TERM": "dumb"},
        )  # fmt: skip
        self.until("ready> ")

    def type(self, text: str) -> None:
        """As on the keyboard."""
        os.write(self.master, text.encode())

    def until(self, pattern: str, seconds: float = 30) -> str:
        """Read until it matches; what was read up to there is forgotten, and returned."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        before, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return before

    def close(self) -> None:
        """End the shell and what it runs."""
        self.process.send_signal(signal.SIGHUP)
        os.close(self.master)
        os.close(self.slave)
        self.process.wait(20)


@pytest.fixture
def terminal() -> Iterator[Shell]:
    """A shell on a terminal."""
    shell = Shell()
    yield shell
    shell.close()


def program(tmp_path: Path, text: str) -> str:
    """A Python program as a file."""
    path = tmp_path / "program.py"
    path.write_text(text)
    return f"{PYTHON} {path}"


def test_rank_0_asks_and_reads(terminal: Shell, tmp_path: Path) -> None:
    """A question appears before its line ends, and the answer reaches rank 0; the others read nothing."""
    asks = program(
        tmp_path, "import sys\ntry:\n    print('hello', input('name? '))\nexcept EOFError:\n    print('none')\n"
    )
    terminal.type(f"{unisono()} run -n 2 -- {asks}; echo status $?\n")
    terminal.until(r"\[0\]\S* name\? ")
    terminal.type("bob\n")
    terminal.until("hello bob")
    terminal.until("status 0")


def test_the_debugger_works_on_rank_0(terminal: Shell, tmp_path: Path) -> None:
    """breakpoint(), and the terminal is set afterwards as before."""
    before = termios.tcgetattr(terminal.slave)
    broken = program(tmp_path, ONLY_RANK_0 + "x = 41\nbreakpoint()\nprint('went on')\n")
    terminal.type(f"{unisono()} run -n 2 -- {broken}; echo status $?\n")
    terminal.until(r"\(Pdb\) ")
    terminal.type("p x + 1\n")
    terminal.until("42")
    terminal.type("c\n")
    terminal.until("went on")
    terminal.until("status 0.*ready> ".replace(".*", r"[\s\S]*"))
    assert termios.tcgetattr(terminal.slave) == before


def test_a_killed_job_leaves_the_terminal_as_it_was(terminal: Shell, tmp_path: Path) -> None:
    """Rank 0 switches the echo and the lines off, and dies."""
    before = termios.tcgetattr(terminal.slave)
    dies = program(tmp_path, ONLY_RANK_0 + "import tty\ntty.setraw(0)\nos.kill(os.getpid(), 9)\n")
    terminal.type(f"{unisono()} run -n 2 -- {dies}; echo status $?\n")
    terminal.until("status 137[\\s\\S]*ready> ")
    assert termios.tcgetattr(terminal.slave) == before


def state(pid: int) -> str:
    """As ps prints it: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_ctrl_z_stops_the_ranks_and_fg_continues_them(terminal: Shell, tmp_path: Path) -> None:
    """Both ranks are stopped; the time does not count for --timeout."""
    goes_on = tmp_path / "go"
    waits = program(tmp_path, "import os, time\nprint('pid', os.getpid(), flush=True)\n"
                    f"while not os.path.exists({str(goes_on)!r}): time.sleep(0.01)\nprint('ended')\n")  # fmt: skip
    terminal.type(f"{unisono()} run -n 2 --timeout 3 -- {waits}; echo status $?\n")
    pids = [int(re.findall(r"pid (\d+)", terminal.until(r"pid \d+\r?\n"))[0]) for _ in range(2)]
    terminal.type("\x1a")
    terminal.until("Stopped")
    # The shell says so when the launcher has stopped; the ranks' signals may still be on their way.
    wait_until(lambda: [state(pid) for pid in pids] == ["T", "T"], "both ranks stopped")
    time.sleep(3.2)  # longer than the limit: the very thing that is tested
    terminal.type("fg\n")
    goes_on.touch()
    terminal.until("ended")
    terminal.until("ended")
    terminal.until("ready> ")


def test_ctrl_c_ends_all_ranks_with_a_traceback_of_each(terminal: Shell, tmp_path: Path) -> None:
    """130, and nobody tells of another one's end."""
    loops = program(tmp_path, "import numpy, unisono\nw = unisono.init()\nx = numpy.ones(4)\nw.all_reduce(x)\n"
                    "print('on', flush=True)\nwhile True: w.all_reduce(x, op='max')\n")  # fmt: skip
    for _ in range(5):
        terminal.type(f"{unisono()} run -n 2 -- {loops}; echo status $?\n")
        terminal.until("on\r?\n")
        terminal.until("on\r?\n")
        terminal.type("\x03")
        said = terminal.until(r"status \d+")
        terminal.until("ready> ")
        assert said.endswith("status 130")
        assert "lost sys.stderr" not in said
        assert said.count("KeyboardInterrupt\r\n") == 2
        assert "Aborted" not in said


def test_a_question_over_pipes() -> None:
    """As a program that drives another one sees it."""
    with subprocess.Popen([unisono(), "run", "-n", "2", "--", "sh", "-c",
                           'if [ $RANK = 0 ]; then printf "name? "; read name; echo "hello $name"; fi'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:  # fmt: skip
        assert p.stdin is not None and p.stdout is not None
        seen = b""
        while not seen.endswith(b"name? "):
            seen += os.read(p.stdout.fileno(), 100)
        assert seen == b"[0] name? "
        p.stdin.write(b"bob\n")
        p.stdin.close()
        assert p.stdout.read() == b"hello bob\n"
        assert p.wait(20) == 0


def test_no_prefix_passes_every_byte(tmp_path: Path) -> None:
    """And so do the logs, with or without output."""
    data = bytes(range(256)) * 3000 + b"\r\r\n\n\r\x00end without a newline"
    file = tmp_path / "data"
    file.write_bytes(data)
    command = [unisono(), "run", "-n", "1", "--no-prefix", "--log-dir", str(tmp_path / "logs")]
    shown = subprocess.run([*command, "--", "cat", str(file)], capture_output=True, timeout=60)
    assert shown.stdout == data
    assert (tmp_path / "logs" / "rank-0.out").read_bytes() == data
    quiet = subprocess.run(
        [*command, "--log-only", "--", "sh", "-c", f"cat {file} >&2"], capture_output=True, timeout=60
    )
    assert (quiet.stdout, quiet.stderr) == (b"", b"")
    assert (tmp_path / "logs" / "rank-0.err").read_bytes() == data
    assert (tmp_path / "logs" / "rank-0.out").read_bytes() == b""
