"""The speed of encoding text, cotangent beside the tokenizers package and tiktoken, one core each: `make bench ROW=encode`. Prints
JSON lines for bench/run. Vocabularies are trained by the package on the beginning of the first half of each text and kept in BUILD/bench;
the beginning of the second half is encoded.

    encode.py BUILD ROUNDS [PROSE CODE]        # files to take instead of this project's pages and sources"""
import glob
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

try:
    import tiktoken
except ImportError:
    tiktoken = None

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
ENDS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
RULES = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": CONTRACTIONS + r"\p{N}{1,3}" + ENDS,
    "qwen2": CONTRACTIONS + r"\p{N}" + ENDS,
}
VOCABULARY = 128000  # more than these texts give: training ends when no two tokens stand beside each other twice
LEARNED = 2_000_000  # characters of each text
ENCODED = 1_000_000
SLOW_ROUNDS = 3  # rounds of the package and of tiktoken, which take a hundred times as long
DOCUMENT = 10000  # characters; the package and tiktoken get documents, because they are slower on one long text


def documents(text):
    return [text[i:i + DOCUMENT] for i in range(0, len(text), DOCUMENT)]


def train(build, rule, texts):
    """The path of the tokenizer that the package trains on the texts, which a run before may have left."""
    key = hashlib.sha256("\0".join([tokenizers.__version__, RULES[rule], str(VOCABULARY), *texts]).encode()).hexdigest()[:16]
    path = f"{build}/bench/encode-{rule}-{key}.json"
    if os.path.exists(path):
        return path
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(RULES[rule]), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([d for text in texts for d in documents(text)], trainer)
    tokenizer.save(f"{path}.new")
    os.replace(f"{path}.new", path)
    return path


def tiktoken_of(rule, path):
    """tiktoken with the same merges: its ranks are ids, which the trainer gives in order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in printable}
    byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    with open(path, encoding="utf-8") as file:
        vocabulary = json.load(file)["model"]["vocab"]
    ranks = {bytes(byte_of[c] for c in token): i for token, i in vocabulary.items()}
    return tiktoken.Encoding("bench", pat_str=RULES[rule], mergeable_ranks=ranks, special_tokens={})


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def measure(build, rule, name, path, text, tokenizer, rounds):
    file = f"{build}/bench/encode-{name}.txt"
    with open(file, "w", encoding="utf-8", newline="") as out:
        out.write(text)
    size = os.path.getsize(file)
    ours = subprocess.Popen([f"{build}/bench/encode", path, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    parts = documents(text)
    beside = tiktoken_of(rule, path) if tiktoken else None
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    times = {"cotangent": [], "tokenizers": [], "tiktoken": []}
    for i in range(rounds + 1):
        ours.stdin.write("\n")
        ours.stdin.flush()
        found = json.loads(ours.stdout.readline())
        if found["tokens"] != len(ids):
            raise SystemExit(f"encode: {rule}, {name}: {found['tokens']} tokens, not {len(ids)}")
        times["cotangent"].append(found["seconds"])
        if i > SLOW_ROUNDS:
            continue
        times["tokenizers"].append(seconds(lambda: tokenizer.encode_batch_fast(parts, add_special_tokens=False)))
        if beside:
            times["tiktoken"].append(seconds(lambda: [beside.encode_ordinary(part) for part in parts]))
    ours.stdin.close()
    ours.wait()
    speed = {side: size / 1e6 / statistics.median(list[1:]) for side, list in times.items() if list}
    print(json.dumps({"rule": rule, "text": name, "bytes": size, "vocabulary": tokenizer.get_vocab_size(), "tokens": len(ids), "MB/s": speed}), flush=True)


def read(paths):
    texts = []
    for path in sorted(paths):
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            texts.append(file.read())
    return "\n".join(texts)


def main():
    build, rounds, *files = sys.argv[1:]
    prose = files[:1] or glob.glob("**/*.md", recursive=True)
    code = files[1:2] or [p for f in ("src", "ops", "nn", "ext", "tests", "programs", "examples") for p in glob.glob(f"{f}/**/*.[ch]", recursive=True)]
    texts = {"prose": read(prose), "code": read(code)}
    for rule in RULES:
        path = train(build, rule, [text[: min(len(text) // 2, LEARNED)] for text in texts.values()])
        tokenizer = Tokenizer.from_file(path)
        for name, text in texts.items():
            half = len(text) // 2
            measure(build, rule, name, path, text[half:half + ENCODED], tokenizer, int(rounds))


main()
