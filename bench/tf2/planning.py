# SPDX-License-Identifier: Apache-2.0
"""What planning takes: the first plan of a model, one for a batch of another size, one for ids of another type, and the first in a second process.

    bench/tf2/run.sh --planning                       this tree
    bench/tf2/run.sh --planning --against FOLDER      and another one, in turns: FOLDER has python/src and build/libcheckmate.so

Every round is a new process with a new plan cache, which the second process shares. The table has wall time and
processor time, since other programs on the machine make the former longer, as medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CASES = ("conv", "encoder", "MobileNet")


def worker(case: str, second: bool) -> None:
    """Prints what each plan takes, as JSON: seconds by the wall, and of the processor."""
    import keras
    import tensorflow as tf

    import checkmate.tf2

    tf.config.threading.set_intra_op_parallelism_threads(1)
    model, specs = _model(case)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    step: Any = None
    for what, (x, y) in specs.items():
        begin, used = time.perf_counter(), time.process_time()
        if step is None:
            step = checkmate.tf2.compile(model, loss, keras.optimizers.Adam(), x, y, "60%")
        else:
            step.prepare(x, y)
        took = time.perf_counter() - begin, time.process_time() - used
        operators = len(checkmate.tf2.plans(step)[0].graph.ops)
        print(json.dumps({"what": "second process" if second else what, "took": took, "operators": operators}), flush=True)
        if second:
            return


def _model(case: str) -> tuple[Any, dict[str, Any]]:
    import keras
    import tensorflow as tf
    from cases import CLASSES, conv_block
    from keras import layers

    keras.utils.set_random_seed(1)
    if case == "encoder":
        words, width, batch = 2000, 192, 16
        inputs = keras.Input((None,), dtype="int32")
        x = layers.Embedding(words, width)(inputs)
        for _ in range(6):
            y = layers.LayerNormalization()(x)
            x = x + layers.MultiHeadAttention(4, width // 4, dropout=0.1)(y, y)
            y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
            x = x + layers.Dropout(0.1)(layers.Dense(width)(y))
        x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
        labels = tf.TensorSpec((batch,), tf.int32)
        specs = {
            "first": (tf.TensorSpec((batch, 128), tf.int32), labels),
            "other length": (tf.TensorSpec((batch, 96), tf.int32), labels),
            "int64 ids": (tf.TensorSpec((batch, 128), tf.int64), labels),
        }
        return keras.Model(inputs, layers.Dense(CLASSES)(x), name="encoder"), specs
    if case == "conv":
        inputs = x = keras.Input((64, 64, 3))
        for width in (16, 32, 64):
            x = layers.MaxPooling2D()(conv_block(x, width))
        model = keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)), name="conv")
        side, batch = 64, 32
    else:
        base = getattr(keras.applications, case)(weights=None, include_top=False, pooling="avg", input_shape=(96, 96, 3))
        model, side, batch = keras.Sequential([base, layers.Dense(CLASSES)], name=case), 96, 8
    sizes = {"first": batch, "other batch": batch // 2}
    return model, {what: (tf.TensorSpec((n, side, side, 3)), tf.TensorSpec((n,), tf.int32)) for what, n in sizes.items()}


def measured(case: str, tree: pathlib.Path) -> list[dict[str, Any]]:
    """One round: a process with an empty cache, and a second one."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache, "TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
                                    "PYTHONPATH": str(tree / "python" / "src")}  # fmt: skip
        if (library := tree / "build" / "libcheckmate.so").exists():
            environment["CHECKMATE_LIBRARY"] = str(library)
        for second in (False, True):
            command = [sys.executable, __file__, "--worker", case, *(["--second"] if second else [])]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{case} in {tree}: {done.stderr[-2000:]}")
            found += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return found


def table(rows: dict[tuple[str, str], dict[str, list[Any]]], operators: dict[str, int], against: bool) -> str:
    head = "| model | operators | plan | wall, s | processor, s |" + (" before: wall, s | processor, s | processor, ratio |" if against else "")
    lines = [head, "|---" * (8 if against else 5) + "|"]
    for (case, what), of in rows.items():
        wall, used = (statistics.median(one[k] for one in of["this"]) for k in range(2))
        line = f"| {case} | {operators[case]:,} | {what} | {wall:.1f} | {used:.1f} |"
        if against:
            before = [statistics.median(one[k] for one in of["other"]) for k in range(2)]
            line += f" {before[0]:.1f} | {before[1]:.1f} | {used / before[1]:.2f} |"
        lines.append(line)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--against", type=pathlib.Path, help="another tree")
    parser.add_argument("--page", type=pathlib.Path, help="where the table goes, between its markers")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--second", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.second)
        return 0
    rows: dict[tuple[str, str], dict[str, list[Any]]] = {}
    operators: dict[str, int] = {}
    trees = {"this": ROOT} | ({"other": options.against} if options.against else {})
    for case in options.case or CASES:
        for _ in range(options.rounds):
            for which, tree in trees.items():
                for one in measured(case, tree):
                    rows.setdefault((case, one["what"]), {}).setdefault(which, []).append(one["took"])
                    operators.setdefault(case, one["operators"])
                    print(f"{case}, {which} tree, {one['what']}: {one['took'][0]:.1f} s, of the processor {one['took'][1]:.1f}", file=sys.stderr)
    text = table(rows, operators, bool(options.against))
    print(text)
    if options.page:
        sys.path.append(str(HERE.parent))
        import kept

        kept.put(options.page, "planning", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
