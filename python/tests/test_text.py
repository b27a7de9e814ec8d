# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from checkmate import CheckmateError, text

TEXT = "the cat sat on the mat; the cat ate. \u00fc\n"


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "checkmate.text", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)  # fmt: skip


@pytest.fixture
def tokenizer(tmp_path: pathlib.Path) -> pathlib.Path:
    tokenizers = pytest.importorskip("tokenizers")
    made: Any = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, show_progress=False))
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_a_text_there_and_back(tokenizer: pathlib.Path, tmp_path: pathlib.Path) -> None:
    source, out = tmp_path / "text.txt", tmp_path / "tokens.npy"
    source.write_text(2 * TEXT)
    done = run(out, "--tokenizer", tokenizer, "--text", "mat", source)
    assert done.returncode == 0, done.stderr
    notes = json.loads((tmp_path / "tokens.json").read_text())
    assert (notes["format"], notes["version"], notes["bytes"]) == ("checkmate-tokens", 1, len((2 * TEXT).encode()) + 3)
    tokens = text.read_tokens(out)
    assert notes["tokens"] == len(tokens) < notes["bytes"]
    assert 256 < notes["vocabulary"] <= 280
    assert max(tokens) < notes["vocabulary"]
    back = run("--decode", out, "--tokenizer", tokenizer)
    assert (back.returncode, back.stdout) == (0, "mat" + 2 * TEXT + "\n")


def test_arrays_are_numpys(tmp_path: pathlib.Path) -> None:
    numpy = pytest.importorskip("numpy")
    text.write_tokens(tmp_path / "a.npy", [0, 5, 2**31 - 1])
    read = numpy.load(tmp_path / "a.npy")
    assert (read.dtype.str, read.tolist()) == ("<i4", [0, 5, 2**31 - 1])
    for kind in ("<u2", "<i8", "|u1"):
        numpy.save(tmp_path / "b.npy", numpy.array([1, 2, 255], kind))
        assert text.read_tokens(tmp_path / "b.npy") == [1, 2, 255]
    for wrong in (numpy.zeros(3, "f4"), numpy.zeros((3, 1), "i4")):
        numpy.save(tmp_path / "c.npy", wrong)
        with pytest.raises(CheckmateError, match="integers with one axis"):
            text.read_tokens(tmp_path / "c.npy")
    (tmp_path / "d.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-1])
    with pytest.raises(CheckmateError, match="11 bytes of tokens instead of 12"):
        text.read_tokens(tmp_path / "d.npy")


def test_what_is_missing_is_named(tmp_path: pathlib.Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "tokenizers.py").write_text("raise ImportError('not here')")
    paths = os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", "")])
    done = run(tmp_path / "t.npy", "--tokenizer", "x.json", "--text", "a", PYTHONPATH=paths)
    assert done.returncode == 1
    assert "pip install tokenizers" in done.stderr
    assert not (tmp_path / "t.npy").exists()


def test_bad_input_writes_nothing(tokenizer: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"ab\xff")
    out = tmp_path / "t.npy"
    for arguments, what in (((out, "-t", tokenizer, tmp_path / "latin.txt"), "byte 2 is not UTF-8"),
                            ((out, "-t", tmp_path / "none.json", "--text", "a"), "there is no such file"),
                            ((out, "-t", tmp_path / "latin.txt", "--text", "a"), "is no tokenizer.json"),
                            ((tmp_path / "t.bin", "-t", tokenizer, "--text", "a"), "must end in .npy")):  # fmt: skip
        done = run(*arguments)
        assert done.returncode == 1
        assert what in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert run(out, "-t", tokenizer).returncode == 2
    assert not out.exists()
    assert not (tmp_path / "t.json").exists()
