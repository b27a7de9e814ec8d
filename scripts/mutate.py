#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation test: changes one thing at a time in a copy of the sources and lists the changes that no test notices.

    scripts/mutate.py verifier plan            every mutant of two groups of files (see mutate_groups.py)
    scripts/mutate.py autodiff --sample 400    400 of them, spread evenly over the files, drawn by --seed
    scripts/mutate.py src/plan/plan.c:40-80    the mutants of some lines
    scripts/mutate.py plan --list              what would be tried, without trying it
    scripts/mutate.py --results FILE --score   what FILE has, by group: tried, noticed, survivors by place

A mutant is compiled by the command that CMake has for its file and linked, before the library's archive, to the tests
of its group; the quick tests run first and the first that fails ends it. One that gives the same object code as the
original is equivalent. One that survives runs against the group's wider tests, and then against the first ones once
more under AddressSanitizer and UndefinedBehaviorSanitizer, as continuous integration would. What remains is printed
with its place and difference unless tests/mutation/equivalent.txt says why it changes nothing. Exit status 1 when
something remains. The tree is never touched: all of it happens in a temporary folder, or in the one that --work names,
which is kept and makes the next run start sooner. Each fate is added to --results FILE at once; a run that is given such a
file leaves out what is in it, so that an interrupted run is resumed.

A mutant of a Python file is put in the place of the original in that copy, and pytest runs on the files of its group, with
the library of --library or the one that the copy builds, by the Python that CKM_PYTHON names.
Needs Python's standard library, git, cmake and make.
"""

import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

sys.dont_write_bytecode = True
import mutate_python  # noqa: E402
from mutate_groups import GROUPS  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILDS = ("plain", "asan")  # folders of the copy; there ccache knows what a build of the tree has compiled
EQUIVALENT = "tests/mutation/equivalent.txt"


# ---- reading C ------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?[uUlLfF]*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign>->|\+\+|--|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.|[-+*/%&|^~!<>=?:;,.(){}\[\]])
""", re.VERBOSE | re.MULTILINE | re.DOTALL)

SWAPS = {"<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="],
         "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"], "&": ["|"], "|": ["&"], "<<": [">>"], ">>": ["<<"],
         "&&": ["||"], "||": ["&&"], "+=": ["-="], "-=": ["+="], "*=": ["/="], "|=": ["&="], "&=": ["|="]}
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}
# Where the operand of && or ||, or the condition of ?:, begins and ends at the latest.
BORDERS = {",", ";", "=", "?", ":", "return", "{", "}", "+=", "-=", "*=", "|=", "&="}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int
    spaced: bool  # white space on both sides: binary, given how the tree is formatted


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    function: str
    what: str
    before: str  # the lines it changes, white space folded
    after: str
    start: int
    end: int
    text: str
    nth: int  # of those that look alike, in one function

    def key(self):
        return (self.file, self.function, self.before, self.after, self.nth)


def tokens_of(source):
    found, at = [], 0
    while at < len(source):
        match = TOKEN.match(source, at)
        if match is None:
            raise SystemExit(f"mutate.py: cannot read C at: {source[at:at + 40]!r}")
        if match.lastgroup != "skip":
            spaced = source[at - 1:at].isspace() and source[match.end():match.end() + 1].isspace()
            found.append(Token(match.lastgroup, match.group(), at, match.end(), spaced))
        at = match.end()
    return found


def partners_of(tokens):
    """By index of a bracket: that of the bracket it belongs to."""
    partners, stack = {}, []
    for i, token in enumerate(tokens):
        if token.text in OPENING and token.kind == "sign":
            stack.append(i)
        elif token.text in CLOSING and token.kind == "sign":
            partners[i] = stack.pop()
            partners[partners[i]] = i
    return partners


def operand(tokens, partners, i, step, also):
    """The furthest token of the operand that begins next to token i, in direction `step`."""
    i += step
    while 0 <= i < len(tokens):
        text = tokens[i].text
        if text in BORDERS or text in also or text in (OPENING if step < 0 else CLOSING):
            break
        i = partners[i] + step if i in partners else i + step
    return i - step


def wrong_numbers(text):
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", text)
    if match is None:
        return ["(2.0 * " + text + " + 1.0)"]
    value = int(match.group(1), 0)
    return [f"{n}{match.group(2)}" for n in (value + 1, value - 1) if n >= 0]


