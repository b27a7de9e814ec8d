# SPDX-License-Identifier: Apache-2.0
"""Writes files with many entries: large_files.py KIND N FILE.

Kinds:
  onnx-chain        N Relu, one after the other
  onnx-weights      N Add, each with its own parameter, an initializer with its values in the file
  onnx-external     the same, the values in FILE.data
  onnx-constants    N/2 Constant nodes and as many Add that read them
  onnx-wide         N/2 Relu of the one input, added up by N/2 Add
  onnx-outputs      N Relu of the one input, each an output of the model
  onnx-sum          N Relu of the one input, added up by one Sum
  onnx-concat       N Relu of the one input, joined by one Concat
  safetensors       N tensors of one float each
"""

import json
import struct
import sys


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, payload: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def text(field: int, value: str) -> bytes:
    return block(field, value.encode())


def node(op: str, inputs: list[str], output: str, attribute: bytes = b"") -> bytes:
    parts = [text(1, name) for name in inputs] + [text(2, output), text(3, output + "_node"), text(4, op)]
    return block(1, b"".join(parts) + attribute)


def value_info(field: int, name: str) -> bytes:
    shape = block(1, number(1, 1)) + block(1, number(1, 4))
    return block(field, text(1, name) + block(2, block(1, number(1, 1) + block(2, shape))))


def tensor(name: str, values: bytes = b"", external: tuple[str, int] | None = None) -> bytes:
    body = number(1, 4) + number(2, 1) + text(8, name)
    if external is not None:
        for key, value in (("location", external[0]), ("offset", str(external[1])), ("length", "16")):
            body += block(13, text(1, key) + text(2, value))
        return body + number(14, 1)
    return body + block(9, values)


ONNX_KINDS = ("chain", "weights", "external", "constants", "wide", "outputs", "sum", "concat")
FOUR = struct.pack("<4f", 1, 2, 3, 4)


def onnx(kind: str, n: int, path: str) -> None:
    # The first operator has a parameter, so that there is something to train.
    parts = [value_info(11, "x"), block(5, tensor("scale", FOUR)), node("Mul", ["x", "scale"], "scaled")]
    outputs = []
    last = "scaled"
    if kind == "chain":
        for i in range(n):
            parts.append(node("Relu", [last], f"v{i}"))
            last = f"v{i}"
    elif kind in ("weights", "external"):
        data = path.rsplit("/", 1)[-1] + ".data"
        for i in range(n):
            where = (data, 16 * i) if kind == "external" else None
            parts.append(block(5, tensor(f"w{i}", FOUR, where)))
            parts.append(node("Add", [last, f"w{i}"], f"v{i}"))
            last = f"v{i}"
        if kind == "external":
            with open(path + ".data", "wb") as file:
                file.write(FOUR * n)
    elif kind == "constants":
        for i in range(n // 2):
            value = block(5, text(1, "value") + block(5, tensor("", FOUR)) + number(20, 4))
            parts.append(node("Constant", [], f"c{i}", value))
            parts.append(node("Add", [last, f"c{i}"], f"v{i}"))
            last = f"v{i}"
    elif kind == "wide":
        parts += [node("Relu", ["scaled"], f"r{i}") for i in range(n // 2)]
        for i in range(n // 2):
            parts.append(node("Add", [last, f"r{i}"], f"v{i}"))
            last = f"v{i}"
    elif kind == "sum":
        parts += [node("Relu", ["scaled"], f"r{i}") for i in range(n - 1)]
        parts.append(node("Sum", [f"r{i}" for i in range(n - 1)], "v"))
        last = "v"
    elif kind == "concat":
        parts += [node("Relu", ["scaled"], f"r{i}") for i in range(n - 1)]
        axis = block(5, text(1, "axis") + number(3, 1) + number(20, 2))
        parts.append(node("Concat", [f"r{i}" for i in range(n - 1)], "v", axis))
        last = "v"
    elif kind == "outputs":
        for i in range(n):
            parts.append(node("Relu", ["scaled"], f"v{i}"))
            outputs.append(f"v{i}")
    parts += [value_info(12, name) for name in outputs or [last]]
    graph = b"".join(parts)
    with open(path, "wb") as file:
        file.write(number(1, 8) + block(7, text(2, f"{kind}-{n}") + graph) + block(8, number(2, 17)))


def safetensors(n: int, path: str) -> None:
    entries = {f"t{i}": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i in range(n)}
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(4 * n))


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    kind, n, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if kind == "safetensors":
        safetensors(n, path)
    elif kind.startswith("onnx-") and kind.removeprefix("onnx-") in ONNX_KINDS:
        onnx(kind.removeprefix("onnx-"), n, path)
    else:
        sys.exit(f"large_files.py: unknown kind {kind}")


if __name__ == "__main__":
    main()
