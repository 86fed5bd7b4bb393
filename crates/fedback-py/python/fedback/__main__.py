"""The command ``fedback``, as the package installs it; also ``python -m fedback``."""

from __future__ import annotations

import os
import sys

from ._native import command


def main() -> int:
    """Does what the command line asks; its exit code."""
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:  # closed: a file that is opened next must not take its place
            os.open(os.devnull, os.O_RDWR)
    return command(["fedback", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
