# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import signal
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

# TensorFlow runs oneDNN's kernels by itself only on some processors. Its allocator counts with them alone, and a test
# means the same everywhere. Tests of what is said without them set it themselves.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", default="1/1", metavar="I/N", help="of the tests marked slow, run one in N, from the I-th on (default: all)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes many seconds; continuous integration runs some of them each time, in turn")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first, step = (int(n) for n in config.getoption("--slow").split("/"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out = {*slow} - {*slow[first - 1 :: step]}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or leaves plans in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))


@pytest.fixture(autouse=True)
def _ctrl_c_interrupts() -> Iterator[None]:
    """Also where the tests were started in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
