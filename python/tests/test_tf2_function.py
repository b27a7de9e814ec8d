# SPDX-License-Identifier: Apache-2.0
"""`checkmate.tf2.function`: steps of one's own, their arguments, their random numbers and their control flow."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed", minversion="2.16")

import numpy as np  # noqa: E402
from tf2_models import FAST, difference, make, values  # noqa: E402

import checkmate.tf2 as c2  # noqa: E402
from checkmate.tf2 import inline  # noqa: E402

DEPTH, WIDTH, ROWS = 10, 128, 2048


def weights(seed: int = 1) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [tf.Variable(generator.standard_normal((WIDTH, WIDTH)) / 11, dtype=tf.float32) for _ in range(DEPTH)]


def rows(seed: int = 2) -> Any:
    return tf.constant(np.random.default_rng(seed).standard_normal((ROWS, WIDTH)), tf.float32)


def deep(variables: list[Any], x: Any, between: Callable[[Any, int], Any] = lambda x, i: x) -> Any:
    for i, variable in enumerate(variables):
        x = between(tf.tanh(x @ variable), i)
    return x


def both(build: Callable[[], tuple[Callable[..., Any], list[Any]]], calls: list[tuple[Any, ...]], share: str = "60%") -> list[c2.Planned]:
    """Steps made twice, in full and within a share of it, give and leave the same. `build` gives the step and its variables."""
    found: list[dict[str, Any]] = []
    made = []
    for budget in ("100%", share):
        tf.random.set_seed(1)
        step, variables = build()
        planned = c2.function(step, budget, **FAST)
        results = [planned(*arguments) for arguments in calls]
        flat = [np.asarray(leaf) for leaf in tf.nest.flatten(results) + variables]
        found.append({str(i): leaf for i, leaf in enumerate(flat)})
        made.append(planned)
    assert not c2.plans(made[0])[0].recomputed and c2.plans(made[1])[0].recomputed
    assert difference(found[1], found[0]) == ""
    return made


def gradients_of(variables: list[Any], loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(x)
        gradients = tape.gradient(value, variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(0.1 * gradient)
        return value, gradients

    return step


def test_a_step_with_a_tape_and_an_optimizer() -> None:
    """As people write it without Keras's `fit`, gradients returned; the same as the step run eagerly."""

    def train(budget: str | None) -> dict[str, Any]:
        case = make("conv")

        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(case.loss(y, case.model(x, training=True)))
            gradients = tape.gradient(loss, case.model.trainable_variables)
            case.optimizer.apply_gradients(zip(gradients, case.model.trainable_variables, strict=True))
            return {"loss": loss, "gradients": gradients}

        case.optimizer.build(case.model.trainable_variables)
        call = step if budget is None else c2.function(step, budget, **FAST)
        found = [call(*batch) for batch in case.batches]
        if budget == "50%":
            (plan,) = c2.plans(call)
            assert plan.recomputed and plan.peak_bytes <= plan.budget_bytes
            assert call.__name__ == "step"
        assert case.optimizer.iterations == 3
        return {str(i): t.numpy() for i, t in enumerate(tf.nest.flatten(found))} | values(case.model, case.optimizer)

    within = train("50%")
    assert difference(within, train("100%")) == ""
    assert difference(within, train(None)) == ""


def test_a_step_that_makes_its_variables_when_it_is_traced() -> None:
    case = make("penalties")

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(case.model(x, training=True) - y))
        case.optimizer.apply_gradients(zip(tape.gradient(loss, case.model.trainable_variables), case.model.trainable_variables, strict=True))
        return loss

    assert not case.optimizer.built
    planned = c2.function(step, "80%", **FAST)
    losses = [float(planned(*case.batches[0])) for _ in range(3)]
    assert losses[-1] < losses[0] and case.optimizer.iterations == 3


