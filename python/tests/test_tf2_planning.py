# SPDX-License-Identifier: Apache-2.0
"""What is planned anew, what is measured together, and what is said meanwhile."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

import numpy as np  # noqa: E402
from tf2_models import FAST, make  # noqa: E402

import checkmate.tf2 as c2  # noqa: E402
from checkmate.planning import least  # noqa: E402
from checkmate.tf2 import measure, program, trials  # noqa: E402

#: Embeddings and logits.
WORDS = np.random.default_rng(1).standard_normal((50, 8)).astype("float32")


def lookup(cast: Any, lines: list[str] | None = None) -> tuple[c2.Planned, tf.Variable]:
    words = tf.Variable(WORDS)

    def step(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            found = tf.gather(words, ids if cast is None else tf.cast(ids, cast))
            loss = tf.reduce_sum(tf.tanh(found) ** 2)
        words.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, words)))
        return loss

    return c2.function(step, "4MB", progress=None if lines is None else lines.append, **FAST), words


def by(types: list[Any], cast: Any) -> tuple[list[bytes], int]:
    """Losses and words of steps with ids of these types, and how many plans they took."""
    step, words = lookup(cast)
    ids = [tf.constant([[3, 7, 1], [4, 4, 49]], kind) for kind in types]
    return [step(i).numpy().tobytes() for i in ids] + [words.numpy().tobytes()], len(c2.plans(step))


@pytest.mark.parametrize("cast", [tf.int32, tf.int64])
def test_ids_of_another_type_share_a_plan_where_the_step_casts_them(cast: Any) -> None:
    alone = by([cast, cast], cast)
    assert alone[1] == 1
    # int64 into a plan for int32 may lose digits, unless the step itself makes them int32.
    assert by([tf.int64, tf.int32], cast) == alone
    assert by([tf.int32, tf.int64], cast) == (alone[0], 1 if cast == tf.int32 else 2)


def test_ids_share_no_plan_where_the_step_does_more_with_them() -> None:
    step = c2.function(lambda ids: (tf.cast(ids, tf.int32) + 1, ids), "4MB", **FAST)
    for kind in (tf.int32, tf.int64):
        plus, same = step(tf.constant([1, 2], kind))
        assert plus.dtype == tf.int32 and same.dtype == kind
    assert len(c2.plans(step)) == 2
    large = c2.function(lambda ids: tf.cast(ids, tf.float64) + 1.0, "4MB", **FAST)
    assert large(tf.constant([1], tf.int32)).numpy()[0] == 2 and large(tf.constant([2**40], tf.int64)).numpy()[0] == 2**40 + 1


def test_another_number_of_arguments_is_planned_anew() -> None:
    step = c2.function(lambda x, weights=None: tf.reduce_sum(x if weights is None else x * weights), "4MB", **FAST)
    assert [float(step(tf.ones(4))), float(step(tf.ones(4), tf.fill(4, 2.0))), float(step(tf.ones(4)))] == [4.0, 8.0, 4.0]
    assert len(c2.plans(step)) == 2


def test_ids_share_no_plan_for_which_there_is_no_room() -> None:
    step = c2.function(lambda ids: tf.reduce_sum(tf.cast(ids, tf.int32)), "100%", **FAST)
    for kind in (tf.int32, tf.int64):
        step(tf.ones(1 << 20, kind))
    assert [plan.peak_bytes > 8 << 20 for plan in c2.plans(step)] == [False, True]


def test_operators_have_the_names_that_the_step_gave_them() -> None:
    def step(x: Any) -> Any:
        with tf.name_scope("outer"), tf.name_scope("_inner"):
            return tf.reduce_sum(tf.linalg.inv(x, name="_inverse"))

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"outer_+inner_+inverse"):
        c2.function(step, "4MB", **FAST)(tf.zeros((4, 4)))


def test_progress_begins_with_the_trace() -> None:
    lines: list[str] = []
    step, _ = lookup(None, lines)
    step.prepare(tf.TensorSpec((2, 3), tf.int32))
    assert lines[0] == "step: tracing" and lines[1].startswith("step: traced ") and "budget 4,000,000" in "".join(lines[2:])


def test_calls_are_measured_together_as_they_are_alone() -> None:
    def step(x: Any) -> Any:
        y = tf.reshape(tf.tanh(x @ x), (512, 512))
        return tf.reduce_sum(y, axis=0), y * y + 1.0, tf.random.stateless_uniform((512, 512), (1, 2))

    calls = program.read(c2.function(step).concrete(tf.ones((512, 512)))).calls
    together = measure.table(measure.Costs(), calls)
    for call in calls:
        alone = measure.table(measure.Costs(), [call])[call]
        assert (alone.workspace_bytes, alone.views, alone.over) == (together[call].workspace_bytes, together[call].views, together[call].over)
    assert any(found.over for found in together.values()) and any(0 in found.views for found in together.values())


def test_a_call_that_fails_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(x: Any) -> Any:
        return tf.tanh(x), tf.linalg.inv(x), tf.exp(x), tf.sqrt(x)

    calls = program.read(c2.function(step).concrete(tf.ones((256, 256)))).calls
    generated = trials._generated
    monkeypatch.setattr(trials, "_generated", lambda value: generated(value) * 0)  # which has no inverse
    costs = measure.Costs()
    facts = {call.type: found for call, found in measure.table(costs, calls).items()}
    assert list(costs.failed) == [call.name for call in calls if call.type == "MatrixInverse"]
    assert {kind: found.how for kind, found in facts.items() if kind in ("Tanh", "Exp", "Sqrt")} == dict.fromkeys(("Tanh", "Exp", "Sqrt"), "measured")


def test_operands_of_one_group_are_no_more_than_the_largest_call_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_BYTES", 0)

    def step(x: Any, y: Any, z: Any) -> Any:
        return tf.tanh(x), tf.exp(y), tf.exp(z), tf.tanh(z)

    calls = program.read(c2.function(step).concrete(tf.ones((64, 64)), tf.ones((32, 64)), tf.ones((32, 32)))).calls
    groups = [[trial.call.type for trial in group] for group in trials._groups([trials.Trial(call) for call in calls])]
    assert groups == [["Tanh"], ["Exp"], ["Exp", "Tanh"]]


def test_the_least_says_what_a_little_more_memory_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    # Estimates: where a busy machine makes one measured operator dearer than all others, more memory may save nothing.
    options = FAST | {"costs": "estimate", "time_limit": 3}

    def planned(lines: list[str]) -> tuple[Any, c2.Plan]:
        case = make("penalties")
        step = c2.compile(case.model, case.loss, case.optimizer, *case.batches[0], "min", progress=lines.append, **options)
        return (step, *case.batches[0]), c2.plans(step)[0]

    lines: list[str] = []
    called, plan = planned(lines)
    assert plan.next_budgets and plan.budget_bytes < min(n.budget_bytes for n in plan.next_budgets)
    assert all(a >= b + 0.05 - 1e-9 for a, b in itertools.pairwise([plan.overhead, *(n.overhead for n in plan.next_budgets)]))
    assert [line for line in lines if "more memory, budget=" in line] == [
        f"{called[0].name}: {text}" for text in least.lines(plan.next_budgets, plan.budget_bytes, plan.overhead)
    ]
    told = c2.explain(*called, budget="min", budgets=1, show=None, **options)
    assert told.notes[0].startswith("of the least budget: ") and "more memory, budget=" in told.notes[1] and str(told).endswith(told.notes[-1])
    monkeypatch.setattr(least, "beyond", lambda *_: pytest.fail("it is on disk"))
    assert planned([])[1].next_budgets == plan.next_budgets
