"""The Python package: what becomes of values, errors and lifetimes between Python and C."""
import gc
import subprocess
import sys
import threading
import weakref

import numpy
import pytest

import cotangent as ct


@pytest.fixture(autouse=True)
def context():
    with ct.Context(seed=1, threads=2) as context:
        yield context


def live(context):
    gc.collect()
    return context.memory().live


# ---- arrays ----

@pytest.mark.parametrize("array, dtype", [
    (numpy.array([[1.5, -0.0, numpy.inf]], "float32"), ct.F32), (numpy.array([1e300, numpy.nan, 5e-324]), ct.F64),
    (numpy.array([2**63 - 1, -2**63, 0]), ct.I64), (numpy.array([[True], [False]]), ct.BOOL),
    (numpy.array([-128, 127], "int8"), ct.I64), (numpy.array([2**32 - 1], "uint32"), ct.I64), (numpy.array([2**63 - 1], "uint64"), ct.I64),
    (numpy.array([65504, 2**-24], "float16"), ct.F32)])
def test_an_array_comes_back_to_the_bit(array, dtype):
    x = ct.tensor(array)
    assert x.dtype == dtype and x.shape == array.shape
    assert numpy.array_equal(x.numpy(), array, equal_nan=array.dtype.kind == "f") and numpy.array_equal(numpy.signbit(x.numpy()), numpy.signbit(array))


def test_arrays_of_any_strides_order_and_byte_order():
    array = numpy.arange(60, dtype="float32").reshape(3, 4, 5)
    for other in (array.T, array[::2, ::-1, 1:4], numpy.asfortranarray(array), array.astype(">f4"), numpy.broadcast_to(array[:1], (7, 4, 5))):
        assert numpy.array_equal(ct.tensor(other).numpy(), other)
    for shape in ((), (0,), (3, 0, 2), (1,) * 8):
        array = numpy.ones(shape)
        assert ct.tensor(array).numpy().shape == shape == ct.tensor(array).shape


def test_a_tensor_is_a_copy():
    array = numpy.zeros(3, "float32")
    x = ct.tensor(array)
    array[0] = 1
    copy = x.numpy()
    copy[1] = 2
    assert x.numpy().tolist() == [0, 0, 0]


def test_numbers_of_python():
    assert ct.tensor(2.5).dtype == ct.F32 and ct.tensor([1, 2]).dtype == ct.I64 and ct.tensor([True]).dtype == ct.BOOL
    assert ct.tensor(numpy.float64(2.5)).dtype == ct.F64 and ct.tensor([1, 2], ct.F64).dtype == ct.F64
    assert ct.tensor(2**60 + 1).item() == 2**60 + 1 and ct.tensor(True).item() is True and ct.tensor(0.1, ct.F64).item() == 0.1
    with pytest.raises(OverflowError):
        ct.tensor(numpy.array([2**63], "uint64"))
    for bad in (numpy.array([1j]), numpy.array(["a"]), numpy.array([None]), numpy.longdouble(1), numpy.array(["2020"], "datetime64[s]")):
        with pytest.raises(TypeError, match="no tensor of"):
            ct.tensor(bad)
    with pytest.raises(ct.Error, match=r"item: \(2\) does not have one element"):
        ct.tensor([1, 2]).item()


def test_bfloat16_and_blocks_are_seen_as_float32():
    x = ct.tensor(numpy.linspace(-3, 3, 64, dtype="float32").reshape(2, 32))
    half = ct.tensor(x.numpy(), ct.BF16)
    assert half.dtype == ct.BF16 and half.numpy().dtype == "float32" and abs(half.numpy() - x.numpy()).max() <= 3 / 256
    with half.data() as view:
        assert view.format == "H" and numpy.array_equal((numpy.asarray(view).astype("uint32") << 16).view("float32"), half.numpy())
    assert abs(x.cast(ct.Q8_0).numpy() - x.numpy()).max() <= 3 / 127


# ---- views ----