def test_nests_of_arguments_and_results() -> None:
    variables = weights()

    def step(batch: dict[str, Any], *, scale: Any) -> Any:
        left, (right, unused) = batch["left"], batch["pair"]
        with tf.GradientTape() as tape:
            hidden = deep(variables, left + right)
            value = tf.reduce_mean(tf.square(hidden)) * scale
        return {"value": value, "parts": (tape.gradient(value, variables[0]), [left, None, 3]), "same": unused}

    found = {}
    for budget in ("100%", "60%"):
        planned = c2.function(step, budget, **FAST)
        result = planned({"left": rows(1), "pair": (rows(2), tf.constant(7))}, scale=tf.constant(2.0))
        assert set(result) == {"value", "parts", "same"} and int(result["same"]) == 7
        gradient, (left, nothing, number) = result["parts"]
        assert nothing is None and int(number) == 3, "a number is a tensor, as with tf.function"
        assert np.array_equal(left, rows(1))
        found[budget] = {"value": result["value"].numpy(), "gradient": gradient.numpy()}
    assert difference(found["60%"], found["100%"]) == ""
    expected = step({"left": rows(1), "pair": (rows(2), tf.constant(7))}, scale=tf.constant(2.0))["parts"][0]
    assert np.array_equal(found["60%"]["gradient"], expected)


def test_python_values_are_planned_each_for_itself() -> None:
    variables = weights()

    def step(x: Any, training: bool, power: int = 2) -> Any:
        hidden = deep(variables, x)
        if not training:
            return hidden
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(deep(variables, x) ** power)
        return tape.gradient(value, variables)[0]

    planned = c2.function(step, "100%", **FAST)
    x = rows()
    assert planned(x, False).shape == (ROWS, WIDTH) and planned(x, True).shape == (WIDTH, WIDTH)
    assert np.any(planned(x, True).numpy() != planned(x, True, power=4).numpy())
    assert len(c2.plans(planned)) == 3
    planned(rows(5), True)
    planned(rows(5).numpy(), training=True, power=2)
    assert len(c2.plans(planned)) <= 4, "other numbers of the same shape need no plan; names of arguments may"


def test_python_values_that_compare_equal_are_not_the_same() -> None:
    planned = c2.function(lambda x, a: x / a, "100%", costs="estimate")
    one = tf.ones((2,))
    assert np.all(np.isposinf(planned(one, 0.0))) and np.all(np.isneginf(planned(one, -0.0)))
    for _ in range(2):
        assert np.all(np.isnan(planned(one, float("nan"))))
    assert len(c2.plans(planned)) == 3


def test_objects_that_cannot_be_hashed_are_told_apart() -> None:
    class Settings:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self, scale: float) -> None:
            self.scale = scale

    planned = c2.function(lambda x, settings: x * settings.scale, "100%", costs="estimate")
    for scale in range(1, 6):  # the next one may lie where the last one was
        assert np.array_equal(planned(tf.ones((2,)), Settings(scale)), [scale, scale])


def test_stateless_random_numbers_are_drawn_again() -> None:
    def build() -> Any:
        variables = weights()

        def noisy(x: Any, i: int) -> Any:
            return tf.nn.experimental.stateless_dropout(x, 0.3, seed=(1, i))

        return gradients_of(variables, lambda x: tf.reduce_mean(tf.square(deep(variables, x, noisy)))), variables

    _, half = both(build, [(rows(1),), (rows(2),)], "40%")
    assert any("stateless" in name.lower() for name in c2.plans(half)[0].recomputed), c2.plans(half)[0].recomputed