def statement_end(tokens, partners, i):
    """For an expression statement that starts at token i: its semicolon, or -1."""
    first, second = tokens[i], tokens[i + 1]
    jump = first.text in ("break", "continue")
    call = first.kind == "word" and second.text in ("(", "=", "->", ".", "[", "++", "--", "+=", "-=", "*=", "|=", "&=")
    place = first.text in ("*", "++", "--", "(")
    if not (jump or place or call) or first.text in ("if", "for", "while", "switch", "return", "sizeof", "do"):
        return -1
    while tokens[i].text not in (";", "{", "}"):
        i = partners[i] + 1 if tokens[i].text in OPENING else i + 1
    return i if tokens[i].text == ";" else -1


def changes_of(source):
    """Everything to try: (start, end, replacement, what)."""
    tokens = tokens_of(source)
    partners = partners_of(tokens)
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.text == "{") - (token.text == "}")
        before = tokens[i - 1].text if i > 0 else ""
        if token.kind == "number" and not (before == "[" and tokens[i - 2].text == ")"):
            for wrong in wrong_numbers(token.text):
                yield token.start, token.end, wrong, f"{token.text} to {wrong}"
        elif token.text in ("true", "false"):
            wrong = "false" if token.text == "true" else "true"
            yield token.start, token.end, wrong, f"{token.text} to {wrong}"
        elif token.kind == "sign" and token.text in SWAPS and (token.spaced or token.text in ("&&", "||")):
            for other in SWAPS[token.text]:
                yield token.start, token.end, other, f"{token.text} to {other}"
        elif token.text == "!":
            yield token.start, token.end, "", "! dropped"
        if token.text in ("&&", "||"):
            neutral = "true" if token.text == "&&" else "false"
            weaker = ("||",) if token.text == "&&" else ()
            # Behind the first operand only, so that a chain's operands are dropped once each.
            start = operand(tokens, partners, i, -1, ("&&", "||"))
            end = operand(tokens, partners, i, 1, ("&&", "||"))
            if tokens[start - 1].text != token.text and tokens[start - 1].text not in weaker:
                yield tokens[start].start, tokens[i - 1].end, neutral, "operand dropped"
            yield tokens[i + 1].start, tokens[end].end, neutral, "operand dropped"
        elif token.text in ("if", "while") and i + 1 in partners:
            start, end = tokens[i + 1].end, tokens[partners[i + 1]].start
            if token.text == "if":
                yield start, end, "false", "condition to false"
                yield start, end, "true", "condition to true"
            else:
                yield start, end, f"!({source[start:end]})", "condition negated"
        elif token.text == "?":
            start = tokens[operand(tokens, partners, i, -1, ())].start
            yield start, tokens[i - 1].end, f"!({source[start:tokens[i - 1].end]})", "condition negated"
        heads_statement = before in (";", "{", "}", "else", ":") or (
            before == ")" and tokens[partners[i - 1] - 1].text in ("if", "for", "while"))
        if depth > 0 and heads_statement and not inside_parentheses(tokens, partners, i):
            end = statement_end(tokens, partners, i)
            if end >= 0:
                yield token.start, tokens[end].end, ";", "statement deleted"


def inside_parentheses(tokens, partners, i):
    for k in range(i - 1, -1, -1):
        if tokens[k].text == "(" and partners[k] > i:
            return True
        if tokens[k].text == "{" and partners[k] > i:
            return False
    return False


def fold(text):
    return " ".join(text.split())


def mutants_of(file, first=1, last=10**9):
    with open(os.path.join(ROOT, file), encoding="utf-8") as f:
        source = f.read()
    python = file.endswith(".py")
    heads = r"^ *(?:def|class) (\w+)" if python else r"^[A-Za-z][^;={}()]*?(\w+)\([^;{}]*\)\s*\{"
    starts = [(m.start(), m.group(1)) for m in re.finditer(heads, source, re.M)]
    found, alike = set(), {}
    for start, end, text, what in mutate_python.changes_of(source) if python else changes_of(source):
        line = source.count("\n", 0, start) + 1
        if source[start:end] == text:
            continue
        head = source.rfind("\n", 0, start) + 1
        tail = source.find("\n", end)
        function = max((s for s in starts if s[0] <= start), default=(0, "-"))[1]
        before, after = fold(source[head:tail]), fold(source[head:start] + text + source[end:tail])
        # What a comparison for qsort gives counts by its sign.
        if (start, end, text) in found or (what == "1 to 2" and re.search(r"return .*\? (-1|1) : ", before)):
            continue
        found.add((start, end, text))
        nth = alike[function, before, after] = alike.get((function, before, after), 0) + 1
        if first <= line <= last:
            yield Mutant(file, line, function, what, before, after, start, end, text, nth)