def test_a_view_reads_and_writes_the_elements():
    x = ct.tensor(numpy.arange(6, dtype="float32").reshape(2, 3))
    with x.data() as view:
        assert view.shape == (2, 3) and view[1, 2] == 5
        view[0, 0] = 7
        numpy.asarray(view)[1] *= 2
    assert x.numpy().tolist() == [[7, 1, 2], [6, 8, 10]]
    for use in (lambda: view[0, 0], lambda: numpy.frombuffer(view), lambda: view.shape):
        with pytest.raises(ValueError, match="released"):
            use()


def test_an_array_that_outlives_its_view_is_an_error_and_keeps_the_tensor():
    x = ct.tensor(numpy.ones(1000))
    with pytest.raises(BufferError):
        with x.data() as view:
            kept = numpy.asarray(view)[10:]
    there = weakref.ref(x)
    del x, view
    gc.collect()
    ct.zeros(ct.F64, (1000,))
    assert there() is not None and kept.sum() == 990
    del kept
    gc.collect()
    assert there() is None


def test_views_of_what_has_no_elements_or_no_order():
    for shape in ((0,), (2, 0, 3), ()):
        with ct.zeros(ct.I64, shape).data() as view:
            assert view.shape == shape and view.format in "lq"
    with pytest.raises(ct.Error, match="contiguous"):
        with ct.zeros(ct.F32, (2, 3)).transpose(0, 1).data():
            pass


def test_backward_knows_that_a_view_has_written():
    x = ct.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum((), False)
    with x.data() as view:
        view[0] = 3
    with pytest.raises(ct.Error) as failed:
        y.backward()
    assert failed.value.status == ct.ERR_GRAD


# ---- functions ----

def test_every_public_function_is_there_or_says_why_not():
    from cotangent import _functions
    from cotangent._headers import FUNCTIONS
    left = 0
    for name in FUNCTIONS:
        try:
            f = getattr(ct, name[3:])
            assert f.__doc__.count(name) and repr(f)
        except AttributeError as error:
            assert name[3:] in _functions.LEFT_OUT and _functions.LEFT_OUT[name[3:]] in str(error)
            left += 1
    assert left == len(_functions.LEFT_OUT) and len(FUNCTIONS) > 300
    assert {"softmax", "F32", "Context", "reduction", "ZERO"} <= set(dir(ct))
    with pytest.raises(AttributeError, match="cotangent has no softmaxx"):
        ct.softmaxx


def test_methods_and_keywords():
    x = ct.tensor([[1.0, 3.0, 2.0]])
    for y in (ct.softmax(x, -1), ct.softmax(x, dim=-1), ct.softmax(dim=-1, x=x), x.softmax(-1)):
        assert y.numpy().sum() == pytest.approx(1)
    with pytest.raises(TypeError, match=r"softmax has no argument 'axis'; its arguments are x, dim"):
        ct.softmax(x, axis=-1)
    with pytest.raises(TypeError, match="softmax needs dim"):
        ct.softmax(x)
    with pytest.raises(TypeError, match="given twice"):
        ct.softmax(x, -1, dim=0)
    with pytest.raises(TypeError, match="3 arguments"):
        ct.softmax(x, -1, 0)
    with pytest.raises(OverflowError):
        ct.softmax(x, 2**40)
    with pytest.raises(AttributeError, match="there is no ct_softmaxx"):
        x.softmaxx(1)
    with pytest.raises(AttributeError, match="no ct_step of a struct ct_tensor"):
        x.step()