@pytest.mark.parametrize("kind", ("seeded", "generator"))
def test_stateful_random_numbers_are_drawn_once(kind: str) -> None:
    """Legacy operators keep what they drew. A generator's state is read and moves on once; the numbers follow from what was read."""

    def build() -> Any:
        variables = weights()
        generator = tf.random.Generator.from_seed(4)

        def noisy(x: Any, i: int) -> Any:
            if kind == "seeded":
                return x * tf.random.uniform(x.shape, seed=i + 1)
            return x * generator.uniform(x.shape)

        owned = [*variables, generator.state] if kind == "generator" else variables
        return gradients_of(variables, lambda x: tf.reduce_mean(tf.square(deep(variables, x, noisy)))), owned

    _, half = both(build, [(rows(1),), (rows(1),)], "80%")
    (plan,) = c2.plans(half)
    name = "randomuniform" if kind == "seeded" else "rngreadandskip"
    drawn = [op for op in plan.graph.ops if name in op.name.replace("_", "").lower() and not op.recomputable]
    assert len(drawn) == DEPTH, [op.name for op in plan.graph.ops]
    assert not {op.name for op in drawn} & set(plan.recomputed)


def test_noise_is_new_in_every_step() -> None:
    variables = weights()
    generator = tf.random.Generator.from_seed(4)
    planned = c2.function(lambda x: tf.reduce_sum(deep(variables, x + generator.normal(x.shape))), "100%", **FAST)
    assert float(planned(rows())) != float(planned(rows()))


def test_control_flow_runs_once() -> None:
    """Loops and branches that depend on data are one operator each; the layers around them are planned."""

    def build() -> Any:
        variables = weights()
        inner = gradients_of(variables, lambda x: tf.reduce_mean(tf.square(deep(variables, x))))

        def step(x: Any) -> Any:
            scale = tf.cond(tf.reduce_sum(x) > 0.0, lambda: x[0] * 2.0, lambda: x[0] - 1.0)
            scale = tf.while_loop(lambda k, _: k < 3, lambda k, y: (k + 1, y * 0.9), (0, scale), maximum_iterations=3)[1]
            return scale, inner(x * scale)

        return step, variables

    _, half = both(build, [(tf.abs(rows(1)),), (-tf.abs(rows(1)),)])
    (plan,) = c2.plans(half)
    flow = [op for op in plan.graph.ops if op.name.split("/")[-1].startswith(("cond", "while"))]
    assert len(flow) >= 2 and not any(op.recomputable for op in flow), [op.name for op in plan.graph.ops]


@pytest.mark.parametrize("kind", ("cond", "while"))
def test_gradients_through_control_flow_are_refused(kind: str) -> None:
    """TensorFlow keeps lists of tensors for them, whose bytes are unknown."""
    variables = weights()

    def between(x: Any, i: int) -> Any:
        if i != 3:
            return x
        if kind == "cond":
            return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.tanh(tf.sin(x)), lambda: tf.sin(x))
        return tf.while_loop(lambda k, _: k < 3, lambda k, y: (k + 1, tf.sin(y)), (0, x))[1]

    step = gradients_of(variables, lambda x: tf.reduce_mean(deep(variables, x, between)))
    with pytest.raises(c2.UnsupportedError, match=rf"{kind}.* list.* whose bytes are not known"):
        c2.function(step, "100%", **FAST)(rows())


def test_functions_that_a_step_calls_are_planned_inside() -> None:
    """Each of the layers is called through one tf.function, and one of them through two."""

    def build() -> Any:
        variables = weights()

        @tf.function
        def layer(x: Any, variable: Any) -> Any:
            return tf.tanh(x @ variable)

        @tf.function
        def layers(x: Any) -> Any:
            for variable in variables:
                x = layer(x, variable)
            return x

        return gradients_of(variables, lambda x: tf.reduce_mean(tf.square(layers(x)))), variables

    def plain() -> Any:
        variables = weights()
        return gradients_of(variables, lambda x: tf.reduce_mean(tf.square(deep(variables, x)))), variables

    called, written = (both(way, [(rows(1),), (rows(3),)])[1] for way in (build, plain))
    (plan,), (other,) = c2.plans(called), c2.plans(written)
    assert not any(op.name.endswith("PartitionedCall") for op in plan.graph.ops)
    assert (plan.baseline_peak_bytes, len(plan.recomputed) > 0) == (other.baseline_peak_bytes, True)
    results = [[np.asarray(leaf).tobytes() for leaf in tf.nest.flatten(c2.function(step, "60%", **FAST)(rows(1)))] for step, _ in (build(), plain())]
    assert results[0] == results[1]


