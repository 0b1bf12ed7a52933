#!/usr/bin/env python3
"""Check the house: who may include whom, what each layer links, and a few rules for every file.

Usage: tools/check_layers.py [ROOT]. The table is the one of docs/architecture.md. Exits with 1 and prints a line a
finding, each starting with FILE:LINE.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Folder -> what it may include, besides itself and the public headers (which all may).
USES: dict[str, set[str]] = {
    "include": set(),
    "base": set(),
    "kernels": {"base"},
    "plan": {"base"},
    "transport": {"base", "kernels"},
    "rendezvous": {"base"},
    "tuning": {"base"},
    "engine": {"base", "kernels", "plan", "transport"},
    "group": {"base", "kernels", "plan", "transport", "rendezvous", "tuning", "engine"},
    "train": set(),
    "simulate": {"base", "plan"},
    # The launcher serves the store: docs/design/0002-layers.md.
    "cli": {"base", "plan", "simulate", "rendezvous", "tuning"},
    "bindings": {"plan"},
}
# Where a folder may use only some headers of another one.
ONLY: dict[tuple[str, str], set[str]] = {
    ("engine", "plan"): {"plan/ir.h", "plan/layout.h", "plan/opening.h", "plan/inline.h"}
}

SYSTEM = r"sys/(?!types)|net|arpa|poll\.h|unistd|fcntl|pthread|sched\.h|signal|time\.h"
THREADS = r"thread$|mutex|shared_mutex|condition_variable|future|atomic|semaphore|latch|barrier|stop_token"
# Folder -> system headers that contradict what the folder is, and the reason to print.
FORBIDDEN: dict[str, tuple[str, str]] = {
    "include": (r"sys/|net|unistd|poll\.h|fmt/|spdlog/|nlohmann/|CLI/|openssl/", "public headers need std alone"),
    "plan": (rf"{SYSTEM}|{THREADS}|chrono|ctime|random", "plan/ is pure: no threads, sockets, clocks or chance"),
    "simulate": (rf"{SYSTEM}|{THREADS}|chrono|ctime|random", "simulate/ is pure: its time is virtual"),
    "engine": (
        r"sys/(?!types)|net|arpa|poll\.h|unistd|pthread|time\.h|ctime|thread$|future",
        "no thread, socket or clock here",
    ),
}
SIMD = re.compile(r"(\w*intrin|arm_neon|arm_sve)\.h$")  # kernels/ alone is tied to a processor

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
WARN_LINES, MAX_LINES = 400, 500
SOURCES = {".cc", ".cpp", ".h", ".hpp", ".py"}


def layer_of(path: Path) -> str | None:
    """The layer that a file belongs to (its path is relative), or None outside the house (tests, tools, ...)."""
    parts = path.parts
    layer = parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]
    return layer if layer in USES else None


def check_include(layer: str, bracket: str, target: str) -> str | None:
    """What is wrong with one #include of a file of `layer`, if anything."""
    if bracket == "<":
        pattern, reason = FORBIDDEN.get(layer, ("(?!)", ""))
        if re.match(pattern, target):
            return f"<{target}> in {layer}/: {reason}"
        if SIMD.search(target) and layer != "kernels":
            return f"<{target}> outside kernels/: nothing else is tied to one processor"
        return None
    folder = target.split("/")[0]
    if folder == "unisono" or folder == layer:
        return None
    if layer == "bindings" and "/" not in target:
        return None
    if folder not in USES:
        return f'"{target}": write the path from src/ or include/ (a header of another library goes in <>)'
    if folder not in USES[layer]:
        return (
            f'"{target}": {layer} may not use {folder} (it uses: {", ".join(sorted(USES[layer])) or "public headers"})'
        )
    only = ONLY.get((layer, folder))
    return f'"{target}": {layer} may use only {", ".join(sorted(only))}' if only and target not in only else None


def check_file(path: Path, layer: str | None) -> Iterator[str]:
    """Findings of one source file, as "LINE: message"; warnings start with "warning"."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > MAX_LINES:
        yield f"{MAX_LINES + 1}: {len(lines)} lines; one idea a file, at most {MAX_LINES}"
    elif len(lines) > WARN_LINES:
        yield f"{WARN_LINES + 1}: warning: {len(lines)} lines; aim at {WARN_LINES}"
    header = path.suffix in {".h", ".hpp"}
    if header and "#pragma once" not in lines:
        yield "1: no #pragma once"
    for number, line in enumerate(lines, 1):
        if header and re.match(r"\s*using\s+namespace\s(?!.*_literals;)", line):
            yield f"{number}: using namespace in a header reaches everyone who includes it"
        match = INCLUDE.match(line)
        problem = check_include(layer, match[1], match[2]) if layer and match else None
        if problem:
            yield f"{number}: {problem}"


def check_links(path: Path, layer: str) -> Iterator[str]:
    """Compare what a folder's CMakeLists.txt links with the table."""
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    for match in re.finditer(r"\bUSES\b([^)]*?)(?=\bSOURCES\b|\bEXTERNAL\b|\))|\bunisono_([a-z]+)\b(?=[\s)])", text):
        number = text.count("\n", 0, match.start()) + 1
        names = match[1].split() if match[1] is not None else [match[2]]
        for name in names:
            if name in USES and name != layer and name not in USES[layer]:
                yield f"{number}: {layer} links {name}, which the table does not allow"


def findings(root: Path) -> Iterator[str]:
    """All findings of the tree."""
    for folder in ("include", "src", "bindings", "python", "tests", "bench", "examples", "tools"):
        for path in sorted((root / folder).rglob("*")):
            found: Iterator[str] = iter(())
            name = path.relative_to(root)
            layer = layer_of(name)
            if path.suffix in SOURCES:
                found = check_file(path, layer)
            elif path.name == "CMakeLists.txt" and layer:
                found = check_links(path, layer)
            yield from (f"{name}:{finding}" for finding in found)


def main() -> int:
    """Print the findings; 1 when one of them is more than a warning."""
    found = list(findings(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
    print("\n".join(found) if found else "check_layers: every include and link agrees with the table")
    return int(any(": warning: " not in finding for finding in found))


if __name__ == "__main__":
    sys.exit(main())