def test_options_are_keywords():
    module = ct.mha_new(embed_dim=8, num_heads=2, rope=True, rotary=dict(base=500.0), window=dict(left=3))
    assert module.kind() == "MultiheadAttention"
    with pytest.raises(TypeError, match=r"no argument 'heads'; its arguments are embed_dim, num_heads, .*window"):
        ct.mha_new(embed_dim=8, heads=2)
    with pytest.raises(TypeError, match=r"ct_rope_opts has no field 'bass'; its fields are base, dims"):
        ct.mha_new(embed_dim=8, num_heads=2, rotary=dict(bass=1))
    with pytest.raises(TypeError):
        ct.mha_new(embed_dim="8", num_heads=2)
    x = ct.randn(ct.F32, (2, 5, 8))
    out = module.mha_forward(x, None, None, causal=True, need_weights=True)
    assert out.out.shape == (2, 5, 8) and numpy.triu(out.weights.numpy()[0], 1).sum() == 0
    assert module.mha_forward(x, None, None).weights is None   # options of an earlier call are not left in the struct
    layer = ct.decoder_layer_new(embed_dim=8, num_heads=2)
    with pytest.raises(TypeError, match=r"self and cross have a field causal: write self=dict\(causal=...\)"):
        layer.decoder_layer_forward(x, x, causal=True)
    assert layer.decoder_layer_forward(x, x, self=dict(causal=True), cross={}).out.shape == (2, 5, 8)


def test_shapes_lists_and_structs():
    x = ct.arange(ct.F32, 0, 24, 1).view((2, 3, -1))
    assert x.shape == (2, 3, 4) and x.sum((0, -1), True).shape == (1, 3, 1) and x.sum((), False).shape == () and x.sum(1, False).shape == (2, 4)
    with pytest.raises(ValueError, match="9 dims"):
        ct.zeros(ct.F32, (1,) * 9)
    assert ct.cat([x, x, x], 1).shape == (2, 9, 4)
    parts = ct.split(x, 2, 1, 2)
    assert [p.shape for p in parts] == [(2, 2, 4), (2, 1, 4)]
    top = x.topk(2, -1)
    assert top.values.numpy()[1, 2].tolist() == [23, 22] and top.indices.dtype == ct.I64
    assert ct.current().memory()._fields == ("live", "peak", "pooled", "allocator_calls")
    rng = ct.rng_get()
    first = ct.randn(ct.F32, (3,)).numpy()
    ct.rng_set(rng)
    assert numpy.array_equal(first, ct.randn(ct.F32, (3,)).numpy())
    ids = numpy.zeros(2, "int64")
    ct.sample(ct.tensor([[0.0, 50.0], [50.0, 0.0]]), ids)
    assert ids.tolist() == [1, 0]
    for bad in (ids.astype("int32"), numpy.zeros((4, 2), "int64")[:, 0]):
        with pytest.raises(TypeError, match="contiguous numpy array of int64"):
            ct.sample(ct.tensor([[0.0, 50.0]]), bad)


def test_operators():
    a, b = ct.tensor([1.0, 4.0]), ct.tensor([[2.0], [8.0]])
    assert (a / b).numpy().tolist() == [[0.5, 2], [0.125, 0.5]] and (2 - a).numpy().tolist() == [1, -2] and (a / 3).numpy()[0] == numpy.float32(1) / numpy.float32(3)
    assert (numpy.ones((3, 2), "float32") @ a).numpy().tolist() == [5, 5, 5] and (-a).numpy().tolist() == [-1, -4]
    assert (numpy.ones(2, "float32") + a).numpy().tolist() == [2, 5] and (ct.tensor([2**62]) + (2**62 - 1)).item() == 2**63 - 1
    assert numpy.asarray(a).tolist() == [1, 4] and repr(a) == "tensor([1., 4.], dtype=f32)"


