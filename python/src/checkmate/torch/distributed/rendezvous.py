# SPDX-License-Identifier: Apache-2.0
"""Agree on one plan across ranks: collectives must match.

They meet in the key-value store behind torch.distributed before one of them plans: each says what its graph is and what room its budget
leaves. Where graphs differ, or a process does not arrive, all others raise an error. Then the first one plans for the least room, and
the others use its schedule, or raise its error. While it plans, it signals every second that it is alive.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.distributed as dist

from ...errors import CheckmateError, InfeasibleError
from . import exchange

#: Seconds to wait for a process to come, whose tracing may take that much longer; and without a sign of life from the one that plans.
COMING, ALIVE = 300.0, 30.0

_POLL, _PULSE, _LEAVING = 0.05, 1.0, 5.0

Result = TypeVar("Result")

#: Where processes tell how their planning went, while they all plan: a meeting does not wait for one that has failed.
planning_under = ""

#: How often these processes have met in a call.
_met: Counter[tuple[tuple[int, ...], int]] = Counter()

#: How often these processes have compared their calls.
_agreed: Counter[tuple[int, ...]] = Counter()


@dataclass(frozen=True)
class Meeting:
    """`room`: the least of all."""

    ranks: tuple[int, ...]
    key: str
    room: int | None

    @property
    def leads(self) -> bool:
        return dist.get_rank() == self.ranks[0]

    @property
    def leader(self) -> str:
        return f"rank {self.ranks[0]}"

    def lead(self, find: Callable[[], str]) -> None:
        """Finds an answer and tells it to the others, or why there is none."""
        tell(self.key, find)

    def follow(self) -> str:
        """What the leader tells. CheckmateError if it failed or is gone."""
        return hear(self.key, self.leader, f"{self.leader}, which plans for all,")


def tell(key: str, find: Callable[[], str]) -> None:
    """Finds an answer and tells it to those that `hear` it under this key, or why there is none, which is raised. Meanwhile it shows that
    it lives."""
    store, over = _store(), threading.Event()

    def pulse() -> None:
        beats = 0
        while not over.wait(_PULSE):
            beats += 1
            store.set(f"{key}/alive", str(beats))

    store.set(f"{key}/alive", "0")
    thread = threading.Thread(target=pulse, daemon=True)
    thread.start()
    try:
        answer: dict[str, Any] = {"answer": find()}
    except BaseException as error:
        answer = _told(error)
        raise
    finally:
        over.set()
        thread.join()
        store.set(f"{key}/answer", json.dumps(answer))


def hear(key: str, who: str, at_work: str) -> str:
    """What a process, that has begun, tells. CheckmateError if it failed or is gone; `at_work` is what it is called then."""
    heard, beats = time.monotonic(), ""
    try:
        store = _store()
        while not store.check([f"{key}/answer"]):
            if store.check([f"{key}/alive"]):
                now = store.get(f"{key}/alive").decode()
                heard, beats = (time.monotonic(), now) if now != beats else (heard, beats)
            if time.monotonic() - heard > ALIVE:
                raise CheckmateError(f"{at_work} has not been heard of for {ALIVE:.0f} s")
            time.sleep(_POLL)
        answer = json.loads(store.get(f"{key}/answer").decode())
    except (RuntimeError, dist.DistError) as error:
        raise _gone(error) from None
    if "answer" in answer:
        return str(answer["answer"])
    message = f"{who} could not plan: {answer['error']}"
    raise InfeasibleError(message, **answer["infeasible"]) if "infeasible" in answer else CheckmateError(message)


def together(ranks: Sequence[int], key: str, find: Callable[[], Result], *, coming: float | None = None,
             fallback: bool = False) -> Result:  # fmt: skip
    """What `find` gives, if it gives something in all of these ranks, each of which calls this. What goes wrong in one is an error in all, when all
    are through: that process raises its own, the others one of the same kind that names it. With `coming`, those that have not begun after so
    many seconds are not waited for. With `fallback`, what goes wrong in another way than by a budget is no error in the others."""
    here = dist.get_rank()
    found: list[Result] = []
    failed: list[Exception] = []

    def answer() -> str:
        try:
            found.append(find())
        except Exception as error:
            if not fallback or isinstance(error, InfeasibleError):
                raise
            failed.append(error)
        return ""

    try:
        tell(f"{key}/{here}", answer)
    except Exception as error:  # noqa: BLE001 - it is raised when the others have heard of it
        failed.append(error)
    there = ranks if coming is None else _begun(ranks, key, coming)
    for rank in there:
        if rank != here:
            try:
                hear(f"{key}/{rank}", f"rank {rank}", f"rank {rank}, which was planning,")
            except CheckmateError as error:
                failed.append(error)
    leave(there, key)
    if failed:
        raise failed[0]
    return found[0]


def _begun(ranks: Sequence[int], key: str, coming: float) -> list[int]:
    """The processes that answer within this many seconds. That the store is gone is for the caller to report."""
    until, missing = time.monotonic() + coming, list(ranks)
    try:
        store = _store()
        while missing := [rank for rank in missing if not store.check([f"{key}/{rank}/alive"])]:
            if time.monotonic() > until:
                break
            time.sleep(_POLL)
    except (RuntimeError, dist.DistError):
        return list(ranks)
    return [rank for rank in ranks if rank not in missing]


def meet(ranks: Sequence[int], structure: str, room: int | None) -> Meeting:
    """Of all these ranks, each of which calls this. `structure`: what must be the same for all; `room`: what this process' budget leaves for
    the graph, in bytes, None for the least budget. CheckmateError if one does not come within `COMING` seconds, or has another graph."""
    members = tuple(sorted(ranks))
    now = members, exchange.calls
    _met[now] += 1
    key = f"checkmate/meeting/{','.join(map(str, members))}/{exchange.calls}/{_met[now]}"
    told = arrive(members, key, [structure, room], "plan this graph within {} s; all processes must call the model")
    others = [rank for rank in members if told[rank][0] != told[members[0]][0]]
    if others:
        leave(members, key)
        raise CheckmateError(f"{_named(others)} must have the same graph as rank {members[0]}, but it differs: the model, the shapes of the inputs "
                             "or what requires gradients")  # fmt: skip
    rooms = [told[rank][1] for rank in members]
    if any(one is None for one in rooms) and any(one is not None for one in rooms):
        raise CheckmateError('all processes must give a budget, or all must ask for the least with "min"')
    return Meeting(members, key, None if rooms[0] is None else min(rooms))


def agree(calls: dict[tuple[int, ...], list[str]]) -> dict[tuple[int, ...], str]:
    """Of all processes that make these calls among each other, by their ranks. CheckmateError where those of one are others: they would hang, or
    add up what does not belong together. Else where each group may go on to meet while it plans. Groups are in order, so that those that
    overlap do not wait for each other in a circle."""
    keys = {}
    for members, mine in sorted(calls.items()):
        _agreed[members] += 1
        key = f"checkmate/calls/{','.join(map(str, members))}/{_agreed[members]}"
        told = arrive(members, key, mine, "plan within {} s; all processes that share a layer must call the model")
        for rank in members:
            if told[rank] != told[members[0]]:
                theirs, first = told[rank], told[members[0]]
                at = next((i for i, (a, b) in enumerate(zip(theirs, first, strict=False)) if a != b), min(len(theirs), len(first)))
                one, other = (said[at] if at < len(said) else "none" for said in (theirs, first))
                leave(members, key)
                raise CheckmateError(f"{_named([rank])} must make the same calls between processes as {_named([members[0]])}, but call {at + 1} "
                                     f"is {one}, not {other}: the model or the shapes of the inputs differ")  # fmt: skip
        keys[members] = key + "/planning"
    return keys


def arrive(ranks: Sequence[int], key: str, says: object, what: str) -> dict[int, Any]:
    """What each of these ranks says, which all call this. `what` they come for, with the seconds to be put in; CheckmateError if one does
    not come within `COMING` of them."""
    try:
        store = _store()
        store.set(f"{key}/{dist.get_rank()}", json.dumps(says))
        until = time.monotonic() + COMING
        missing = list(ranks)
        while missing:
            missing = [rank for rank in missing if not store.check([f"{key}/{rank}"])]
            for rank in missing:
                if planning_under and store.check([f"{planning_under}/{rank}/answer"]):
                    hear(f"{planning_under}/{rank}", f"rank {rank}", f"rank {rank}")
            if missing and time.monotonic() > until:
                raise CheckmateError(f"{_named(missing)} did not come to {what.format(f'{COMING:.0f}')}")
            time.sleep(_POLL if missing else 0)
        return {rank: json.loads(store.get(f"{key}/{rank}").decode()) for rank in ranks}
    except (RuntimeError, dist.DistError) as error:
        raise _gone(error) from None


def leave(ranks: Sequence[int], key: str) -> None:
    """Waits a moment for the others, which may still have to hear what a process says that ends the store with itself."""
    try:
        store = _store()
        store.set(f"{key}/left/{dist.get_rank()}", "")
        until = time.monotonic() + _LEAVING
        while time.monotonic() < until and not all(store.check([f"{key}/left/{rank}"]) for rank in ranks):
            time.sleep(_POLL)
    except (RuntimeError, dist.DistError):
        pass  # it has ended: there is nothing more to hear


def _told(error: BaseException) -> dict[str, Any]:
    if isinstance(error, InfeasibleError):
        return {"error": str(error), "infeasible": error.facts()}
    return {"error": str(error) or type(error).__name__}


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


def _gone(error: Exception) -> CheckmateError:
    return CheckmateError(
        f"the store of torch.distributed does not answer, so that the processes cannot agree on a plan: {str(error).splitlines()[0]}"
    )


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
