"""Which versions of torch the back end works with: the one place that lists them.

c10d promises back ends no stable interface, so a version is listed when the tests of this project passed on it. Imports
neither torch nor unisono: CMake and the build read it as a script.
"""

from __future__ import annotations

import sys
import warnings

TESTED = ("2.13.0", "2.14.1", "2.15.0")
"""Versions on which the tests passed; docs/migration.md says which tests."""
OLDEST = (2, 10)
"""Before this one c10d's back ends lack interfaces that this one implements."""


def check(version: str) -> None:
    """Refuse a torch that is too old (ImportError); say in one warning that another one was not tested."""
    plain = version.split("+")[0]
    if plain in TESTED:
        return
    tested = ", ".join(TESTED)
    if parts(plain) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(
            f'the back end "unisono" needs torch {oldest} or newer, whose c10d has what it implements, and '
            f"this is torch {version}: {sys.executable} -m pip install torch=={TESTED[0]} (tested: {tested})"
        )
    warnings.warn(
        f'the back end "unisono" was not tested with torch {version} (tested: {tested}): it is tried',
        RuntimeWarning,
        stacklevel=2,
    )


def parts(version: str) -> tuple[int, ...]:
    """Major and minor number: "2.13.0a0" is (2, 13)."""
    numbers = []
    for part in version.split(".")[:2]:
        digits = "".join(c for c in part if c.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers)
