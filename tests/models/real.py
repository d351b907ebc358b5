"""What the tests of real models share: a model and its tokenizer, here and in transformers."""
import numpy
import torch

import ct
from ct import lib


def show(line):
    """A line of figures under the dots of pytest, which runs with -s."""
    print(f"\n  {line}", end="", flush=True)


def worst(a, b):
    return (a.double() - b.double()).abs().max().item()


def open_lm(context, folder, **opts):
    return context.check(lib.ct_lm_open(context.pointer, str(folder).encode(), ct.LmOpts(**opts)))


def open_tokenizer(context, folder):
    return context.check(lib.ct_tokenizer_open(context.pointer, str(folder).encode()))


def encode(tokenizer, text):
    raw = text.encode()
    n = lib.ct_encode(tokenizer, raw, len(raw), ct.EncodeOpts(), None, None, 0)
    ids = numpy.zeros(n, numpy.int64)
    assert lib.ct_encode(tokenizer, raw, len(raw), ct.EncodeOpts(), ids, None, n) == n
    return ids.tolist()


def encode_batch(context, tokenizer, texts):
    batch = lib.ct_encode_batch(tokenizer, list(texts), None, len(texts), ct.BatchOpts())
    context.check()
    return batch


def chat_call(messages, opened):
    return [ct.Message(m["role"], m["content"]) for m in messages], len(messages), \
        ct.ChatOpts(add_generation_prompt=opened)


def encode_chat(context, tokenizer, messages, opened=True):
    """(the text of a chat, its ids)."""
    out, ids = ct.room(1 << 14), numpy.zeros(1 << 12, numpy.int64)
    size = lib.ct_chat_text(tokenizer, *chat_call(messages, opened), out, len(out))
    n = lib.ct_chat_encode(tokenizer, *chat_call(messages, opened), ids, None, len(ids))
    assert size >= 0 and n >= 0
    return ct.ffi.buffer(out)[:size].decode(), ids[:n].tolist()


def decode(tokenizer, ids):
    ids = numpy.array(ids, numpy.int64)
    out = ct.room(1 << 14)
    n = lib.ct_decode(tokenizer, ids, len(ids), False, out, len(out))
    return ct.ffi.buffer(out)[:n].decode()


def forward(context, lm, ids, **call):
    """The result as a tensor of torch; nothing stays in memory."""
    scope = lib.ct_scope_open_no_grad(context.pointer)
    ids = context.tensor(ids) if isinstance(ids, torch.Tensor) else ids
    out = context.value(context.check(lib.ct_lm_forward(lm, ids, ct.LmCall(**call))))
    lib.ct_scope_close(scope)
    return out


def generate(context, lm, rows, max_new):
    """Greedy ids behind each row of a batch of unequal prompts."""
    flat = numpy.array([id for row in rows for id in row], numpy.int64)
    lengths = numpy.array([len(row) for row in rows], numpy.int64)
    batch = lib.ct_batch_of(context.pointer, flat, None, lengths, len(rows), ct.BatchOpts())
    generator = context.check(lib.ct_generate_new(lm, batch, ct.GenerateOpts(max_new=max_new)))
    out, ids = [[] for _ in rows], numpy.zeros(len(rows), numpy.int64)
    while lib.ct_generate_next(generator, ids):
        for row, id in zip(out, ids.tolist()):
            row += [id] if id >= 0 else []
    context.check()
    lib.ct_generate_free(generator)
    return out


def loads_whole(kind, folder):
    """The model that transformers loads from a folder; no key is missing and none is unexpected."""
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    return model.eval()


def same_bits(model, other):
    state = other.state_dict()
    assert state.keys() == model.state_dict().keys()
    return all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
