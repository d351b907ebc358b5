/* Filters, tests and methods of chat templates. The results are jinja2 3.1.6's; "!" is a call that
 * it refuses. tests/torch/test_jinja_live.py compares random ones. */
#include "jinja_literals.h"
#include "tests/support/suite.h"

typedef struct {
    const char *call, *result;
} call_case;

static const call_case filters[] = {
    {"|abs -7", "7"},
    {"|abs -2.5", "2.5"},
    {"|abs true", "1"},
    {"|abs 'a'", "!"},
    {"|attr {'items': 1}, 'zz'", "Undefined"},
    {"|attr 'x', '__class__'", "Undefined"},
    {"|batch [1, 2, 3, 4, 5], 2", "[[1, 2], [3, 4], [5]]"},
    {"|batch [1, 2, 3, 4, 5], 2, 'x'", "[[1, 2], [3, 4], [5, 'x']]"},
    {"|batch 'abc', 0", "[[], ['a', 'b', 'c']]"},
    {"|batch [1, 2, 3], 2.0, 'x'", "!"},
    {"|capitalize 'hELLO wORLD'", "'Hello world'"},
    {"|capitalize 'ǆa'", "'ǅa'"},
    {"|center 'ab', 7", "'   ab  '"},
    {"|center 'ab', 6", "'  ab  '"},
    {"|center 'ab', width=5", "'  ab '"},
    {"|count {'a': 1}", "1"},
    {"|length 'é日😀'", "3"},
    {"|length none", "!"},
    {"|d none, 1", "None"},
    {"|default none, 'z', true", "'z'"},
    {"|default '', boolean=true", "''"},
    {"|dictsort {'b': 1, 'C': 0, 'a': 2}", "[('a', 2), ('b', 1), ('C', 0)]"},
    {"|dictsort {'b': 1, 'C': 0, 'a': 2}, true", "[('C', 0), ('a', 2), ('b', 1)]"},
    {"|dictsort {'b': 1, 'C': 0, 'a': 2}, false, 'value', true", "[('a', 2), ('b', 1), ('C', 0)]"},
    {"|dictsort {'b': 1}, by='x'", "!"},
    {"|dictsort [1]", "!"},
    {"|e '<a href=\"x\">\\'&</a>'", "Markup('&lt;a href=&#34;x&#34;&gt;&#39;&amp;&lt;/a&gt;')"},
    {"|escape none", "Markup('None')"},
    {"|forceescape '&amp;'", "Markup('&amp;amp;')"},
    {"|filesizeformat 1", "'1 Byte'"},
    {"|filesizeformat 999", "'999 Bytes'"},
    {"|filesizeformat 1000", "'1.0 kB'"},
    {"|filesizeformat 1e24", "'1000.0 ZB'"},
    {"|filesizeformat '1500000'", "'1.5 MB'"},
    {"|filesizeformat 1048576, true", "'1.0 MiB'"},
    {"|filesizeformat -5.5", "'-5 Bytes'"},
    {"|filesizeformat 'x'", "!"},
    {"|first 'éa'", "'é'"},
    {"|first {'k': 1}", "'k'"},
    {"|last (1, 2)", "2"},
    {"|last {'a': 1, 'b': 2}", "'b'"},
    {"|float ' 1_0.5 '", "10.5"},
    {"|float '٣.5'", "3.5"},
    {"|float '-inf'", "-inf"},
    {"|float '1e400'", "inf"},
    {"|float '1_'", "0.0"},
    {"|float 'x', 2", "2"},
    {"|format '%s-%05d|%-6.2f|%+d|%x|%#o|%c|%r|%a|%%', 'é', 42, 3.14159, 7, 255, 8, 'é', 'é', 'é'",
     "\"é-00042|3.14  |+7|ff|0o10|é|'é'|'\\\\xe9'|%\""},
    {"|format '%(a)s %(b)5.1f', a=1, b=2", "'1   2.0'"},
    {"|format '%E %G %g %.3g %#x', 12345.678, 1e-10, 1e20, 1234.5, 255",
     "'1.234568E+04 1E-10 1e+20 1.23e+03 0xff'"},
    {"|format '%d', 'x'", "!"},
    {"|format '%s'", "!"},
    {"|format '%s', 1, 2", "!"},
    {"|format '%*d', 5, 3", "'    3'"},
    {"|format '%5%', 1", "!"},
    {"|groupby [{'k': 'b', 'n': 1}, {'k': 'A', 'n': 2}, {'k': 'B', 'n': 3}, {'k': 'a', 'n': 4}], "
     "'k'",
     "[('A', [{'k': 'A', 'n': 2}, {'k': 'a', 'n': 4}]), ('b', [{'k': 'b', 'n': 1}, {'k': 'B', 'n': "
     "3}])]"},
    {"|groupby [{'k': 1}, {}], 'k', default=0", "[(0, [{}]), (1, [{'k': 1}])]"},
    {"|groupby [{'k': 'b'}, {'k': 'B'}], 'k', case_sensitive=true",
     "[('B', [{'k': 'B'}]), ('b', [{'k': 'b'}])]"},
    {"|indent 'a\\nb\\n\\nc\\n'", "'a\\n    b\\n\\n    c\\n'"},
    {"|indent 'a\\r\\nb\\u2028c', 2, true", "'  a\\n  b\\n  c'"},
    {"|indent 'a\\n\\nb', '> ', true, true", "'> a\\n> \\n> b'"},
    {"|indent 5", "!"},
    {"|int '42.9'", "42"},
    {"|int ' -1_000 '", "-1000"},
    {"|int '0x1f', 0, 16", "31"},
    {"|int '0b101', base=2", "5"},
    {"|int '0o17', 0, 0", "15"},
    {"|int '012', 7, 0", "12"},
    {"|int 'zz', 5", "5"},
    {"|int '7\\x1f'", "0"},
    {"|int '\\u20037\\x85'", "7"},
    {"|float '\\x1c1.5', 2.5", "2.5"},
    {"|int 'zz', 0, 36", "1295"},
    {"|int '1e3'", "1000"},
    {"|int 2.999", "2"},
    {"|int none, 9", "9"},
    {"|int '٣٤'", "34"},
    {"|items {'a': 1, 'b': [2]}", "[('a', 1), ('b', [2])]"},
    {"|items 5", "!"},
    {"|join [1, 'a', none, 2.5], '-'", "'1-a-None-2.5'"},
    {"|join {'a': 1, 'b': 2}, '+'", "'a+b'"},
    {"|join [{'n': 1}, {'n': 2}], ', ', 'n'", "'1, 2'"},
    {"|join 5", "!"},
    {"|list 'né'", "['n', 'é']"},
    {"|list {'a': 1}", "['a']"},
    {"|lower 'ΑΣ ΑΣΑ. ΣΣ'", "'ας ασα. σς'"},
    {"|upper 'straße ﬁ ŉ'", "'STRASSE FI ʼN'"},
    {"|map [' a', 'b '], 'trim'", "['a', 'b']"},
    {"|map [{'a': {'b': [5, 6]}}, {}], attribute='a.b.1', default='-'", "[6, '-']"},
    {"|map ['a', 'b'], 'replace', 'a', 'x'", "['x', 'b']"},
    {"|map [1, 2], 'nofilter'", "!"},
    {"|map [1, 2]", "!"},
    {"|max [3, 1, 2]", "3"},
    {"|max ['a', 'B', 'c', 'C']", "'c'"},
    {"|min ['b', 'A'], true", "'A'"},
    {"|min [{'n': 2}, {'n': 1}], attribute='n'", "{'n': 1}"},
    {"|min []", "Undefined"},
    {"|min [1, 'a']", "!"},
    {"|pprint {'b': [1, 2], 'a': 'x'}", "\"{'a': 'x', 'b': [1, 2]}\""},
    {"|pprint 'word word word word word word word word word word word word word word word word "
     "word word word word word'",
     "\"('word word word word word word word word word word word word word word word '\\n 'word "
     "word word word word word')\""},
    {"|pprint ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', {'k': "
     "'cccccccccccccccccccccccc', 'j': [1, 2, 3]}]",
     "\"['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',\\n 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',\\n {'j': "
     "[1, 2, 3], 'k': 'cccccccccccccccccccccccc'}]\""},
    {"|reject [1, 2, 3], 'odd'", "[2]"},
    {"|rejectattr [{'a': 1}, {'a': 0}], 'a'", "[{'a': 0}]"},
    {"|replace 'aaa', 'a', 'b', 2", "'bba'"},
    {"|replace 'ab', '', '-'", "'-a-b-'"},
    {"|replace 12321, 2, 'x'", "'1x3x1'"},
    {"|replace 'abc', 'b', none", "'aNonec'"},
    {"|reverse 'héy'", "'yéh'"},
    {"|reverse [1, 2]", "[2, 1]"},
    {"|reverse {'a': 1, 'b': 2}", "['b', 'a']"},
    {"|reverse 5", "!"},
    {"|round 2.5", "2.0"},
    {"|round 42.55, 1, 'floor'", "42.5"},
    {"|round 2.675, 2", "2.67"},
    {"|round 1234, -2", "1200"},
    {"|round 15, -1", "20"},
    {"|round 25, -1", "20"},
    {"|round 1250.0, -2", "1200.0"},
    {"|round -1.1, 0, 'ceil'", "-1.0"},
    {"|round 2.5, none", "2"},
    {"|round 1.5, method='x'", "!"},
    {"|round 'a'", "!"},
    {"|safe 5", "Markup('5')"},
    {"|select [0, 1, '', 'a', none]", "[1, 'a']"},
    {"|select [1, 2, 3, 4], 'gt', 2", "[3, 4]"},
    {"|selectattr [{'a': 1}, {'a': 2}, {}], 'a', '==', 2", "[{'a': 2}]"},
    {"|slice [1, 2, 3, 4, 5, 6, 7], 3", "[[1, 2, 3], [4, 5], [6, 7]]"},
    {"|slice [1, 2, 3, 4, 5, 6, 7], 3, 'x'", "[[1, 2, 3], [4, 5, 'x'], [6, 7, 'x']]"},
    {"|slice [1], 0", "!"},
    {"|sort ['b', 'A', 'c', 'a']", "['A', 'a', 'b', 'c']"},
    {"|sort ['b', 'A'], case_sensitive=true", "['A', 'b']"},
    {"|sort [3, 1, 2], true", "[3, 2, 1]"},
    {"|sort [{'a': 1, 'b': 2}, {'a': 1, 'b': 1}, {'a': 0, 'b': 3}], attribute='a,b'",
     "[{'a': 0, 'b': 3}, {'a': 1, 'b': 1}, {'a': 1, 'b': 2}]"},
    {"|sort [1, 'a']", "!"},
    {"|string 1e16", "'1e+16'"},
    {"|striptags '<p>a  b</p><!-- c > d -->\\n&lt;&#39;&#x41;&#128;'", "\"a b <'A€\""},
    {"|striptags 'a < b'", "'a < b'"},
    {"|sum [1, 2.5, true]", "4.5"},
    {"|sum [{'n': 1}, {'n': 2}], 'n', 10", "13"},
    {"|sum [[1], [2]], start=[]", "[1, 2]"},
    {"|sum ['a']", "!"},
    {"|title \"it's a-b (cd) <ef ΑΣ\"", "\"It's A-B (Cd) <Ef Ασ\""},
    {"|tojson {'a': [1, 2.0, none, true], 'é': '\"\\\\\\n\\t\\u0001\\u007f\\u2028😀'}",
     "'{\"a\": [1, 2.0, null, true], \"é\": \"\\\\\"\\\\\\\\\\\\n\\\\t\\\\u0001\\x7f\\u2028😀\"}'"},
    {"|tojson 'é😀\\u007f', true", "'\"\\\\u00e9\\\\ud83d\\\\ude00\\\\u007f\"'"},
    {"|tojson {'b': 1, 'a': {}}, indent=2, sort_keys=true", "'{\\n  \"a\": {},\\n  \"b\": 1\\n}'"},
    {"|tojson [[], {}, [1]], indent='\\t'", "'[\\n\\t[],\\n\\t{},\\n\\t[\\n\\t\\t1\\n\\t]\\n]'"},
    {"|tojson {1: 2, none: 3, true: 4, 1.5: 5}", "'{\"1\": 4, \"null\": 3, \"1.5\": 5}'"},
    {"|tojson [1, 2], separators=(',', ':')", "'[1,2]'"},
    {"|tojson (1, 'a')", "'[1, \"a\"]'"},
    {"|tojson [1], indent=0", "'[\\n1\\n]'"},
    {"|tojson {(1, 2): 3}", "!"},
    {"|trim '\\u00a0\\u3000 a \\x1c'", "'a'"},
    {"|trim 'xxaxx', 'x'", "'a'"},
    {"|trim ' a ', none", "'a'"},
    {"|trim 'a', 1", "!"},
    {"|truncate 'foo bar baz qux', 9", "'foo...'"},
    {"|truncate 'foo bar baz qux', 9, true", "'foo ba...'"},
    {"|truncate 'foo bar baz qux', 11", "'foo bar baz qux'"},
    {"|truncate 'foo bar baz qux', 11, false, '...', 0", "'foo bar...'"},
    {"|truncate 'foo bar', 2", "!"},
    {"|unique ['a', 'A', 'b', 'a']", "['a', 'b']"},
    {"|unique [1, true, 1.0, 2], true", "[1, 2]"},
    {"|unique [[1]]", "!"},
    {"|urlencode 'a b/é?&'", "'a%20b/%C3%A9%3F%26'"},
    {"|urlencode {'a b': 'c/d', 'e': 1}", "'a+b=c%2Fd&e=1'"},
    {"|urlencode [['x', 1], ('y', none)]", "'x=1&y=None'"},
    {"|urlencode [1]", "!"},
    {"|urlencode 5", "'5'"},
    {"|wordcount \"it's a well-known é fact_1\"", "7"},
    {"|wordwrap 'the quick-brown fox jumps over--the lazy dog', 10",
     "'the quick-\\nbrown fox\\njumps over\\n--the lazy\\ndog'"},
    {"|wordwrap 'abcdefghijklmnop qr', 5", "'abcde\\nfghij\\nklmno\\np qr'"},
    {"|wordwrap 'abcdefghijklmnop qr', 5, false", "'abcdefghijklmnop\\nqr'"},
    {"|wordwrap 'a b\\n\\nc d', 3, wrapstring='|'", "'a b||c d'"},
    {"|wordwrap 'well-known-thing', 6, true, '\\n', false", "'well-k\\nnown-t\\nhing'"},
    {"|wordwrap 'a-b-cquick-jumps', 5", "'a-b-c\\nquick\\n-\\njumps'"},
    {"|wordwrap 'a', 0", "!"},
    {"|xmlattr {'class': 'a<b', 'n': 1, 'none': none}", "' class=\"a&lt;b\" n=\"1\"'"},
    {"|xmlattr {'a': 1}, false", "'a=\"1\"'"},
    {"|xmlattr {'a b': 1}", "!"},
};

