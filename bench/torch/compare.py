# SPDX-License-Identifier: Apache-2.0
"""Step time and physical peak of PyTorch's own ways to train in less memory, and of checkmate.torch at the same peaks.

compare.py [--case NAME]... [--library] [--methods eager,checkpoint,selective,budget,inductor] [--rounds N] [--repeats N] [--threads N,...]
           [--seconds S] [--jobs N] [--records FILE] [--wait] [--within] [--close]

Every configuration is a separate process (worker.py) that stays warm; the processes of a case then take turns, one
step each, round after round, so that disturbances of the machine affect all of them. All of that is repeated with new
processes, since two that do the same may differ by where their memory lies. What is written is the median of a
configuration's steps, of wall time, of the process's own time on the processor, and of the latter over eager mode's in the
same round, with the least and the most that one of the repeats gave; and its peak by the meters of physical.py. Ours gets as
budget, in bytes, every peak that the others have reached, and then, but for --within, less and less until nothing fits.
With one repeat FILE also has the ratio of ours to each other at its peak, of steps of the same round: median, least, most. With several numbers of threads the
same processes run again with the next one; more than one thread are timed by the clock. A case that FILE has already is skipped. Costs are measured anew for every case.

With --close, of what FILE has: each method and ours at its peak that the repeats cannot tell apart run once more, head to
head, in many more rounds; FILE then has the ratio of ours to the other in the other's row.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import table

HERE = pathlib.Path(__file__).parent
CASES = ["resnet", "unet", "mobilenet", "gpt", "encoder", "mixer"]
LIBRARY = ["gpt2", "llama", "vit", "unet2d"]
SHARES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
#: Below the least peak of the others, each budget is this share of the one before.
DOWN = 0.85
#: The note of what ran once more, with ours alone.
AGAIN = "head to head"
#: The C library keeps what is freed and asks for large pages. By default it returns pages to the kernel and gets them back,
#: up to a fifth of a step, and by chance: two processes that do the same differed by a tenth.
ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(1 << 36), "MALLOC_MMAP_THRESHOLD_": str(1 << 25), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
FIELDS = ["case", "method", "setting", "threads", "peak_bytes", "storage_bytes", "predicted_bytes", "seconds", "fastest", "slowest",
          "cpu_seconds", "relative", "relative_least", "relative_most", "rounds", "predicted_overhead", "gap", "recomputed",
          "operators", "plan_seconds", "ours_over", "ours_over_least", "ours_over_most", "note"]  # fmt: skip


class Worker:
    """A warm process, or why there is none."""

    def __init__(self, case: str, method: str, setting: object, options: argparse.Namespace) -> None:
        self.method, self.setting = method, str(setting)
        self.command = [sys.executable, str(HERE / "worker.py"), case, method, self.setting, str(options.threads[0]), str(options.seconds)]
        self.said = "nothing"
        self.threads = options.threads[0]
        self.times: list[float] = []
        self.cpu: list[float] = []
        self.facts = self._start()
        if "error" in self.facts:
            self.stop()
        print(f"  {method} {setting}: {self.facts.get('error') or format(self.facts['peak'] / 1e6, '.2f') + ' MB'}", file=sys.stderr, flush=True)

    def _start(self) -> dict[str, Any]:
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env=os.environ | ENVIRONMENT)  # fmt: skip
        line = self._answer()
        facts: dict[str, Any] = json.loads(line) if line else {"error": f"ended: {self.said}"}
        return facts

    def renew(self) -> None:
        """Continues in a new process."""
        self.stop()
        facts = self._start()
        if facts.get("halves") != self.facts["halves"]:
            raise RuntimeError(f"{self.method} {self.setting}: other graphs than before: {facts.get('error')}")

    def use(self, threads: int) -> None:
        """Continues with `threads` threads and discards the times."""
        assert self.process.stdin is not None
        self.times, self.cpu = [], []
        if threads != self.threads:
            self.threads = threads
            self.process.stdin.write(f"threads {threads}\n")
            self.process.stdin.flush()
            self.facts |= json.loads(self._answer())

    @property
    def used(self) -> list[float]:
        """Of each step: of one thread what the processor says, which others on the machine disturb less."""
        return self.cpu if self.threads == 1 else self.times

    def use_again(self, threads: int) -> None:
        """After `renew`, which starts with the first number of threads."""
        times, cpu = self.times, self.cpu
        self.threads = int(self.command[-2])
        self.use(threads)
        self.times, self.cpu = times, cpu

    def _answer(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(("{", "[")):
                with contextlib.suppress(json.JSONDecodeError):  # warnings of libraries may begin with a bracket, too
                    json.loads(line)
                    return line
            self.said = line.strip() or self.said
        return ""

    @property
    def peak(self) -> int:
        return int(self.facts["peak"])

    @property
    def works(self) -> bool:
        return "error" not in self.facts

    def step(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        wall, cpu = json.loads(self._answer())
        self.times.append(wall)
        self.cpu.append(cpu)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def row(self, case: str, threads: int, eager: Worker | None, repeats: int) -> dict[str, object]:
        facts = self.facts
        row: dict[str, object] = {"case": case, "method": self.method, "setting": self.setting, "threads": threads}
        if not self.works:
            return row | {"note": facts["error"][:160]}
        row |= {"peak_bytes": facts["peak"], "storage_bytes": facts["storages"], "predicted_bytes": facts.get("predicted"),
                "predicted_overhead": facts.get("overhead"), "gap": facts.get("gap"), "recomputed": facts.get("recomputed"),
                "operators": facts.get("operators"), "plan_seconds": facts.get("plan_seconds")}  # fmt: skip
        if self.times:
            row |= {"seconds": statistics.median(self.times), "fastest": min(self.times), "slowest": max(self.times),
                    "cpu_seconds": statistics.median(self.cpu), "rounds": len(self.times)}  # fmt: skip
        if self.times and eager is not None:
            ratios = [mine / its for mine, its in zip(self.used, eager.used, strict=True)]
            row |= dict(zip(("relative", "relative_least", "relative_most"), medians(ratios, repeats), strict=True))
        return row


def others(case: str, options: argparse.Namespace) -> list[Worker]:
    wanted: list[tuple[str, object]] = []
    for method in options.methods.split(","):
        if method in ("eager", "checkpoint", "selective"):
            wanted.append((method, ""))
        elif method == "budget":
            wanted += [(method, share) for share in options.shares]
        else:
            wanted += [(method, share) for share in (options.shares if options.library else [*SHARES[::2], 1.0])]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        made = list(pool.map(lambda w: Worker(case, *w, options), wanted))
        if any(w.method == "budget" and not w.works for w in made):
            # With batch norms PyTorch's partition works only after inductor's decompositions, slower with eager kernels.
            made += pool.map(lambda share: Worker(case, "decomposed", share, options), options.shares)
    return made


def ours(case: str, method: str, theirs: list[Worker], options: argparse.Namespace) -> list[Worker]:
    """At each of the peaks that were reached, those within a thousandth of one another once, and below them."""
    if not theirs:
        return []
    budgets: list[int] = []
    for peak in sorted({w.peak for w in theirs}):
        if not budgets or peak > budgets[-1] * 1.001:
            budgets.append(peak)
    first = Worker(case, method, budgets[-1], options)  # alone: it measures what calls cost
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        made = [first, *pool.map(lambda b: Worker(case, method, b, options), reversed(budgets[:-1]))]
    budget = int(budgets[0] * DOWN)
    while made[-1].works and not options.within:
        made.append(Worker(case, method, budget, options))
        budget = int(budget * DOWN)
    return made


def distinct(workers: list[Worker]) -> list[Worker]:
    """Without those that run the very same two graphs as an earlier one."""
    kept: dict[object, Worker] = {}
    for worker in workers:
        same = kept.setdefault((worker.method, worker.facts.get("halves") or worker.setting), worker) if worker.works else worker
        if same is not worker:
            worker.facts = {"error": f"same graphs as at {same.setting}"}
            worker.stop()
    return workers


def compare(case: str, options: argparse.Namespace) -> list[dict[str, object]]:
    print(case, file=sys.stderr)
    theirs = distinct(others(case, options))
    working = [w for w in theirs if w.works]
    kernels = [w for w in working if w.method != "inductor"]
    generated = [w for w in working if w.method == "inductor"]
    if options.methods == "eager,inductor":  # eager mode is there to be compared with
        kernels = []
    workers = [*theirs, *ours(case, "ours", kernels, options), *ours(case, "ours-inductor", generated, options)]
    running = [w for w in workers if w.works]
    if options.wait:
        print("ready", flush=True)
        sys.stdin.readline()
    rows = []
    for threads in options.threads:
        for worker in running:
            worker.use(threads)
        running = [w for w in running if w.works]
        for repeat in range(options.repeats):
            if repeat > 0:
                with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                    list(pool.map(Worker.renew, running))
                for worker in running:
                    worker.use_again(threads)
            for i in range(options.rounds):
                for k in range(len(running)):
                    running[(k + i) % len(running)].step()
        first = next((w for w in running if w.method == "eager"), None)
        made = [w.row(case, threads, first, options.repeats) for w in workers]
        rows += with_ratios(made, workers) if options.repeats == 1 else made  # else new processes, by turns: --close
    for worker in running:
        worker.stop()
    if options.wait:
        print("done", flush=True)
    return rows


def with_ratios(rows: list[dict[str, object]], workers: list[Worker]) -> list[dict[str, object]]:
    """The rows with the ratio of ours to each other method, of steps of the same round."""
    texts = [{name: "" if row.get(name) is None else str(row[name]) for name in FIELDS} for row in rows]
    timed = [text for text in texts if text["seconds"]]
    for row, text, worker in zip(rows, texts, workers, strict=True):
        mine = table.counterpart(text, timed) if text["seconds"] and text["method"] in table.AGAINST else None
        if mine is not None:
            ratios = [ours / its for ours, its in zip(workers[texts.index(mine)].used, worker.used, strict=True)]
            row |= dict(zip(("ours_over", "ours_over_least", "ours_over_most"), (statistics.median(ratios), min(ratios), max(ratios)), strict=True))
    return rows


def medians(ratios: list[float], repeats: int) -> tuple[float, float, float]:
    """Of all, and the least and the most of one repeat."""
    rounds = len(ratios) // repeats
    each = [statistics.median(ratios[i : i + rounds]) for i in range(0, len(ratios), rounds)]
    return statistics.median(ratios), min(each), max(each)


def again(row: dict[str, str], mine: dict[str, str]) -> bool:
    """Whether the two are too close to tell and have not run head to head."""
    if row["note"] == AGAIN:
        return False
    return float(row["ours_over"]) > 0.97 if row["ours_over"] else table.close(row, mine)


def head_to_head(options: argparse.Namespace) -> None:
    """The file is written anew after every pair, as a whole."""
    with options.records.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        mine = (
            table.counterpart(row, [r for r in rows if (r["case"], r["threads"]) == (row["case"], row["threads"]) and r["seconds"]])
            if row["seconds"] and row["method"] in table.AGAINST
            else None
        )
        if mine is None or not again(row, mine) or (options.case and row["case"] not in options.case):
            continue
        print(f"{row['case']}: {row['method']} {row['setting']}", file=sys.stderr)
        options.threads = [int(row["threads"])]
        with fresh_cache():
            pair = [Worker(row["case"], row["method"], row["setting"], options), Worker(row["case"], mine["method"], mine["setting"], options)]
            for repeat in range(options.repeats):
                for worker in pair if repeat else ():
                    worker.renew()
                for i in range(options.rounds):
                    for worker in pair if i % 2 else reversed(pair):
                        worker.step()
            for worker in pair:
                worker.stop()
        ratios = [ours / theirs for theirs, ours in zip(pair[0].used, pair[1].used, strict=True)]
        row |= dict(zip(("ours_over", "ours_over_least", "ours_over_most"), map(str, medians(ratios, options.repeats)), strict=True))
        row["note"] = AGAIN
        new = options.records.with_suffix(".new")
        with new.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
        new.replace(options.records)


@contextlib.contextmanager
def fresh_cache() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=[*CASES, *LIBRARY])
    parser.add_argument("--library", action="store_true", help="the models of transformers and diffusers")
    parser.add_argument("--methods", default="eager,checkpoint,budget", help="of PyTorch's own; inductor compiles for minutes")
    parser.add_argument("--rounds", type=int, default=9, help="steps of each process")
    parser.add_argument("--repeats", type=int, default=3, help="processes one after another for each configuration")
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1], help="1, or such as 1,2")
    parser.add_argument("--shares", type=lambda text: [float(part) for part in text.split(",")], default=SHARES, help="of activation_memory_budget")
    parser.add_argument("--within", action="store_true", help="ours at the peaks of the others only, not below them")
    parser.add_argument("--seconds", type=float, default=20, help="time limit of our solver")
    parser.add_argument("--jobs", type=int, default=1, help="processes that get ready at the same time")
    parser.add_argument("--records", type=pathlib.Path, default=HERE.parent / "results" / "torch.csv")
    parser.add_argument("--wait", action="store_true", help='say "ready" and wait for a line before anything is timed')
    parser.add_argument("--close", action="store_true", help="run once more, head to head, what is too close to tell")
    options = parser.parse_args()
    if options.close:
        head_to_head(options)
        return 0
    known: set[tuple[str, str]] = set()
    if options.records.exists():
        with options.records.open(newline="") as file:
            known = {(row["case"], row["threads"]) for row in csv.DictReader(file)}
    for case in options.case or (LIBRARY if options.library else CASES):
        if {(case, str(threads)) for threads in options.threads} <= known:
            print(f"{case}: in {options.records.name} already", file=sys.stderr)
            continue
        with fresh_cache():
            rows = compare(case, options)
        fresh = not options.records.exists()
        with options.records.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            if fresh:
                writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
