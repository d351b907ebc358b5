"""Writes the golden files: inputs, outputs, cotangents and gradients of every op and module, as PyTorch computes them in float64.
`make golden` runs it. Inputs and cotangents are numbers that a float holds exactly and are stored as such; answers are f64.
`make golden LINE=gelu` computes the lines of ops.def that have this name, and LINE="gelu silu" those of two names. It keeps the answers
of all other lines, and adds the lines that memory.txt lacks, with the numbers that test_op_faults measures.

    ops.safetensors       metadata N: "call | inputs", the column and the list of ops.def;  tensors N.x0 N.x1 ... N.y N.g N.d0 N.d1 ...
    modules.safetensors   metadata N: "kind=mha embed_dim=8 ...";  tensors N.p.NAME (parameters) N.x.NAME N.y.NAME N.g.NAME N.d.NAME
"""
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import safetensors.torch
import torch

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "torch"))
import attention_cases
import ct
import modules
import test_ops_live as live

SEED = 20
LISTS, ELEMENTS = 4, 60   # of a line of ops.def: how many lists of inputs, and their largest


def chosen(line):
    """Some lists of a line, the small ones: from its first to its last."""
    def size(variant):
        specs = ct.ffi.new("case_input[]", ct.CASE_INPUTS)
        n = ct.cases.case_inputs(line.pointer, variant, 1, specs)
        shapes = [specs[i].shape for i in range(n) if specs[i].kind != b"N"]
        return sum(torch.Size(s.dim[0 : s.ndim]).numel() for s in shapes)

    variants = range(ct.cases.case_variants(line.pointer))
    small = [v for v in variants if size(v) <= ELEMENTS] or [min(variants, key=size)]
    return [small[i * (len(small) - 1) // max(LISTS - 1, 1)] for i in range(LISTS)] if len(small) > LISTS else small


def stored(path):
    """The cases of a golden file: by the text of each, its tensors by their names without the case's number."""
    with safetensors.safe_open(path, "pt") as file:
        cases = {number: {} for number in file.metadata()}
        for name in file.keys():
            number, part = name.split(".", 1)
            cases[number][part] = file.get_tensor(name)
        return {text: cases[number] for number, text in file.metadata().items()}


def ops(context, only):
    """The cases of every line. If `only` has names, the cases of all other lines are those of the file."""
    metadata, tensors = {}, {}
    kept = stored(FOLDER / "ops.safetensors") if only else {}
    for line in ct.case_lines():
        if line.torch == b"NONE":
            continue
        for variant in chosen(line):
            key = str(len(metadata))
            metadata[key] = text = f"{line.call.decode()} | {ct.case_text(line, variant)}"
            if only and line.name.decode() not in only:
                if text not in kept:
                    sys.exit(f'ops.safetensors does not have {text}: make golden LINE="{" ".join([*only, line.name.decode()])}"')
                tensors |= {f"{key}.{part}": v for part, v in kept[text].items()}
                continue
            pointers, collects = ct.case_inputs(context, line, variant, 1, ct.DTYPES.index(torch.float32), SEED, True)
            x = [context.value(pointers[i]) for i in range(len(collects))]
            y, g, grads = live.answers(line, live.cast(x, torch.float64), collects, SEED)
            tensors |= {f"{key}.x{i}": v for i, v in enumerate(x) if v is not None}
            tensors[f"{key}.y"] = y
            if g is not None:
                tensors[f"{key}.g"] = g
                wanted = [i for i, w in enumerate(collects) if w and x[i] is not None]
                tensors |= {f"{key}.d{i}": d for i, d in zip(wanted, grads, strict=True)}
    return metadata, tensors


LAYER = dict(B=2, T=3, S=4, embed_dim=6, num_heads=2, hidden=5)
MODULES = [
    dict(kind="linear", B=2, T=3, in_features=5, out_features=4), dict(kind="linear", B=2, T=3, in_features=5, out_features=4, no_bias=1),
    dict(kind="embedding", B=2, T=5, num_embeddings=6, embedding_dim=3),
    dict(kind="layer_norm", B=2, T=3, dim=9), dict(kind="layer_norm", B=2, T=3, dim=9, eps=0.01, no_bias=1),
    dict(kind="rms_norm", B=2, T=3, dim=9), dict(kind="rms_norm", B=2, T=3, dim=9, eps=0.01), dict(kind="rms_norm", B=2, T=3, dim=9, offset=1),
    dict(kind="positions", B=2, T=5, max_length=7, embed_dim=5), dict(kind="positions", B=2, T=5, max_length=7, embed_dim=6, learned=1),
]
MODULES += [dict(kind="mlp", B=2, T=3, dim=4, hidden=7, activation=a) for a in range(len(modules.ACTIVATIONS))] + [dict(kind="mlp", B=2, T=3, dim=3, no_bias=1)]
MODULES += attention_cases.SMALL()[:40]   # the first of a covering array are those that cover the most
for first in (0, 1):
    MODULES += [LAYER | call | dict(norm_first=first) for call in (
        dict(kind="encoder_layer", activation=first), dict(kind="encoder_layer", causal=1, key_mask=1, need_weights=1, activation=2),
        dict(kind="encoder_layer", no_bias=1, activation=3, mask="bhts", mask_float=1, eps=0.001),
        dict(kind="decoder_layer", causal=1, activation=1, cross_need_weights=1, cross_per_head=1, cross_key_mask=1),
        dict(kind="decoder_layer", mask="ts", need_weights=1, no_bias=1, cross_mask="b1ts", cross_mask_float=1))]
STACK = dict(B=2, T=3, S=4, embed_dim=8, num_heads=2, hidden=6, causal=1)
for first in (0, 1):
    MODULES += [STACK | call | dict(norm_first=first) for call in (
        dict(kind="encoder", num_layers=2, final_norm=first, activation=first, key_mask=1),
        dict(kind="encoder", num_layers=1, final_norm=1, activation=2 + first, no_bias=1, mask="ts", mask_float=1),
        dict(kind="decoder", num_layers=2, final_norm=first, activation=3 * first, cross_key_mask=1),
        dict(kind="decoder", num_layers=1, final_norm=1, activation=2 - first, cross_mask="bhts", no_bias=1),
        dict(kind="transformer", num_encoder_layers=1, num_decoder_layers=1, activation=first, src_key_mask=1, cross_key_mask=1),
        dict(kind="transformer", num_encoder_layers=2, num_decoder_layers=1, activation=3 - first, src_mask="ts", key_mask=1))]


def nn():
    metadata, tensors = {}, {}
    for n, case in enumerate(MODULES):
        params, inputs = modules.draw(case, SEED, modules.make(case).named_parameters())
        outputs, cotangents, grads = modules.answer(case, params, inputs, SEED)
        metadata[str(n)] = modules.text(case)
        for letter, values in dict(p=params, x=inputs, y=outputs, g=cotangents, d=grads).items():
            tensors |= {f"{n}.{letter}.{name}": v for name, v in values.items()}
    return metadata, tensors


def write(path, metadata, tensors):
    """The same bytes every time: safetensors writes metadata in any order."""
    data = safetensors.torch.save({k: v.contiguous().clone() for k, v in tensors.items()}, metadata)
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"] = metadata
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


def memory():
    """memory.txt in the order of ops.def: without lines that are no longer there, and with the new ones as test_op_faults prints them."""
    path = FOLDER / "memory.txt"
    program = subprocess.run([ct.BUILD / "tests" / "test_op_faults"], cwd=ct.ROOT, text=True, capture_output=True,
                             env=os.environ | {"CK_RUN_CASE": "memory.txt"})
    measured = re.findall(r"tests/golden/memory\.txt: (\d+ \d+) (.*)", program.stdout)
    rows = {text: numbers for numbers, text in measured}
    rows |= {text: numbers for numbers, text in re.findall(r"(\d+ \d+) (.*)", path.read_text())}
    lines = [f"{line.call.decode()} on {line.inputs.decode()}" for line in ct.case_lines()]
    if not rows.keys() >= set(lines):
        sys.exit(f"test_op_faults does not run:\n{program.stdout}{program.stderr}")
    path.write_text("".join(f"{rows[text]} {text}\n" for text in lines))
    print(f"{path}: {len(lines)} lines")


if __name__ == "__main__":
    only = sys.argv[1:]
    unknown = set(only) - {line.name.decode() for line in ct.case_lines()}
    if unknown:
        sys.exit(f"ops.def has no line {', '.join(sorted(unknown))}")
    with ct.Context() as context:
        files = dict(ops=ops(context, only)) if only else dict(ops=ops(context, only), modules=nn())
        for name, (metadata, tensors) in files.items():
            path = FOLDER / f"{name}.safetensors"
            write(path, metadata, tensors)
            print(f"{path}: {len(metadata)} cases, {len(tensors)} tensors, {path.stat().st_size} bytes")
    if only:
        memory()
