# SPDX-License-Identifier: Apache-2.0
"""The structures in _library.py are those of the headers, as a C compiler lays them out."""

import ctypes
import pathlib
import shutil
import subprocess

import pytest

from checkmate import _library

HEADERS = pathlib.Path(__file__).parents[2] / "include"


def test_structures(tmp_path: pathlib.Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-14")
    if compiler is None or not HEADERS.is_dir():
        pytest.skip("needs a C compiler and the headers of the checkout")
    lines = ["#include <stdio.h>", "#include <stddef.h>"]
    lines += [f"#include <checkmate/{h}>" for h in sorted({header for header, _ in _library.STRUCTURES.values()})]
    lines.append("int main(void) {")
    expected = []
    for name, (_, structure) in _library.STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        expected.append(f"{name} {ctypes.sizeof(structure)}")
        for field in structure._fields_:
            lines.append(f'printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));')
            expected.append(f"{name}.{field[0]} {getattr(structure, field[0]).offset}")
    lines.append("return 0; }")
    source, program = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text("\n".join(lines))
    subprocess.run([compiler, "-I", str(HEADERS), str(source), "-o", str(program)], check=True)
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert printed.splitlines() == expected