def test_text_and_what_room_bounds(tmp_path):
    corpus = tmp_path / "corpus ü.txt"
    corpus.write_text("the cat sat on the mat, the cat sat ä\n" * 20)
    t = ct.tokenizer_train([str(corpus)], vocab_size=270, special=["<|end|>"])
    ids, offsets = t.encode("the cat ä")
    assert t.decode(ids, False) == "the cat ä" and offsets.shape == (len(ids), 2) and offsets[-1, 1] == 10
    ids = t.encode("")[0]
    assert ids.shape == (0,) and ids.dtype == "int64" and t.decode(ids, False) == ""
    assert t.encode("a\0b")[0].size == 3 and t.token_id("<|end|>") == 0 and t.token(0) == "<|end|>" and t.token(10**9) is None
    with pytest.raises(ValueError, match="U\\+0000"):
        t.token_id("a\0")
    batch = t.encode_batch(["the", "the cat sat on"], None)
    assert batch.ids.shape == batch.mask.shape and batch.mask.numpy()[0].sum() < batch.mask.numpy()[1].sum()
    text = t.chat_text([dict(role="user", content="hello")], chat_template="chatml", add_generation_prompt=True)
    assert text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    with pytest.raises(ct.Error, match="no chat template"):
        t.chat_text([dict(role="user", content="hello")])
    with pytest.raises(ct.Error, match="line 1, column .* unexpected 'end of template'"):
        t.chat_reads("role", chat_template="{{ messages[0].role.xxxxxxxxxxx }}{% if")
    t.tokenizer_save(tmp_path / "saved.json")
    assert ct.tokenizer_open(tmp_path / "saved.json").size() == t.size()
    state = ct.ffi.new("ct_decode_state *")
    assert t.encode(b"the \xc3\xa4")[1][-1, 1] == 6
    assert "".join(t.decode_next(state, int(i)) for i in t.encode("cat ä")[0]) + t.decode_next(state, -1) == "cat ä"
    done = []
    with pytest.raises(ct.Error, match="progress"):
        ct.tokenizer_train([str(corpus)], vocab_size=260, progress=lambda part: done.append(part) or False)
    assert done


def test_files_and_iterators(tmp_path):
    a, b = (ct.mlp_new(dim=4, hidden=6) for _ in range(2))
    assert [(p.name, p.tensor.shape) for p in a.next()] == [("fc.weight", (6, 4)), ("fc.bias", (6,)), ("proj.weight", (4, 6)), ("proj.bias", (4,))]
    a.save(tmp_path / "a.safetensors", metadata=["format", "pt"])
    b.load(tmp_path / "a.safetensors")
    assert all(numpy.array_equal(p.tensor.numpy(), q.tensor.numpy()) for p, q in zip(a.next(), b.next()))
    file = ct.safetensors_open(tmp_path / "a.safetensors")
    assert {e.name: e.shape for e in file.next()}["fc.weight"] == (6, 4) and file.metadata("format") == "pt" and file.metadata("x") is None
    assert numpy.array_equal(file.read("fc.bias").numpy(), a.get("fc.bias").numpy())
    optim = ct.adamw_new(a, lr=0.1)
    ct.checkpoint_save(tmp_path / "c", module=a, optim=optim, step=12345678901)
    got = ct.checkpoint_load(tmp_path / "c", module=b, optim=ct.adamw_new(b, lr=0.1))
    assert got.step == 12345678901 and got.other_bits == "" and got.module is b
    with pytest.raises(ct.Error, match="missing") as failed:
        ct.safetensors_open(tmp_path / "missing")
    assert failed.value.status == ct.ERR_IO
    with open(tmp_path / "printed", "w") as out:
        a.print(out)
    assert "(fc): Linear" in (tmp_path / "printed").read_text()


# ---- errors ----

def test_errors_have_the_librarys_words_and_leave_nothing_pending():
    with pytest.raises(ct.Error, match=r"^matmul: inner sizes differ: \(2, 3\) @ \(4, 5\)$") as failed:
        ct.zeros(ct.F32, (2, 3)) @ ct.zeros(ct.F32, (4, 5))
    assert failed.value.status == ct.ERR_SHAPE
    assert ct.ones(ct.F32, (2,)).sum((), False).item() == 2
    with pytest.raises(ct.Error):
        ct.Context(isa="z80")
    with pytest.raises(ct.Error, match="several contexts"):
        with ct.Context():
            other = ct.ones(ct.F32, (2,))
        ct.ones(ct.F32, (2,)) + other
    with pytest.raises(ct.Error):
        ct.Context(memory_limit=10**6).zeros(ct.F32, (10**7,))


# ---- lifetimes ----