static const call_case tests_of_values[] = {
    {"is boolean true", "True"},
    {"is boolean 1", "False"},
    {"is callable 1", "False"},
    {"is defined none", "True"},
    {"is divisibleby 9, 3", "True"},
    {"is divisibleby 9, 0", "!"},
    {"is eq 1, 1.0", "True"},
    {"is eq '1', 1", "False"},
    {"is equalto [1, {'a': 2}], [1.0, {'a': 2}]", "True"},
    {"is escaped 'a'", "False"},
    {"is even 4", "True"},
    {"is even 'a'", "!"},
    {"is false false", "True"},
    {"is false 0", "False"},
    {"is filter 'upper'", "True"},
    {"is filter 'random'", "True"},
    {"is filter 'nofilter'", "False"},
    {"is filter []", "!"},
    {"is float 1.0", "True"},
    {"is float 1", "False"},
    {"is ge 2, 2", "True"},
    {"is gt 1, 2", "False"},
    {"is greaterthan 3, 2", "True"},
    {"is gt 'c', 'a'", "True"},
    {"is ge 'c', 'a'", "True"},
    {"is gt 1, 'a'", "!"},
    {"is in 'b', 'abc'", "True"},
    {"is in 1, [1, 2]", "True"},
    {"is in 'a', {'a': 1}", "True"},
    {"is in 1, 'a'", "!"},
    {"is integer 1", "True"},
    {"is integer true", "False"},
    {"is iterable {}", "True"},
    {"is iterable 1", "False"},
    {"is le 'a', 'b'", "True"},
    {"is lower 'abc1'", "True"},
    {"is lower 'aBc'", "False"},
    {"is lower 12", "False"},
    {"is lt [1, 2], [1, 3]", "True"},
    {"is lessthan 2, 2", "False"},
    {"is mapping {}", "True"},
    {"is mapping []", "False"},
    {"is ne 1, true", "False"},
    {"is none none", "True"},
    {"is number true", "True"},
    {"is number '1'", "False"},
    {"is odd 3", "True"},
    {"is odd -3", "True"},
    {"is sameas none, none", "True"},
    {"is sameas true, 1", "False"},
    {"is sequence {}", "True"},
    {"is sequence 'a'", "True"},
    {"is sequence 1", "False"},
    {"is string 'a'", "True"},
    {"is string none", "False"},
    {"is test 'odd'", "True"},
    {"is true true", "True"},
    {"is undefined none", "False"},
    {"is upper 'ABC1'", "True"},
    {"is upper 'ÀÉ'", "True"},
    {"is upper ''", "False"},
};

