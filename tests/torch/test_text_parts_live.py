"""Normalizers against the tokenizers package: the text, and the place in the original of each of its characters.

TEXT_DRAWS=10000 compares more random texts for each normalizer."""
import base64
import json
import os
import random

import pytest
import tokenizers

import ct
import unigrams_of

TEXTS = int(os.environ.get("TEXT_DRAWS", 300))   # for each normalizer
probe = ct.Library(os.environ.get("TEXT_PROBE") or ct.BUILD / "tests" / "libtext.so")
EACH = tokenizers.Regex(r"[\s\S]")


def kind(name, **members):
    return {"type": name, **members}


def bert(accents=None, **on):
    return kind("BertNormalizer", **dict(dict(clean_text=False, handle_chinese_chars=False, lowercase=False, strip_accents=accents), **on))


def replace(content, **pattern):
    return kind("Replace", pattern=pattern, content=content)


def sequence(*parts):
    return kind("Sequence", normalizers=list(parts))


CHARSMAPS = [kind("Precompiled", precompiled_charsmap=base64.b64encode(unigrams_of.train(rule)[1]).decode()) for rule in ("nmt_nfkc", "nmt_nfkc_cf")]
PLAIN = [kind("NFC"), kind("NFD"), kind("NFKC"), kind("NFKD"), kind("Lowercase"), kind("StripAccents")]
NORMALIZERS = PLAIN + CHARSMAPS + [
    bert(clean_text=True), bert(handle_chinese_chars=True), bert(lowercase=True), bert(True), bert(False, lowercase=True),
    bert(clean_text=True, handle_chinese_chars=True, lowercase=True),
    replace("▁", String=" "), replace("", String="e\u0301"), replace("xyz", String="中"), replace("-", String=""), replace("\u0301", String="a"),
    replace(" ", Regex=r"\s+"), replace("-", Regex=r"[ae]*"), replace("", Regex=r"\p{M}"), replace("$1", Regex=r"(\p{L})\p{M}?"), replace("!", Regex="$"),
    kind("Prepend", prepend="▁"), kind("Prepend", prepend=""), kind("Prepend", prepend="ab\u0301"),
    *[kind("Strip", strip_left=left, strip_right=right) for left in (False, True) for right in (False, True)],
    sequence(), sequence(kind("Prepend", prepend="▁"), replace("▁", String=" ")),
    sequence(kind("NFD"), kind("Lowercase"), kind("StripAccents")), sequence(kind("NFD"), sequence(kind("StripAccents"), kind("NFC"))),
    sequence(kind("NFC"), kind("Strip", strip_left=True, strip_right=True), kind("NFD"), replace("..", String="\u0307"), kind("NFC"))]
# Without a Replace of the empty string or an empty Prepend: the package panics in a step after one whose first character has no place.
PARTS = PLAIN + [bert(clean_text=True, lowercase=True), bert(handle_chinese_chars=True), replace("\u0344é", String="a"), replace("", String="\u0301"),
                 kind("Prepend", prepend="\u0300a"), kind("Strip", strip_left=True, strip_right=False), replace("-", String=" ")]


class Ours:
    def __init__(self, normalizer):
        message = ct.room(1000)
        self.pointer = probe.text_probe_open(json.dumps(normalizer).encode(), message, 1000)
        self.message = ct.ffi.string(message).decode()

    def close(self):
        probe.text_probe_close(self.pointer)

    def __call__(self, text, before=""):
        """[(character, begin, end)], the places being bytes of the text."""
        base, data = len(before.encode()), (before + text + before).encode()
        size, room = len(text.encode()), 64 + 40 * len(data)
        out, places = ct.room(room), ct.ffi.new("int64_t[]", 2 * room)
        n = probe.text_probe_normalize(self.pointer, data, base, size, out, places, room)
        assert 0 <= n <= room
        found, at = [], 0
        for c in ct.ffi.buffer(out)[:n].decode():
            length = len(c.encode())
            ranges = {(places[2 * i] - base, places[2 * i + 1] - base) for i in range(at, at + length)}
            assert len(ranges) == 1
            found.append((c, *ranges.pop()))
            at += length
        return found


