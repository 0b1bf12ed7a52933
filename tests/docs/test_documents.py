"""What the documents say is true: their programs run, their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).parent / "unisono"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def program(language: str) -> str:
    """The first code block of that language in the README."""
    found = re.search(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no {language} program"
    return found[1]


def run(*command: str | Path) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert answer.returncode == 0, f"{command} failed:\n{answer.stdout}{answer.stderr}"
    return answer.stdout


def test_the_python_example_runs(tmp_path: Path) -> None:
    source = tmp_path / "sum.py"
    source.write_text(program("python"))
    said = run(COMMAND, "run", "-n", "4", "--", sys.executable, source)
    assert sorted(re.findall(r"rank \d of 4: 6", said)) == [f"rank {rank} of 4: 6" for rank in range(4)]


def test_the_cpp_example_compiles_and_runs(tmp_path: Path) -> None:
    import unisono

    package = Path(unisono.__file__).parent
    source, binary = tmp_path / "sum.cc", tmp_path / "sum"
    source.write_text(program("cpp"))
    includes, library = f"-I{ROOT / 'include'}", package / "libunisono.so"
    run(
        "g++",
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        includes,
        source,
        library,
        f"-Wl,-rpath,{package}",
        "-o",
        binary,
    )
    said = run(COMMAND, "run", "-n", "4", "--", binary)
    assert sorted(re.findall(r"rank \d of 4: 6", said)) == [f"rank {rank} of 4: 6" for rank in range(4)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    targets = [target for target in LINK.findall(document.read_text()) if "://" not in target]
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing


def test_the_list_of_algorithms_is_that_of_the_registry() -> None:
    listed = run(COMMAND, "plan", "--list").rstrip()
    assert f"```\n{listed}\n```" in (ROOT / "docs/algorithms.md").read_text(), "run make docs"


def test_the_architecture_names_what_is_there() -> None:
    """A link such as [`Operation`](operation.h) leads to a file that has that name in it."""
    page = ROOT / "docs/architecture.md"
    named = re.findall(r"\[`([A-Za-z_:]+)`\]\(([^)]+)\)", page.read_text())
    assert len(named) > 10
    for name, target in named:
        path = page.parent / target
        if path.is_file():
            assert name.split("::")[-1] in path.read_text(), f"{target} has no {name}"


def variables() -> list[str]:
    """Every environment variable of ours that a source names."""
    sources = [*ROOT.glob("src/**/*.cc"), *ROOT.glob("src/**/*.h"), *ROOT.glob("python/**/*.py")]
    return sorted({name for source in sources for name in re.findall(r'"(UNISONO_[A-Z_]+)"', source.read_text())})


@pytest.mark.parametrize("variable", variables())
def test_every_variable_is_documented(variable: str) -> None:
    assert f"`{variable}" in (ROOT / "docs/environment.md").read_text()
