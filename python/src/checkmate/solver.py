# SPDX-License-Identifier: Apache-2.0
"""The cheapest schedule under a memory budget, and the frontier of cost against memory."""

from __future__ import annotations

import ctypes as c
import functools
import math
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ._library import CMinBudgetResult, CProgress, CSolveOptions, CSolveResult, LogFn, MinBudgetFn, ProgressFn, StopFn, lib
from .errors import InfeasibleError, call, int64
from .graph import Graph
from .planning import budget as sizes
from .schedule import BOUND_CLASSES, COVERED, BoundClass, Schedule, proven_needed, proven_too_small

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
_STATUSES: list[Status] = ["optimal", "feasible", "infeasible", "unknown"]
#: The strategy that combines all others.
_DEFAULT = "auto"
#: A whole frontier takes the time of this many solves.
_SOLVES = 6
#: Asks for budgets near the least instead of evenly spaced ones, as the command line's `sweep --budgets near-min` does; they are these
#: percentages of the least.
NEAR_MIN = "near-min"
_NEAR_PERCENT = (100, 101, 102, 105, 110, 120, 135, 150, 200)


def handle_of(graph: Graph) -> c.c_void_p:
    """The library's graph; TypeError for what is none, such as the name of a file."""
    if not isinstance(graph, Graph):
        raise TypeError(f"graph must be a checkmate.Graph, not {graph!r}; Graph.read() reads a file")
    return graph.handle


def _exactly(number: float | None) -> float:
    """The library takes 0 for "the default"; what it takes for 0, or for no limit, is CKM_NONE."""
    return -1.0 if number is None or number == 0 else number


def _gap(gap: float) -> float:
    if not gap >= 0:
        raise ValueError(f"gap must not be negative, got {gap}")
    return _exactly(gap)


Formulation = Literal["frontier", "unpartitioned", "paper"]
_FORMULATIONS: list[Formulation] = ["frontier", "unpartitioned", "paper"]


@dataclass(frozen=True)
class Progress:
    """The best result after `seconds`; what is not known yet is None."""

    seconds: float
    cost: int | None
    bound: float | None
    gap: float | None
    source: str


@dataclass(frozen=True)
class Solution:
    """The result of a solve. Costs are in the graph's unit; `bound` is proven for the schedules that `bound_covers` names."""

    status: Status
    schedule: Schedule | None
    cost: int | None
    peak_bytes: int | None
    budget_bytes: int
    baseline_cost: int
    baseline_peak_bytes: int
    floor_bytes: int
    least_peak_bytes: int | None
    bound: float | None
    bound_covers: BoundClass
    gap: float | None
    seconds: float
    strategy: str
    interrupted: bool

    @property
    def overhead(self) -> float | None:
        """cost / baseline cost - 1."""
        if self.cost is None:
            return None
        return self.cost / self.baseline_cost - 1 if self.baseline_cost else 0.0

    def require(self) -> Solution:
        """Returns this solution if it has a schedule, otherwise raises InfeasibleError."""
        if self.schedule is not None:
            return self
        proven = self.status == "infeasible"
        covers: BoundClass = self.bound_covers if proven and self.budget_bytes >= self.floor_bytes else "any"
        impossible = max(self.floor_bytes - 1, self.budget_bytes if proven else 0)
        known = f"a schedule at {self.least_peak_bytes:,} bytes was found; " if self.least_peak_bytes is not None else ""
        raise InfeasibleError(
            f"{f'no {COVERED[covers]} fits' if proven else 'no schedule was found within'} {self.budget_bytes:,} bytes; {known}"
            + proven_too_small(impossible, covers, self.floor_bytes - 1),
            proven=proven,
            budget_bytes=self.budget_bytes,
            smallest_known=self.least_peak_bytes,
            largest_impossible=impossible,
            covers=covers,
            impossible_for_all=self.floor_bytes - 1,
        )


def strategies() -> dict[str, str]:
    """The names of all strategies, each with a line about what it does."""
    names = range(lib.ckm_solve_strategy_count())
    return {lib.ckm_solve_strategy_name(i).decode(): lib.ckm_solve_strategy_summary(i).decode() for i in names}


def _number(x: float) -> float | None:
    return None if math.isnan(x) else x