static const call_case methods[] = {
    {".split 'a,b,,c', ','", "['a', 'b', '', 'c']"},
    {".split ' a  b c ', none, 1", "['a', 'b c ']"},
    {".split 'a,b,c', ',', 1", "['a', 'b,c']"},
    {".split 'a,b', ''", "!"},
    {".split '', ','", "['']"},
    {".split ''", "[]"},
    {".rsplit ' a  b c ', none, 1", "[' a  b', 'c']"},
    {".rsplit 'a,b,c', sep=',', maxsplit=1", "['a,b', 'c']"},
    {".splitlines 'a\\nb\\r\\nc\\x0bd\\u2028'", "['a', 'b', 'c', 'd']"},
    {".splitlines 'a\\nb\\n', keepends=true", "['a\\n', 'b\\n']"},
    {".strip 'xyzabcx', 'zyx'", "'abc'"},
    {".lstrip '\\u2003a '", "'a '"},
    {".rstrip 'a\\x1f\\n'", "'a'"},
    {".startswith 'abc', ('x', 'ab')", "True"},
    {".startswith 'abc', 'b', 1", "True"},
    {".startswith 'abc', '', 4", "False"},
    {".startswith 'abc', 1", "!"},
    {".endswith 'abc', 'b', 0, 2", "True"},
    {".endswith 'abc', ('c', 'd'), -1", "True"},
    {".replace 'aXbXc', 'X', 'é', 1", "'aébXc'"},
    {".replace 'abc', '', '.', 2", "'.a.bc'"},
    {".find 'héllo', 'l'", "2"},
    {".find 'abc', 'c', 0, 2", "-1"},
    {".find 'abc', '', 3", "3"},
    {".find 'abc', '', 4", "-1"},
    {".rfind 'a-a-a', 'a', 0, 4", "2"},
    {".index 'abc', 'd'", "!"},
    {".rindex 'abab', 'ab'", "2"},
    {".count 'aaaa', 'aa'", "2"},
    {".count 'éé', ''", "3"},
    {".upper 'ﬀß'", "'FFSS'"},
    {".lower 'İΣ'", "'i̇ς'"},
    {".title \"they're bill's ǆ 3ab\"", "\"They'Re Bill'S ǅ 3Ab\""},
    {".capitalize 'ÀÉß'", "'Àéß'"},
    {".casefold 'ßẞΣς'", "'ssssσσ'"},
    {".swapcase 'aBßΣ'", "'AbSSς'"},
    {".isdigit '1²'", "True"},
    {".isdigit ''", "False"},
    {".isdecimal '1²'", "False"},
    {".isnumeric '½四'", "True"},
    {".isalpha 'aé日'", "True"},
    {".isalnum 'a1²½'", "True"},
    {".isalnum 'a_'", "False"},
    {".isspace '\\x1c\\u00a0'", "True"},
    {".isupper 'A1'", "True"},
    {".islower 'ªa'", "True"},
    {".istitle 'Ab Cd'", "True"},
    {".istitle 'AB'", "False"},
    {".isprintable 'a\\u00ad'", "False"},
    {".isprintable ''", "True"},
    {".isascii 'é'", "False"},
    {".join ', ', ['a', 'b']", "'a, b'"},
    {".join '-', 'abc'", "'a-b-c'"},
    {".join ',', [1]", "!"},
    {".partition 'a=b=c', '='", "('a', '=', 'b=c')"},
    {".rpartition 'a=b=c', '='", "('a=b', '=', 'c')"},
    {".partition 'abc', '='", "('abc', '', '')"},
    {".rpartition 'abc', '='", "('', '', 'abc')"},
    {".zfill '-42', 6", "'-00042'"},
    {".zfill '+é', 4", "'+00é'"},
    {".zfill 'abc', 2", "'abc'"},
    {".center 'ab', 5, '*'", "'**ab*'"},
    {".center 'abc', 6", "' abc  '"},
    {".ljust 'a', 3, 'é'", "'aéé'"},
    {".rjust 'a', 3", "'  a'"},
    {".ljust 'a', 3, 'xy'", "!"},
    {".removeprefix 'abc', 'ab'", "'c'"},
    {".removesuffix 'abc', 'bc'", "'a'"},
    {".removesuffix 'abc', ''", "'abc'"},
    {".expandtabs 'a\\tbc\\t\\nd\\t', 4", "'a   bc  \\nd   '"},
    {".expandtabs '\\ta'", "'        a'"},
    {".expandtabs 'a\\tb', 0", "'ab'"},
    {".format '{} {1}', 1, 2", "!"},
    {".format '{} {}', 1, 'é'", "'1 é'"},
    {".format '{0:>6}|{0:<6}|{0:^6}|{0:*^7}|{1:06.2f}|{1:+,}|{2!r:>5}', 'ab', 1234.5, 'x'",
     "\"    ab|ab    |  ab  |**ab***|1234.50|+1,234.5|  'x'\""},
    {".format '{:,} {:_x} {:#x} {:b} {:e} {:%} {:.3} {:g} {:n}', 1234567, 65535, 255, 5, "
     "12345.6789, 0.256, 1234.5678, 1e-5, 12",
     "'1,234,567 ffff 0xff 101 1.234568e+04 25.600000% 1.23e+03 1e-05 12'"},
    {".format '{:010,}|{:+}|{: }|{:c}|{:05}', 1234, 5, 5, 65, 'a'", "'00,001,234|+5| 5|A|a0000'"},
    {".format '{:<c}', 65", "'A'"},
    {".format '{:.2}|{:5.1}|{:}', 'abc', 'xyz', none", "'ab|x    |None'"},
    {".format '{a} {b[0]} {b[k]}', a=1, b={'k': 2}", "'1  2'"},
    {".format '{{}} {:{}}', 'a', 5", "'{} a    '"},
    {".format '{:d}', 'a'", "!"},
    {".format '{:s}', 1", "!"},
    {".format '{'", "!"},
    {".format '}'", "!"},
    {".format '{5}', 1", "!"},
    {".format '{:x}', 1.5", "!"},
    {".format '{:=5}', 'a'", "!"},
    {".format '{:.2f}', true", "'1.00'"},
    {".format '{:5}', true", "'    1'"},
    {".format '{:>5}', [1]", "!"},
    {".format '{!x}', 1", "!"},
    {".format '{:.0}', 1e20", "'1e+20'"},
    {".format '{:.3}', 100.0", "'1e+02'"},
    {".format '{:,.1f}', 1e15", "'1,000,000,000,000,000.0'"},
    {".format_map '{a}', {'a': 5}", "'5'"},
    {".index [1, 2, 1], 1, 1", "2"},
    {".index (1, 2), 3", "!"},
    {".count [1, true, 1.0, 2], 1", "3"},
    {".copy [1]", "[1]"},
    {".items {'a': 1}", "dict_items([('a', 1)])"},
    {".keys {'a': 1, 2: 3}", "dict_keys(['a', 2])"},
    {".values {'a': 1}", "dict_values([1])"},
    {".get {'a': 1}, 'a'", "1"},
    {".get {'a': 1}, 'b'", "None"},
    {".get {'a': 1}, 'b', 2", "2"},
    {".get {}, []", "!"},
    {".copy {'a': 1}", "{'a': 1}"},
    {".fromkeys {}, 'ab', 1", "{'a': 1, 'b': 1}"},
    {".bit_length -256", "9"},
    {".bit_count 7", "3"},
    {".conjugate true", "1"},
    {".as_integer_ratio 3", "(3, 1)"},
    {".is_integer 2.0", "True"},
    {".is_integer 2.5", "False"},
};