def test_functions_that_a_step_calls_keep_the_order_of_their_effects() -> None:
    count = tf.Variable(1.0)

    @tf.function
    def double() -> Any:
        count.assign(count * 2.0)
        return count + 0.0

    def step(x: Any) -> Any:
        first = double()
        count.assign_add(1.0)
        second = double()
        count.assign_add(x)
        return first, second

    planned = c2.function(step, "100%", **FAST)
    assert [float(v) for v in planned(tf.constant(10.0))] == [2.0, 6.0] and float(count) == 16.0
    assert [float(v) for v in planned(tf.constant(10.0))] == [32.0, 66.0] and float(count) == 76.0


def test_many_functions_with_effects_take_no_more_edges_than_operators() -> None:
    count = tf.Variable(0.0)

    @tf.function
    def function(x: Any) -> Any:
        count.assign_add(1.0)
        for _ in range(100):
            x = tf.tanh(x)
        return x

    def step(x: Any) -> Any:
        for _ in range(6):
            x = function(x)
        return x

    graph = inline.inlined(tf.function(step).get_concrete_function(tf.TensorSpec((2, 2))).graph)
    operators = graph.get_operations()
    assert len(operators) > 600 and sum(len(op.control_inputs) for op in operators) < 2 * len(operators)
    assert not np.any(np.isnan(c2.function(step, "100%", costs="estimate")(tf.ones((2, 2))))) and float(count) == 6.0


def test_shapes_that_are_set_within_a_function_are_known() -> None:
    @tf.function
    def inner(x: Any) -> Any:
        found = tf.numpy_function(lambda a: a * 2.0, [x], tf.float32)
        found.set_shape(x.shape)
        return found

    planned = c2.function(lambda x: tf.reduce_sum(inner(x)), "100%", costs="estimate")
    assert float(planned(tf.ones((2, 3)))) == 12.0


def test_functions_that_xla_compiles_are_operators_of_their_own() -> None:
    """Their variables are read outside of them, and they may be computed again."""

    def build() -> Any:
        variables = weights()

        @tf.function(jit_compile=True)
        def layer(x: Any, i: int) -> Any:
            return tf.tanh(x @ variables[i])

        def layers(x: Any) -> Any:
            for i in range(DEPTH):
                x = layer(x, i)
            return x

        return gradients_of(variables, lambda x: tf.reduce_mean(tf.square(layers(x)))), variables

    _, half = both(build, [(rows(1),), (rows(3),)])
    (plan,) = c2.plans(half)
    compiled = [op for op in plan.graph.ops if "PartitionedCall" in op.name and "ReadVariableOp" not in op.name]
    assert len(compiled) == 2 * DEPTH and all(op.recomputable and op.cost > 0 for op in compiled), [op.name for op in plan.graph.ops]
    assert any("PartitionedCall" in name for name in plan.recomputed)
    forward = [op for op in compiled if op.kind == "forward"]
    assert [len(op.outputs) for op in forward[:DEPTH]] == [1] * DEPTH, "operands that are handed back for the gradient are no results"


def test_a_compiled_function_with_state_is_refused() -> None:
    count = tf.Variable(0.0)
    inner = tf.function(lambda x: x + count.assign_add(1.0), jit_compile=True)
    with pytest.raises(c2.UnsupportedError, match=r"calls a function with jit_compile=True that has state"):
        c2.function(lambda x: inner(x) * 2.0, "100%", **FAST)(rows())


