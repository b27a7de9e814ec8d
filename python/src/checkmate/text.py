# SPDX-License-Identifier: Apache-2.0
"""Texts as tokens of a tokenizer, for `checkmate train --data tokens.npy`, and back.

    python -m checkmate.text tokens.npy --tokenizer tokenizer.json FILE...
    python -m checkmate.text --decode sample.npy --tokenizer tokenizer.json

The tokenizer is a tokenizer.json file of Hugging Face's `tokenizers`, which reads it. Next to tokens.npy it writes tokens.json, which says how
many tokens the tokenizer knows and how many bytes the texts have: `train` takes the vocabulary and bits per byte from it.
"""

from __future__ import annotations

import argparse
import array
import json
import os
import pathlib
import re
import sys
import tempfile
from typing import TYPE_CHECKING

from .errors import CheckmateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

_MAGIC = b"\x93NUMPY"
#: Array types by what NumPy calls them, little endian; `array` has the same sizes on every system that the library runs on.
_CODES = {"<i4": "i", "<u2": "H", "<i8": "q", "<u4": "I", "<i2": "h", "|u1": "B", "|i1": "b", "<u8": "Q"}
_HEADER = re.compile(r"\{'descr': '([<|][a-z][0-9])', 'fortran_order': False, 'shape': \((\d+),\), \}\s*")


def load(path: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer in a tokenizer.json file."""
    try:
        import tokenizers
    except ImportError:
        raise CheckmateError("the package `tokenizers` is missing: pip install tokenizers") from None
    if not pathlib.Path(path).is_file():
        raise CheckmateError(f"{path}: there is no such file; a tokenizer is a tokenizer.json of Hugging Face's `tokenizers`")
    try:
        return tokenizers.Tokenizer.from_file(os.fspath(path))
    except Exception as error:  # noqa: BLE001 - the package raises it plain
        raise CheckmateError(f"{path}: is no tokenizer.json: {error}") from None


def _replace(path: pathlib.Path, data: bytes) -> None:
    """Only a complete new file replaces an old one."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        pathlib.Path(name).chmod(0o666 & ~mask)
        pathlib.Path(name).replace(path)
    except BaseException:
        pathlib.Path(name).unlink(missing_ok=True)
        raise


def write_tokens(path: str | os.PathLike[str], tokens: Sequence[int]) -> None:
    """An array with one axis of 32-bit integers (.npy), as `checkmate train --data` and `run --prompt-tokens` read it."""
    values = array.array("i", tokens)
    if sys.byteorder == "big":
        values.byteswap()
    text = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({len(values)},), }}".encode()
    text = text.ljust(-(-(len(text) + 11) // 64) * 64 - 11) + b"\n"
    _replace(pathlib.Path(path), _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text + values.tobytes())


def read_tokens(path: str | os.PathLike[str]) -> list[int]:
    """The integers of an array with one axis (.npy)."""
    data = pathlib.Path(path).read_bytes()
    wide = 4 if data[6:7] > b"\x01" else 2
    length = int.from_bytes(data[8 : 8 + wide], "little")
    header = _HEADER.fullmatch(data[8 + wide : 8 + wide + length].decode("latin-1")) if data.startswith(_MAGIC) else None
    if header is None or header[1] not in _CODES:
        raise CheckmateError(f"{path}: must hold tokens, one after the other: an array of integers with one axis (.npy)")
    values = array.array(_CODES[header[1]])
    body = data[8 + wide + length :]
    if len(body) != int(header[2]) * values.itemsize:
        raise CheckmateError(f"{path}: has {len(body)} bytes of tokens instead of {int(header[2]) * values.itemsize}")
    values.frombytes(body)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def encode(out: str | os.PathLike[str], tokenizer: str | os.PathLike[str], texts: Sequence[str]) -> tuple[int, int]:
    """Writes the tokens of the texts, one after the other, to `out` (.npy), and what `train` needs to know about them next to it (.json).
    Gives how many tokens and how many bytes there are."""
    path = pathlib.Path(out)
    if path.suffix != ".npy":
        raise CheckmateError(f"{path}: must end in .npy")
    made_by = load(tokenizer)
    tokens: list[int] = []
    n_bytes = 0
    for text in texts:
        tokens += made_by.encode(text, add_special_tokens=False).ids
        n_bytes += len(text.encode())
    write_tokens(path, tokens)
    notes = {"format": "checkmate-tokens", "version": 1, "vocabulary": made_by.get_vocab_size(), "tokens": len(tokens),
             "bytes": n_bytes, "tokenizer": os.fspath(tokenizer)}  # fmt: skip
    _replace(path.with_suffix(".json"), (json.dumps(notes) + "\n").encode())
    return len(tokens), n_bytes


def decode(tokens: Sequence[int], tokenizer: str | os.PathLike[str]) -> str:
    """The text that tokens stand for."""
    return load(tokenizer).decode(list(tokens), skip_special_tokens=False)


def _read_text(name: str) -> str:
    data = sys.stdin.buffer.read() if name == "-" else pathlib.Path(name).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CheckmateError(f"{name}: byte {error.start} is not UTF-8, which a tokenizer reads") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m checkmate.text", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Make tokens of texts for 'checkmate train --data tokens.npy', or a text of tokens.",
        epilog="examples:\n"
        "  python -m checkmate.text tokens.npy --tokenizer tokenizer.json book.txt\n"
        "  checkmate train GPT2 --data tokens.npy --validate 5% --sequence-length 128 --width 128 --depth 4 --heads 4 \\\n"
        "      --batch 16 --optimizer adamw --budget 60% --save gpt.safetensors\n"
        "  python -m checkmate.text prompt.npy --tokenizer tokenizer.json --text 'Once upon'\n"
        "  checkmate run GPT2 --weights gpt.safetensors --generate 100 --prompt-tokens prompt.npy -o sample.npy\n"
        "  python -m checkmate.text --decode sample.npy --tokenizer tokenizer.json",
    )  # fmt: skip
    parser.add_argument("files", nargs="*", metavar="FILE",
                        help="OUT.npy, then the texts (UTF-8; '-': standard input), or with --decode the tokens")  # fmt: skip
    parser.add_argument("-t", "--tokenizer", required=True, metavar="FILE", help="a tokenizer.json of Hugging Face's `tokenizers`")
    parser.add_argument("--text", action="append", default=[], metavar="TEXT", help="a text itself, before those in files")
    parser.add_argument("-d", "--decode", action="store_true", help="print the text that the tokens in FILE (.npy) stand for")
    return parser


def _run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if arguments.decode:
        if len(arguments.files) != 1 or arguments.text:
            parser.error("--decode takes one FILE of tokens (.npy)")
        sys.stdout.write(decode(read_tokens(arguments.files[0]), arguments.tokenizer) + "\n")
        return
    if not arguments.files or (len(arguments.files) == 1 and not arguments.text):
        parser.error("give OUT.npy and the texts: files, or --text TEXT")
    out, *names = arguments.files
    n_tokens, n_bytes = encode(out, arguments.tokenizer, [*arguments.text, *map(_read_text, names)])
    per_token = f", {n_bytes / n_tokens:.2f} bytes each" if n_tokens else ""
    print(f"{out}: {n_tokens:,} tokens of {n_bytes:,} bytes{per_token}", file=sys.stderr)


def main() -> None:
    """Runs the program with this process's arguments."""
    parser = _parser()
    try:
        _run(parser.parse_intermixed_args(), parser)
    except (CheckmateError, OSError) as error:
        sys.exit(f"checkmate.text: {error}")


if __name__ == "__main__":
    main()