static void check_case(const call_case *of) {
    cti_jinja_run run = {.now = 0};
    const cti_jinja_value value = call_literal(&run, of->call);
    cti_jinja_builder out = cti_jinja_build(&run);
    cti_jinja_repr(&out, value, 0);
    cti_jinja_add(&out, "", 1, 0);
    if (of->result[0] == '!') {
        ck_assert_msg(run.failed, "%s: %s", of->call, run.failed ? "" : out.at);
        ck_assert_int_gt(strlen(run.error), 0);
    } else {
        ck_assert_msg(!run.failed, "%s: %s", of->call, run.error);
        ck_assert_msg(!strcmp(out.at, of->result), "%s: %s and not %s", of->call, out.at,
                      of->result);
    }
    cti_arena_free(&run.arena);
}

#define CHECK_ALL(cases)                                                                           \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++) check_case(&(cases)[i])

START_TEST(results) {
    CHECK_ALL(filters);
    CHECK_ALL(tests_of_values);
    CHECK_ALL(methods);
}
END_TEST

/* A run that has so many bytes left fails, and nothing reads what it could not make. */
static bool runs_in(const call_case *of, size_t bytes, size_t *taken) {
    cti_jinja_run run = {.taken = CTI_JINJA_MEMORY - bytes};
    const cti_jinja_value value = call_literal(&run, of->call);
    cti_jinja_builder out = cti_jinja_build(&run);
    cti_jinja_repr(&out, value, 0);
    const bool short_of = run.failed && strstr(run.error, "bytes");
    *taken = run.taken - (CTI_JINJA_MEMORY - bytes);
    cti_arena_free(&run.arena);
    return !short_of;
}