def package(normalizer):
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer, "pre_tokenizer": None,
             "post_processor": None, "decoder": None, "model": {"type": "WordLevel", "vocab": {"u": 0}, "unk_token": "u"}}
    made = tokenizers.Tokenizer.from_str(json.dumps(whole)).normalizer

    def run(text):
        pieces = tokenizers.PreTokenizedString(text)
        pieces.normalize(lambda x: made.normalize(x))
        pieces.split(lambda i, x: x.split(EACH, "isolated"))
        return [(c, *place) for c, place, _ in pieces.get_splits(offset_referential="original", offset_type="byte")]
    return run


ALL = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
MARKS = [c for c in ALL if tokenizers.normalizers.StripAccents().normalize_str(c) == ""]
FOLDING = [c for c in ALL if tokenizers.normalizers.NFD().normalize_str(c) != c and not 0xAC00 <= ord(c) < 0xD7A4]
LATER = sorted({c for x in FOLDING for c in tokenizers.normalizers.NFD().normalize_str(x)})
CASED = [c for c in ALL if tokenizers.normalizers.Lowercase().normalize_str(c) != c]
HANGUL = [chr(c) for c in [*range(0x1100, 0x1200), *range(0xA960, 0xA97D), *range(0xD7B0, 0xD7FC)]]
SPACES = list(" \t\n\r\v\f\x85\xa0\u1680\u2003\u2028\u3000\u200b\ufeff\x1c\x1f\0\x7f")
KINDS = [ALL, MARKS, FOLDING, LATER, CASED, HANGUL, SPACES, [chr(c) for c in range(0xAC00, 0xD7A4)], [chr(c) for c in range(32, 127)],
         [chr(c) for c in range(0x4E00, 0xA000)], list("ae\u0301\u0316\u0344 中é"), [chr(c) for c in range(0x900, 0xE00)]]


def draw(random):
    """A text of parts, each of a few characters of one kind."""
    text = ""
    for _ in range(random.choice([1, 1, 2, 3, 5])):
        chosen = random.choice(KINDS)
        text += "".join(random.choice(chosen) for _ in range(random.choice([1, 1, 2, 3, 6, 20])))
    return text


def compare(normalizer, texts):
    ours, want = Ours(normalizer), package(normalizer)
    assert ours.pointer, ours.message
    for text in texts:
        assert ours(text, "é") == want(text), (normalizer, text, [hex(ord(c)) for c in text])
    probe.text_probe_close(ours.pointer)


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda n: json.dumps(n)[9:60])
def test_random_texts(normalizer):
    numbers = random.Random(1)
    compare(normalizer, ["", *(draw(numbers) for _ in range(TEXTS))])


@pytest.mark.parametrize("seed", range(20))
def test_random_sequences(seed):
    numbers = random.Random(seed)
    compare(sequence(*numbers.choices(PARTS, k=numbers.randint(2, 4))), [draw(numbers) for _ in range(TEXTS // 10)])


@pytest.mark.parametrize("normalizer", PLAIN + CHARSMAPS[:1] + [bert(clean_text=True, handle_chinese_chars=True, lowercase=True)], ids=lambda n: n["type"])
def test_every_character(normalizer):
    """Each character of Unicode, between others, in texts of 100."""
    compare(normalizer, ["".join("a" + c + "\u0301" for c in ALL[i:i + 100]) for i in range(0, len(ALL), 100)])


@pytest.mark.parametrize("c", "\u0301\u0316\u0344\u1100가éa ")
def test_long_runs(c):
    """Runs of one character, and of marks in falling order."""
    for normalizer in PLAIN + CHARSMAPS:
        compare(normalizer, [c * 3000, "x" + "\u0345\u0301\u0316\u05b0\u0334" * 500 + c])


@pytest.mark.parametrize("normalizer", [
    kind("Precompiled", precompiled_charsmap=""), kind("Precompiled"), kind("Nmt"), kind("ByteLevel"),
    sequence(kind("NFC"), kind("Nmt")), kind("Strip", strip_left=True), kind("Prepend"), kind("Sequence"), kind("Replace", content=""),
    {}, [], "NFC", sequence(None), kind("BertNormalizer", clean_text=True, handle_chinese_chars=True)])
def test_refused(normalizer):
    """What is refused here is refused by the package, or is one of the kinds that are not there."""
    ours = Ours(normalizer)
    assert not ours.pointer and "byte " in ours.message
    missing = {"Nmt", "ByteLevel"}
    named = [name for name in missing if f"'{name}'" in ours.message]
    if not named:
        with pytest.raises(BaseException):   # the package panics at a charsmap that it cannot read
            package(normalizer)
