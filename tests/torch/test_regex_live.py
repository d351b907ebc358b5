"""Regular expressions against the tokenizers package, whose are oniguruma's: what random expressions match in random texts.

REGEX_DRAWS=20000 compares more of them for each test."""
import os
import random
import re

import pytest
import tokenizers

import ct
from test_text_parts_live import Ours, replace

DRAWS = int(os.environ.get("REGEX_DRAWS", 400))
MARK = "\uE000"
# Letters with cases of all kinds: two, three and four equal characters, folds of two and three characters, of which each is there too, and none.
FOLDED = "ſsSKkKßẞﬀfFﬁiIﬃﬂlﬅﬆtTİı\u0307ŉʼnNǰj\u030cΐι\u0308\u0301Ιι\u0345ͅΰυᾳᾼαΑᾶ\u0342ᾷὐὒ\u0313\u0300ὑᾲὰևեւԵﬓմնﬔẖh\u0331ẚaAʾ"
CASED = FOLDED + "bBzZéÉσΣςµμΜΩωΩåÅÅǄǅǆⴀႠᲐაꭰᎠᏸᏰ𐐀𐐨ꙋᲈĸɐ𞤀𞤢"
PLAIN = "09_ -\n\t!中ªʰ·\u0300٣☃"
SETS = [r"\w", r"\d", r"\s", r"\h", r"\p{L}", r"\p{Lu}", r"\p{M}", r"\p{Han}"]
COMPLEMENTS = [r"\W", r"\D", r"\S", r"\p{^Ll}", r"\P{L}"]
POSIX = [f"[:{name}:]" for name in "digit space word xdigit punct blank cntrl ascii".split()]
COMPLEMENTS += [f"[:^{name}:]" for name in "digit space word punct blank cntrl".split()]


def compared(expression, texts):
    """None if both refuse the expression or the package gives up, our reason if only we refuse; else "", and the same is matched."""
    try:
        theirs = tokenizers.normalizers.Replace(tokenizers.Regex(expression), MARK)
    except Exception:   # the package has no class of its own for the error
        theirs = None
    ours = Ours(replace(MARK, Regex=expression))
    assert bool(ours.pointer) <= bool(theirs), f"only the package refuses {expression!r}"
    if not theirs:
        return None
    if not ours.pointer:
        return re.search(r".*byte \d+: (.*)", ours.message)[1]
    try:
        expected = [theirs.normalize_str(text) for text in texts]
    except BaseException as error:   # a panic of the package is no Exception
        if "retry-limit-in-match" in str(error):
            return None
        raise
    for text, want in zip(texts, expected):
        assert "".join(c for c, _, _ in ours(text)) == want, (expression, text)
    ours.close()
    return ""


def refused(expressions, texts):
    """How many only we refuse, by reason; expressions that both refuse do not count."""
    reasons, known = {}, 0
    for expression in expressions:
        reason = compared(expression, texts())
        known += reason is not None
        if reason:
            reasons[reason] = reasons.get(reason, 0) + 1
    assert known > DRAWS // 2
    return reasons


def char(draw):
    c = draw.choice(draw.choice([FOLDED, CASED, PLAIN]))
    if draw.random() < 0.1:
        return r"\x{%X}" % ord(c)
    return "\\" + c if c in "-[]^&\\" else c


def span(draw):
    first, last = sorted(draw.choice(draw.choice([FOLDED, CASED, "aAzZmM", PLAIN])) for _ in range(2))
    if draw.random() < 0.3:
        last = chr(min(ord(first) + draw.randint(0, 40), 0xD7FF)) if first < "\ud000" else first
    return r"\x{%X}-\x{%X}" % (ord(first), ord(last))


def bracket(draw, depth=3, outermost=True, complements=True):
    """A negated bracket inside another has no complements: oniguruma forgets what is beyond ASCII when it negates a set that has all of it."""
    negated = complements and draw.random() < 0.3
    complements = complements and (outermost or not negated)
    sets = SETS + POSIX + (COMPLEMENTS if complements else [])
    items = []
    for _ in range(draw.choice([1, 1, 2, 2, 3, 4])):
        kind = draw.random()
        if items and kind < 0.25:
            items.append("&&")
        if kind < 0.2 and depth:
            items.append(bracket(draw, depth - 1, False, complements))
        else:
            items.append(draw.choice([char, char, span, lambda d: d.choice(sets)])(draw))
    return "[" + "^" * negated + "".join(items) + "]"


