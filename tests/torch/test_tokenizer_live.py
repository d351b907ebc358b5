"""Ids, ranges and decoded text against the tokenizers package, on random texts. TOKENIZER_STRINGS=1000000 takes more of them than the
default, TOKENIZER_SEED another seed, and TOKENIZER_FILE=tokenizer.json a tokenizer of one's own."""
import codecs
import json
import os
import random
import unicodedata

import numpy
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import tokenizers_of
import unigrams_of
import ct
from ct import BatchOpts, EncodeOpts, ffi, lib
from texts import Texts

STRINGS = int(os.environ.get("TOKENIZER_STRINGS", 20000))
SEED = int(os.environ.get("TOKENIZER_SEED", 1))
BATCH = 1000
KINDS = tokenizers_of.KINDS + ([] if "TOKENIZER_FILE" in os.environ else unigrams_of.KINDS)
ill_formed = []


def note_ill_formed(error):
    ill_formed.append((error.start, error.end))
    return "\ufffd", error.end


codecs.register_error("cotangent-note", note_ill_formed)


def text_of(raw):
    """The text as Python decodes it, and for each offset in bytes the number of characters before it."""
    ill_formed.clear()
    text = raw.decode("utf-8", "cotangent-note")
    begins = (numpy.frombuffer(raw, numpy.uint8) & 0xC0) != 0x80
    for begin, end in ill_formed:
        begins[begin:end] = False
        begins[begin] = True
    return text, numpy.concatenate([[0], numpy.cumsum(begins)])


class Ours:
    """A tokenizer of the library, by the functions of its header."""

    def __init__(self, context, path):
        self.pointer = context.check(lib.ct_tokenizer_open(context.pointer, str(path).encode()))
        self.room = lib.ct_token_room(self.pointer)
        self.one = ct.room(self.room)
        self.ids, self.offsets, self.text = numpy.zeros(1 << 16, numpy.int64), numpy.zeros(1 << 17, numpy.int64), ct.room(1 << 18)

    def encode(self, raw, **opts):
        n = lib.ct_encode(self.pointer, raw, len(raw), EncodeOpts(**opts), self.ids, self.offsets, len(self.ids))
        assert 0 <= n <= len(self.ids), n
        return self.ids[:n].copy(), self.offsets[: 2 * n].reshape(n, 2).copy()

    def decode(self, ids, keep_special):
        n = lib.ct_decode(self.pointer, ids, len(ids), keep_special, self.text, len(self.text))
        assert 0 <= n < len(self.text) and self.text[n] == b"\0"
        return ffi.buffer(self.text)[:n]

    def stream(self, ids, keep_special):
        state, pieces = ct.new("ct_decode_state", keep_special=keep_special), []
        for id in [*ids.tolist(), -1]:
            n = lib.ct_decode_next(self.pointer, state, id, self.one, self.room)
            assert 0 <= n < self.room
            pieces.append(ffi.buffer(self.one)[:n])
            pieces[-1].decode()   # whole characters
        return b"".join(pieces)


def has_ill_formed_run(tokens):
    """Whether a run of byte tokens is ill-formed, of which a stream may have written the beginning."""
    run = b""
    for token in [*tokens, ""]:
        if token is not None and len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            run += bytes([int(token[3:5], 16)])
            continue
        if run != run.decode("utf-8", "ignore").encode():
            return True
        run = b""
    return False


def compare(ours, theirs, raw, text, chars, encoding):
    ids, offsets = ours.encode(raw)
    assert ids.tolist() == encoding.ids
    assert [tuple(x) for x in chars[offsets].tolist()] == encoding.offsets
    for keep in False, True:
        want = theirs.decode(encoding.ids, skip_special_tokens=not keep).encode()
        assert ours.decode(ids, keep) == want
        if not has_ill_formed_run(encoding.tokens):
            assert ours.stream(ids, keep) == want


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def pair(request, context, tmp_path):
    theirs = request.param()
    theirs.save(str(tmp_path / "tokenizer.json"))
    return Ours(context, tmp_path / "tokenizer.json"), theirs


def words_of(tokenizer):
    return [token.content for token in tokenizer.get_added_tokens_decoder().values()] + ["Ġthe", "##s", "▁a", "<0x41>", "<mask"]


