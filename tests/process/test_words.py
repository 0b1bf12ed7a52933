"""What a user may type: other names of options, words that are nearly right, and what shells complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import unisono

COMMAND = os.environ.get("UNISONO_COMMAND") or str(Path(sysconfig.get_path("scripts")) / "unisono")
PROGRAM = "import os, sys; os.write(1, (os.environ['UNISONO_SIZE'] + repr(sys.argv[1:]) + '\\n').encode())"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`unisono ARGUMENTS`."""
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("ranks", ["-n 2", "-np 2", "-np=2", "-n2", "--np 2", "--nproc-per-node=2"])
@pytest.mark.parametrize("between", [[], ["--"]], ids=["", "--"])
def test_all_ways_to_say_how_many(ranks: str, between: list[str]) -> None:
    program = [sys.executable, "-c", PROGRAM, "-np", "--versoin", "--", "x"]
    done = command("run", "--no-prefix", *ranks.split(), *between, *program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2['-np', '--versoin', '--', 'x']\n" * 2


def test_the_version() -> None:
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"unisono {unisono.__version__}\n")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("rnu -n 2 true", 'there is no command "rnu", did you mean "run"?'),
        ("bnech", 'there is no command "bnech", did you mean "bench"?'),
        ("launch", 'there is no command "launch"; `unisono --help` lists them'),
        ("--versoin", 'there is no option "--versoin", did you mean "--version"?'),
        ("run --no-prefx -n 2 true", 'there is no option "--no-prefx", did you mean "--no-prefix"?'),
        ("run --nproc 2 true", 'there is no option "--nproc", did you mean "--nproc-per-node"?'),
        ("bench all_reduce --size 1M", 'there is no option "--size", did you mean "--sizes"?'),
        ("plan --explian all_reduce", 'there is no option "--explian", did you mean "--explain"?'),
        ("doctor --frobnicate", 'there is no option "--frobnicate"; `unisono doctor --help` lists them'),
    ],
)
def test_what_was_meant(typed: str, says: str) -> None:
    done = command(*typed.split())
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def completed(*words: str) -> set[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in words)
    script = f"""
source <({COMMAND} completion bash)
COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _unisono; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    bash = ["bash", "--norc", "-c", script]
    done = subprocess.run(bash, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["unisono", "d"], {"doctor"}),
        (["unisono", "--v"], {"--version"}),
        (["unisono", "run", "--no-p"], {"--no-prefix"}),
        (["unisono", "plan", "--draw", ""], {"text", "svg"}),
        (["unisono", "plan", "--explain", "--memory", "shared-"], {"shared-inputs"}),
        (["unisono", "bench", "se"], {"send_recv"}),
        (["unisono", "bench", "all_reduce", "--dtype", "b"], {"bf16", "bool"}),
        (["unisono", "bench", "all_reduce", "--transport", ""], {"shm", "tcp"}),
        (["unisono", "completion", ""], {"bash", "zsh", "fish", "--help", "-h"}),
        (["unisono", "run", "-n", "2", "--", "bas"], {"bash"}),
    ],
)
def test_bash_completes(words: list[str], offered: set[str]) -> None:
    assert completed(*words) >= offered
    if words[-1] and "--" not in words:
        assert completed(*words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_understand_it(shell: str, tmp_path: Path) -> None:
    script = tmp_path / f"completion.{shell}"
    script.write_text(command("completion", shell).stdout)
    assert "--no-prefix" in script.read_text() or "no-prefix" in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"SKIPPED: {shell} is not installed")
    subprocess.run([shell, "-n", str(script)], check=True, timeout=60)
