#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types a line and Tab into an interactive shell and prints the line that this makes.

Usage: type_in_shell.py bash|zsh COMPLETIONS_FOLDER PROGRAM_FOLDER LINE
"""

import os
import pty
import re
import select
import sys
import time

SECONDS = 20.0
# RE''ADY: what is typed here must not look like the prompt that it makes.
SET_UP = {
    "bash": ("--norc --noprofile -i", "PS1='RE''ADY '; source {folder}/checkmate\r"),
    "zsh": ("-f -i", "fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -d {work}/dump; PS1='RE''ADY '\r"),
}


def read_until(terminal: int, done: str) -> str:
    """What the shell writes, until `done` is in it."""
    text = ""
    end = time.monotonic() + SECONDS
    while done not in text:
        left = end - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            sys.exit(f"type_in_shell.py: no {done!r} within {SECONDS:.0f} s in {text!r}")
        text += os.read(terminal, 65536).decode(errors="replace")
    return text


def main() -> None:
    shell, folder, program, line = sys.argv[1:]
    arguments, set_up = SET_UP[shell]
    child, terminal = pty.fork()
    if child == 0:
        path = program + os.pathsep + os.environ.get("PATH", "")
        settings = dict(os.environ, PATH=path, TERM="dumb", COLUMNS="200", HISTFILE="", INPUTRC="/dev/null")
        os.execvpe(shell, [shell, *arguments.split()], settings)
    try:
        os.write(terminal, set_up.format(folder=folder, work=os.getcwd()).encode())
        read_until(terminal, "READY ")
        # The line is written back by the shell's editor; the mark ends up behind what Tab has added.
        os.write(terminal, f"{line}\tMARK".encode())
        text = read_until(terminal, "MARK")
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        while "\b" in text:
            text = re.sub(r"[^\x08]\x08|^\x08", "", text, count=1)
        print(text.replace("\a", ""))
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


main()
