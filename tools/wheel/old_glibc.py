#!/usr/bin/env python3
"""Make the folder that a self-contained library is linked with, so that it runs on older systems, too.

    tools/wheel/old_glibc.py --cxx g++ --output DIR [--tag 2_28]

A program asks for the newest version of each symbol of the C and C++ libraries that was there when it was linked. The
folder has libraries to link with, empty but for their symbols, each in the newest version that the manylinux policy
allows. What such an old C++ library lacks comes from the compiler's static one. What the C library lacks is in
old_glibc.cc beside this file. Red Hat's gcc-toolset, and with it the manylinux images, do the same for C++.
Needs pyelftools (tools/requirements-wheel.txt).
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

# The newest version of each family: auditwheel's policy of the same name.
POLICIES = {"2_28": {"GLIBC": "2.28", "GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"}}
# Libraries of their own before glibc 2.34, now in libc.so.6: whoever needs their symbols must load
# them there.
MERGED = ("libpthread.so.0", "libdl.so.2", "librt.so.1")


@dataclass(frozen=True)
class Symbol:
    """A symbol that a shared library defines."""

    name: str
    version: str
    kind: str
    """As the assembler calls it: function, object, tls_object."""
    size: int
    address: int
    weak: bool


def numbers(version: str) -> tuple[int, ...]:
    """Of "3.4.24"."""
    return tuple(int(part) for part in version.split("."))


def allowed(version: str, limits: dict[str, str]) -> bool:
    """Whether the policy has this version, as "GLIBC_2.17"."""
    family, _, number = version.partition("_")
    return family in limits and number[:1].isdigit() and numbers(number) <= numbers(limits[family])


def symbols(library: Path) -> Iterator[Symbol]:
    """All that a library defines, each in all its versions."""
    kinds = {"STT_FUNC": "function", "STT_LOOS": "function", "STT_OBJECT": "object", "STT_TLS": "tls_object"}
    with library.open("rb") as file:
        elf = ELFFile(file)
        defined = {
            definition.entry.vd_ndx: next(iter(names)).name
            for definition, names in elf.get_section_by_name(".gnu.version_d").iter_versions()
        }
        versions = elf.get_section_by_name(".gnu.version")
        for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            kind = kinds.get(symbol.entry.st_info.type)
            version = versions.get_symbol(index).entry["ndx"]
            if kind and symbol.entry.st_shndx not in ("SHN_UNDEF", "SHN_ABS") and isinstance(version, int):
                name = defined.get(version & 0x7FFF, "")
                weak = symbol.entry.st_info.bind == "STB_WEAK"
                yield Symbol(symbol.name, name, kind, symbol.entry.st_size, symbol.entry.st_value, weak)


def newest_allowed(library: Path, limits: dict[str, str]) -> list[Symbol]:
    """Each symbol in the newest version that the policy has."""
    best: dict[str, Symbol] = {}
    for symbol in symbols(library):
        if not allowed(symbol.version, limits):
            continue
        held = best.get(symbol.name)
        if held is None or numbers(held.version.split("_")[1]) < numbers(symbol.version.split("_")[1]):
            best[symbol.name] = symbol
    return sorted(best.values(), key=lambda symbol: symbol.name)


def assembly(of: list[Symbol]) -> str:
    """Definitions of the same names, kinds and sizes, with nothing in them.

    Two names of one variable stay that (environ and __environ): a program's copy of it must be the library's, by both.
    """
    sections = {"function": ".text", "object": ".bss", "tls_object": '.section .tbss,"awT",%nobits'}
    by_place: dict[tuple[str, int | str], list[Symbol]] = defaultdict(list)
    for symbol in of:
        by_place[symbol.kind, symbol.name if symbol.kind == "function" else symbol.address].append(symbol)
    lines = []
    for (kind, _), names in by_place.items():
        lines += [sections[kind], ".balign 16"]
        for symbol in names:
            lines += [f".{'weak' if symbol.weak else 'globl'} {symbol.name}", f".type {symbol.name},%{kind}"]
            lines += [f".size {symbol.name},{max(symbol.size, 1)}", f"{symbol.name}:"]
        lines.append(f".zero {8 if kind == 'function' else max(symbol.size for symbol in names) + 1}")
    return "\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""])


def version_script(of: list[Symbol]) -> str:
    """Which symbol is of which version."""
    by_version: dict[str, list[str]] = defaultdict(list)
    for symbol in of:
        by_version[symbol.version].append(symbol.name)
    nodes = [f"{version} {{ global: {'; '.join(names)}; }};" for version, names in sorted(by_version.items())]
    return "\n".join(nodes) + "\n"


@dataclass(frozen=True)
class Compiler:
    """The compiler that links later, and where its libraries are."""

    command: list[str]

    def run(self, *arguments: str | Path) -> None:
        """Compile or link."""
        subprocess.run([*self.command, *map(str, arguments)], check=True)

    def find(self, file: str) -> Path:
        """A file of the compiler's or of the system's, as the linker would find it."""
        asked = [*self.command, f"-print-file-name={file}"]
        path = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
        if not path.is_absolute():
            raise SystemExit(f"old_glibc: {self.command[0]} knows no {file}")
        return path

    def stub(self, output: Path, soname: str, of: list[Symbol]) -> None:
        """A library with these symbols, and nothing in it."""
        source, script = output.with_suffix(".s"), output.with_suffix(".map")
        source.write_text(assembly(of))
        script.write_text(version_script(of))
        versions = [f"-Wl,--version-script={script}"] if of else []
        self.run("-shared", "-nostdlib", "-o", output, f"-Wl,-soname,{soname}", *versions, source)


def make(cxx: Compiler, folder: Path, limits: dict[str, str]) -> None:
    """Fill the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for link, soname in (("libstdc++", "libstdc++.so.6"), ("libm", "libm.so.6"), ("libgcc_s", "libgcc_s.so.1")):
        cxx.stub(folder / f"{link}.so", soname, newest_allowed(cxx.find(soname).resolve(), limits))
    cxx.stub(folder / "libc.so.6", "libc.so.6", newest_allowed(cxx.find("libc.so.6").resolve(), limits))
    nonshared = cxx.find("libc_nonshared.a")
    loader = next(nonshared.parent.glob("ld-linux-*.so.*"), None) or next(Path("/lib").glob("ld-linux-*.so.*"))
    (folder / "libc.so").write_text(f"GROUP ( {folder}/libc.so.6 {nonshared} AS_NEEDED ( {loader} ) )\n")
    for soname in MERGED:
        cxx.stub(folder / soname, soname, [])
    sources = sorted(Path(__file__).parent.glob("old_glibc*.cc"))
    objects = [folder / f"{source.stem}.o" for source in sources]
    for source, target in zip(sources, objects, strict=True):
        cxx.run("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-c", source, "-o", target)
    (folder / "libold_glibc.a").unlink(missing_ok=True)
    subprocess.run(["ar", "crs", folder / "libold_glibc.a", *objects], check=True)


def main() -> int:
    """Run from CMake (cmake/UnisonoOldGlibc.cmake)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cxx", required=True, help="the compiler, with its options")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tag", choices=POLICIES, default="2_28", help="of manylinux_...")
    arguments = parser.parse_args()
    make(Compiler(shlex.split(arguments.cxx)), arguments.output.absolute(), POLICIES[arguments.tag])
    return 0


if __name__ == "__main__":
    sys.exit(main())
