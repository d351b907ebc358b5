"""Files, both ways with the safetensors package: every dtype, halves, and sets of shards."""
import json

import pytest
import safetensors.torch
import torch

import ct
import modules
from ct import lib

FLOATS = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}   # ct_file_float
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64]


def random_floats(*shape):
    """Of all magnitudes, with what is special."""
    x = torch.randn(shape, dtype=torch.float64) * 10.0 ** torch.randint(-12, 12, shape)
    flat = x.view(-1)
    special = [float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 65504.0, 65519.0, 65520.0, 6e-8, 2.98e-8, 3.4e38]
    for i, value in enumerate(special[: flat.numel()]):
        flat[i] = value
    return x


def save_tensors(context, path, tensors, **opts):
    named = [ct.Named(name, context.tensor(t)) for name, t in tensors.items()]
    context.check(lib.ct_tensors_save(context.pointer, str(path).encode(), named, len(named), ct.SaveOpts(**opts)))


def read_all(context, path):
    file = context.check(lib.ct_safetensors_open(context.pointer, str(path).encode()))
    entry, out, dtypes = ct.new("ct_safetensors_entry"), {}, {}
    while lib.ct_safetensors_next(file, entry):
        name = ct.ffi.string(entry.name).decode()
        out[name] = context.value(context.check(lib.ct_safetensors_read(file, entry.name)))
        dtypes[name] = ct.ffi.string(entry.dtype).decode()
    lib.ct_safetensors_close(file)
    return out, dtypes


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(9), b.nan_to_num(9))


@pytest.mark.parametrize("stored", FLOATS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_floats_that_we_write(context, tmp_path, stored, dtype):
    tensors = {"a": random_floats(33, 7).to(dtype), "b/\u00e9": random_floats(5).to(dtype), "i": torch.arange(-3, 4), "none": torch.zeros(0, 3, dtype=dtype),
               "bool": torch.tensor([True, False])}
    save_tensors(context, tmp_path / "ours", tensors, floats=FLOATS[stored])
    theirs = safetensors.torch.load_file(tmp_path / "ours")
    assert theirs.keys() == tensors.keys()
    for name, t in tensors.items():
        want = t.to(stored) if t.is_floating_point() else t
        # f64 is rounded once; torch may round to f32 first
        if dtype == torch.float64 and stored != torch.float32 and t.is_floating_point():
            assert theirs[name].dtype == stored and theirs[name].shape == t.shape
            error = lambda x: (x.double() - t).abs().nan_to_num(0, 0)
            assert (error(theirs[name]) <= error(want)).all()
        elif t.is_floating_point():
            assert same(theirs[name], want)
        else:
            assert torch.equal(theirs[name], want)


@pytest.mark.parametrize("stored", [*FLOATS, torch.float64, *INTEGERS, torch.bool], ids=str)
def test_dtypes_that_they_write(context, tmp_path, stored):
    if stored.is_floating_point:
        t = random_floats(13, 5).to(stored)
        want = t if stored == torch.float64 else t.float()
    elif stored == torch.bool:
        t = want = torch.rand(7, 3) < 0.5
    else:
        info = torch.iinfo(stored)
        want = torch.randint(info.min, info.max, (5, 7))
        want[0, :2] = torch.tensor([info.min, info.max])
        t = want.to(stored)
    safetensors.torch.save_file({"t": t, "scalar": t.flatten()[0].clone(), "none": t[:0].clone()}, tmp_path / "theirs")
    ours, _ = read_all(context, tmp_path / "theirs")
    assert same(ours["t"].double(), want.double()) and ours["t"].dtype == want.dtype
    assert torch.equal(ours["t"], want) or stored.is_floating_point
    assert ours["scalar"].shape == () and ours["none"].shape == (0, *t.shape[1:])


def test_dtypes_that_have_no_place(context, tmp_path):
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        safetensors.torch.save_file({"t": torch.ones(4).to(dtype)}, tmp_path / "theirs")
        with pytest.raises(ct.Error, match="tensor .t. is F8_"):
            read_all(context, tmp_path / "theirs")


def test_a_set_that_we_write(context, tmp_path):
    tensors = {f"layer.{i}": random_floats(3, i).float() for i in range(9)}
    save_tensors(context, tmp_path / "set", tensors, shard_bytes=150)
    index = json.loads((tmp_path / "set" / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": sum(4 * t.numel() for t in tensors.values())}
    assert index["weight_map"].keys() == tensors.keys()
    files = sorted(set(index["weight_map"].values()))
    assert files == [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))] and len(files) > 2
    for file in files:
        shard = safetensors.torch.load_file(tmp_path / "set" / file)
        assert {name for name, where in index["weight_map"].items() if where == file} == shard.keys()
        assert sum(4 * t.numel() for t in shard.values()) <= 150
        assert all(same(shard[name], tensors[name]) for name in shard)


@pytest.mark.parametrize("stored", FLOATS, ids=str)
def test_a_set_that_they_write(context, tmp_path, stored):
    theirs = modules.make(dict(kind="linear", in_features=5, out_features=3))
    state = {name: t.to(stored) for name, t in theirs.state_dict().items()}
    weight_map = {}
    for i, (name, t) in enumerate(state.items()):
        weight_map[name] = f"model-{i + 1:05}-of-00002.safetensors"
        safetensors.torch.save_file({name: t}, tmp_path / weight_map[name], {"format": "pt"})
    text = json.dumps({"metadata": {"total_size": 1.5e9}, "weight_map": weight_map}, indent=2, sort_keys=True)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    module = context.check(lib.ct_linear_new(context.pointer, ct.LinearOpts(in_features=5, out_features=3)))
    context.check(lib.ct_load(module, str(tmp_path).encode(), ct.LoadOpts()))
    for name, t in state.items():
        assert same(context.value(lib.ct_module_get(module, name.encode())), t.float())
    _, dtypes = read_all(context, tmp_path)
    assert set(dtypes.values()) == {{torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}[stored]}
