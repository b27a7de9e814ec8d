# SPDX-License-Identifier: Apache-2.0
"""Uses an installed checkmate and compares what it gives with known values; scripts/check_wheel.sh runs it, with the Python of the
environment that the wheel is installed in. Needs nothing but that."""

import importlib.metadata
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import checkmate

PACKAGE = pathlib.Path(checkmate.__file__).parent
COMMAND = str(pathlib.Path(sys.executable).parent / "checkmate")
#: What manylinux expects of every system; all else comes with the wheel.
SYSTEM = r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libz)\.so"


def run(*command: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    expect(done.returncode, status, " ".join(command) + ": exit status; " + done.stderr)
    return done


def expect(got: object, known: object, what: str) -> None:
    if got != known:
        sys.exit(f"check_wheel.py: {what}: {got!r} instead of {known!r}")


def libraries() -> None:
    """Library and program load what lies in the wheel, and of the system only what manylinux names."""
    for file in (PACKAGE / "libcheckmate.so", PACKAGE / "bin" / "checkmate"):
        for line in run("ldd", str(file)).stdout.splitlines():
            name, _, path = line.strip().partition(" => ")
            inside = path.startswith("/") and pathlib.Path(path.split(" (")[0]).resolve().is_relative_to(PACKAGE.parent.resolve())
            if not inside and not re.match(SYSTEM, name.rsplit("/")[-1]):
                sys.exit(f"check_wheel.py: {file.name} takes a library from outside of the wheel: {line.strip()}")


def library() -> None:
    """A graph small enough to be solved by hand. Everything kept takes 1 + 10 + 10 + 1 bytes; while b is computed, x, a and b are
    needed, 21 bytes, and for no more than that a must be computed twice."""
    graph = checkmate.Graph("by hand")
    x, a, b, c, d = (graph.tensor(bytes=size) for size in (1, 10, 10, 1, 1))
    for cost, inputs, output in ((5, [x], a), (7, [a], b), (2, [b], c), (3, [a, c], d)):
        graph.op(cost=cost, inputs=inputs, outputs=[output])
    graph.result(d)
    page = pathlib.Path("page.html")
    for budget, known in ((22, ("optimal", 17, 22)), (21, ("optimal", 22, 21)), (20, ("infeasible", None, None))):
        solution = checkmate.solve(graph, budget=budget)
        expect((solution.status, solution.cost, solution.peak_bytes), known, f"a graph solved by hand at {budget} bytes")
        if solution.schedule is not None:
            solution.schedule.report(graph, page)
    expect("dygraph" in page.read_text(), True, "the page has its libraries inside")


def program() -> None:
    version = importlib.metadata.version("checkmate")
    expect(checkmate.__version__, version, "the library's version and the package's")
    for start in ([COMMAND], [sys.executable, "-m", "checkmate"]):
        expect(run(*start, "--version").stdout, f"checkmate {version}\n", "the program's version")
        lines = run(*start, "strategies").stdout.splitlines()
        names = [line.split()[0] for line in lines if not line.startswith(" ")]  # descriptions go on in indented lines
        expect(names, list(checkmate.strategies()), "strategies, as program and library know them")
        expect(run(*start, "no-such-command", status=2).stdout, "", "nothing is said of an unknown command on standard output")

    # A network of the zoo: what is known of it exactly, and where the optimum lies (docs/TOUR.md, the demo's table).
    network = ("MobileNet", "--batch", "128", "--granularity", "layer")
    run(COMMAND, "graph", *network, "-o", "graph.json")
    found = json.loads(run(COMMAND, "solve", *network, "--budget", "40%", "-o", "schedule.json", "--json").stdout)
    expect(found["status"], "optimal", "MobileNet at 40 %")
    expect(found["baseline_cost"], 228078640128, "multiply-accumulates of MobileNet")
    expect(found["baseline_peak_bytes"], 8709294912, "bytes of MobileNet")
    expect(found["peak_bytes"] <= found["budget_bytes"] == 8709294912 * 4 // 10, True, "the budget of MobileNet holds")
    expect(0.0106 <= found["overhead"] <= 0.0108, True, f"the least overhead of MobileNet, {found['overhead']}")
    run(COMMAND, "verify", "graph.json", "schedule.json", "--budget", "40%")
    run(COMMAND, "solve", "VGG16", "--batch", "32", "--granularity", "layer", "--budget", "2751027519", status=3)
    said = run(COMMAND, "train", "MobileNet", status=2).stderr
    expect("only plans" in said and said.count("\n") == 1, True, "what it lacks is said in one line")


def ctrl_c() -> None:
    """Ctrl-C reaches the program, which ends its search with what it has."""
    hard = (COMMAND, "solve", "ResNet50", "--batch", "64", "--granularity", "layer", "--budget", "30%", "--time-limit", "100", "--json")
    began = time.monotonic()
    search = subprocess.Popen(hard, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(3)
    expect(search.poll(), None, "a search of 100 s, after 3 s")
    search.send_signal(signal.SIGINT)
    said = search.communicate(timeout=60)[0]
    expect((search.returncode, json.loads(said)["status"]), (0, "feasible"), "a search that was interrupted")
    expect(time.monotonic() - began < 60, True, "it ends when it is asked to")


def licences() -> None:
    """Each library in the wheel has its row in BUNDLED.txt and its licence next to that file."""
    files = {pathlib.Path(file.name): file for file in importlib.metadata.files("checkmate") or () if "licenses" in file.parts}
    table = files[pathlib.Path("BUNDLED.txt")].read_text().split("licence\n", 1)[1].splitlines()
    rows = {row.split()[0]: row.split()[1] for row in table}
    expect(sorted(rows), sorted(path.name for path in (PACKAGE.parent / "checkmate.libs").iterdir()), "libraries with a licence")
    for package in rows.values():
        expect(len(files[pathlib.Path(package + ".txt")].read_text()) > 500, True, f"the licence of {package}")
    expect("Apache License" in files[pathlib.Path("LICENSE")].read_text(), True, "checkmate's own licence")


for check in (libraries, library, program, ctrl_c, licences):
    check()
    print(f"  {check.__name__}: fine")
