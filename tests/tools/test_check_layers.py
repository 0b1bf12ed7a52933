"""tools/check_layers.py finds each kind of mistake, where it is, and leaves correct code alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"


def check(root: Path) -> tuple[int, str]:
    answer = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, timeout=60, check=False)
    assert not answer.stderr
    return answer.returncode, answer.stdout


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_correct_code_passes(tmp_path: Path) -> None:
    write(
        tmp_path,
        "src/plan/a.h",
        '#pragma once\n#include <vector>\n#include "base/status.h"\n#include "unisono/types.hpp"\n',
    )
    write(tmp_path, "src/engine/a.cc", '#include <chrono>\n#include "plan/ir.h"\n#include "transport/transport.h"\n')
    write(
        tmp_path, "src/engine/CMakeLists.txt", "unisono_layer(engine SOURCES a.cc USES base kernels plan transport)\n"
    )
    write(tmp_path, "src/kernels/a.cc", "#include <immintrin.h>\n")
    write(tmp_path, "tests/base/a.h", "#pragma once\nusing namespace std::chrono_literals;\n")
    write(tmp_path, "bindings/a.cc", '#include "local.h"\n#include "unisono/group.hpp"\n')
    assert check(tmp_path) == (0, "check_layers: every include and link agrees with the table\n")


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("src/plan/a.cc", '#include "base/fd.h"\n#include "engine/stream.h"\n', "src/plan/a.cc:2:"),
        ("src/plan/a.cc", "\n#include <thread>\n", "src/plan/a.cc:2:"),
        ("src/plan/a.cc", "# include <sys/socket.h>\n", "src/plan/a.cc:1:"),
        ("src/plan/a.cc", "#include <chrono>\n", "src/plan/a.cc:1:"),
        ("src/engine/a.cc", '#include "plan/registry.h"\n', "src/engine/a.cc:1:"),
        ("src/engine/a.cc", "#include <thread>\n", "src/engine/a.cc:1:"),
        ("src/transport/tcp/a.cc", '#include "rendezvous/secret.h"\n', "src/transport/tcp/a.cc:1:"),
        ("src/transport/a.cc", "#include <immintrin.h>\n", "src/transport/a.cc:1:"),
        ("src/transport/a.cc", '#include "a.h"\n', "src/transport/a.cc:1:"),
        ("src/train/a.cc", '#include "group/context.h"\n', "src/train/a.cc:1:"),
        ("bindings/a.cc", '#include "engine/stream.h"\n', "bindings/a.cc:1:"),
        ("include/unisono/a.hpp", '#pragma once\n#include "base/status.h"\n', "include/unisono/a.hpp:2:"),
        ("include/unisono/a.hpp", "#pragma once\n#include <fmt/format.h>\n", "include/unisono/a.hpp:2:"),
        ("src/base/a.h", "#include <string>\n", "src/base/a.h:1:"),
        ("src/base/a.h", "#pragma once\nusing namespace std;\n", "src/base/a.h:2:"),
        (
            "src/plan/CMakeLists.txt",
            "unisono_layer(plan\n  SOURCES a.cc\n  USES base engine)\n",
            "src/plan/CMakeLists.txt:3:",
        ),
        ("src/cli/CMakeLists.txt", "target_link_libraries(x PRIVATE unisono_engine)\n", "src/cli/CMakeLists.txt:1:"),
        ("tests/plan/a.cc", "\n" * 501, "tests/plan/a.cc:501:"),
    ],
)
def test_a_mistake_is_found_where_it_is(tmp_path: Path, name: str, text: str, where: str) -> None:
    write(tmp_path, name, text)
    status, said = check(tmp_path)
    assert status == 1
    assert said.startswith(where)
    assert said.count("\n") == 1


def test_a_long_file_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path, "src/base/a.cc", "\n" * 401)
    status, said = check(tmp_path)
    assert status == 0
    assert said.startswith("src/base/a.cc:401: warning:")