static void check_memory(const call_case *of) {
    size_t taken, needed;
    ck_assert(runs_in(of, 1 << 20, &needed));
    for (size_t bytes = 0; bytes < needed;) {
        ck_assert_msg(!runs_in(of, bytes, &taken), "%s: %zu of %zu bytes", of->call, bytes, needed);
        bytes += needed > 8192 ? needed / 256 : 32;
    }
}
#define CHECK_MEMORY(cases)                                                                        \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++) check_memory(&(cases)[i])

START_TEST(memory) {
    CHECK_MEMORY(filters);
    CHECK_MEMORY(tests_of_values);
    CHECK_MEMORY(methods);
}
END_TEST

/* Every row can be called or says why not, and has a case above. */
START_TEST(rows_have_cases) {
    const struct {
        const cti_jinja_row *rows;
        char kind;
    } tables[] = {{cti_jinja_filters, '|'},        {cti_jinja_tests, 'i'},
                  {cti_jinja_string_methods, '.'}, {cti_jinja_list_methods, '.'},
                  {cti_jinja_tuple_methods, '.'},  {cti_jinja_dict_methods, '.'},
                  {cti_jinja_int_methods, '.'},    {cti_jinja_real_methods, '.'}};
    const call_case *const all[] = {filters, tests_of_values, methods};
    const size_t count[] = {sizeof filters / sizeof *filters,
                            sizeof tests_of_values / sizeof *tests_of_values,
                            sizeof methods / sizeof *methods};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        const size_t skip = tables[t].kind == 'i' ? 3 : 1;
        for (const cti_jinja_row *row = tables[t].rows; row->name; row++) {
            const size_t size = strlen(row->name);
            bool found = false;
            for (size_t k = 0; k < 3; k++)
                for (size_t i = 0; i < count[k] && !found; i++)
                    found = all[k][i].call[0] == tables[t].kind &&
                            !strncmp(all[k][i].call + skip, row->name, size) &&
                            all[k][i].call[skip + size] == ' ';
            const bool sign = strchr("=!<>", row->name[0]);
            ck_assert_msg(found || row->refused || sign, "%s has no case", row->name);
            ck_assert_msg(!row->run == !!row->refused, "%s", row->name);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("jinja_filters");
    TCase *tests = tcase_create("jinja_filters");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, results);
    tcase_add_test(tests, memory);
    tcase_add_test(tests, rows_have_cases);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