def test_tensors_end_with_their_objects(context):
    before = live(context)
    x = ct.zeros(ct.F32, (1000, 1000))
    assert live(context) >= before + 4_000_000
    y = x.transpose(0, 1)
    del x
    assert live(context) >= before + 4_000_000   # y is a view of the same memory
    del y
    assert live(context) < before + 10_000
    for _ in range(50):
        ct.backward((ct.tensor(numpy.ones(100_000), requires_grad=True) * 2).exp().sum((), False))
    assert live(context) < before + 10_000 and context.memory().peak < before + 12_000_000


def test_objects_die_in_any_order(context):
    before = live(context)
    for order in range(6):
        module = ct.mlp_new(dim=64, hidden=64)
        optim, weight = ct.adamw_new(module, lr=0.1), module.get("fc.weight")
        things = {"module": module, "optim": optim, "weight": weight}
        del module, optim, weight
        names = list(things)
        for k in range(3):
            del things[names.pop((order + k) % len(names))]
            gc.collect()
            if "weight" in things:
                assert things["weight"].numpy().shape == (64, 64)
            if "optim" in things:
                things["optim"].step() if order else things["optim"].zero_grad()
    assert live(context) < before + 20_000


def test_a_cycle_of_objects_ends_too(context):
    before = live(context)
    for _ in range(20):
        class Model:
            pass
        model = Model()
        model.module = ct.mlp_new(dim=256, hidden=256)
        model.optim, model.itself = ct.sgd_new(model.module, lr=0.1), model
        del model
    assert live(context) < before + 20_000


def test_an_optimiser_ends_before_its_module(monkeypatch):
    """Both of a cycle die together; the collector takes them in any order."""
    from cotangent import _objects
    ended = []

    class Watched:
        def __getattr__(self, name):
            if name in _objects.ENDS.values():
                ended.append(name)
            return getattr(ct.lib, name)
    module = ct.mlp_new(dim=4, hidden=4)
    optim = ct.sgd_new(module, lr=0.1)
    module.optim = optim
    del module, optim
    monkeypatch.setattr(_objects, "lib", Watched())
    gc.collect()
    ct.seed(1)
    assert ended == ["ct_optim_free", "ct_module_free"]


def test_what_was_computed_does_not_keep_what_it_was_computed_from():
    x = ct.tensor([1.0], requires_grad=True)
    there, y = weakref.ref(x), x * 2
    z = ct.topk(y, 1, 0).values
    del x, y
    gc.collect()
    assert there() is None and z.item() == 2


def test_gradients_live_as_long_as_their_objects():
    x = ct.tensor([1.0, 2.0], requires_grad=True)
    assert x.grad is None
    (x * x).sum((), False).backward()
    grad = x.grad
    x.zero_grad()
    assert x.grad is None and grad.numpy().tolist() == [2, 4]
    del x
    assert grad.numpy().tolist() == [2, 4]


def test_ownership_passes_to_a_module():
    module = ct.module_new("Own")
    w = ct.randn(ct.F32, (3, 3))
    assert module.add_param("w", w) is w and w.requires_grad()
    child = module.add_child("fc", ct.linear_new(in_features=3, out_features=3))
    del module
    gc.collect()
    assert ct.ones(ct.F32, (1,)).item() == 1   # what has died ends in this call
    assert w.numpy().shape == (3, 3) and child(ct.ones(ct.F32, (3,))).shape == (3,)   # each keeps the module
    parent = w.parents[0]
    old = parent.set_child("fc", ct.linear_new(in_features=3, out_features=3))
    assert old.owned and old.kind() == "Linear" and parent.child("fc").kind() == "Linear"


def test_scopes(context):
    before = live(context)
    with ct.scope_open_no_grad():
        x = ct.tensor(numpy.ones(1000), requires_grad=True)
        with ct.scope_open():
            y = x * 3
        z = y * 2
    assert not z.requires_grad() and z.numpy()[0] == 6 and (x * 2).requires_grad()
    del x, y, z
    assert live(context) < before + 5000
    outer = ct.scope_open()
    inner = ct.scope_open()
    with pytest.raises(ct.Error, match="opened later"):
        outer.__exit__()
    inner.__exit__()
    outer.__exit__()
    assert len(context.frames) == 1


