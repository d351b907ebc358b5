"""Chat templates' expressions beside jinja2: random ones over random values, results and refusals; and the registries of both.

JINJA_DRAWS=20000 compares more of them, JINJA_SEED=7 others."""
import json
import os
import random
import types

import jinja2
import jinja2.ext
import jinja2.sandbox
import markupsafe

import ct

DRAWS, SEED = int(os.environ.get("JINJA_DRAWS", 3000)), int(os.environ.get("JINJA_SEED", 1))
ROOM = 1 << 20
probe = ct.Library(ct.BUILD / "tests" / "libtext.so")
out, marks, error = ct.room(ROOM), ct.ffi.new("int32_t[]", ROOM), ct.room(4096)

# Words of what the language refuses by name, and of its bounds. jinja2 is then not asked: it may try to make a string of gigabytes.
REFUSED = ("not run", "Python prints its address", "beyond 64 bits", "are run", "is run", "longer than", "more than")


def environment():
    """The environment of transformers' chat templates, without its two functions and {% generation %}."""
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return env


ENV = environment()


def ours(template, variables):
    """The text, or None and the words of the error."""
    text = template.encode()
    n = probe.jinja_probe_render(text, len(text), json.dumps(variables).encode(), out, marks, ROOM, error, 4096)
    return (None, ct.ffi.string(error).decode(errors="replace")) if n < 0 else (ct.ffi.buffer(out)[:n].decode(), "")


def theirs(template, variables):
    try:
        return ENV.from_string(template).render(**variables), ""
    except RecursionError:
        raise
    except Exception as fault:
        return None, f"{type(fault).__name__}: {fault}"


# ---- random expressions ----

WORDS = ["", "a", "A", "ab", "Hello World", " x ", "a,b,,c", "it's", 'say "hi"', "<b>&</b>", "\n", "a\nb\r\nc\n", "\t tab", "ß", "ÀÉ", "ΑΣ ΑΣΑ", "ǆ", "日本", "😀x", "12", "-3.5",
         " 7 ", "1e3", "0x1f", "1_000", "nan", "%s", "%d-%s", "{}", "{0}{1}", "{:>5}", "a-b c_d", "x=y&z", "\u00a0", "\u200b", "\x1f", "\x7f", "\u2028", "e\u0301", "key", "items", "the quick brown fox", "aaa", "ab" * 20,
         "foo.bar", "0", "a.0", "İi", "ﬁ", "٣", "²", "well-known re-use--dash"]
NAMES = ["s", "t", "u", "n", "m", "f", "g", "b", "l", "k", "d", "e", "z"]


def word(draw, words=None):
    words = words or WORDS
    return draw.choice(words) if draw.random() < 0.8 else "".join(draw.choice(words) for _ in range(2))


def scalar(draw, words=None):
    kind = draw.randrange(6)
    if kind < 2:
        return word(draw, words)
    if kind == 2:
        return draw.choice([0, 1, 2, 3, -1, 5, 7, 10, -7, 100, 255, 12345])
    if kind == 3:
        return draw.choice([0.0, 1.0, 1.5, -2.5, 0.1, 1e20, 1e-7, 3.0, 2.675, 1e16, -0.0, 123456.789])
    return draw.choice([True, False, None])


def value(draw, depth=2, words=None):
    kind = draw.randrange(4) if depth else 3
    if kind == 0:
        return [value(draw, depth - 1, words) for _ in range(draw.randrange(4))]
    if kind == 1:
        return {word(draw, words): value(draw, depth - 1, words) for _ in range(draw.randrange(4))}
    return scalar(draw, words)


def variables_of(draw, among=None):
    one = lambda: word(draw, among)
    words = lambda: [one() for _ in range(draw.randrange(5))]
    return dict(s=one(), t=one(), u=one(), n=draw.choice([0, 1, 2, 3, -4, 17]), m=draw.choice([1, 2, 5, -1, 300]), f=draw.choice([0.5, -1.25, 3.0, 1e17]),
                g=scalar(draw, among), b=draw.choice([True, False]), l=words(), k=[draw.choice([3, 1, 2, 1.5, True, -4]) for _ in range(draw.randrange(6))],
                d={w: value(draw, 1, among) for w in words()}, e=[{"key": scalar(draw, among), "a": one(), "n": draw.randrange(4)} for _ in range(draw.randrange(5))], z=None)


STRINGS, NUMBERS, LISTS, DICTS = ["s", "t", "u"], ["n", "m", "f", "b"], ["l", "k", "e"], ["d"]