def test_random_texts(pair, request):
    ours, theirs = pair
    texts, differ = Texts(SEED, words_of(theirs)), []
    for done in range(0, STRINGS // len(KINDS), BATCH):
        raws = [texts.text() for _ in range(min(BATCH, STRINGS // len(KINDS) - done))]
        decoded = [text_of(raw) for raw in raws]
        for raw, (text, chars), encoding in zip(raws, decoded, theirs.encode_batch([text for text, _ in decoded])):
            try:
                compare(ours, theirs, raw, text, chars, encoding)
            except AssertionError as error:
                differ.append((raw, str(error)))
    shown = "\n".join(f"{raw!r}\n{error[:600]}" for raw, error in sorted(differ, key=lambda x: len(x[0]))[:3])
    assert not differ, f"{len(differ)} of {STRINGS // len(KINDS)} differ, such as\n{shown}"


def test_special_tokens_and_plain_text(pair):
    ours, theirs = pair
    texts = Texts(SEED + 1, words_of(theirs))
    for raw in (texts.text() for _ in range(300)):
        text, chars = text_of(raw)
        assert ours.encode(raw, no_special=True)[0].tolist() == theirs.encode(text, add_special_tokens=False).ids
    bare = type(theirs).from_str(theirs.to_str())
    special = [t.content for t in theirs.get_added_tokens_decoder().values() if t.special]
    bare.encode_special_tokens = True
    for token in special[:3]:
        raw = f"a {token} b".encode()
        assert ours.encode(raw, plain=True)[0].tolist() == bare.encode(raw.decode()).ids


def test_random_ids(pair):
    """Ids in any order, among them some that no token has."""
    ours, theirs = pair
    draws = numpy.random.default_rng(SEED)
    size = lib.ct_tokenizer_size(ours.pointer)
    assert size == max(theirs.get_vocab(True).values()) + 1
    low = [id for token, id in theirs.get_vocab(True).items() if token.startswith("<") or len(token) == 1]
    for n in range(400):
        ids = draws.choice(low, n % 20) if n % 2 else draws.integers(0, size, n % 20)
        ids = ids.astype(numpy.int64)
        for keep in False, True:
            want = theirs.decode(ids.tolist(), skip_special_tokens=not keep).encode()
            assert ours.decode(ids, keep) == want, ids
            if not has_ill_formed_run([theirs.id_to_token(int(id)) for id in ids]):
                assert ours.stream(ids, keep) == want, ids
    assert ours.decode(numpy.array([size, -5, 1 << 40]), True) == b""


def test_tokens_and_ids(pair):
    ours, theirs = pair
    for token, id in theirs.get_vocab(True).items():
        if "\0" not in token:
            assert lib.ct_token_id(ours.pointer, token.encode()) == theirs.token_to_id(token)
        assert lib.ct_token(ours.pointer, id) == token.split("\0")[0].encode()


def test_saved_with_new_tokens(pair, context, tmp_path):
    """The file of a tokenizer with tokens that were added since has the same ids in the package."""
    ours, theirs = pair
    new = ["<new>", "wor", "the"]
    ids = [context.check(lib.ct_token_add(ours.pointer, token.encode(), None)) for token in new]
    context.check(lib.ct_tokenizer_save(ours.pointer, str(tmp_path / "saved.json").encode()))
    again = type(theirs).from_file(str(tmp_path / "saved.json"))
    assert [again.token_to_id(token) for token in new] == ids
    texts = Texts(SEED + 2, words_of(again))
    for raw in (texts.text() for _ in range(300)):
        text, chars = text_of(raw)
        compare(ours, again, raw, text, chars, again.encode(text))


LETTERS = ["a", "b", "A", "é", "e\u0301", " ", "  ", "\n", "\u00a0", "_", "<", "中", "\u0301"]


@pytest.mark.parametrize("block", range(4))
def test_random_added_tokens(context, tmp_path, block):
    """Added tokens with random flags that overlap, follow each other, and stand in words and in white space."""
    draw = random.Random(100 * SEED + block)
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    text_of_some = lambda most: "".join(draw.choice(LETTERS) for _ in range(draw.randrange(1, most)))
    for _ in range(60):
        file = json.loads(Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])).to_str())
        trims = {"type": "ByteLevel", "add_prefix_space": draw.random() < 0.5, "trim_offsets": draw.random() < 0.7, "use_regex": True}
        file |= {"pre_tokenizer": trims, "post_processor": trims, "decoder": trims}
        file["normalizer"] = draw.choice([None, {"type": "Lowercase"}, {"type": "NFC"}, {"type": "StripAccents"}])
        # of contents that a normalizer makes equal the package takes one by chance, and finds an empty one everywhere
        contents = {unicodedata.normalize("NFD", c).replace("\u0301", "").lower(): c for c in (text_of_some(5) for _ in range(draw.randrange(1, 6)))}
        contents = [content for bare, content in contents.items() if bare] or ["a"]
        file["added_tokens"] = [{"id": 256 + i, "content": content} | {flag: draw.random() < 0.4 for flag in flags}
                                for i, content in enumerate(contents)]
        (tmp_path / "tokenizer.json").write_text(json.dumps(file))
        ours, theirs = Ours(context, tmp_path / "tokenizer.json"), Tokenizer.from_str(json.dumps(file))
        for _ in range(25):
            raw = "".join(draw.choice(contents + LETTERS) for _ in range(draw.randrange(12))).encode()
            text, chars = text_of(raw)
            try:
                encoding = theirs.encode(text)
            except BaseException as error:   # the package panics where a match begins inside the white space of the one before
                assert "slice" in str(error) or "range" in str(error).lower() or "bad split" in str(error), error
                ours.encode(raw)
                continue
            ids, offsets = ours.encode(raw)
            assert ids.tolist() == encoding.ids, (file["added_tokens"], text)
            assert [tuple(x) for x in chars[offsets].tolist()] == encoding.offsets, (file["added_tokens"], trims, text)
        lib.ct_tokenizer_close(ours.pointer)


def random_decoder(draw):
    replace = lambda: {"type": "Replace", "pattern": draw.choice([{"String": "▁"}, {"String": "ab"}, {"Regex": "a+|é"}, {"Regex": "[b ]*"}, {"String": ""}]),
                       "content": draw.choice([" ", "", "xyz", "<0x41>"])}
    strip = lambda: {"type": "Strip", "content": draw.choice(" a▁"), "start": draw.randrange(3), "stop": draw.randrange(3)}
    piece = lambda: {"type": "WordPiece", "prefix": draw.choice(["##", "", "a"]), "cleanup": draw.random() < 0.5}
    space = lambda: {"type": "Metaspace", "replacement": draw.choice("▁a"), "prepend_scheme": draw.choice(["always", "first", "never"])}
    level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    if draw.random() < 0.1:
        return draw.choice([None, {"type": "BPEDecoder", "suffix": draw.choice(["</w>", "a", ""])}, {"type": "Sequence", "decoders": []}])
    stages = [draw.choice([replace, replace, piece, space])() for _ in range(draw.randrange(3))]
    end = draw.choice([[], [level], [{"type": "ByteFallback"}], [{"type": "ByteFallback"}, {"type": "Fuse"}], [{"type": "Fuse"}]])
    end += [strip()] if end and end[-1]["type"] in ("Fuse", "ByteLevel") and draw.random() < 0.6 else []
    return {"type": "Sequence", "decoders": stages + end}


@pytest.mark.parametrize("block", range(4))
def test_random_decoders(context, tmp_path, block):
    draw = random.Random(100 * SEED + block)
    tokens = ["a", "b", "ab", "##ab", "▁", "▁a", "▁▁b▁", " ", "  a ", "é", "</w>", "a</w>", "b</w>a", "Ġ", "Ã", "©", "âĤ", "¬", "ð", "x ' y", " .", "n't", " do not",
              "<0x41>", "<0xC3>", "<0xA9>", "<0xE2>", "<0x+f>", "<0xg0>", "<0x", "\ufffd", "中", "aaéa"]
    for _ in range(150):
        file = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                "added_tokens": [dict(id=0, content="a", single_word=False, lstrip=False, rstrip=False, normalized=False, special=draw.random() < 0.5)],
                "decoder": random_decoder(draw), "model": {"type": "WordLevel", "unk_token": "a", "vocab": {t: i for i, t in enumerate(tokens)}}}
        (tmp_path / "tokenizer.json").write_text(json.dumps(file))
        ours, theirs = Ours(context, tmp_path / "tokenizer.json"), Tokenizer.from_str(json.dumps(file))
        ours.room = max(ours.room, 64)
        for _ in range(15):
            ids = numpy.array([draw.randrange(len(tokens) + 1) for _ in range(draw.randrange(9))], numpy.int64)
            for keep in False, True:
                try:
                    want = theirs.decode(ids.tolist(), skip_special_tokens=not keep).encode()
                except BaseException:   # Strip panics on a text that is shorter than what it removes
                    assert "Strip" in json.dumps(file["decoder"])
                    ours.decode(ids, keep)
                    continue
                shown = file["decoder"], [tokens[i] for i in ids if i < len(tokens)], keep
                assert ours.decode(ids, keep) == want, shown
                fallback = "ByteFallback" in json.dumps(file["decoder"])   # Replace may make more byte tokens
                streamed = ours.stream(ids, keep)
                assert streamed == want or fallback and b"\xef\xbf\xbd" in want, shown
        lib.ct_tokenizer_close(ours.pointer)


