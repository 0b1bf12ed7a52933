"""`python -m unisono` is the command `unisono` of the same environment."""

import os
import shutil
import sys
from pathlib import Path


def main() -> int:
    """Become the command; returns only when there is none."""
    beside = Path(sys.executable).parent / "unisono"
    command = str(beside) if os.access(beside, os.X_OK) else shutil.which("unisono")
    if command is None:
        print(f"python -m unisono: there is no command unisono beside {sys.executable}, nor in PATH", file=sys.stderr)
        return 127
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
