# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests through `checkmate run`: each equal to its tolerance, or refused with a reason.

Usage: conformance.py PROGRAM [--page FILE] [--only TEXT] [--verbose]

The `onnx` package of PyPI makes the tests: a model of one or a few nodes each, inputs, outputs. A test whose inputs steer
operators (axes, shapes, limits) is tried once more with these as initializers, as exporters write them, where the program
refuses the model itself. --page writes the table of docs/ONNX.md. Exit status 1 where a result is wrong.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def arrays(values):
    """Arrays unchanged; None for anything that is not an array of a type that .npy files have."""
    found = []
    for value in values:
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        value = numpy.asarray(value) if isinstance(value, (numpy.ndarray, numpy.generic)) else None
        found.append(value if value is not None and value.dtype.kind in "fiub" else None)
    return found


def is_equal(result, wanted, case):
    if wanted is None or result.shape != wanted.shape or result.dtype != wanted.dtype:
        return False
    if result.dtype.kind == "f":
        return bool(numpy.allclose(result, wanted, rtol=case.rtol, atol=case.atol, equal_nan=True))
    return bool(numpy.array_equal(result, wanted))


def difference(result, wanted):
    if wanted is None or result.shape != wanted.shape or result.dtype != wanted.dtype:
        return f"{result.dtype} {result.shape} instead of {None if wanted is None else (wanted.dtype, wanted.shape)}"
    return f"off by up to {numpy.nanmax(abs(result.astype(float) - wanted.astype(float))):.3g}"


def run(program, case, model, inputs, names, outputs, folder):
    """(outcome, reason): equal, refused or wrong."""
    command = [program, "run", model, "--threads", "1", "--costs", "flops"]
    for i, (name, value) in enumerate(zip(names, inputs, strict=False)):
        if value is not None:
            path = os.path.join(folder, f"in{i}.npy")
            numpy.save(path, numpy.asarray(value, order="C"))
            command += ["--input", f"{name}={path}"]
    if "--input" not in command:
        path = os.path.join(folder, "in.npy")
        numpy.save(path, numpy.zeros(1, numpy.float32))
        command += ["--input", path]
    results = []
    for i, name in enumerate(outputs[0]):
        if name:
            results.append((os.path.join(folder, f"out{i}.npy"), outputs[1][i]))
            command += ["-o", f"{name}={results[-1][0]}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        got = [(numpy.load(path), wanted) for path, wanted in results]
        bad = [pair for pair in got if not is_equal(*pair, case)]
        return ("wrong", difference(*bad[0])) if bad else ("equal", "")
    if done.returncode in (1, 2):
        return "refused", done.stderr.strip().removeprefix("checkmate: ").removeprefix("checkmate run: ")
    return "wrong", f"exit status {done.returncode}: {done.stderr.strip()[-200:]}"


def as_initializer(value, name):
    tensor = onnx.TensorProto()
    tensor.CopyFrom(value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(numpy.asarray(value)))
    tensor.name = name
    return tensor


def with_constants(model, inputs, given_as):
    """The model with every input but the first of reals as an initializer; None where that changes nothing."""
    names = [i.name for i in model.graph.input]
    data = next((i for i, value in enumerate(inputs) if value is not None and value.dtype.kind == "f"), 0)
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    given = [(name, given_as[i]) for i, (name, value) in enumerate(zip(names, inputs, strict=False)) if i != data and value is not None]
    if not given:
        return None
    for name, value in given:
        changed.graph.initializer.append(as_initializer(value, name))
        changed.graph.input.remove(next(i for i in changed.graph.input if i.name == name))
    return changed, names[data], inputs[data]


def test(program, case):
    """(operator, opset, outcome, reason, by constants) of one test."""
    model = case.model
    inputs, wanted = (arrays(values) for values in case.data_sets[0])
    names = [i.name for i in model.graph.input]
    outputs = [o.name for o in model.graph.output], wanted
    used = {name for node in model.graph.node for name in node.input}
    inputs = [value if name in used else None for name, value in zip(names, inputs, strict=False)]
    operator = model.graph.node[0].op_type if len(model.graph.node) == 1 else "(several)"
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "model.onnx")
        onnx.save(model, path)
        outcome, reason = run(program, case, path, inputs, names, outputs, scratch)
        changed = with_constants(model, inputs, case.data_sets[0][0]) if outcome == "refused" else None
        if changed is None:
            return operator, opset, outcome, reason, False
        onnx.save(changed[0], path)
        second, why = run(program, case, path, [changed[2]], [changed[1]], outputs, scratch)
        if second == "refused":
            return operator, opset, outcome, reason, False
        return operator, opset, second, why, True


def general(reason):
    """The reason without what is peculiar to one test."""
    reason = reason.splitlines()[-1] if reason else "no message"
    reason = re.sub(r"^\S*\.onnx: ", "", reason)
    reason = re.sub(r"^\S*/in\d*\.npy: ", "", reason)
    reason = re.sub(r'node "[^"]*" \((\w+)\): ', "", reason)
    reason = re.sub(r'operator "[^"]*" \((\w+)\)', r"\1", reason)
    reason = re.sub(r'"[^"]*"', '"..."', reason)
    if reason.startswith("operators that are not supported: "):
        return "not supported"
    if reason.startswith("the ONNX model uses opset"):
        return reason.split(";")[0].removeprefix("the ONNX model uses ")
    return re.sub(r"\b\d+(x\d+)*\b", "N", reason.split(";")[0].split(": convert")[0])


def page(rows):
    """The table: a line an operator."""
    by_operator = collections.defaultdict(list)
    for _, operator, _, outcome, reason, _ in rows:
        by_operator[operator].append((outcome, general(reason) if outcome == "refused" else reason))
    lines = ["| operator | equal | refused | wrong | refused because |", "|---|---|---|---|---|"]
    for operator in sorted(by_operator, key=str.lower):
        cases = by_operator[operator]
        counts = collections.Counter(outcome for outcome, _ in cases)
        reasons = collections.Counter(reason for outcome, reason in cases if outcome == "refused")
        said = "; ".join(reason.replace("|", "\\|").strip()[:110] for reason, _ in reasons.most_common(2))
        lines.append(f"| {operator} | {counts['equal']} | {counts['refused']} | {counts['wrong']} | {said} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--page", metavar="FILE")
    parser.add_argument("--json", metavar="FILE", help="every test with its outcome")
    parser.add_argument("--only", default="", metavar="TEXT", help="tests whose name holds TEXT")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    rows = []
    for case in sorted(collect_testcases(None), key=lambda case: case.name):
        if args.only in case.name:
            rows.append((case.name, *test(args.program, case)))
            if args.verbose or rows[-1][3] == "wrong":
                print(*rows[-1], flush=True)
    counts = collections.Counter(row[3] for row in rows)
    constants = sum(1 for row in rows if row[3] == "equal" and row[5])
    summary = (f"{len(rows)} tests of onnx {onnx.__version__}: equal: {counts['equal']} ({constants} of them with inputs that "
               f"steer as initializers), refused: {counts['refused']}, wrong: {counts['wrong']}")
    print(summary)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump([list(row) for row in rows], file)
    if args.page:
        with open(args.page, "w", encoding="utf-8") as file:
            file.write(summary + "\n\n" + page(rows))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