def _count(x: int) -> int | None:
    return None if x < 0 else x


class _Signals:
    """While active, records Ctrl-C in `interrupted` and keeps exceptions of other handlers in `caught`: an exception cannot
    pass through the C library."""

    def __init__(self, caught: list[BaseException]) -> None:
        self.caught, self.interrupted = caught, False
        self._before: dict[int, tuple[Callable[..., object], object]] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Python runs handlers in the main thread alone
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                ours = functools.partial(self._handle, handler)
                self._before[number] = ours, handler
                signal.signal(number, ours)

    def __exit__(self, *_error: object) -> None:
        for number, (ours, handler) in self._before.items():
            if signal.getsignal(number) is ours:  # a handler may have set another one
                signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, handler: Callable[..., object], number: int, frame: object) -> None:
        if handler is signal.default_int_handler:
            self.interrupted = True
            return
        try:
            handler(number, frame)
        except BaseException as error:  # noqa: BLE001 - raised again by solve
            self.caught.append(error)


class _Calls:
    """What the library calls while it solves. An exception in one of them, or in a handler of a signal, ends the search and is raised
    when the library has come back: it cannot pass through C."""

    def __init__(self, progress: Callable[[Progress], None] | None = None, log: Callable[[str], None] | None = None) -> None:
        self._caught: list[BaseException] = []
        self._progress, self._log = progress, log
        self._signals = _Signals(self._caught)
        self.stop = StopFn(self._on_stop)
        self.progress = ProgressFn(self._on_progress) if progress is not None else ProgressFn()
        self.log = LogFn(self._on_log) if log is not None else LogFn()

    @property
    def interrupted(self) -> bool:
        return self._signals.interrupted

    def __enter__(self) -> None:
        self._signals.__enter__()

    def __exit__(self, *error: object) -> None:
        self._signals.__exit__(*error)

    def raise_caught(self) -> None:
        if self._caught:
            raise self._caught[0]

    def _on_stop(self, _user: object) -> bool:
        return bool(self._caught) or self.interrupted  # a pending signal is delivered on the way in

    def _on_progress(self, p: c._Pointer[CProgress], _user: object) -> None:
        r = p.contents
        report = Progress(r.seconds, _count(r.incumbent_cost), _number(r.bound_cost), _number(r.gap), (r.source or b"").decode())
        if self._progress is not None:
            self.guard(functools.partial(self._progress, report))

    def _on_log(self, _level: int, line: bytes, _user: object) -> None:
        if self._log is not None:
            self.guard(functools.partial(self._log, line.decode("utf-8", "replace")))

    def guard(self, function: Callable[[], None]) -> None:
        if self._caught:
            return
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised by raise_caught
            self._caught.append(error)


def _solution(result: CSolveResult, interrupted: bool) -> Solution:
    """Takes a result over."""
    schedule = Schedule._adopt(c.c_void_p(result.schedule)) if result.schedule else None
    result.schedule = None  # taken over; disposing releases the rest
    lib.ckm_solve_result_dispose(c.byref(result))
    return Solution(
        _STATUSES[result.status],
        schedule,
        _count(result.cost),
        _count(result.peak_bytes),
        result.budget_bytes,
        result.baseline_cost,
        result.baseline_peak_bytes,
        result.floor_bytes,
        _count(result.least_peak_bytes),
        _number(result.bound_cost),
        BOUND_CLASSES[result.bound_covers],
        _number(result.gap),
        result.seconds,
        result.strategy.decode(),
        interrupted,
    )


def _budget_bytes(graph: Graph, budget: int | str) -> int:
    """Bytes of a budget as people write it; shares are of this graph's peak without rematerialization."""
    if not isinstance(budget, str):
        return int64(budget, "budget")
    if sizes.share(budget) is None:
        return sizes.in_bytes(budget)
    peak = Schedule.baseline(graph).simulate(graph).peak_bytes
    return sizes.in_bytes(budget, baseline_bytes=peak, standing_bytes=graph.standing_bytes)


def _half(time_limit: float | None) -> float | None:
    return None if time_limit is None else time_limit / 2