def options(draw, one, depth=2):
    """An expression of classes with option i on, off, inside and around."""
    part = lambda: options(draw, one, depth - 1) if depth and draw.random() < 0.3 else one(draw)
    form = draw.choice(["(?i:{a})", "(?i:{a})", "(?i:{a})", "(?i){a}", "{a}", "(?i:{a}{b})", "(?i:{a}(?-i:{b}))", "(?-i:{a})", "(?i:{a}|{b})", "{a}(?i){b}",
                        "(?i:{a}+)", "(?i:{a}{{2}}{b})", "(?i:{a}*?{b})", "(?i:{a}?{b})"])
    return form.format(a=part(), b=part())


def texts_of(draw):
    every = list(CASED + PLAIN + FOLDED)
    def texts():
        draw.shuffle(every)
        return ["".join(every), "".join(draw.choice("sSſßẞfiFItTﬀﬁι\u0308\u0301") for _ in range(40))]
    return texts


def test_classes():
    draw = random.Random(5)
    reasons = refused((options(draw, bracket) for _ in range(DRAWS)), texts_of(draw))
    assert not reasons


def test_characters():
    """Characters and classes beside each other. Two that are equal to one character together are refused."""
    draw = random.Random(6)
    one = lambda d: bracket(d, 1) if d.random() < 0.2 else char(d) if d.random() < 0.3 else d.choice(CASED)
    reasons = refused((options(draw, one) for _ in range(DRAWS)), texts_of(draw))
    assert set(reasons) <= {"with option i this pair of letters is not supported"}
    assert sum(reasons.values()) < DRAWS // 10


def test_each_character():
    """Each character that has a case, alone in a class and as itself, finds the same in all of them."""
    cased = [c for c in map(chr, range(0x1FFFF)) if not "\ud800" <= c <= "\udfff" and (c.casefold() != c or c.lower() != c or c.upper() != c)]
    folds = sorted({c.casefold() for c in cased if len(c.casefold()) > 1})
    text = "\n".join(cased + folds)
    step = max(1, 8 * len(cased) // DRAWS)
    for c in cased[::step]:
        assert compared(f"(?i:[{c}])", [text]) == "" and compared(f"(?i:{c})", [text]) == ""


def term(draw, depth=3):
    """An atom and perhaps quantifiers; what a repeat may hold is a rule of its own."""
    kind = draw.random()
    if kind < 0.3 or not depth:
        atom = draw.choice(["a", "b", "é", "[ab]", "\\w", "."])
    elif kind < 0.5:
        atom = draw.choice(["^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z", "(?=a)", "(?!a)"])
    else:
        begin = draw.choice(["(?:", "(?:", "(?:", "(", "(?i:", "(?<n>", "(?:(?i)", "(?-i:", "(?>"])
        atom = begin + "|".join("".join(term(draw, depth - 1) for _ in range(draw.choice([0, 1, 1, 2]))) for _ in range(draw.choice([1, 1, 2]))) + ")"
    if draw.random() < 0.15:
        atom += draw.choice(["(?#c)", "(?#)", "(?#a\\)b)"])
    if draw.random() < 0.4:
        atom += draw.choice(["?", "*", "+", "??", "{2}", "{1,2}", "{,2}", "{1}", "{0}", "{1,2}?", "*?", "?(?#c)?", "{2}{1,2}"])
    return atom


def test_what_is_repeated():
    draw = random.Random(7)
    alphabet = "aabbéA \n"
    texts = lambda: ["".join(draw.choice(alphabet) for _ in range(draw.randint(0, 12))) for _ in range(3)]
    reasons = refused(("".join(term(draw) for _ in range(draw.choice([1, 1, 2]))) for _ in range(3 * DRAWS)), texts)
    assert set(reasons) <= {"a repeat of an empty match is not supported", "a lookahead of more than one character is not supported",
                            "this atomic group is not supported"}
