# SPDX-License-Identifier: Apache-2.0
"""bench/gpu runs: two small networks on the CPU, one budget each. Its help and its complaints come first, and need no PyTorch."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).parents[2] / "bench"
if not BENCH.is_dir():
    pytest.skip("bench/ is not next to this package", allow_module_level=True)


def without_torch(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """run.sh, where an import of PyTorch is seen."""
    (folder / "torch.py").write_text("raise SystemExit('PyTorch was imported')\n")
    environment = os.environ | {"CKM_TORCH_PYTHON": sys.executable, "PYTHONPATH": str(folder)}
    return subprocess.run(["sh", str(BENCH / "gpu" / "run.sh"), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_help_names_every_option_and_needs_no_torch(tmp_path: pathlib.Path) -> None:
    done = without_torch(tmp_path, "--minutes", "3", "--help")
    assert done.returncode == 0 and done.stderr == ""
    options = [
        "--wheel",
        "--tree",
        "--minutes",
        "--case",
        "--parts",
        "--output",
        "--device",
        "--small",
        "--scale",
        "--seconds",
        "--settings",
        "--rounds",
    ]
    for text in [*options, "--no-inductor", "CKM_TORCH_PYTHON"]:
        assert text in done.stdout


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--minuts", "3"], "unrecognized arguments: --minuts"),
        (["--minutes", "0"], "--minutes: 0 is not a number above 0"),
        (["--scale", "nan"], "--scale: nan is not a number above 0"),
        (["--output", "page.md"], "'page.md' does not end in .json"),
        (["--case", "mixer", "--parts", "methods"], "nothing to measure"),
        (["--output", "{file}/gpu.json"], "cannot be written (File exists); --output FILE.json"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(tmp_path: pathlib.Path, arguments: list[str], complaint: str) -> None:
    (tmp_path / "file").touch()
    done = without_torch(tmp_path, *(text.replace("{file}", str(tmp_path / "file")) for text in arguments))
    assert done.returncode == 2 and done.stdout == ""
    assert complaint in done.stderr and "Traceback" not in done.stderr and "PyTorch was imported" not in done.stderr


def test_a_python_that_is_not_there_is_named_and_no_other_is_taken(tmp_path: pathlib.Path) -> None:
    command = ["sh", str(BENCH / "gpu" / "run.sh"), "--device", "cpu", "--output", str(tmp_path / "gpu.json")]
    done = subprocess.run(command, env=os.environ | {"CKM_TORCH_PYTHON": "/nope/python"}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 77 and done.stdout == ""
    assert done.stderr.startswith("bench/gpu/run.sh: skipped: CKM_TORCH_PYTHON=/nope/python does not exist")


@pytest.mark.slow
def test_two_networks_hold_a_budget_and_the_page_says_that_there_was_no_gpu(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")
    path = os.pathsep.join([str(BENCH / "gpu"), str(BENCH / "torch"), *sys.path])
    options = ["--device", "cpu", "--small", "--parts", "budgets", "--settings", "50", "--seconds", "1", "--rounds", "1", "--minutes", "4"]
    options += ["--case", "gpt2", "--case", "mixer"]
    command = [sys.executable, str(BENCH / "gpu" / "measure.py"), *options, "--output", str(tmp_path / "gpu.json")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "gpu.json").read_text())
    cases = record["cases"]
    assert [case["network"] for case in cases] == ["gpt2", "mixer"]
    for case in cases:
        eager, ours = case["rows"]
        assert eager["bitwise"] and ours["bitwise"] and ours["within"]
        assert ours["allocated"] <= ours["budget"] < eager["allocated"]
    text = (tmp_path / "gpu.md").read_text()
    assert "No GPU: CPU, small models; CUDA graphs and reserved bytes not measured" in text
    assert "2 of 2 budgets held; 2 of 2 bit for bit" in text
    assert f"`bench/gpu/measure.py {' '.join(options)} --output gpu.json`" in text
    for said in (f"checkmate {record['checkmate']['version']}", record["date"], record["machine"]["processor"]):
        assert said in text


def test_the_peak_of_a_step_on_a_gpu_is_the_allocator_s(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")
    monkeypatch.setattr(sys, "path", [str(BENCH / "gpu"), str(BENCH / "torch"), *sys.path])
    process = pytest.importorskip("process", reason="what the measurements need is not installed")
    told: list[str] = []
    counted = {"now": 1000, "peak": 9_000_000, "reserved": 9_000_000}
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: told.append("empty"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: told.append("wait"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: counted["now"])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _device: counted.update(peak=counted["now"], reserved=2048))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _device: counted["peak"])
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda _device: counted["reserved"])
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda _device: {"requested_bytes.all.peak": counted["peak"] - 12})

    class Gpu(process.Bench):
        def __init__(self) -> None:
            self.gpu, self.device = True, torch.device("cuda")

        def clear(self) -> None:
            told.append("clear")

        def held(self) -> int:
            return 600

        def step(self, run: object) -> None:
            told.append("step")
            counted.update(peak=5000, reserved=8192)

    assert Gpu().peaks(None) == {"allocated": 5000, "reserved": 8192, "requested": 4988, "libraries": 400}
    assert told == ["clear", "empty", "wait", "step", "wait"]


def test_the_page_names_what_there_was_no_time_for() -> None:
    late = {"error": "left out: no time"}
    record = {
        "command": "bench/gpu/run.sh", "device": "cpu", "small": True, "tests": "not run", "parts": ["budgets", "methods", "graphs"],
        "machine": {"torch": "2", "python": "3", "system": "S", "processor": "P", "cores": 2, "threads": 2},
        "cases": [
            {"part": "budgets", "network": "gpt2", "title": "GPT", "rows": [{"setting": "70", **late}]},
            {"part": "methods", "network": "gpt2", "title": "GPT", "rows": [late]},
            {"part": "methods", "network": "vit", "title": "ViT", "rows": [{"method": "budget", "setting": "0.4", **late}]},
            {"part": "graphs", "network": "gpt2", "title": "GPT", "rows": [late]},
        ],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(BENCH / "gpu" / "page.py"), "/dev/stdin"], input=json.dumps(record), capture_output=True, text=True, check=True
    )
    budgets, methods, graphs = done.stdout.split("\n## ")[1:]
    assert "| GPT | 70 % | left out: no time |" in budgets and "Not measured in this way: ViT." in budgets
    assert "### GPT\n\nLeft out: no time." in methods and "No time for: activation memory budget 0.4." in methods
    assert "| GPT |  | left out: no time |" in graphs and "Not measured in this way: ViT." in graphs


def test_the_page_of_a_gpu_has_what_was_reserved_beside_what_should_be() -> None:
    eager = {"setting": "eager", "bitwise": True, "allocated": 90_000_000, "reserved": 120_000_000, "libraries": 8_519_680, "seconds": 0.01}
    ours = {"setting": "50", "budget": 60_000_000, "planned": 59_000_000, "planned_reserved": 71_000_000, "allocated": 59_000_000,
            "libraries": 8_519_680, "reserved": 73_000_000, "within": True, "bitwise": True, "overhead": 0.1,
            "relative": 1.12, "plan_seconds": 3.0, "first_seconds": 4.0}  # fmt: skip
    graph = {"method": "ours, CUDA graph", "setting": "half", "budget": 60_000_000, "allocated": 59_000_000, "reserved": 73_000_000, "within": True,
             "seconds": 0.008, "relative": 0.8}  # fmt: skip
    record = {
        "command": "bench/gpu/run.sh", "device": "cuda", "small": False, "tests": "passed (9 passed)", "parts": ["budgets", "graphs"],
        "machine": {"torch": "2", "python": "3", "system": "S", "processor": "P", "cores": 2,
                    "gpu": "G", "memory": 80_000_000_000, "cuda": "13", "cudnn": 9, "allocator": "expandable_segments:True"},
        "cases": [
            {"part": "budgets", "network": "gpt2", "title": "GPT", "rows": [eager, ours]},
            {"part": "graphs", "network": "gpt2", "title": "GPT", "rows": [graph]},
        ],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(BENCH / "gpu" / "page.py"), "/dev/stdin"], input=json.dumps(record), capture_output=True, text=True, check=True
    )
    head, budgets, graphs = done.stdout.split("\n## ")
    assert head.startswith("# checkmate.torch on a GPU\n") and 'G, 80.0 GB, CUDA 13, cuDNN 9, allocator settings "expandable_segments:True"' in head
    assert "No GPU" not in done.stdout
    assert "| GPT | eager mode |  |  | 90.0 | 8.520 | 120.0 |" in budgets and "1 of 1 budgets held; 1 of 1 bit for bit" in budgets
    assert "|  | 50 % | 60.0 | 59.0 | 59.0 | 8.520 | 73.0 | 71.0 | yes | yes | 10.0 % | 12.0 % |" in budgets
    assert "| GPT | ours, CUDA graph, half | 60.0 | 59.0 | 73.0 | yes | 8.0 | 0.800 |" in graphs
