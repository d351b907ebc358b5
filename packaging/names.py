"""The names that a C file declares at file scope, read from its text: tests/layers and packaging/amalgamate."""
import glob
import re
import subprocess

FOLDERS = ("src/*", "ops", "ops/*", "nn", "nn/*", "ext/*", "ext/*/*", "ext/*/*/*", "ext/*/*/include/*")
IGNORED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)
FUNCTION_POINTER = re.compile(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*(?:\[\w*\]\s*)?\)\s*\(")


def sources(folders=FOLDERS):
    return sorted(path for folder in folders for path in glob.glob(f"{folder}/*.[ch]"))


def without_ignored(text):
    """The text without comments and with empty strings."""
    return IGNORED.sub(lambda m: " " if m[0][0] == "/" else '""', text)


def macros(text):
    return set(DEFINE.findall(without_ignored(text)))


def of_system(compiler, headers):
    """What these headers declare and define, those of them that the compiler has; none without the compiler."""
    source = "".join(f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in headers)
    command = [*compiler, "-std=c11", "-D_GNU_SOURCE", "-E", "-P", "-dD", "-xc", "-"]
    try:
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return set()
    return file_scope(done.stdout, all=True) | macros(done.stdout)


def collapsed(text, brackets):
    """The text without what stands between these brackets."""
    out, depth = [], 0
    for piece in re.split(rf"([{re.escape(brackets)}])", text):
        depth -= piece == brackets[1]
        if not depth:
            out.append(piece)
        depth += piece == brackets[0]
    return "".join(out)


def split_braces(code):
    """What stands outside of braces, with {} for each pair; and the pairs as (text before, text inside)."""
    outside, inside, depth, before, pairs = [], [], 0, "", []
    for piece in re.split(r"([{}])", code):
        depth -= piece == "}"
        if depth:
            inside.append(piece)
        elif piece == "}":
            pairs.append((before, "".join(inside)))
            outside.append("{}")
            inside = []
        elif piece != "{":
            outside.append(piece)
            before = piece
        depth += piece == "{"
    return "".join(outside), pairs


def file_scope(text, all=False):
    """Functions and variables that are static, which those without the library's prefix are, types and constants of
    enums. Each branch of an #if counts. With `all` also what is extern or has the prefix."""
    outside, pairs = split_braces(DIRECTIVE.sub("", without_ignored(text)))
    names = set()
    for before, inside in pairs:
        if re.search(r"\benum\s*\w*\s*$", before):
            inside = collapsed(collapsed(inside, "()"), "{}")
            names.update(re.findall(r"(?:^|,)\s*(\w+)", inside))
    for declaration in re.split(r";|(?<=\))\s*\{\}", collapsed_attributes(outside)):
        names |= declared(declaration, all)
    return names


def collapsed_attributes(text):
    """The text without attributes."""
    out, at = "", 0
    for match in re.finditer(r"\b(?:__attribute__|_Alignas|__declspec)\s*(?=\()", text):
        end, depth = match.end(), 0
        while match.start() >= at and (depth or end == match.end()):
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        if match.start() >= at:
            out, at = out + text[at:match.start()], end
    return out + text[at:]


def declared(declaration, all):
    """The names of one declaration, in which {} stands for a body or an initial value."""
    tag = re.search(r"\b(?:struct|union|enum)\s+(\w+)\s*\{\}", declaration)
    names = {tag[1]} if tag else set()
    words = re.findall(r"\w+", declaration.split("=")[0].split("(")[0])
    if not words or words[0] == "_Static_assert" or (words[0] == "extern" and not all):
        return names
    own = all or names or re.search(r"\b(?:static|typedef|\w*INLINE)\b", declaration)
    if len(re.findall(r"\w+", collapsed(declaration, "()"))) < 2:
        return names
    pointer = FUNCTION_POINTER.search(declaration)
    if pointer and "(" not in declaration[:pointer.start()]:
        declaration = declaration[:pointer.start()] + pointer[1] + "(" + declaration[pointer.end():]
    for declarator in collapsed(collapsed(declaration, "()"), "[]").split(","):
        name = re.search(r"(\w+)\s*(?:\(\)|\[\]|\s)*(?:=.*)?$", declarator, re.S)
        if name and (own or not re.match("cti?_", name[1], re.I)):
            names.add(name[1])
    if re.fullmatch(r"\s*typedef\s+(?:struct|union)\s+(\w+)\s+\1\s*", declaration):
        names.clear()
    return names - {"main"}


def pasted(text, lists):
    """Names of functions that macros of the text make of a prefix and an argument in the lists: map_##name."""
    words = {"", *re.findall(r"\b[A-Z_]+\(\s*(\w+)\s*[,)]", lists)}
    made = re.findall(r"(?:static|INLINE) [^\n(]*?\b(\w+)##\w+(?:##(\w+))?\(", text)
    return {before + word + after for before, after in made for word in words}