def literal(x):
    """A value as a literal of a template."""
    if isinstance(x, str):
        quote = '"' if "'" in x and '"' not in x else "'"
        return quote + "".join("\\" + c if c in "\\" + quote else c if c.isprintable() else "\\x%02x" % ord(c) if ord(c) < 256 else "\\u%04x" % ord(c) for c in x) + quote
    if isinstance(x, float) and x < 0 or isinstance(x, int) and x < 0 and not isinstance(x, bool):
        return f"({x!r})"
    return repr(x).lower() if x is None or isinstance(x, bool) else repr(x)


class Maker:
    def __init__(self, draw, words=None):
        self.draw, self.words_of = draw, words

    def one(self, *makers):
        return self.draw.choice(makers)()

    def arguments(self, *kinds, least=0, names=None):
        """Some of the arguments of these kinds, by position or, where they have names, by name."""
        count = self.draw.randrange(least, len(kinds) + 1)
        given = [self.of(kind) for kind in kinds[:count]]
        if names and self.draw.random() < 0.4:
            by_name = self.draw.randrange(count + 1)
            given[by_name:] = [f"{names[i]}={given[i]}" for i in range(by_name, count)]
            if names and self.draw.random() < 0.3 and count < len(kinds):
                i = self.draw.randrange(count, len(kinds))
                given.append(f"{names[i]}={self.of(kinds[i])}")
        return "(" + ", ".join(given) + ")" if given or self.draw.random() < 0.5 else ""

    def call(self, *kinds, **more):
        return self.arguments(*kinds, **more) or "()"

    def of(self, kind):
        """An expression of a kind; now and then of any other."""
        if self.draw.random() < 0.04:
            kind = "any"
        self.depth -= 1
        made = getattr(self, kind)()
        self.depth += 1
        return made

    def expression(self, depth):
        self.depth = depth
        return self.of("any")

    def any(self):
        return getattr(self, self.draw.choice(["string", "number", "bool", "list", "dict", "scalar", "string", "list"]))()

    def scalar(self):
        return self.draw.choice([self.draw.choice(NAMES), literal(scalar(self.draw, self.words_of)), "undef"])

    def int(self):
        return literal(self.draw.choice([0, 1, 2, 3, 4, 5, 8, 10, -1, -2, 20, True])) if self.draw.random() < 0.8 else self.draw.choice(["n", "m"])

    def word(self):
        return literal(word(self.draw, self.words_of)) if self.draw.random() < 0.7 else self.draw.choice(STRINGS)

    def text(self):
        """A string that is not long to make."""
        return self.word() if self.depth < 1 else self.string()

    def flag(self):
        return self.draw.choice(["true", "false", "b", "1", "none"])

    def attribute(self):
        return literal(self.draw.choice(["key", "a", "n", "zz", "a.0", 0, 1, "key,n", "items"]))

    def indent(self):
        return self.draw.choice(["2", "0", "4", "'\\t'", "none", "true", "'> '"])

    def separators(self):
        return self.draw.choice(["(',', ':')", "[', ', '=']", "none", "(s, t)", "('a',)"])

    def test(self):
        one = self.draw.choice(["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "sequence", "iterable", "callable", "escaped", "odd", "even", "lower", "upper"])
        other = self.draw.choice(["eq", "==", "equalto", "ne", "!=", "lt", "<", "lessthan", "gt", ">", "greaterthan", "le", "<=", "ge", ">=", "divisibleby", "in"])
        return one, other

    # ---- kinds ----

    def string(self):
        if self.depth < 1:
            return self.word()
        kind = self.draw.randrange(10)
        if kind < 4:
            return self.string_filter()
        if kind < 7:
            return self.string_method()
        return self.one(lambda: f"({self.of('string')} + {self.of('string')})", lambda: f"({self.of('any')} ~ {self.of('any')})",
                        lambda: f"({self.of('string')} * {self.of('int')})", lambda: f"{self.of('string')}[{self.of('int')}]", self.slice_of_string,
                        lambda: f"({self.of('format')} % {self.of('scalar')})", lambda: f"({self.of('format')} % ({self.of('any')}, {self.of('any')}))",
                        lambda: f"({self.of('string')} % {self.of('dict')})", lambda: f"({literal(self.braces())}){self.one(lambda: '.format')}({self.of('any')}, {self.of('scalar')}, key={self.of('scalar')})")

    def slice_of_string(self):
        part = lambda: self.int() if self.draw.random() < 0.6 else ""
        return f"{self.of('string')}[{part()}:{part()}{self.draw.choice(['', ':-1', ':2', ':'])}]"

    def format(self):
        flags = lambda: "".join(self.draw.choice(["", "", "-", "0", "+", " ", "#"]) for _ in range(2)) + self.draw.choice(["", "", "5", "12"]) + self.draw.choice(["", "", ".0", ".2", ".5"])
        return literal("".join(self.draw.choice(["%" + flags() + self.draw.choice("sdrfgexXoicaEGF%"), "a", "-", "é", "<"]) for _ in range(self.draw.randrange(1, 4))))

    def braces(self):
        spec = lambda: self.draw.choice(["", "*", "0", "é"]) + self.draw.choice(["", "<", ">", "^", "="]) + self.draw.choice(["", "+", " ", "#"]) + self.draw.choice(["", "0"]) + self.draw.choice(
            ["", "5", "12"]) + self.draw.choice(["", "", ",", "_"]) + self.draw.choice(["", "", ".0", ".2"]) + self.draw.choice(["", "", *"sdfgexXobn%EGc"])
        field = lambda: "{" + self.draw.choice(["", "", "0", "1", "key", "0[0]", "0[key]"]) + self.draw.choice(["", "", "", "!r", "!s", "!a"]) + self.draw.choice(["", ":" + spec(), ":{1}"]) + "}"
        return "".join(self.draw.choice([field(), field(), "a", "{{", "}}", "é<"]) for _ in range(self.draw.randrange(1, 4)))

    def string_filter(self):
        a, name = self.arguments, self.draw.choice
        filters = [lambda: self.of("string") + "|" + name(["upper", "lower", "capitalize", "title", "trim", "e", "escape", "forceescape", "safe", "string", "striptags", "urlencode", "reverse", "pprint"]),
                   lambda: self.of("any") + "|" + name(["string", "e", "safe", "forceescape", "pprint", "urlencode", "tojson", "upper", "trim"]),
                   lambda: self.of("string") + "|center" + a("int", names=["width"]), lambda: self.of("string") + "|trim" + a("word", names=["chars"]),
                   lambda: self.of("string") + "|replace" + a("word", "text", "int", least=2, names=["old", "new", "count"]),
                   lambda: self.of("string") + "|indent" + a("indent", "flag", "flag", names=["width", "first", "blank"]),
                   lambda: self.of("string") + "|truncate" + a("int", "flag", "word", "int", names=["length", "killwords", "end", "leeway"]),
                   lambda: self.of("string") + "|wordwrap" + a("int", "flag", "word", "flag", names=["width", "break_long_words", "wrapstring", "break_on_hyphens"]),
                   lambda: self.of("any") + "|tojson" + a("flag", "indent", "separators", "flag", names=["ensure_ascii", "indent", "separators", "sort_keys"]),
                   lambda: self.of("any") + "|tojson" + a("flag", "indent", "separators", "flag", names=["ensure_ascii", "indent", "separators", "sort_keys"]),
                   lambda: self.of("list") + "|join" + a("text", "attribute", names=["d", "attribute"]), lambda: self.of("format") + "|format" + a("any", "any"),
                   lambda: self.of("dict") + "|xmlattr" + a("flag", names=["autospace"]), lambda: self.of("dict") + "|urlencode", lambda: self.of("number") + "|filesizeformat" + a("flag", names=["binary"]),
                   lambda: self.of("any") + "|default" + a("any", "flag", names=["default_value", "boolean"]), lambda: self.of("list") + "|first", lambda: self.of("list") + "|last"]
        return "(" + self.draw.choice(filters)() + ")"

    def string_method(self):
        s, c, name = (lambda: "(" + self.of("string") + ")."), self.call, self.draw.choice
        methods = [lambda: s() + name(["upper", "lower", "title", "capitalize", "swapcase", "casefold"]) + "()", lambda: s() + name(["strip", "lstrip", "rstrip"]) + c("word"),
                   lambda: s() + "replace" + c("word", "text", "int", least=2), lambda: s() + name(["center", "ljust", "rjust"]) + c("int", "word", least=1), lambda: s() + "zfill(" + self.of("int") + ")",
                   lambda: s() + "expandtabs" + c("int"), lambda: s() + name(["removeprefix", "removesuffix"]) + "(" + self.of("word") + ")", lambda: s() + "join(" + self.of("list") + ")",
                   lambda: s() + "join(" + self.of("words") + ")", lambda: s() + "format_map(" + self.of("dict") + ")"]
        return self.draw.choice(methods)()

    def number(self):
        if self.depth < 1:
            return self.draw.choice([self.int(), self.draw.choice(NUMBERS), literal(scalar(self.draw, self.words_of))])
        op = self.draw.choice(["+", "-", "*", "/", "//", "%"])
        s = lambda: "(" + self.of("string") + ")."
        return self.one(lambda: f"({self.of('number')} {op} {self.of('number')})", lambda: f"(-{self.of('number')})", lambda: f"({self.base()} ** {self.of('int')})",
                        lambda: f"({self.of('number')}|abs)", lambda: f"({self.of('number')}|round{self.arguments('int', 'method', names=['precision', 'method'])})",
                        lambda: f"({self.of('any')}|int{self.arguments('number', 'base', names=['default', 'base'])})", lambda: f"({self.of('any')}|float{self.arguments('number', names=['default'])})",
                        lambda: f"({self.of('list')}|{self.draw.choice(['length', 'count'])})", lambda: f"({self.of('list')}|sum{self.arguments('attribute', 'number', names=['attribute', 'start'])})",
                        lambda: f"({self.of('string')}|wordcount)", lambda: f"({self.of('list')}|{self.draw.choice(['min', 'max'])}{self.arguments('flag', 'attribute', names=['case_sensitive', 'attribute'])})",
                        lambda: s() + self.draw.choice(["find", "rfind", "index", "rindex", "count"]) + self.call("word", "int", "int", least=1),
                        lambda: f"({self.of('number')}).{self.draw.choice(['bit_length()', 'is_integer()', 'conjugate()', 'real', 'imag', 'bit_count()', 'as_integer_ratio()'])}",
                        lambda: f"({self.of('list')}|list).{self.draw.choice(['index', 'count'])}({self.of('scalar')})")

    def base(self):
        """A number for a power, also negative: jinja2 writes (-2) ** n as -2 ** n, which is -(2 ** n) in Python."""
        return self.draw.choice(["0", "1", "2", "3", "10", "n", "m", "1.5", "true", "-2", "(-3)", "(1 - 3)", "(-1.5)", "(-n)", "(-0.0)", "('-2'|int)", "([-1, 2]|min)", "(b and -2)"])

    def method(self):
        return self.draw.choice(["'common'", "'floor'", "'ceil'"])

    def base(self):
        return self.draw.choice(["10", "16", "2", "0", "36", "1"])

    def bool(self):
        if self.depth < 1:
            return self.flag()
        one, other = self.test()
        op = self.draw.choice(["==", "!=", "<", "<=", ">", ">="])
        is_ = self.draw.choice(["is", "is not"])
        s = lambda: "(" + self.of("string") + ")."
        return self.one(lambda: f"({self.of('any')} {is_} {one})", lambda: f"({self.of('number')} {op} {self.of('number')})", lambda: f"({self.of('string')} {op} {self.of('string')})",
                        lambda: f"({self.of('any')} {op} {self.of('any')})", lambda: f"({self.of('any')} in {self.of('any')})", lambda: f"({self.of('word')} not in {self.of('string')})",
                        lambda: f"(not {self.of('any')})", lambda: f"({self.of('any')} {self.draw.choice(['and', 'or'])} {self.of('any')})",
                        lambda: f"({self.of('any')} if {self.of('bool')} else {self.of('any')})", lambda: f"({self.of('list')} {op} {self.of('list')})",
                        lambda: f"({self.of('scalar')} is {other if other.isalpha() else 'eq'}({self.of('scalar')}))", lambda: f"({self.of('scalar')} is in({self.of('list')}))",
                        lambda: s() + self.draw.choice(["isalpha", "isalnum", "isdigit", "isdecimal", "isnumeric", "isspace", "isupper", "islower", "istitle", "isprintable", "isascii"]) + "()",
                        lambda: s() + self.draw.choice(["startswith", "endswith"]) + self.call("affix", "int", "int", least=1),
                        lambda: f"({self.of('word')} is {self.draw.choice(['filter', 'test'])})", lambda: f"({self.of('scalar')} is sameas({self.draw.choice(['none', 'true', 'false'])}))")

    def affix(self):
        return self.word() if self.draw.random() < 0.6 else f"({self.word()}, {self.word()})"

    def words(self):
        return "[" + ", ".join(self.of("word") for _ in range(self.draw.randrange(4))) + "]"

    def list(self):
        if self.depth < 1:
            return self.draw.choice(LISTS + ["l", "k", "[]", "(1, 2)", "range(3)", self.words()])
        a, s = self.arguments, lambda: "(" + self.of("string") + ")."
        l = lambda: self.of("list")
        one, other = self.test()
        flat = self.draw.choice(["", "|list", "|list"])
        return self.one(lambda: f"({l()} + {l()})", lambda: f"({l()} * {self.of('int')})", lambda: f"{l()}[{self.draw.choice(['1:', ':-1', '::-1', '::2', ':2', '-2:'])}]",
                        lambda: f"({l()}|sort{a('flag', 'flag', 'attribute', names=['reverse', 'case_sensitive', 'attribute'])})", lambda: f"({l()}|unique{a('flag', 'attribute', names=['case_sensitive', 'attribute'])}{flat})",
                        lambda: f"({l()}|reverse{flat})", lambda: f"({self.of('any')}|list)", lambda: f"({l()}|batch{a('int', 'scalar', least=1, names=['linecount', 'fill_with'])}{flat})",
                        lambda: f"({l()}|slice{a('int', 'scalar', least=1, names=['slices', 'fill_with'])}{flat})", lambda: f"({l()}|map('{self.draw.choice(['upper', 'string', 'length', 'int', 'abs', 'tojson', 'e', 'first', 'title', 'trim'])}'){flat})",
                        lambda: f"(e|map(attribute={self.attribute()}{self.draw.choice(['', ', default=' + self.scalar()])}){flat})", lambda: f"({l()}|{self.draw.choice(['select', 'reject'])}{self.draw.choice(['', repr((one,)).replace(',', '')])}{flat})",
                        lambda: f"({l()}|{self.draw.choice(['select', 'reject'])}('{other}', {self.of('scalar')}){flat})",
                        lambda: f"(e|{self.draw.choice(['selectattr', 'rejectattr'])}({self.attribute()}{self.draw.choice(['', repr(', ' + repr(one))[1:-1], f', {other!r}, ' + self.scalar()])}){flat})",
                        lambda: f"(e|groupby{a('attribute', 'scalar', 'flag', least=1, names=['attribute', 'default', 'case_sensitive'])})", lambda: f"({self.of('dict')}|dictsort{a('flag', 'by', 'flag', names=['case_sensitive', 'by', 'reverse'])})",
                        lambda: f"({self.of('dict')}|items{flat})", lambda: f"({self.of('dict')}.{self.draw.choice(['items', 'keys', 'values'])}(){flat})", lambda: s() + "split" + self.call("word", "int", names=["sep", "maxsplit"]),
                        lambda: s() + "rsplit" + self.call("word", "int", names=["sep", "maxsplit"]), lambda: s() + "split()", lambda: s() + "splitlines" + self.call("flag", names=["keepends"]), lambda: s() + self.draw.choice(["partition", "rpartition"]) + f"({self.of('word')})",
                        lambda: "[" + ", ".join(self.of("any") for _ in range(self.draw.randrange(4))) + "]", lambda: "(" + ", ".join(self.of("any") for _ in range(self.draw.randrange(2, 4))) + ")",
                        lambda: "range" + self.call("int", "int", "int", least=1))

    def by(self):
        return self.draw.choice(["'key'", "'value'"])

    def dict(self):
        if self.depth < 1:
            return self.draw.choice(["d", "d", "e[0]", "{}", "{'a': 1, 'B': 2}"])
        return self.one(lambda: "{" + ", ".join(f"{self.of('scalar')}: {self.of('any')}" for _ in range(self.draw.randrange(4))) + "}", lambda: f"dict({self.of('list')}, a={self.of('any')})",
                        lambda: f"dict({self.of('dict')})", lambda: f"{self.of('dict')}.get({self.of('scalar')}, {self.of('dict')})", lambda: f"{self.of('dict')}[{self.of('word')}]", lambda: f"{self.of('dict')}.copy()",
                        lambda: f"({self.of('any')}|attr({self.of('word')}))", lambda: f"{self.of('any')}.{self.draw.choice(['a', 'key', 'items', 'zz', 'upper', 'real', 'append', '__class__'])}")


def draws(seed, count):
    draw = random.Random(seed)
    for _ in range(count):
        variables, maker = variables_of(draw), Maker(draw)
        made = maker.expression(draw.choice([1, 2, 2, 3]))
        yield draw.choice(["{{ %s }}", "{{ [%s] }}", "{{ [%s] }}"]) % made, variables


def is_refused(words):
    return any(mark in words for mark in REFUSED)


def difference(template, variables):
    """What differs: None, "refused", or a description."""
    got, words = ours(template, variables)
    if got is None and is_refused(words):
        return "refused: " + words
    want, fault = theirs(template, variables)
    if want == got:
        return None
    return f"{template}\n  of {variables}\n  jinja2 {want!r} {fault}\n  ours   {got!r} {words}"


def test_random_expressions():
    refused, found = {}, []
    for template, variables in draws(SEED, DRAWS):
        if what := difference(template, variables):
            if what.startswith("refused: "):
                refused[what] = refused.get(what, 0) + 1
            else:
                found.append(what)
    for what, count in sorted(refused.items(), key=lambda item: -item[1]):
        print(count, what)
    print(f"{DRAWS} expressions, {sum(refused.values())} refused, {len(found)} differ")
    assert not found, "\n".join(found[:20])
    assert sum(refused.values()) < DRAWS / 20


# ---- marks ----

# Letters of variables and of templates, none of which stands in a text that is made, such as None, dict_items or &lt;.
THEIRS = ["ц", "Щя", "щ ЦЯ", " я-щ", "ц\nщ", "<щ>", "Я%s", "щ'ц", "{}я", "", "цщ,я"]
TEMPLATES = ["q", "Wj", "J q", "-w", "", "w,j", "<q>", "qJ\n"]


def test_letters_keep_their_marks():
    draw, rendered = random.Random(SEED), 0
    for _ in range(DRAWS):
        variables, maker = variables_of(draw, THEIRS), Maker(draw, TEMPLATES)
        template = "{{ %s }}" % maker.expression(draw.choice([1, 2, 2, 3]))
        text = template.encode()
        n = probe.jinja_probe_render(text, len(text), json.dumps(variables).encode(), out, marks, ROOM, error, 4096)
        rendered += n >= 0
        at = 0
        for c in ct.ffi.buffer(out)[:max(n, 0)].decode():
            size = len(c.encode())
            of = set(marks[at:at + size])
            if c in "цщяЦЩЯ":
                assert of == {-1}, (template, variables, ct.ffi.buffer(out)[:n].decode(), at)
            if c in "qwjQWJ" and "tojson(" not in template:   # its indents and separators have the mark of the container
                assert of == {0}, (template, variables, ct.ffi.buffer(out)[:n].decode(), at)
            at += size
    assert rendered > DRAWS / 2


# ---- the registries ----

def rows(table):
    """Each name of a table, and why it is refused or None."""
    found, refused = {}, ct.ffi.new("char **")
    while name := probe.jinja_probe_row(table.encode(), len(found), refused):
        found[name.decode()] = ct.ffi.string(refused[0]).decode() if refused[0] else None
    return found


def test_every_name_is_run_or_refused():
    assert set(rows("filters")) == set(ENV.filters)
    assert set(rows("tests")) == set(ENV.tests)
    assert set(rows("globals")) == set(ENV.globals) | {"raise_exception", "strftime_now"}
    for name, example in (("str", ""), ("list", []), ("tuple", ()), ("dict", {}), ("int", 1), ("float", 1.0)):
        methods = {x for x in dir(example) if callable(getattr(example, x)) and ENV.is_safe_attribute(example, x, getattr(example, x))}
        assert set(rows(name)) >= methods - {"is_integer"}, methods - set(rows(name))
    own = {x for x in dir(markupsafe.Markup) if not x.startswith("_")} - set(dir(str))
    assert set(rows("Markup")) == own
    refused = {name for table in ("filters", "tests", "globals") for name, why in rows(table).items() if why}
    assert refused == {"random", "urlize", "lipsum"}


def test_the_page_lists_every_name():
    page = open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "text.md")).read()
    page = page.split("## The language of chat templates")[1].split("\n## ")[0]
    for part, table in (("Filters", "filters"), ("Tests", "tests"), ("Globals", "globals"), ("Methods of strings", "str")):
        listed, refused = (page.split(f"**{part}**: ")[1].split("\n- ")[0] + "Refused: ").split("Refused: ")[:2]
        listed = {x for x in listed.split("; of Markup")[0].split("`")[1::2] if " " not in x}
        assert {name for name, why in rows(table).items() if not why} == listed, part
        assert {name for name, why in rows(table).items() if why} <= set(refused.split("`")[1::2]), part