def test_assignments_keep_their_order() -> None:
    """A variable that is read, changed and read again is each time what the program says."""

    def build() -> Any:
        variables = weights()
        count, seen = tf.Variable(0.0), tf.Variable(tf.zeros((ROWS, WIDTH)))

        def step(x: Any) -> Any:
            before = count.read_value()
            count.assign_add(1.0)
            seen.assign(x * count)
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(tf.square(deep(variables, x + seen)))
            gradients = tape.gradient(value, variables)
            count.assign_add(10.0)
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.assign_sub(gradient * count)
            return before, count.read_value(), value, variables[0] + 0.0

        return step, [*variables, count, seen]

    whole, _ = both(build, [(rows(1),), (rows(1),)], "70%")
    step, owned = build()
    planned = c2.function(step, "70%", **FAST)
    for call in range(2):
        before, after, _, first = planned(rows(1))
        assert (float(before), float(after)) == (11.0 * call, 11.0 * call + 11)
        assert np.array_equal(first, owned[0]), "it is read after the update"
    del whole


def test_a_gradient_of_a_custom_function() -> None:
    @tf.custom_gradient
    def reversed_tanh(x: Any) -> Any:
        y = tf.tanh(x)
        return y, lambda upstream: -upstream * (1 - y * y)

    def build() -> Any:
        variables = weights()
        return gradients_of(variables, lambda x: tf.reduce_mean(tf.square(deep(variables, x, lambda x, _: reversed_tanh(x))))), variables

    both(build, [(rows(1),)])


def test_a_recomputed_gradient_function() -> None:
    """tf.recompute_grad around a layer says what the step computes; the plan is of that step."""

    def build() -> Any:
        variables = weights()
        layer = tf.recompute_grad(lambda x: tf.tanh(x) * tf.sigmoid(x))
        return gradients_of(variables, lambda x: tf.reduce_mean(tf.square(deep(variables, x, lambda x, _: layer(x))))), variables

    both(build, [(rows(1),)], "80%")


def test_embeddings_have_sparse_gradients() -> None:
    """tf.IndexedSlices."""

    def build() -> Any:
        table = tf.Variable(np.random.default_rng(1).standard_normal((512, WIDTH)), dtype=tf.float32)
        variables = weights()

        def step(words: Any) -> Any:
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(tf.square(deep(variables, tf.gather(table, words))))
            gradients = tape.gradient(value, [table, *variables])
            table.scatter_sub(gradients[0])
            for variable, gradient in zip(variables, gradients[1:], strict=True):
                variable.assign_sub(gradient)
            return value

        return step, [table, *variables]

    words = tf.constant(np.random.default_rng(3).integers(0, 512, ROWS), tf.int32)
    both(build, [(words,), (words[::-1],)])


def test_a_method_is_a_step() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.variables = weights()

        def step(self, x: Any) -> Any:
            return tf.reduce_sum(deep(self.variables, x))

    trainer = Trainer()
    planned = c2.function(trainer.step, "100%", **FAST)
    assert np.array_equal(planned(rows()), trainer.step(rows()))
    assert planned.prepare(tf.TensorSpec((ROWS, WIDTH), tf.float32)) is c2.plans(planned)[0]


def test_methods_have_plans_for_each_object() -> None:
    class Trainer:
        def __init__(self, start: float) -> None:
            self.weights = tf.Variable(tf.fill((16, 1), start))

        @c2.function
        def step(self, x: Any, rate: float = 0.0) -> Any:
            """What it does."""
            self.weights.assign_sub(rate * tf.ones_like(self.weights))
            return tf.reduce_sum(x @ self.weights)

    a, b, x = Trainer(1.0), Trainer(2.0), tf.ones((8, 16))
    assert float(a.step(x)) == 128.0 and float(b.step(x)) == 256.0 and float(a.step(x, rate=0.5)) == 64.0
    assert a.step.checkmate_planned is a.step.checkmate_planned and Trainer.step.__doc__ == "What it does."
    assert float(Trainer(3.0).step(x)) == 384.0, "nothing else holds the object"
    assert len(c2.plans(a.step)) == 2 and len(c2.plans(b.step)) == 1
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None