# ---- the list of equivalent mutants ---------------------------------------------------------------------------------

@dataclass
class Entry:
    file: str
    function: str
    before: str
    after: str  # "*": any change of these lines
    why: str
    nth: int  # 0: all that look alike
    used: bool = False


def read_equivalent(path):
    """Entries of four lines: `FILE FUNCTION`, `- before`, `+ after`, `= why`; one reason can be for several changes.

    FUNCTION:2 is only about the second of the places in the function that look alike.
    """
    entries, head, before, changes = [], None, "", []
    if not os.path.exists(path):
        return entries
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            mark, rest = line[:2], fold(line[2:])
            if not line.strip() or line.startswith("#"):
                continue
            if mark == "- ":
                before = rest
            elif mark == "+ ":
                changes.append((before, rest))
            elif mark == "= ":
                function, _, nth = head[1].partition(":")
                entries += [Entry(head[0], function, old, new, rest, int(nth or 0)) for old, new in changes]
                changes = []
            elif len(line.split()) == 2:
                head = line.split()
            else:
                raise SystemExit(f"{path}:{number}: expected \"FILE FUNCTION\", \"- before\", \"+ after\" or \"= why\"")
    return entries


def entry_for(mutant, entries):
    for entry in entries:
        same = (entry.file, entry.function, entry.before) == mutant.key()[:3] and entry.nth in (0, mutant.nth)
        if same and entry.after in ("*", mutant.after):
            entry.used = True
            return entry
    return None


# ---- building and running -------------------------------------------------------------------------------------------

