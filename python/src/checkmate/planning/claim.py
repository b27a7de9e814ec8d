# SPDX-License-Identifier: Apache-2.0
"""What is proven of the schedules of one graph, and for which budget.

Bounds fall as budgets rise, so a bound for one budget does not hold for a larger one. A claim records the graph and budget that it was
proven for; `bound_for` gives its bound only where it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InfeasibleError
from ..graph import Graph
from ..schedule import BoundClass
from ..solver import MinBudget, Solution
from . import structure

#: As the library has it: a cost this close to a bound is optimal.
_OPTIMAL = 1e-4


@dataclass(frozen=True)
class Claim:
    """Of the graph with the digest `graph`, costs included: schedules of the class `covers` within `budget_bytes` (None: within any
    budget) cost `bound_cost` at least, None where that is not known. All of its schedules need `needed_bytes` at least, those of the class
    `needing` `needed_of_class`."""

    graph: str = ""
    covers: BoundClass = "none"
    budget_bytes: int | None = None
    bound_cost: float | None = None
    needed_bytes: int = 0
    needing: BoundClass = "any"
    needed_of_class: int = 0

    @classmethod
    def of(cls, graph: Graph, solution: Solution) -> Claim:
        """What a solve proved. If it found nothing, the error has the rest."""
        return cls(structure.digest_with_costs(graph), solution.bound_covers, solution.budget_bytes, solution.bound)

    @classmethod
    def of_least(cls, graph: Graph, found: MinBudget) -> Claim:
        """What the search for the least budget proved."""
        return cls(structure.digest_with_costs(graph), needed_bytes=found.floor_bytes, needing=found.bound_covers,
                   needed_of_class=found.lower_bound_bytes)  # fmt: skip

    @classmethod
    def of_everything_kept(cls, graph: Graph) -> Claim:
        """Every schedule computes every operator at least once, with any budget."""
        return cls(structure.digest_with_costs(graph), "any", None, float(graph.total_cost))

    def bound_for(self, graph: Graph, budget_bytes: int) -> float | None:
        """A proven lower bound on the cost of this graph within `budget_bytes`; None if there is none."""
        reaches = self.budget_bytes is None or budget_bytes <= self.budget_bytes
        return self.bound_cost if reaches and self.bound_cost and self.graph == structure.digest_with_costs(graph) else None

    def impossible(self, graph: Graph, failed: InfeasibleError) -> tuple[int, str, int]:
        """The largest number of bytes proven too small, by this or by a failed search; for which class of schedules; and for all of them."""
        for_all = max(failed.impossible_for_all, self.needed_bytes - 1, graph.memory_floor - 1)
        of_class = max((failed.largest_impossible, failed.covers), (self.needed_of_class - 1, self.needing), key=lambda proof: proof[0])
        return (for_all, "any", for_all) if of_class[0] <= for_all else (*of_class, for_all)


#: Nothing is proven.
NOTHING = Claim()


def gap_of(cost: int, bound: float | None) -> float | None:
    """By how much more a schedule may cost than the best one; None without a bound."""
    return None if not bound else max(0.0, cost / bound - 1)


def status_of(cost: int, bound: float | None) -> str:
    """Of a schedule that was found."""
    gap = gap_of(cost, bound)
    return "optimal" if gap is not None and gap <= _OPTIMAL else "feasible"
