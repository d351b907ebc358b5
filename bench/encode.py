"""The speed of encoding text, cotangent beside the tokenizers package and tiktoken, one core each: `make bench ROW=encode`. Prints
JSON lines for bench/run. Vocabularies are trained by the package on the first half of each text; the second half is encoded.

    encode.py BUILD ROUNDS [PROSE CODE]        # files to take instead of this project's pages and sources"""
import glob
import json
import os
import statistics
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers  # noqa: E402

try:
    import tiktoken
except ImportError:
    tiktoken = None

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
ENDS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
RULES = {  # name: expression, size of the vocabulary
    "gpt2": (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", 32000),
    "llama3": (CONTRACTIONS + r"\p{N}{1,3}" + ENDS, 128000),
    "qwen2": (CONTRACTIONS + r"\p{N}" + ENDS, 100000),
}
DOCUMENT = 10000  # characters; the package and tiktoken get documents, because they are slower on one long text


def documents(text):
    return [text[i:i + DOCUMENT] for i in range(0, len(text), DOCUMENT)]


def train(rule, texts, path):
    expression, size = RULES[rule]
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(expression), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([d for text in texts for d in documents(text)], trainer)
    tokenizer.save(path)
    return tokenizer


def tiktoken_of(rule, path):
    """tiktoken with the same merges: its ranks are ids, which the trainer gives in order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in printable}
    byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    with open(path, encoding="utf-8") as file:
        vocabulary = json.load(file)["model"]["vocab"]
    ranks = {bytes(byte_of[c] for c in token): i for token, i in vocabulary.items()}
    return tiktoken.Encoding("bench", pat_str=RULES[rule][0], mergeable_ranks=ranks, special_tokens={})


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
        times["tokenizers"].append(seconds(lambda: tokenizer.encode_batch_fast(parts, add_special_tokens=False)))
        if beside:
            times["tiktoken"].append(seconds(lambda: [beside.encode_ordinary(part) for part in parts]))
    ours.stdin.close()
    ours.wait()
    speed = {side: size / 1e6 / statistics.median(list[1:]) for side, list in times.items() if list}
    print(json.dumps({"rule": rule, "text": name, "bytes": size, "tokens": len(ids), "MB/s": speed}), flush=True)


def read(paths):
    texts = []
    for path in sorted(paths):
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            texts.append(file.read())
    return "\n".join(texts)


def main():
    build, rounds, *files = sys.argv[1:]
    prose = files[:1] or glob.glob("**/*.md", recursive=True)
    code = files[1:2] or [p for f in ("src", "ops", "nn", "ext", "tests", "examples") for p in glob.glob(f"{f}/**/*.[ch]", recursive=True)]
    texts = {"prose": read(prose), "code": read(code)}
    for rule in RULES:
        path = f"{build}/bench/encode-{rule}.json"
        tokenizer = train(rule, [t[:len(t) // 2] for t in texts.values()], path)
        for name, text in texts.items():
            measure(build, rule, name, path, text[len(text) // 2:], tokenizer, int(rounds))


main()