class Workplace:
    """A copy of the tree with a release build and, when it is asked for, one under sanitizers."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs
        self.tree = os.path.join(folder, "tree")
        self.copy_tree()

    def copy_tree(self):
        names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                               capture_output=True).stdout.decode().split("\0")
        names = {name for name in names if name and os.path.isfile(os.path.join(ROOT, name))}
        for name in names:
            source, target = os.path.join(ROOT, name), os.path.join(self.tree, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.exists(target) or open(source, "rb").read() != open(target, "rb").read():
                shutil.copy(source, target)
        for folder, folders, files in os.walk(self.tree):
            if folder == self.tree:
                folders[:] = [f for f in folders if f not in BUILDS]
            for name in files:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.tree) not in names:
                    os.remove(path)

    def build(self, name, tests, options):
        folder = os.path.join(self.tree, name)
        configure = ["cmake", "-G", "Unix Makefiles", "-S", self.tree, "-B", folder, "-DCKM_BUILD_TESTS=ON", *options]
        targets = [t for t in tests if not t.startswith("cli_")] + ["checkmate_static"]
        if len(targets) <= len(tests):
            targets.append("checkmate_program")
        environment = dict(os.environ, CCACHE_BASEDIR=self.folder)
        environment.pop("CMAKE_C_COMPILER_LAUNCHER", None)
        if shutil.which("ccache"):
            configure.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
        for command in (configure, ["make", "-C", folder, f"-j{self.jobs}", *targets]):
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode != 0:
                raise SystemExit(f"mutate.py: {' '.join(command)} fails:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as f:
            compile_commands = {os.path.relpath(c["file"], self.tree): shlex.split(c["command"]) for c in json.load(f)}
        return Build(folder, self.tree, compile_commands)


class Build:
    def __init__(self, folder, tree, compile_commands):
        self.folder, self.tree, self.compile_commands = folder, tree, compile_commands
        self.seconds = {}  # by test: processor time without a mutant
        # Which program a test is in. It runs the test by whose name it is called.
        with open(os.path.join(folder, "tests", "programs.txt"), encoding="utf-8") as f:
            self.programs = dict(line.split() for line in f)

    def compile(self, file, source, target, *flags):
        command = [a for a in self.compile_commands[file] if a != "-Werror"]
        if os.path.basename(command[0]) == "ccache":
            del command[0]
        command[command.index("-o") + 1] = target
        command[command.index("-c") + 1] = source
        done = subprocess.run([*command, *flags, "-w"], cwd=self.folder, capture_output=True)
        return done.returncode == 0

    def link(self, target, obj, program):
        target = self.programs.get(target, target)
        with open(os.path.join(self.folder, "CMakeFiles", target + ".dir", "link.txt"), encoding="utf-8") as f:
            command = shlex.split(f.read())
        command[command.index("-o") + 1] = program
        if obj is not None:
            # In front of the archive, whose own object is then left out.
            command.insert(next(i for i, a in enumerate(command) if a.endswith(".a")), obj)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"mutate.py: linking {target} fails:\n{done.stderr[-2000:]}")

    def run(self, test, obj, scratch):
        """Whether the test passes, and the processor time it took."""
        script = test.startswith("cli_")
        program = os.path.join(scratch, test)
        self.link("checkmate_program" if script else test, obj, program)
        command = [program]
        if script:
            command = ["sh", (glob.glob(f"{self.tree}/tests/*/{test[4:]}.sh"))[0]]
        environment = dict(os.environ, CHECKMATE=program, CKM_SOURCE_DIR=self.tree, CKM_BINARY_DIR=self.folder,
                           CKM_SHARED_DATA_DIR="/nonexistent", TMPDIR=scratch, OMP_NUM_THREADS="2",
                           UBSAN_OPTIONS="halt_on_error=1", ASAN_OPTIONS="hard_rss_limit_mb=3000")
        sanitized = "asan" in os.path.basename(self.folder)
        if sanitized:
            # As continuous integration does: brute force is slow there.
            environment["CKM_ORACLE_SCALE"] = "0.2"
        limit = 5 + int(5 * self.seconds.get(test, 60))

        def confine():
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
            if not sanitized:
                resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

        begin = time.monotonic()
        child = subprocess.Popen(command, cwd=scratch, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=confine,
                                 start_new_session=True)
        try:
            code = child.wait(timeout=8 * limit)
        except subprocess.TimeoutExpired:
            code = -1
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        os.remove(program)
        return code in (0, 77), time.monotonic() - begin


def object_code(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


class Campaign:
    def __init__(self, work, jobs, sanitize, library, near_only):
        self.place = Workplace(work, jobs)
        self.work, self.jobs, self.sanitize, self.library, self.near_only = work, jobs, sanitize, library, near_only
        self.originals = {}

    def wide(self, group):
        return [] if self.near_only else GROUPS[group][2]

    def prepare(self, groups):
        near, wide = [t for g in groups for t in GROUPS[g][1]], [t for g in groups for t in self.wide(g)]
        scripts, near, wide = ([t for t in near + wide if t.endswith(".py")],
                               *(list(dict.fromkeys(t for t in tests if not t.endswith(".py"))) for tests in (near, wide)))
        if scripts:
            library = self.library or os.path.join(self.place.tree, "plain", "libcheckmate.so")
            if not self.library:
                self.place.build("plain", ["checkmate_shared"], ["-DCMAKE_BUILD_TYPE=Release"])
            self.python = mutate_python.PythonTests(self.place.tree, library)
            with tempfile.TemporaryDirectory(dir=self.work) as scratch:
                self.python.prepare(list(dict.fromkeys(scripts)), scratch)
        if not near:
            return
        self.plain = self.place.build("plain", near + wide, ["-DCMAKE_BUILD_TYPE=Release"])
        builds = [(self.plain, near + wide)]
        if self.sanitize:
            self.asan = self.place.build("asan", near, ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1",
                                                        "-DCKM_SANITIZE=address,undefined"])
            builds.append((self.asan, near))
        for build, tests in builds:
            for test in tests:
                with tempfile.TemporaryDirectory(dir=self.work) as scratch:
                    passes, build.seconds[test] = build.run(test, None, scratch)
                if not passes:
                    raise SystemExit(f"mutate.py: {test} fails without a mutant in {build.folder}")
        for file in {f for g in groups for f in files_of(g)}:
            if file.endswith(".py"):
                continue
            with tempfile.TemporaryDirectory(dir=self.work) as scratch:
                target = os.path.join(scratch, "mutant.o")
                copy = shutil.copy(os.path.join(self.place.tree, file), scratch)
                if not self.plain.compile(file, copy, target):
                    raise SystemExit(f"mutate.py: {file} does not compile on its own")
                self.originals[file] = object_code(target)

    def try_mutant(self, mutant, group):
        """What became of it: "invalid", "same code", "survives", or the test that noticed."""
        if mutant.file.endswith(".py"):
            with tempfile.TemporaryDirectory(dir=self.work) as scratch:
                return self.python.try_mutant(mutant, GROUPS[group][1] + self.wide(group), scratch)
        with open(os.path.join(self.place.tree, mutant.file), encoding="utf-8") as f:
            source = f.read()
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            # The same name as the original's, which is in the object code.
            path = os.path.join(scratch, os.path.basename(mutant.file))
            with open(path, "w", encoding="utf-8") as f:
                f.write(source[:mutant.start] + mutant.text + source[mutant.end:])
            obj = os.path.join(scratch, "mutant.o")
            if not self.plain.compile(mutant.file, path, obj, "-O1"):
                return "invalid"
            for test in GROUPS[group][1]:
                if not self.plain.run(test, obj, scratch)[0]:
                    return test
            self.plain.compile(mutant.file, path, obj)
            if object_code(obj) == self.originals[mutant.file]:
                return "same code"
            for test in self.wide(group):
                if not self.plain.run(test, obj, scratch)[0]:
                    return test
            if self.sanitize and self.asan.compile(mutant.file, path, obj):
                for test in GROUPS[group][1]:
                    if not self.asan.run(test, obj, scratch)[0]:
                        return test + " (sanitizers)"
        return "survives"


# ---- what to try ----------------------------------------------------------------------------------------------------

def files_of(group):
    names = [name for pattern in GROUPS[group][0] for name in glob.glob(os.path.join(ROOT, pattern))]
    return sorted(os.path.relpath(name, ROOT) for name in names)


def group_of(file):
    for group in GROUPS:
        if file in files_of(group):
            return group
    return None


def select(arguments):
    """(mutant, group) for groups, files and FILE:FIRST-LAST."""
    chosen = {}
    for argument in arguments or list(GROUPS):
        match = re.fullmatch(r"(.*\.(?:c|py)):(\d+)(?:-(\d+))?", argument)
        if argument in GROUPS:
            for file in files_of(argument):
                chosen.update({m: argument for m in mutants_of(file)})
        elif match:
            first = int(match.group(2))
            last = int(match.group(3) or first)
            chosen.update({m: group_of(match.group(1)) for m in mutants_of(match.group(1), first, last)})
        else:
            group = group_of(argument)
            chosen.update({m: group for m in mutants_of(argument)})
    return list(chosen.items())


def sample(chosen, number, seed):
    """`number` of each group, one out of each of `number` stretches of equal length."""
    taken = []
    for group in dict.fromkeys(group for _, group in chosen):
        mutants, rng = [pair for pair in chosen if pair[1] == group], random.Random(seed)
        n = min(number, len(mutants)) if number > 0 else len(mutants)
        edges = [i * len(mutants) // n for i in range(n + 1)]
        taken += [mutants[rng.randrange(a, b)] for a, b in zip(edges, edges[1:])]
    return taken


def show(mutant):
    return f"{mutant.file}:{mutant.line}: {mutant.function}: {mutant.what}\n- {mutant.before}\n+ {mutant.after}\n"


def report(results):
    heads = ["killed", "equivalent", "same code", "invalid", "survives"]
    table = {}
    for mutant, fate in results:
        row = table.setdefault(mutant.file, dict.fromkeys(heads, 0))
        row[fate if fate in heads else "killed"] += 1
    print(f"\n{'file':42}" + "".join(f"{h:>12}" for h in ["mutants", *heads]))
    total = dict.fromkeys(heads, 0)
    for file, row in sorted(table.items()):
        print(f"{file:42}{sum(row.values()):12}" + "".join(f"{row[h]:12}" for h in heads))
        total = {h: total[h] + row[h] for h in heads}
    print(f"{'all':42}{sum(total.values()):12}" + "".join(f"{total[h]:12}" for h in heads))


def read_results(path):
    """By key: the last fate that such a file has."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return {tuple(r["key"]): r for r in map(json.loads, f)}


