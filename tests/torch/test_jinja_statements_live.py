"""Chat templates' statements beside jinja2: random templates of loops, macros, sets and blocks with blanks around their tags; what both refuse, and
the registry of statements. test_jinja_live.py has the expressions.

JINJA_DRAWS=20000 compares more of them, JINJA_SEED=7 others."""
import random
import warnings

import jinja2
import jinja2.ext
import jinja2.parser

import test_jinja_live as live

warnings.filterwarnings("ignore", category=SyntaxWarning)  # of the Python that jinja2 writes

VARIABLES = {"x": "abc", "s": " a b ", "i": 3, "l": [1, 2, 3], "e": [], "d": {"b": 1, "a": {"c": "\u00e9\""}, "items": 7}, "n": None, "t": True,
             "talk": [{"role": "user", "content": "h\u00e9 <b>"}, {"role": "assistant", "k": [1, None]}]}
NAMES = ["x", "s", "i", "l", "e", "d", "n", "t", "undef", "talk", "y", "z", "ns", "loop", "m", "caller"]
CONSTANTS = ["'a'", "'\u00e9'", "''", "1", "0", "-2", "2.5", "true", "none", "[]", "[1, 2, 3]", "{'a': 1}", "(1, 2)"]
FILTERS = ["upper", "trim", "length", "first", "list", "string", "join(',')", "default('q')", "tojson", "reverse|list", "map('string')|list",
           "select|list", "selectattr('role')|list", "items|list", "sort", "replace('a', 'b')"]
TESTS = ["defined", "none", "string", "iterable", "mapping", "callable", "in l", "not none", "divisibleby 2"]
ENDS = ["", "{{ loop.index }}", "{{ loop.last }}", "{% break %}", "{% if loop.first %}{% continue %}{% endif %}", "{{ loop.length }}{{ loop.nextitem }}"]


class Generation(jinja2.ext.Extension):
    """{% generation %} as transformers has it: a call block whose text is printed."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("text_of"), [], [], body).set_lineno(line)

    def text_of(self, caller):
        return caller()


live.ENV.add_extension(Generation)


class Template:
    def __init__(self, draw):
        self.draw = draw

    def expression(self, depth):
        draw, inner = self.draw, lambda: self.expression(depth - 1)
        if depth == 0 or draw.random() < 0.3:
            return draw.choice(NAMES + CONSTANTS)
        return draw.choice([
            lambda: f"{inner()} {draw.choice(['+', '~', '*', '==', '<', 'in', 'not in', 'and', 'or'])} {inner()}",
            lambda: f"({inner()})|{draw.choice(FILTERS)}",
            lambda: f"{inner()} is {draw.choice(TESTS)}",
            lambda: f"{draw.choice(NAMES)}[{draw.choice(['0', '-1', '1:', '::-1'])}]",
            lambda: f"{draw.choice(NAMES)}.{draw.choice(['role', 'a', 'b', 'items()', 'upper()', 'foo'])}",
            lambda: f"({inner()} if {inner()} else {inner()})",
            lambda: f"[{inner()}, {inner()}]",
        ])()

    def tag(self, text):
        begin, end = self.draw.choice([("{%", "%}")] * 6 + [("{%-", "%}"), ("{%", "-%}"), ("{%-", "-%}"), ("{%+", "%}"), ("{%", "+%}")])
        return f"{begin} {text} {end}"

    def loop(self, depth):
        draw = self.draw
        target, over = draw.choice(["y", "z", "x", "a, b"]), draw.choice(["l", "talk", "x", "d.items()", "range(3)", "'ab'", self.expression(2)])
        test = draw.choice(["", "", f" if {self.expression(1)}"])
        otherwise = draw.choice(["", self.tag("else") + self.body(depth)])
        head = self.tag(f"for {target} in {over}{test}{draw.choice([''] * 5 + [' recursive'])}")
        return head + self.body(depth) + draw.choice(ENDS) + self.body(depth) + otherwise + self.tag("endfor")

    def macro(self, depth):
        draw, name = self.draw, self.draw.choice("mx")
        body = self.body(depth) + draw.choice(["", "{{ caller() }}", "{{ varargs }}", "{{ kwargs }}"])
        call = draw.choice(["{{ %s(%s) }}" % (name, draw.choice(["", "1", "1, 2", "y=3", "1, q=2"])), self.tag(f"call {name}()") + body + self.tag("endcall")])
        return self.tag(f"macro {name}({draw.choice(['', 'y', 'y, z=1', 'y=x, z=y'])})") + body + self.tag("endmacro") + call

    def statement(self, depth):
        draw = self.draw
        if depth <= 0:
            return draw.choice(["{{ %s }}" % self.expression(2), "text", " \n", "\u00e9"])
        inner = lambda: self.body(depth - 1)
        return draw.choice([
            lambda: draw.choice(["{{ %s }}", "{{- %s }}", "{{ %s -}}"]) % self.expression(3),
            lambda: self.tag(f"if {self.expression(2)}") + inner() + draw.choice(["", self.tag("elif x") + inner()]) + self.tag("else") + inner() + self.tag("endif"),
            lambda: self.loop(depth - 1),
            lambda: self.macro(depth - 1),
            lambda: self.tag(f"set {draw.choice(['x', 'y', 'ns', 'i', 'a, b', 'ns.q'])} = {draw.choice([self.expression(2), 'namespace(q=1)'])}"),
            lambda: self.tag(f"set {draw.choice('xyz')}{draw.choice(['', ' | upper', ' | trim'])}") + inner() + self.tag("endset"),
            lambda: self.tag(f"filter {draw.choice(['upper', 'trim', 'replace(x, y)'])}") + inner() + self.tag("endfilter"),
            lambda: self.tag(f"with {draw.choice('xyz')} = {self.expression(2)}") + inner() + self.tag("endwith"),
            lambda: self.tag("generation") + inner() + self.tag("endgeneration"),
            lambda: draw.choice(["{#- c -#}", "{# c #}\n", "{% raw %} {{ x }}\n{% endraw %}", "{%- raw -%} a {%- endraw -%}"]),
            lambda: self.tag(f"block b{draw.randrange(100000)}") + inner() + self.tag("endblock"),
        ])()

    def body(self, depth):
        return "".join(self.statement(depth - self.draw.randrange(2)) + self.draw.choice(["", "", "\n", "  ", "\n  "]) for _ in range(self.draw.randrange(1, 4)))


def test_random_templates():
    draw, found, results = random.Random(live.SEED), [], 0
    for _ in range(live.DRAWS):
        template = Template(draw).body(2)
        what = live.difference(template, VARIABLES)
        results += what is None and live.ours(template, VARIABLES)[0] is not None
        if what and not what.startswith("refused: "):
            found.append(what)
    print(f"{live.DRAWS} templates, {results} with a text, {len(found)} differ")
    assert not found, "\n".join(found[:10])
    assert results > live.DRAWS / 4


def test_statements_are_run_or_refused_by_name():
    run = {"if": "{% if x %}{% endif %}", "for": "{% for a in l %}{% break %}{% continue %}{% endfor %}", "set": "{% set a = 1 %}", "print": "{% print 1 %}",
           "macro": "{% macro a() %}{% endmacro %}", "with": "{% with %}{% endwith %}", "block": "{% block a %}{% endblock %}"}
    for name in jinja2.parser._statement_keywords:
        text, words = live.ours(run.get(name, "{%% %s 'a' %%}" % name), VARIABLES)
        assert (text is not None) == (name in run), f"{name}: {text} {words}"
        assert name in run or f"'{name}' is not run" in words, words
