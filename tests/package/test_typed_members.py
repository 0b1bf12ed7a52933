"""Element types that cannot be used are errors of the compiler that say so in words."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
#include <complex>
#include <deque>
#include <string>
#include <vector>
#include <unisono/unisono.hpp>
struct Point { int id; double at[3]; };
enum class Color { red };
using unisono::Group;
using unisono::ReduceOp;
"""


def compile_lines(folder: Path, lines: list[str]) -> subprocess.CompletedProcess[str]:
    """Each line in a function of its own."""
    source = folder / "program.cc"
    source.write_text(HEAD + "\n".join(f"void f{i}(Group w) {{ {line} }}" for i, line in enumerate(lines)))
    compiler = shlex.split(os.environ.get("CXX") or "g++")
    command = [*compiler, "-std=c++20", "-fsyntax-only", "-fno-elide-type", f"-I{ROOT / 'include'}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


REDUCED = "elements of this type cannot be reduced. Those that can: bool, std::byte, integers of 1 to 8 bytes, float"
MOVED = "elements of this type cannot be sent to another process"
CONTIGUOUS = "elements must lie side by side in memory"
REFUSED = {
    REDUCED: [
        "std::vector<long double> x; w.all_reduce(x);",
        "std::vector<Point> x; w.all_reduce(std::span(x));",
        "std::vector<Color> x, y; w.reduce(x, y);",
        "std::vector<std::complex<long double>> x, y; w.reduce_scatter(x, y);",
        "float x[2][3]; w.all_reduce(x);",
    ],
    MOVED: [
        "std::vector<std::string> x; w.broadcast(x);",
        "std::vector<int*> x, y; w.all_gather(x, y);",
        "std::vector<std::string_view> x; w.send(x, 1);",
        "std::vector<std::vector<int>> x; w.recv(x, 1);",
    ],
    CONTIGUOUS: ["std::vector<bool> x; w.all_reduce(x);", "std::deque<int> x; w.broadcast(x);"],
    "its elements are const": ["const std::vector<int> x; w.all_reduce(x);", "const int x[2] = {}; w.broadcast(x);"],
    "belongs to a temporary object": [
        "w.all_reduce(std::vector<int>(3));",
        "auto work = w.isend(std::vector<long>(3), 1);",
    ],
    "input and output must have the same element type": [
        "std::vector<int> x; std::vector<float> y; w.all_reduce(x, y);"
    ],
}


@pytest.mark.parametrize("message", REFUSED, ids=lambda m: "_".join(m.split()[:4]))
def test_a_type_that_cannot_be_used_is_one_sentence(tmp_path: Path, message: str) -> None:
    done = compile_lines(tmp_path, REFUSED[message])
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if " error: " in line]
    assert len(errors) >= len(REFUSED[message]) and all(message in line for line in errors), done.stderr


ACCEPTED = [
    *(
        f"std::vector<{t}> x; w.all_reduce(x); w.all_reduce(std::span(x), ReduceOp::max);"
        for t in ("char", "long long")
    ),
    *(f"std::vector<{t}> x; w.all_reduce(x, x, ReduceOp::product);" for t in ("std::complex<float>", "unsigned long")),
    "const std::vector<int> x; std::vector<int> y; w.all_reduce(x, y); w.reduce(x, y, 1); w.reduce_scatter(x, y);",
    "const std::vector<Point> x; std::vector<Point> y; w.all_gather(x, y); w.all_to_all(x, y); w.scatter(x, y, 0);",
    "std::vector<int> x; std::vector<int> y; w.all_reduce<int>(x, y); w.all_gather<int>(x, y); w.broadcast<int>(x);",
    "std::vector<int> x; w.all_gather(std::span(x), std::span(x)); w.send<int>(x, 1); w.recv<int>(x, 1);",
    "std::array<int, 4> x{}; int y[4]; w.all_reduce(x); w.all_reduce(y); w.all_gather(y, x);",
    "std::string text; w.broadcast(text); w.send('x' + text, 1); w.recv(text, 1); w.send(std::string_view(text), 1);",
    "bool x[3] = {}; w.all_reduce(x, ReduceOp::band); w.all_reduce(std::span<bool, 3>(x));",
    "std::vector<std::byte> x; w.send(x, 1); w.send(std::span<const std::byte>(x), 1); w.recv(std::span(x), 1);",
    "float x[2][3]; Color c[2]; std::pair<int, double> p[2]; w.broadcast(x); w.broadcast(c); w.broadcast(p);",
    "std::vector<float> x; w.all_reduce(x, ReduceOp::sum, {.timeout = std::chrono::seconds(3)});",
    "auto buffer = w.allocate(12).span<float>(); w.all_reduce(buffer); w.all_reduce(buffer.first(2));",
]


def test_vectors_arrays_and_spans_convert(tmp_path: Path) -> None:
    done = compile_lines(tmp_path, ACCEPTED)
    assert done.returncode == 0, done.stderr