def keep(path, mutant, fate):
    if path:
        with open(path, "a", encoding="utf-8") as f:
            f.write(json.dumps({"key": mutant.key(), "line": mutant.line, "what": mutant.what, "fate": fate}) + "\n")


def score(results, entries):
    """By group: how many of the mutants that change something were noticed, and the places of the others."""
    rows = {}
    for file in {key[0] for key in results}:
        for mutant in mutants_of(file):
            if mutant.key() in results:
                fate = results[mutant.key()]["fate"]
                fate = "equivalent" if fate == "survives" and entry_for(mutant, entries) else fate
                rows.setdefault(group_of(file), []).append((mutant, fate))
    print(f"{'group':14}{'tried':>8}{'changed nothing':>18}{'noticed':>10}{'score':>9}")
    for group, fates in sorted(rows.items()):
        nothing = sum(f in ("same code", "invalid", "equivalent") for _, f in fates)
        survivors = [m for m, f in fates if f == "survives"]
        real = len(fates) - nothing
        share = f"{100 * (real - len(survivors)) / real:.1f} %" if real else "-"
        print(f"{group:14}{len(fates):8}{nothing:18}{real - len(survivors):10}{share:>9}")
    for mutant in (m for _, fates in sorted(rows.items()) for m, f in fates if f == "survives"):
        print("\n" + show(mutant), end="")


