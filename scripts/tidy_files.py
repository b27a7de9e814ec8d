#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy, of version $CKM_CLANG or 14, over files of a build folder: tidy_files.py BUILD_FOLDER FILE...

A file in which nothing was found is not read again while nothing has changed that clang-tidy could see: the preprocessed text
with its comments, the command, .clang-tidy and clang-tidy itself. What was clean is noted in $CKM_TIDY_CACHE, which is
~/.cache/checkmate/tidy by default; CKM_TIDY_CACHE= (empty) reads every file.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

VERSION = os.environ.get("CKM_CLANG", "14")
TIDY = "clang-tidy-" + VERSION
COMPILER = "clang-" + VERSION


def key_of(command: list[str], folder: str, text: str, tool: bytes) -> str | None:
    """Names everything that the result depends on; None where the preprocessor fails, and clang-tidy then says why."""
    words = list(command)
    words[0] = COMPILER
    output = words.index("-o")
    del words[output : output + 2]
    words[words.index("-c")] = "-E"
    seen = subprocess.run([*words, "-C", "-P", "-w"], cwd=folder, capture_output=True)
    if seen.returncode:
        return None
    return hashlib.sha256(b"\0".join([tool, text.encode(), seen.stdout])).hexdigest()


def main() -> int:
    build, files = sys.argv[1], [os.path.realpath(f) for f in sys.argv[2:]]
    commands = {os.path.realpath(e["file"]): e for e in json.loads(pathlib.Path(build, "compile_commands.json").read_text())}
    cache = os.environ.get("CKM_TIDY_CACHE", os.path.expanduser("~/.cache/checkmate/tidy"))
    tool = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout + pathlib.Path(".clang-tidy").read_bytes()
    source = os.getcwd()

    def tidy(file: str) -> tuple[int, str]:
        entry = commands.get(file)
        key = None
        if cache and entry:
            words = [w for w in shlex.split(entry["command"])]
            # The same wherever the folders lie.
            text = " ".join(words).replace(os.path.realpath(build), "BUILD").replace(source, "SOURCE")
            key = key_of(words, entry["directory"], text, tool)
        clean = pathlib.Path(cache, key) if key else None
        if clean and clean.exists():
            return 0, ""
        run = subprocess.run([TIDY, "--quiet", "-p", build, file], capture_output=True, text=True)
        if clean and not run.returncode:
            try:
                clean.parent.mkdir(parents=True, exist_ok=True)
                clean.touch()
            except OSError:
                pass  # it is only read again
        return run.returncode, run.stdout + run.stderr

    status = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for code, said in pool.map(tidy, files):
            if code:
                print(said, end="", flush=True)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
