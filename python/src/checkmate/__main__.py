# SPDX-License-Identifier: Apache-2.0
"""`python -m checkmate` and the command `checkmate`: the C program in this package.

The program replaces the Python process (exec), so that exit statuses, signals and streams are the program's own.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Runs the program with this process's arguments. CHECKMATE_PROGRAM names it outright; otherwise it is the package's."""
    override = os.environ.get("CHECKMATE_PROGRAM")
    program = pathlib.Path(override) if override else pathlib.Path(__file__).parent / "bin" / "checkmate"
    try:
        os.execv(program, ["checkmate", *sys.argv[1:]])
    except OSError as error:
        hint = "" if override else "; install the package with pip, or set CHECKMATE_PROGRAM to the program's path"
        sys.exit(f"checkmate: {program} cannot be run: {error.strerror}{hint}")


if __name__ == "__main__":
    main()
