# SPDX-License-Identifier: Apache-2.0
"""The package itself: what it needs, what it says when that is missing, what it offers."""

from __future__ import annotations

import _ctypes
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from graphs import chain

import checkmate
from checkmate import CheckmateError, Schedule, _library, solve
from checkmate.errors import replace_file

SOURCE = pathlib.Path(checkmate.__file__).parent


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = os.environ | {"PYTHONPATH": str(SOURCE.parent)} | environment
    return subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=60)


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_a_missing_library_is_named() -> None:
    done = run("import checkmate", CHECKMATE_LIBRARY="/no/such/libcheckmate.so")
    assert done.returncode != 0
    assert last_line(done.stderr).startswith("ImportError: checkmate: /no/such/libcheckmate.so cannot be loaded")


def test_a_library_that_the_library_links_is_named_with_what_installs_it(tmp_path: pathlib.Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-14")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "empty.c").write_text("int ckm_nothing(void) { return 0; }\n")
    below, above = tmp_path / "libbelow.so.7", tmp_path / "libabove.so"
    for built, linked in [(below, []), (above, ["-Wl,--no-as-needed", str(below)])]:
        subprocess.run([compiler, "-shared", "-fPIC", str(tmp_path / "empty.c"), *linked, f"-Wl,-soname,{built.name}", "-o", str(built)], check=True)
    below.unlink()
    said = last_line(run("import checkmate", CHECKMATE_LIBRARY=str(above)).stderr)
    assert said.startswith(f"ImportError: checkmate: {above} cannot be loaded: libbelow.so.7: ")
    assert said.endswith("in a checkout, `sh scripts/setup.sh build` installs what it links")


def test_a_package_without_its_library_says_how_to_install_it(tmp_path: pathlib.Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "checkmate", ignore=shutil.ignore_patterns("*.so*", "__pycache__"))
    done = run("import checkmate", PYTHONPATH=str(tmp_path), CHECKMATE_LIBRARY="")
    assert last_line(done.stderr).startswith("ImportError: checkmate: libcheckmate.so is missing from the package")
    assert "pip install ./python" in done.stderr


@pytest.mark.parametrize(
    ("room", "module", "old", "needs"),
    [("torch", "torch", "2.5.1+cpu", "PyTorch 2.6"), ("tf2", "tensorflow", "2.15.1", "TensorFlow 2.16")],
)
def test_a_framework_that_is_missing_old_or_broken_is_told_apart(tmp_path: pathlib.Path, room: str, module: str, old: str, needs: str) -> None:
    needs = f"ImportError: checkmate.{room} needs {needs} or newer"
    stand_in = tmp_path / f"{module}.py"
    paths = os.pathsep.join([str(tmp_path), str(SOURCE.parent)])
    done = run(f"import sys; sys.modules['{module}'] = None; import checkmate.{room}")
    assert last_line(done.stderr).startswith(f"{needs}: pip install {module}")
    stand_in.write_text(f"__version__ = '{old}'\n")
    done = run(f"import checkmate.{room}", PYTHONPATH=paths)
    assert last_line(done.stderr).startswith(f"{needs}, and this is {old}: pip install --upgrade {module}")
    # A library of its own that does not load, or a package that it needs.
    stand_in.write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
    done = run(f"import checkmate.{room}", PYTHONPATH=paths)
    assert last_line(done.stderr) == f"{needs}, and the one that is installed cannot be imported: libcudart.so.12: cannot open shared object file"
    stand_in.write_text("import no_such_package\n")
    done = run(f"import checkmate.{room}", PYTHONPATH=paths)
    assert last_line(done.stderr) == f"{needs}, and the one that is installed cannot be imported: No module named 'no_such_package'"


def test_another_library_is_refused() -> None:
    if not hasattr(_ctypes, "__file__"):
        pytest.skip("this Python has no shared library to stand for another one")
    done = run("import checkmate", CHECKMATE_LIBRARY=_ctypes.__file__)
    assert "is of another version" in last_line(done.stderr)


def test_a_library_of_other_structures_is_refused(tmp_path: pathlib.Path) -> None:
    """A library that is this one but for the size of a structure, and says that it is of version 9.8.7."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-14")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source, other = tmp_path / "other.c", tmp_path / "libother.so"
    source.write_text(
        """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
const char *ckm_version(void) { return "9.8.7"; }
size_t ckm_struct_size(const char *name) {
    size_t (*true_size)(const char *) = (size_t (*)(const char *))dlsym(RTLD_NEXT, "ckm_struct_size");
    return strcmp(name, "ckm_step") == 0 ? 17 : true_size(name);
}
"""
    )
    real = pathlib.Path(_library.lib._name)
    command = [compiler, "-shared", "-fPIC", "-Wl,--no-as-needed", str(source), str(real), "-o", str(other), f"-Wl,-rpath,{real.parent}", "-ldl"]
    subprocess.run(command, check=True)
    folder = os.pathsep.join(filter(None, [str(real.parent), os.environ.get("LD_LIBRARY_PATH")]))
    done = run("import checkmate", CHECKMATE_LIBRARY=str(other), LD_LIBRARY_PATH=folder)
    said = last_line(done.stderr)
    assert said.startswith(f"ImportError: checkmate: {other} is of another version, 9.8.7; this package is ")
    assert f"ckm_step has 17 bytes there and {ctypes.sizeof(_library.CStep)} here" in said


def test_needs_nothing_but_python() -> None:
    """Modules outside of the standard library are refused while the package is imported and solves."""
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in sys.stdlib_module_names | {"checkmate"}:
            raise ImportError("refused: " + name)
sys.meta_path.insert(0, Refuse())
import checkmate
graph = checkmate.Graph("tiny")
x, y = graph.tensor(bytes=4), graph.tensor(bytes=8)
graph.op(cost=3, inputs=[x], outputs=[y])
graph.result(y)
print(checkmate.solve(graph, 12).require().cost)
"""
    done = run(code)
    assert done.stdout.strip() == "3", done.stderr


def test_is_typed_and_documented() -> None:
    assert (SOURCE / "py.typed").exists()
    for name in checkmate.__all__:
        assert getattr(checkmate, name).__doc__, f"{name} has no documentation"
    assert checkmate.__version__.count(".") == 2


def test_an_sdist_without_the_c_sources_is_not_made(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed")
    folder = pathlib.Path(__file__).parents[1]
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "`make sdist`" in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


def test_report_and_figures(tmp_path: pathlib.Path) -> None:
    graph = chain(6)
    schedule = solve(graph, 5, time_limit=5).require().schedule
    assert schedule is not None
    schedule.report(graph, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "b3" in page
    with pytest.raises(CheckmateError) as caught:
        schedule.figure(graph, "no such figure", tmp_path / "f.svg")
    assert caught.value.kind in ("not found", "argument")
    with pytest.raises(CheckmateError):
        schedule.report(chain(7), tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()
    if shutil.which("gnuplot") is None:
        pytest.skip("figures need gnuplot")
    schedule.figure(graph, "memory", tmp_path / "m.svg")
    assert "<svg" in (tmp_path / "m.svg").read_text()


def test_schedules_as_text() -> None:
    graph = chain(4)
    schedule = Schedule.baseline(graph)
    text = schedule.to_json()
    assert json.loads(text)["format"] == "checkmate-schedule"
    assert Schedule.parse(text).steps == schedule.steps
    with pytest.raises(CheckmateError, match="<text>"):
        Schedule.parse("{}")


def test_files_are_replaced_as_a_whole(tmp_path: pathlib.Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("target")
    replace_file(link, "new: ü\n")
    assert target.read_text(encoding="utf-8") == "new: ü\n"
    assert target.stat().st_mode & 0o777 == 0o640 and link.is_symlink()
    with pytest.raises(CheckmateError, match="cannot open for writing"):
        replace_file(tmp_path, "text")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "target"]