def solve(
    graph: Graph,
    budget: int | str,
    *,
    strategy: str = _DEFAULT,
    time_limit: float | None = 60.0,
    gap: float = 1e-4,
    threads: int = 1,
    seed: int = 1,
    iteration_limit: int = 0,
    cost_limit: int | None = None,
    formulation: Formulation = "frontier",
    reorder: bool = False,
    start: Schedule | None = None,
    progress: Callable[[Progress], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> Solution:
    """Finds the cheapest schedule whose peak is at most `budget`, fixed bytes included: bytes, "4GiB", "60%" of the peak without
    rematerialization, "60%act" of its activations, "H100" for the memory of a device, "auto" for most of what is free on this
    machine, or "min" for the least that `min_budget` finds in half of the time. `start`: a legal schedule to begin with, used as a
    result if it fits.

    Ctrl-C ends the search with the best schedule so far (`interrupted` is then true), or raises KeyboardInterrupt if there
    is none. An exception in a callback or in a signal handler ends the search too and is raised. The global
    interpreter lock is released while the library computes.
    """
    handle_of(graph)
    if isinstance(budget, str) and budget.strip() == sizes.LEAST:
        least = min_budget(graph, strategy=strategy, time_limit=_half(time_limit), threads=threads, seed=seed)
        budget, start, time_limit = least.budget_bytes, least.schedule, _half(time_limit)
    limit = _budget_bytes(graph, budget)
    calls = _Calls(progress, log)
    options = CSolveOptions(
        c.sizeof(CSolveOptions),
        limit,
        strategy.encode(),
        _exactly(time_limit),
        _gap(gap),
        0 if cost_limit is None else cost_limit,
        threads,
        int64(seed, "seed"),
        iteration_limit,
        _FORMULATIONS.index(formulation),
        calls.stop,
        calls.log,
        calls.progress,
        None,
        reorder,
        None if start is None else start._handle,
    )
    result = CSolveResult()
    with calls:
        call("ckm_solve", handle_of(graph), c.byref(options), c.byref(result))
    solution = _solution(result, calls.interrupted)
    calls.raise_caught()
    if solution.interrupted and solution.schedule is None:
        raise KeyboardInterrupt
    return solution


def solve_frontier(
    graph: Graph,
    budgets: Sequence[int | str],
    *,
    time_limit: float | None = 360.0,
    gap: float = 1e-4,
    threads: int = 1,
    seed: int = 1,
    start: Schedule | None = None,
    progress: Callable[[Progress], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> list[Solution]:
    """Solves for several budgets, as `solve` takes them except "min", as one search: a schedule found for one budget is a start for others,
    and proofs carry over. One solution per budget, in their order. `time_limit` is for all of them; `progress` reports the current budget;
    the rest is as in `solve`, with the default strategy. After Ctrl-C all solutions have `interrupted` set, and some
    may have no schedule."""
    handle_of(graph)
    limits = [_budget_bytes(graph, budget) for budget in budgets]
    calls = _Calls(progress, log)
    options = CSolveOptions(c.sizeof(CSolveOptions), 0, _DEFAULT.encode(), _exactly(time_limit), _gap(gap), 0, threads,
                            int64(seed, "seed"), 0, 0, calls.stop, calls.log, calls.progress, None, False,
                            None if start is None else start._handle)  # fmt: skip
    sizes = (c.c_int64 * len(budgets))(*limits)
    results = (CSolveResult * len(budgets))()
    with calls:
        call("ckm_solve_frontier", handle_of(graph), c.byref(options), sizes, len(budgets), results)
    solutions = [_solution(result, calls.interrupted) for result in results]
    calls.raise_caught()
    return solutions


@dataclass(frozen=True)
class MinBudgetProgress:
    """What a search for the smallest budget knows so far, as MinBudget has it in the end."""

    budget_bytes: int
    lower_bound_bytes: int
    bound_covers: BoundClass
    floor_bytes: int
    seconds: float

    @property
    def needed(self) -> str:
        """The two floors as text."""
        return proven_needed(self.lower_bound_bytes, self.bound_covers, self.floor_bytes)


@dataclass(frozen=True)
class MinBudget(MinBudgetProgress):
    """The least peak found, `budget_bytes`, which is that of `schedule`; its cost was ignored. `lower_bound_bytes`: every schedule of the
    class that `bound_covers` names is proven to need this much; `floor_bytes`: every schedule is. `status`: "optimal" if the class needs
    as much as was found, otherwise "feasible"."""

    status: Status
    schedule: Schedule
    interrupted: bool


def min_budget(
    graph: Graph,
    *,
    strategy: str = "auto",
    time_limit: float | None = 60.0,
    threads: int = 1,
    seed: int = 1,
    progress: Callable[[MinBudgetProgress], None] | None = None,
) -> MinBudget:
    """Finds the smallest budget for which there is a schedule, within the time limit in seconds.

    `progress` is called whenever a schedule of a smaller peak is found or more bytes are proven necessary.
    There is always a schedule, at least the one without rematerialization. Ctrl-C and exceptions are as in `solve`.
    """
    calls = _Calls()

    def on_report(so_far: Any, _user: object) -> None:
        if progress is not None:
            calls.guard(lambda: progress(MinBudgetProgress(*_least_of(so_far.contents))))

    options = CSolveOptions(c.sizeof(CSolveOptions), 0, strategy.encode(), _exactly(time_limit), 0.0, 0,
                            threads, seed, 0, 0, calls.stop, calls.log, calls.progress, None, False, None)  # fmt: skip
    result = CMinBudgetResult()
    with calls:
        call("ckm_min_budget", handle_of(graph), c.byref(options), MinBudgetFn(on_report), c.byref(result))
    schedule = Schedule._adopt(c.c_void_p(result.schedule))
    calls.raise_caught()
    return MinBudget(*_least_of(result), _STATUSES[result.status], schedule, calls.interrupted)


def _least_of(result: Any) -> tuple[int, int, BoundClass, int, float]:
    return result.budget_bytes, result.lower_bound_bytes, BOUND_CLASSES[result.bound_covers], result.floor_bytes, result.seconds


def frontier(graph: Graph, *, points: int | str = 10, lowest: int | None = None, strategy: str = _DEFAULT, reorder: bool = False,
             time_limit: float = 10.0, **options: object) -> Iterator[Solution]:  # fmt: skip
    """Solves at `points` budgets from the peak without rematerialization down to `lowest` (by default the memory floor), as one search
    in at most six times `time_limit` (`solve_frontier`); with another strategy or with `reorder`, one after the other. `options` as for
    those. With "near-min" for `points` the budgets are the least that `min_budget` finds in `time_limit` (or `lowest`) and up to twice
    it, where a little more memory saves the most.

    Yields one Solution per budget, the largest first, up to the first that is proven not to fit. Ctrl-C ends the search; the solutions
    that it had by then have `interrupted` set, the last of them where budgets are solved one after the other.
    """
    top = Schedule.baseline(graph).simulate(graph).peak_bytes
    if isinstance(points, str):
        if points != NEAR_MIN:
            raise ValueError(f"points must be an integer or {NEAR_MIN!r}, not {points!r}")
        least = lowest
        if least is None:
            found_least = _least(graph, strategy=strategy, time_limit=time_limit, **options)
            least, options["start"] = found_least.budget_bytes, found_least.schedule
        budgets = sorted({min(top, least * percent // 100) for percent in _NEAR_PERCENT}, reverse=True)
        points = len(budgets)
    else:
        bottom = graph.memory_floor if lowest is None else lowest
        budgets = [top - (top - bottom) * i // max(1, points - 1) for i in range(points)]
    if strategy == _DEFAULT and not reorder:
        found = iter(solve_frontier(graph, budgets, time_limit=min(points, _SOLVES) * time_limit, **options))  # type: ignore[arg-type]
    else:
        found = _one_by_one(graph, budgets, strategy=strategy, reorder=reorder, time_limit=time_limit, **options)
    for solution in found:
        yield solution
        if solution.status == "infeasible":
            return


def _least(graph: Graph, **options: Any) -> MinBudget:
    """`min_budget` with what of a frontier's options it takes. KeyboardInterrupt on Ctrl-C."""
    taken = ("strategy", "time_limit", "threads", "seed")
    found = min_budget(graph, **{name: value for name, value in options.items() if name in taken})
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def _one_by_one(graph: Graph, budgets: Sequence[int], **options: object) -> Iterator[Solution]:
    for budget in budgets:
        solution = solve(graph, budget, **options)  # type: ignore[arg-type]
        yield solution
        if solution.interrupted:
            return
