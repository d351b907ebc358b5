"""Random texts that are hard on a tokenizer: bytes, which need not be UTF-8."""
import random

BLOCKS = [(0x20, 0x7F)] * 4 + [(first, first + 0x80) for first in range(0, 0x3400, 0x80)] + \
    [(0x3400, 0xD800), (0xE000, 0xF900), (0xF900, 0x10000), (0x20000, 0x323B0), (0xE0000, 0xE0200), (0xF0000, 0x110000)] + \
    [(first, first + 0x100) for first in range(0x10000, 0x20000, 0x100)]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2003", "\u3000", "\u0085", "\u2028", "\u000b", "\u200b", "\ufeff", "\u001c"]
MARKS = [chr(c) for c in [*range(0x300, 0x370), 0x93C, 0x94D, 0x5B4, 0x64B, 0xE34, 0x302A, 0x3099, 0x1161, 0x11A8, 0x20DD, 0x1D165]]
EMOJI = ["👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "☺", "1️⃣", "\u200d", "\ufe0f"]
WORDS = ("the The function returns a tensor it's I'LL don't we've they're naïve Straße ǅ İstanbul ΑΣ Ⅷ x1y2 3.14159 1234567 int64_t "
         "ct_tensor_new() != 0x1F https://a.b/c?d=e 'S ſ 're ’s __init__ wor word words été ÉTÉ e\u0301te\u0301 中文 한국어 ﬁn ½ ２３").split()
BROKEN = [b"\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xf0\x80\x80", b"\xe2\x28"]


class Texts:
    def __init__(self, seed, tokens):
        self.random = random.Random(seed)
        self.tokens = tokens

    def character(self):
        first, end = self.random.choice(BLOCKS)
        c = self.random.randrange(first, end)
        return chr(c) if not 0xD800 <= c < 0xE000 else "\ufffd"

    def part(self):
        r = self.random
        kind = r.randrange(15)
        if kind == 0:
            return "".join(self.character() for _ in range(r.randrange(1, 8)))
        if kind == 1:
            first, end = r.choice(BLOCKS)
            return "".join(chr(c) if not 0xD800 <= c < 0xE000 else "?" for c in (r.randrange(first, end) for _ in range(r.randrange(1, 10))))
        if kind == 2:
            return r.choice(SPACES) * r.choice([1, 1, 1, 2, 3, 7, 40])
        if kind == 3:
            return "".join(r.choice(SPACES) for _ in range(r.randrange(1, 6)))
        if kind == 4:
            return chr(r.choice([*range(32), *range(127, 160)]))
        if kind == 5:
            return r.choice("aeo\u0915\u05d0한") + "".join(r.choice(MARKS) for _ in range(r.randrange(1, 5)))
        if kind == 6:
            return r.choice(EMOJI)
        if kind == 7:
            token = r.choice(self.tokens)
            return token[: r.randrange(len(token) + 1)] if r.random() < 0.3 else token
        if kind == 8:
            return r.choice(WORDS) + r.choice(self.tokens) + r.choice(WORDS)
        if kind == 9 and r.random() < 0.05:
            return r.choice(["a", "ab", "é", "x1", "中", "'s", "<"]) * r.randrange(1, 400)
        if kind == 10:
            return str(r.randrange(10 ** r.randrange(1, 12)))
        if kind == 11:
            return r.choice(".,;:!?()[]{}'\"<>|/\\-_=+*&^%$#@~`") * r.choice([1, 1, 2, 5])
        return r.choice(WORDS) + r.choice(["", " ", " "])

    def text(self):
        r = self.random
        parts = [self.part().encode() for _ in range(r.choice([1, 1, 2, 3, 5, 8, 20]))]
        if r.random() < 0.25:
            for _ in range(r.randrange(1, 4)):
                parts.insert(r.randrange(len(parts) + 1), r.choice(BROKEN))
        return b"".join(parts)
