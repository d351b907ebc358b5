"""GGUF files, both ways with the gguf package: every type's values to the bit, keys of every kind, and files whose bytes are equal."""
import random

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

import ct

probe = ct.Library(ct.BUILD / "tests" / "libgguf.so")

READ = [Type.F32, Type.F16, Type.BF16, Type.F64, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K]
WRITTEN = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0]


class Probe:
    def __init__(self, path, threads=1):
        self.pointer = probe.gguf_probe_new(str(path).encode(), threads)

    def __getattr__(self, name):
        return lambda *args: getattr(probe, "gguf_probe_" + name)(self.pointer, *args)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        probe.gguf_probe_free(self.pointer)


def random_raw(rng, kind, rows, cols):
    """Any bytes, so any blocks, but for exponents that would make an infinity or NaN beside a code: their payloads are not compared."""
    per, size = gguf.GGML_QUANT_SIZES[kind]
    return rng.integers(0, 256, (rows, cols // per * size), dtype=np.uint8)


def same_bits(a, b):
    bits = {4: np.uint32, 8: np.uint64}[a.itemsize]
    return np.array_equal(np.where(np.isnan(a), 0, a.view(bits)), np.where(np.isnan(b), 0, b.view(bits))) and np.array_equal(np.isnan(a), np.isnan(b))


def random_text(rng):
    return "".join(rng.choice(["a", "\u00e9", "\U0001f600", " ", "\n", "\"", "\x1b", "0", "\u2581"]) for _ in range(rng.randrange(12)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_files_of_the_package(tmp_path, seed):
    rng, rand = np.random.default_rng(seed), random.Random(seed)
    path = tmp_path / "theirs.gguf"
    writer = gguf.GGUFWriter(path, "toy")
    integers = {"u8": rand.randrange(1 << 8), "i8": -rand.randrange(1 << 7), "u16": rand.randrange(1 << 16), "i16": -rand.randrange(1 << 15),
                "u32": rand.randrange(1 << 32), "i32": -rand.randrange(1 << 31), "u64": rand.randrange(1 << 63), "i64": -rand.randrange(1 << 63)}
    for kind, add in {"u8": writer.add_uint8, "i8": writer.add_int8, "u16": writer.add_uint16, "i16": writer.add_int16, "u32": writer.add_uint32,
                      "i32": writer.add_int32, "u64": writer.add_uint64, "i64": writer.add_int64}.items():
        add(kind, integers[kind])
    writer.add_float32("f32", 1.1)
    writer.add_float64("f64", 1.1)
    writer.add_bool("b", True)
    texts, numbers = [random_text(rand) for _ in range(rand.randrange(1, 3000))], [rand.randrange(-9, 9) for _ in range(rand.randrange(1, 50))]
    text = random_text(rand) + "."
    writer.add_string("text", text)
    writer.add_array("texts", texts)
    writer.add_array("numbers", numbers)
    writer.add_array("reals", [x / 8 for x in numbers])
    writer.add_array("flags", [x > 0 for x in numbers])
    if seed % 3 == 1:
        writer.add_custom_alignment(64)
    wants = {}
    for kind in READ:
        rows, cols = rand.randrange(1, 40), 256 * rand.randrange(1, 4)
        raw = random_raw(rng, kind, rows, cols)
        if kind == Type.F64:
            values = raw.view(np.float64)
            writer.add_tensor(kind.name, values)
        else:
            writer.add_tensor(kind.name, raw, raw_dtype=kind)
            values = gguf.quants.dequantize(raw, kind) if kind not in (Type.F32, Type.F16) else raw.view({Type.F32: np.float32, Type.F16: np.float16}[kind]).astype(np.float32)
        wants[kind.name] = values.reshape(rows, cols)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with Probe(path) as ours:
        assert ours.open(), ours.error()
        for kind, x in integers.items():
            assert ours.count(kind.encode(), b"i") == 1 and ours.integer(kind.encode(), b"i", 0) == x
        assert ours.real(b"f32", 0) == np.float32(1.1) and ours.real(b"f64", 0) == 1.1 and ours.integer(b"b", b"b", 0) == 1
        assert ours.text(b"text", 0).decode() == text
        assert ours.count(b"texts", b"s") == len(texts)
        for i in rand.sample(range(len(texts)), min(20, len(texts))):
            assert ours.text(b"texts", i).decode() == texts[i]
        assert [ours.integer(b"numbers", b"i", i) for i in range(len(numbers))] == numbers
        assert [ours.real(b"reals", i) for i in range(len(numbers))] == [x / 8 for x in numbers]
        assert [ours.integer(b"flags", b"b", i) for i in range(len(numbers))] == [x > 0 for x in numbers]
        assert ours.tensors() == len(wants)
        for i, (name, want) in enumerate(wants.items()):
            dims = np.zeros(8, np.int64)
            assert ours.name(i).decode() == name == ours.dtype(i).decode() and ours.shape(i, dims) == 2 and tuple(dims[:2]) == want.shape
            wide = want.dtype == np.float64
            got = np.empty(want.shape, want.dtype)
            assert ours.values(i, got, wide), ours.error()
            assert same_bits(got, want), name
            if not wide:
                assert ours.values(i, deep := np.empty(want.shape, np.float64), True) and same_bits(deep, want.astype(np.float64))


def random_values(rng, shape):
    x = rng.standard_normal(shape).astype(np.float32)
    kind = rng.integers(6)
    if kind == 1:
        x = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)   # values of bf16
    if kind == 2:
        x = np.round(x * 2) / 2
    if kind == 3:
        x = x * np.float32(10) ** rng.integers(-6, 5)
    if kind == 4:
        x = np.zeros_like(x)
    return x.astype(np.float32)


@pytest.mark.parametrize("seed", range(8))
def test_files_that_we_write(tmp_path, seed):
    rng, rand = np.random.default_rng(seed), random.Random(seed)
    writer = gguf.GGUFWriter(tmp_path / "theirs.gguf", "toy")
    texts, numbers = [random_text(rand) for _ in range(rand.randrange(300))], [rand.randrange(-9, 9) for _ in range(rand.randrange(9))]
    # a string of length 0 is left out by the package, too
    with Probe(tmp_path / "ours.gguf", threads=1 + seed % 3) as ours:
        ours.begin()
        ours.put_text(b"general.architecture", b"toy")
        for put in rand.sample(range(8), 8):
            if put == 0:
                writer.add_uint32("u", 4000000000), ours.put_u32(b"u", 4000000000)
            if put == 1:
                writer.add_int32("i", -7), ours.put_i32(b"i", -7)
            if put == 2:
                writer.add_float32("f", 1e-5), ours.put_f32(b"f", 1e-5)
            if put == 3:
                writer.add_bool("b", seed % 2 > 0), ours.put_flag(b"b", seed % 2 > 0)
            if put == 4:
                writer.add_string("t", "caf\u00e9\n"), ours.put_text(b"t", "caf\u00e9\n".encode())
            if put == 5:
                writer.add_array("ts", texts), ours.put_texts(b"ts", texts, len(texts))
            if put == 6:
                writer.add_array("is", numbers), ours.put_i32s(b"is", np.array(numbers, np.int32), len(numbers))
            if put == 7:
                writer.add_array("fs", [x / 8 for x in numbers]), ours.put_f32s(b"fs", np.array(numbers, np.float32) / np.float32(8), len(numbers))
        for i in range(rand.randrange(12)):
            kind = rand.choice(WRITTEN)
            shape = [rand.randrange(1, 50) for _ in range(rand.randrange(3))] + [32 * rand.randrange(1, 30)]
            x = random_values(rng, shape)
            name = f"blk.{i}.{kind.name}"
            data = x if kind == Type.F32 else x.astype(np.float16) if kind == Type.F16 else gguf.quants.quantize(x, kind)
            writer.add_tensor(name, data, raw_dtype=kind)
            assert ours.put_tensor(name.encode(), x, np.array(shape, np.int64), len(shape), kind.name.encode()), ours.error()
        assert ours.write(), ours.error()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert (tmp_path / "ours.gguf").read_bytes() == (tmp_path / "theirs.gguf").read_bytes()
    if (tmp_path / "ours.gguf").stat().st_size > 100:
        gguf.GGUFReader(tmp_path / "ours.gguf")