def test_folder_for_transformers(context, tmp_path):
    """AutoTokenizer loads a saved folder, with the roles."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoTokenizer
    tokenizers_of.smollm().save(str(tmp_path / "tokenizer.json"))
    ours = Ours(context, tmp_path / "tokenizer.json")
    end = context.check(lib.ct_token_add(ours.pointer, b"<|im_end|>", b"eos_token"))
    pad = context.check(lib.ct_token_add(ours.pointer, b"<pad>", b"pad_token"))
    context.check(lib.ct_tokenizer_save(ours.pointer, str(tmp_path / "saved").encode()))
    theirs = AutoTokenizer.from_pretrained(str(tmp_path / "saved"))
    assert (theirs.eos_token_id, theirs.pad_token_id) == (end, pad)
    raw = "The function<|im_end|> returns<pad> 12".encode()
    ids, _ = ours.encode(raw)
    assert theirs(raw.decode())["input_ids"] == ids.tolist() and pad in ids
    assert theirs.decode(ids.tolist(), skip_special_tokens=True).encode() == ours.decode(ids, False)
    again = Ours(context, tmp_path / "saved")
    assert lib.ct_token_role(again.pointer, b"pad_token") == pad and lib.ct_token_role(again.pointer, b"bos_token") == -1
    # what transformers writes, with its roles and a template, comes back
    theirs.chat_template = "{{ messages[0]['content'] }}"
    theirs.save_pretrained(str(tmp_path / "theirs"))
    third = Ours(context, tmp_path / "theirs")
    assert lib.ct_token_role(third.pointer, b"eos_token") == end
    context.check(lib.ct_tokenizer_save(third.pointer, str(tmp_path / "fourth").encode()))
    fourth = AutoTokenizer.from_pretrained(str(tmp_path / "fourth"))
    assert fourth.chat_template == theirs.chat_template and fourth.eos_token_id == end


@pytest.mark.parametrize("template", [None, "$A $B:3 <end>", "<end> $B:2 <end> $A"])
@pytest.mark.parametrize("kind", [tokenizers_of.gpt2, tokenizers_of.roberta, tokenizers_of.llama3, tokenizers_of.bert], ids=lambda kind: kind.__name__)
def test_batches_of_pairs(context, tmp_path, kind, template):
    """Padding, truncation, types and masks of texts and of pairs, by the post-processor and by other templates."""
    draw, theirs = random.Random(SEED), kind()
    if template:
        theirs.add_special_tokens(["<end>"])
        theirs.post_processor = processors.TemplateProcessing(single="<end> $A:1", pair=template, special_tokens=[("<end>", theirs.token_to_id("<end>"))])
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours, texts = Ours(context, tmp_path / "tokenizer.json"), Texts(SEED, words_of(theirs))
    for _ in range(200):
        n, most, left, bare, pairs = draw.choice([1, 3]), draw.choice([0, 0, 5, 8, 20]), draw.random() < 0.5, draw.random() < 0.3, draw.random() < 0.7
        rows = [(texts.text().replace(b"\0", b""), texts.text().replace(b"\0", b"")) for _ in range(n)]
        firsts, seconds = zip(*rows)
        theirs.no_truncation()
        theirs.enable_padding(direction="left" if left else "right", pad_id=7, pad_type_id=0)
        if most:
            theirs.enable_truncation(most)
        shown = [(a.decode(errors="replace"), b.decode(errors="replace")) if pairs else a.decode(errors="replace") for a, b in rows]
        want = theirs.encode_batch(shown, add_special_tokens=not bare)
        batch = lib.ct_encode_batch(ours.pointer, firsts, seconds if pairs else None, n,
                                    BatchOpts(max_length=most, pad_left=left, pad_id=7, encode=EncodeOpts(no_special=bare)))
        context.check()
        assert context.value(batch.ids).tolist() == [row.ids for row in want], (shown, most, bare)
        assert context.value(batch.types).tolist() == [row.type_ids for row in want], (shown, most, bare)
        assert context.value(batch.mask).long().tolist() == [row.attention_mask for row in want]
