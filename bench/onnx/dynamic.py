# SPDX-License-Identifier: Apache-2.0
"""Small BERT, GPT-2 and Llama of transformers, exported with symbolic batch and length, at another size than the exporter saw.

Usage: dynamic.py PROGRAM

Predictions are compared with PyTorch's and ONNX Runtime's; the loss and all gradients of one step with PyTorch's. Exit status 1
where anything differs, or where anything is refused.
"""
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
import transformers
from exported import CLOSE, distance, read_safetensors, session
from torch.export import Dim

warnings.filterwarnings("ignore")
BATCH, LENGTH, WORDS, CLASSES = 3, 9, 100, 5


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask=None):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def bert(attention):
    config = transformers.BertConfig(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=64, max_position_embeddings=64, num_labels=CLASSES,
                                     attn_implementation=attention)
    return transformers.BertForSequenceClassification(config)


def gpt2(attention):
    config = transformers.GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=2, n_positions=64,
                                     attn_implementation=attention)
    return transformers.GPT2LMHeadModel(config)


def llama(attention):
    config = transformers.LlamaConfig(vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                      attn_implementation=attention)
    return transformers.LlamaForCausalLM(config)


def run(program, *arguments):
    done = subprocess.run([program, *arguments, "-j", "1", "--costs", "flops"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[:300])


def check(program, folder, model, inputs, labels):
    """One line on what came out, and whether it is right."""
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    path = at("m.onnx")
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=64)}
    example = tuple(torch.zeros(4, 12, dtype=torch.long) if i == 0 else torch.ones(4, 12, dtype=torch.long)
                    for i in range(len(inputs)))
    torch.onnx.export(model, example, path, input_names=list(inputs), dynamic_shapes=tuple(sizes for _ in example), dynamo=True,
                      optimize=False, verbose=False, external_data=False)
    os.mkdir(at("data"))
    feeds = []
    for name, value in inputs.items():
        file = os.path.join(at("data"), f"{name}.npy" if len(inputs) > 1 else "x.npy")
        numpy.save(file, value.numpy())
        feeds += ["--input", f"{name}={file}"]
    numpy.save(os.path.join(at("data"), "y.npy"), labels.numpy())
    run(program, "run", path, *feeds, "-o", at("out.npy"))
    got = numpy.load(at("out.npy"))
    by_torch = distance(got, model(*inputs.values()).detach().numpy())
    by_runtime = distance(got, session(path).run(None, {k: v.numpy() for k, v in inputs.items()})[0])
    run(program, "train", path, "--data", at("data"), "--batch", str(BATCH), "--input-shape", str(LENGTH), "--steps", "1",
        "--lr", "1", "--momentum", "0", "--keep-order", "--budget", "256MB", "--log", at("log"), "--export", at("w.safetensors"))
    with open(at("log"), encoding="utf-8") as file:
        loss = json.loads(file.readline())["loss"]
    logits = model(*inputs.values())
    wanted = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-1)
    wanted.backward()
    after = read_safetensors(at("w.safetensors"))
    tied = {id(p) for name, p in model.named_parameters(remove_duplicate=False) if name in after}
    missing = [name for name, p in model.named_parameters() if id(p) not in tied]
    # What one subtracts loses some 1e-8: no relative error of gradients that are hardly larger.
    worst = max(abs(p.detach().numpy() - after[name] - p.grad.numpy()).max() / max(abs(p.grad.numpy()).max(), 1e-4)
                for name, p in model.named_parameters(remove_duplicate=False) if name in after and p.grad is not None)
    extra = len(after) - len({id(p) for name, p in model.named_parameters(remove_duplicate=False) if name in after})
    right = max(by_torch, by_runtime) < CLOSE and abs(loss - wanted.item()) < 1e-5 and worst < 1e-3 and not missing and extra == 0
    return (f"predictions off by {by_torch:.1e} (PyTorch), {by_runtime:.1e} (ONNX Runtime); loss {loss:.6f} ({wanted.item():.6f}); "
            f"{len(after)} gradients off by {worst:.1e}, {len(missing)} missing, {extra} too many"), right


def main():
    wrong = 0
    for make in (bert, gpt2, llama):
        for attention in ("eager", "sdpa"):
            for masked in (False, True):
                torch.manual_seed(1)
                model = Logits(make(attention)).eval()
                ids = torch.randint(0, WORDS, (BATCH, LENGTH))
                inputs = {"input_ids": ids}
                labels = torch.arange(BATCH) if make is bert else torch.randint(0, WORDS, ids.shape)
                if masked:  # padded behind; -1 is no label
                    inputs["attention_mask"] = torch.arange(LENGTH) < torch.tensor([[9], [6], [4]])
                    inputs["attention_mask"] = inputs["attention_mask"].long()
                    labels = labels if make is bert else torch.where(inputs["attention_mask"] > 0, labels, -1)
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        text, right = check(sys.argv[1], folder, model, inputs, labels)
                    except RuntimeError as error:
                        text, right = f"refused: {error}", False
                wrong += not right
                name = f"{make.__name__}, {attention}{', masked' if masked else ''}"
                print(f"{name}: {text}{'' if right else '  WRONG'}", flush=True)
    print(f"wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