def test_released_and_freed_by_hand():
    x, module = ct.ones(ct.F32, (2,)), ct.dropout_new(0.5)
    x.release()
    module.free()
    for use in (x.numpy, lambda: x + 1, module.kind):
        with pytest.raises(ct.Error, match="has ended"):
            use()
    assert repr(x) == "<a tensor that has ended>"


def test_contexts_end_with_the_last_object():
    with ct.Context() as context:
        x = ct.ones(ct.F32, (2,))
    there = weakref.ref(context)
    del context
    gc.collect()
    assert there() and x.numpy().tolist() == [1, 1]
    del x
    gc.collect()
    assert not there()


# ---- callbacks ----

def test_callbacks():
    x = ct.tensor([1.0, 2.0], ct.F64, requires_grad=True)
    assert ct.gradcheck(lambda inputs: (inputs[0] * inputs[0]).sum((), False), [x]).ok
    result = ct.gradcheck(lambda inputs: inputs[0].detach() * inputs[0], [x])
    assert not result.ok and result.verdict == ct.VERDICT_WRONG and "input 0" in result.diagnosis
    y = ct.recompute(lambda inputs: (inputs[0].exp() * 2).sum((), False), [x])
    y.backward()
    assert numpy.allclose(x.grad.numpy(), 2 * numpy.exp([1, 2]))
    module = ct.module_new("Twice").set_forward(lambda x: x * 2)
    assert module(ct.ones(ct.F32, (2,))).numpy().tolist() == [2, 2]
    assert ct.module_new("Same").set_forward(lambda x: x)(x).numpy().tolist() == [1, 2] and x.numpy().tolist() == [1, 2]


def test_what_a_callback_raises_comes_out():
    def fails(inputs):
        raise KeyError("mine")
    x = ct.tensor([1.0], requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        ct.recompute(fails, [x])
    with pytest.raises(ct.Error, match="inner sizes"):
        ct.recompute(lambda inputs: inputs[0] @ ct.ones(ct.F32, (2,)), [x])
    with pytest.raises(TypeError):
        ct.recompute(lambda inputs: "no tensor", [x])
    assert (x * 2).item() == 2


def test_handles_of_a_callback_end_with_it(context):
    kept = []
    def run(inputs):
        y = inputs[0] * 3
        kept.extend([inputs[0], y, inputs[0] + 1])
        return y
    x = ct.tensor([1.0], requires_grad=True)
    assert ct.recompute(run, [x]).item() == 3
    for ended in kept[:2]:
        with pytest.raises(ct.Error, match="has ended"):
            ended.numpy()
    assert kept[2].numpy().tolist() == [2]


# ---- threads ----

def test_calls_release_the_gil_and_wait_for_their_context(context):
    a = ct.randn(ct.F32, (700, 700))
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
    counter = threading.Thread(target=count)
    counter.start()
    before = counted[0]
    for _ in range(3):
        (a @ a).sum((), False)
    assert counted[0] > before
    done.set()
    counter.join()

    failures = []

    def work(k):
        try:
            with context:
                for i in range(200):
                    assert (ct.full(ct.F32, (100,), k + i) * 2).numpy()[7] == 2 * (k + i)
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures and ct.current() is context


def test_each_thread_has_a_context():
    found = []
    thread = threading.Thread(target=lambda: found.append(ct.ones(ct.F32, (2,)).context))
    thread.start()
    thread.join()
    assert found[0] is not ct.current()


def test_the_end_of_a_program_is_quiet():
    program = "import cotangent as ct\nx = ct.ones(ct.F32, (2,))\nm = ct.linear_new(in_features=2, out_features=2)\n"
    program += "o = ct.sgd_new(m, lr=1)\ncycle = [x]; cycle.append(cycle)\nn = ct.module_new('A').set_forward(lambda x: x)\nprint(x.numpy())"
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1. 1.]\n", "")
