# SPDX-License-Identifier: Apache-2.0
"""Mutants of Python files, for mutate.py: what is changed, and a run of pytest on one."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import time

COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
               ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*"}


def annotations_of(tree):
    """Nodes that say a type, and calls and strings that only talk."""
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if part is not None:
                yield from ast.walk(part)
        if isinstance(node, (ast.JoinedStr, ast.Assert)):
            yield from ast.walk(node)


def changes_of(source):
    """Everything to try: (start, end, replacement, what), as places in the text."""
    tree = ast.parse(source)
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line.encode()))
    raw = source.encode()

    def place(line, column):
        return len(raw[:lines[line - 1] + column].decode())

    def span(node):
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    quiet = set(map(id, annotations_of(tree)))
    for node in ast.walk(tree):
        if id(node) in quiet or not hasattr(node, "lineno"):
            continue
        start, end = span(node)
        text = source[start:end]
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield start, end, str(not node.value), f"{text} to {not node.value}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            for wrong in {node.value + 1, node.value - 1}:
                yield start, end, f"({wrong!r})", f"{text} to {wrong!r}"
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            sign = COMPARISONS[type(node.ops[0])]
            left, right = source[start:span(node.left)[1]], source[span(node.comparators[0])[0]:end]
            yield start, end, f"({left} {sign} {right})", f"comparison to {sign}"
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            sign = OPERATORS[type(node.op)]
            left, right = source[start:span(node.left)[1]], source[span(node.right)[0]:end]
            yield start, end, f"(({left}) {sign} ({right}))", f"operator to {sign}"
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                a, b = span(value)
                yield a, b, str(isinstance(node.op, ast.And)), "operand dropped"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield start, end, f"(bool({source[slice(*span(node.operand))]}))", "not dropped"
        elif isinstance(node, ast.IfExp):
            a, b = span(node.test)
            yield a, b, f"(not ({source[a:b]}))", "condition negated"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            a, b = span(node.func)
            yield a, b, "max" if node.func.id == "min" else "min", f"{node.func.id} swapped"
        elif isinstance(node, (ast.Continue, ast.Break)):
            yield start, end, "pass", "statement deleted"
        elif isinstance(node, (ast.Raise, ast.AugAssign)) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield start, end, "pass", "statement deleted"
        if isinstance(node, (ast.If, ast.While)):
            a, b = span(node.test)
            if isinstance(node, ast.If):
                yield a, b, "True", "condition to true"
            yield a, b, "False", "condition to false"


class PythonTests:
    """The package of a copy of the tree, its tests, and the library they run on."""

    def __init__(self, tree, library):
        self.tree, self.library = tree, library
        self.python = os.environ.get("CKM_PYTHON", sys.executable)
        self.seconds = {}

    def passes(self, package, test, scratch):
        """Whether a file of tests passes with the package in that folder; one that never ends does not."""
        environment = dict(os.environ, CHECKMATE_LIBRARY=self.library, PYTHONPATH=package, PYTHONDONTWRITEBYTECODE="1",
                           XDG_CACHE_HOME=scratch, TMPDIR=scratch)
        command = [self.python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", os.path.join(self.tree, "python/tests", test)]
        begin = time.monotonic()
        child = subprocess.Popen(command, cwd=scratch, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            code = child.wait(timeout=60 + 8 * self.seconds.get(test, 600))
        except subprocess.TimeoutExpired:
            code = -1
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        # 5: everything in it is skipped.
        return code in (0, 5), time.monotonic() - begin

    def prepare(self, tests, scratch):
        for test in tests:
            good, self.seconds[test] = self.passes(os.path.join(self.tree, "python/src"), test, scratch)
            if not good:
                raise SystemExit(f"mutate.py: {test} fails without a mutant")

    def try_mutant(self, mutant, tests, scratch):
        package = os.path.join(scratch, "src")
        shutil.copytree(os.path.join(self.tree, "python/src"), package, ignore=shutil.ignore_patterns("__pycache__"))
        path = os.path.join(package, os.path.relpath(mutant.file, "python/src"))
        with open(path, encoding="utf-8") as f:
            source = f.read()
        changed = source[:mutant.start] + mutant.text + source[mutant.end:]
        try:
            if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)):
                return "same code"
        except SyntaxError:
            return "invalid"
        with open(path, "w", encoding="utf-8") as f:
            f.write(changed)
        for test in tests:
            if not self.passes(package, test, scratch)[0]:
                return test
        return "survives"