def check_entries(entries):
    """Every entry is about a mutant that exists."""
    existing = {}
    for file in {entry.file for entry in entries}:
        if not os.path.exists(os.path.join(ROOT, file)):
            raise SystemExit(f"{EQUIVALENT}: there is no {file}")
        existing[file] = list(mutants_of(file))
    stale = [e for e in entries if not any(entry_for(m, [e]) for m in existing[e.file])]
    for entry in stale:
        print(f"{EQUIVALENT}: nothing in {entry.file}, {entry.function} is like\n- {entry.before}\n+ {entry.after}")
    return 1 if stale else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"groups ({', '.join(GROUPS)}), files, FILE:FIRST-LAST; default: all")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="try N mutants a group, spread evenly")
    parser.add_argument("--seed", type=int, default=1, help="draws which ones; default 1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    parser.add_argument("--seconds", type=float, default=0, help="begin no mutant after this many seconds")
    parser.add_argument("--work", metavar="FOLDER", help="keep copy and builds there")
    parser.add_argument("--no-sanitizers", action="store_true", help="leave out the second look at survivors")
    parser.add_argument("--near", action="store_true", help="leave out the wider tests, so that more survives than need be")
    parser.add_argument("--results", metavar="FILE", help="add what became of every mutant, a line of JSON each; try no other")
    parser.add_argument("--retry", metavar="FILE", help="try what survived according to such a file, and nothing else")
    parser.add_argument("--score", action="store_true", help="print what --results FILE has by group, and try none")
    parser.add_argument("--library", metavar="FILE", help="libcheckmate.so for the tests of Python files")
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--check", action="store_true", help=f"check that every entry of {EQUIVALENT} has its mutant")
    options = parser.parse_args()
    entries = read_equivalent(os.path.join(ROOT, EQUIVALENT))
    if options.check:
        return check_entries(entries)
    known = read_results(options.results)
    if options.score:
        return score(known, entries)
    chosen = sample(select(options.what), options.sample, options.seed)
    if options.retry:
        before = read_results(options.retry)
        chosen = [(m, g) for m, g in chosen if before.get(m.key(), {}).get("fate") == "survives"]
    else:
        chosen = [(m, g) for m, g in chosen if m.key() not in known]
    homeless = {m.file for m, group in chosen if group is None}
    if homeless and not options.list:
        raise SystemExit(f"mutate.py: no group, so no test, for {', '.join(sorted(homeless))}")
    if options.list:
        print("\n".join(show(m) for m, _ in chosen))
        print(f"{len(chosen)} mutants")
        return 0

    os.nice(5)
    work = options.work or tempfile.mkdtemp(prefix="ckm_mutate_")
    os.makedirs(work, exist_ok=True)
    results = [(m, "equivalent") for m, _ in chosen if entry_for(m, entries)]
    for mutant, fate in results:
        keep(options.results, mutant, fate)
    open_ones = [(m, g) for m, g in chosen if not entry_for(m, entries)]
    try:
        campaign = Campaign(os.path.abspath(work), options.jobs, not options.no_sanitizers, options.library, options.near)
        if open_ones:
            campaign.prepare(list(dict.fromkeys(g for _, g in open_ones)))
        begin = time.monotonic()

        ends = begin + options.seconds if options.seconds > 0 else float("inf")
        signal.signal(signal.SIGTERM, signal.default_int_handler)

        def attempt(pair):
            fate = "not tried" if time.monotonic() > ends else campaign.try_mutant(*pair)
            if fate != "not tried":
                keep(options.results, pair[0], fate)
            return pair[0], fate

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            try:
                for mutant, fate in pool.map(attempt, open_ones):
                    if fate != "not tried":
                        results.append((mutant, fate))
                    if fate == "survives":
                        print(show(mutant), flush=True)
            except KeyboardInterrupt:
                ends = begin  # the report is about what was tried
        seconds = time.monotonic() - begin
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)
    report(results)
    print(f"{len(chosen)} mutants chosen, {len(results)} looked at, {seconds:.0f} s")
    return 1 if any(fate == "survives" for _, fate in results) else 0


if __name__ == "__main__":
    sys.exit(main())
