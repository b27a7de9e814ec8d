# SPDX-License-Identifier: Apache-2.0
"""bench/kept.py: a measurement that was stopped goes on from its records, and a failed case is tried again."""

from __future__ import annotations

import importlib.util
import json
import pathlib
from typing import Any

import pytest

SOURCE = pathlib.Path(__file__).parents[2] / "bench" / "kept.py"
if not SOURCE.is_file():
    pytest.skip("bench/ is not next to this package", allow_module_level=True)


@pytest.fixture
def kept() -> Any:
    spec = importlib.util.spec_from_file_location("kept", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_the_records_lack_or_say_failed_is_missing(kept: Any, tmp_path: pathlib.Path) -> None:
    records, names = tmp_path / "results" / "r.jsonl", ["a", "b", "c"]
    assert kept.missing(records, names) == names
    for row in ({"case": "a", "value": 1}, {"case": "b", "failed": "killed"}):
        kept.keep(records, row, "pytest", "no-such-package")
    assert kept.missing(records, names) == ["b", "c"]
    kept.keep(records, {"case": "b", "value": 2})
    kept.keep(records, {"case": "a", "value": 3})
    assert kept.missing(records, names) == ["c"]
    assert {name: row["value"] for name, row in kept.read(records).items()} == {"a": 3, "b": 2}
    first = json.loads(records.read_text().splitlines()[0])
    assert first["on"] == kept.processor() != "" and first["commit"] == kept.commit()
    assert first["versions"] == f"pytest {pytest.__version__}"


def test_a_table_says_by_what_each_part_of_its_rows_was_made(kept: Any) -> None:
    rows = [{"commit": "1", "on": "X", "versions": "v"}, {"commit": "1", "on": "X", "versions": "v"}, {"on": "X", "versions": "v"}]
    assert kept.made(rows) == "Commits: 1 (2 rows); not kept (1 rows). Processors: X. Versions: v."


def test_a_table_goes_between_its_markers_alone(kept: Any, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- one -->\nold\n<!-- end -->\n<!-- two -->\n<!-- end -->\n")
    kept.put(page, "two", r"| \1 |")
    assert page.read_text() == "<!-- one -->\nold\n<!-- end -->\n<!-- two -->\n| \\1 |\n<!-- end -->\n"
    with pytest.raises(SystemExit, match='0 places for "three"'):
        kept.put(page, "three", "")
