# SPDX-License-Identifier: Apache-2.0
"""`python -m checkmate`: the C program takes the place of Python, with its exit statuses, streams and signals."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import checkmate

PACKAGE = pathlib.Path(checkmate.__file__).parent
#: The program of the package; in a clone, the one that was built.
PROGRAM = os.environ.get("CHECKMATE_PROGRAM") or os.environ.get("CHECKMATE") or str(PACKAGE / "bin" / "checkmate")
START = [sys.executable, "-m", "checkmate"]


def environment(program: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(PACKAGE.parent), "CHECKMATE_PROGRAM": program}


def run(*arguments: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*START, *arguments], env=environment(program), capture_output=True, text=True, timeout=60)


def running(process: int) -> str:
    """The file that a process runs; empty in the moment in which it changes."""
    try:
        return os.readlink(f"/proc/{process}/exe")
    except FileNotFoundError:
        return ""


needs_program = pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="no program: install the package, or set CHECKMATE_PROGRAM")


@needs_program
def test_is_the_program_of_the_library() -> None:
    assert run("--version").stdout == f"checkmate {checkmate.__version__}\n"
    lines = run("strategies").stdout.splitlines()  # descriptions go on in lines that begin with spaces
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == list(checkmate.strategies())


@needs_program
def test_statuses_and_streams_are_the_programs(tmp_path: pathlib.Path) -> None:
    graph = tmp_path / "graph.json"
    operator = {"cost": 1, "inputs": [], "outputs": [0]}
    content = {"format": "checkmate-graph", "version": 1, "tensors": [{"bytes": 4}], "ops": [operator], "results": [0]}
    graph.write_text(json.dumps(content))
    done = run("solve", str(graph), "--budget", "4", "--json")
    assert (done.returncode, done.stderr, '"status": "optimal"' in done.stdout) == (0, "", True)
    assert run("solve", str(graph), "--budget", "3").returncode == 3
    done = run("solvee")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("checkmate: unknown command 'solvee'; did you mean 'solve'?")


@needs_program
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_program(tmp_path: pathlib.Path, number: signal.Signals) -> None:
    """An open pipe to which nothing is written keeps the program waiting."""
    os.mkfifo(tmp_path / "graph.json")
    writer = os.open(tmp_path / "graph.json", os.O_RDWR)  # without one it is refused
    with subprocess.Popen([*START, "solve", str(tmp_path / "graph.json"), "--budget", "4"], env=environment(PROGRAM)) as waiting:
        deadline = time.monotonic() + 30
        while running(waiting.pid) != os.path.realpath(PROGRAM):
            assert time.monotonic() < deadline, "Python does not make way for the program"
            time.sleep(0.01)
        waiting.send_signal(number)
        assert waiting.wait(timeout=30) == -number
    os.close(writer)


def test_a_missing_program_is_named(tmp_path: pathlib.Path) -> None:
    done = run("strategies", program=str(tmp_path / "checkmate"))
    assert done.returncode == 1
    assert done.stderr == f"checkmate: {tmp_path}/checkmate cannot be run: No such file or directory\n"
