# SPDX-License-Identifier: Apache-2.0
"""Models that log and warn are planned whole, with the results of eager mode."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", minversion="2.6")

from steps import FAST, Model, difference, trace  # noqa: E402

import checkmate.torch as ct  # noqa: E402

logger = logging.getLogger(__name__)
adapter = logging.LoggerAdapter(logger, {})


@functools.lru_cache(None)
def _warning_once(self: logging.Logger, *args: Any, **kwargs: Any) -> None:
    self.warning(*args, **kwargs)


class OwnLogger(logging.Logger):
    def debug_twice(self, text: str) -> None:
        self.debug(text)
        self.debug(text)


own = OwnLogger("own")


def _enabled(x: Any) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s", x)


class Sort:
    """Not a constant, and not a string."""


CALLS: dict[str, Callable[[Any], Any]] = {
    "warn": lambda x: warnings.warn("odd"),  # noqa: B028
    "warn a category": lambda x: warnings.warn(f"odd {x.shape}", UserWarning, stacklevel=2),
    "warning": lambda x: logger.warning("odd %s", x.dtype),
    "a tensor": lambda x: logger.info("odd %s", x),
    "an object": lambda x: logger.debug("odd", extra={"sort": Sort()}),
    "module": lambda x: logging.info("odd"),
    "log": lambda x: logger.log(logging.INFO, "odd"),
    "enabled": _enabled,
    "warning_once": lambda x: logger.warning_once("odd"),  # type: ignore[attr-defined]
    "subclass": lambda x: own.debug_twice("odd"),
    "adapter": lambda x: adapter.warning("odd"),
}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As transformers does it."""
    torch._dynamo.reset()
    monkeypatch.setattr(logging.Logger, "warning_once", _warning_once, raising=False)


def _logging_model(name: str) -> Any:
    def forward(model: Any, x: Any) -> Any:
        x = model.first(x).relu()
        CALLS[name](x)
        return model.second(x).square().mean()

    return Model(forward, first=torch.nn.Linear(8, 8), second=torch.nn.Linear(8, 8))


def _settings() -> dict[str, Any]:
    config = torch._dynamo.config
    names = ("optimize_ddp", "ignore_logging_functions", "ignore_logger_methods", "reorderable_logging_functions")
    return {name: getattr(config, name) for name in names if hasattr(config, name)}


@pytest.mark.parametrize("name", CALLS)
def test_logging_ends_no_graph(name: str) -> None:
    model, x = _logging_model(name), torch.randn(4, 8)
    before = _settings()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = trace(model, model, (x,))
    compiled = ct.compile(model, "1GiB", **FAST)
    assert difference(trace(model, compiled, (x,)), expected) == ""
    assert len(ct.plans(compiled)) == 1
    assert _settings() == before


def test_logging_makes_no_parts() -> None:
    model, x = _logging_model("warning"), torch.randn(4, 8)
    compiled = ct.compile(model, "1GiB", graph_breaks="split", **FAST)
    compiled(x)
    assert len(ct.plans(compiled)) == 1


def test_explain_traces_models_that_log() -> None:
    frontier = ct.explain(_logging_model("warning_once"), (torch.randn(4, 8),), budgets=1, show=None, **FAST)
    assert len(frontier.graph.ops) > 5


def test_functions_that_the_user_ignores_stay_ignored() -> None:
    told: list[Any] = []

    def tell(x: Any) -> None:
        told.append(x.sum().item())

    def forward(model: Any, x: Any) -> Any:
        tell(x)
        logger.warning("odd")
        return model.layer(x).sum()

    if not hasattr(torch._dynamo.config, "ignore_logging_functions"):
        pytest.skip("this PyTorch ignores methods of loggers only")
    with torch._dynamo.config.patch(ignore_logging_functions={tell}):
        ct.compile(Model(forward, layer=torch.nn.Linear(8, 8)), "1GiB", **FAST)(torch.randn(4, 8))
    assert told == []


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gpt2_of_transformers_as_it_is(checkpointing: bool) -> None:
    """It warns once of a loss that it does not know, and of its cache where it checkpoints."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    if checkpointing:
        gpt.gradient_checkpointing_enable()
    model = Model(lambda m, tokens: m.gpt(input_ids=tokens, labels=tokens).loss, gpt=gpt)
    tokens = torch.randint(0, 64, (4, 16))
    expected = trace(model, model, (tokens,), back=lambda loss: loss.backward())
    compiled = ct.compile(model, "100%", **FAST)
    assert difference(trace(model, compiled, (tokens,), back=lambda loss: loss.backward()), expected) == ""
    assert len(ct.plans(compiled)) == 1


def test_measuring_says_nothing_where_the_profiler_was_used_before(capfd: pytest.CaptureFixture[str]) -> None:
    with torch.profiler.profile():
        torch.ones(3).sum()
    capfd.readouterr()
    compiled = ct.compile(torch.nn.Sequential(torch.nn.Linear(8, 9), torch.nn.Tanh()), "100%", time_limit=1, cache=False)
    compiled(torch.randn(4, 8)).sum().backward()
    assert capfd.readouterr().err == ""
