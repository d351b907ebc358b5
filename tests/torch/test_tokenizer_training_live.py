"""Training against the tokenizers package's BpeTrainer: the same tokens, ids and merges for the same files, and a saved file that the package
loads, with the same ids."""
import json
import random

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import ct
import tokenizers_of
from ct import TokenizerOpts, lib
from texts import Texts

SPLITS = [None, tokenizers_of.LLAMA3, tokenizers_of.QWEN2, ""]   # ct_tokenizer_split: GPT-2's, ..., none


def splitter(split):
    if SPLITS[split] is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLITS[split]), "isolated"), level]) if SPLITS[split] else level


def ours_of(context, paths, **opts):
    opts = TokenizerOpts(special=opts.pop("special", []), **opts)
    return context.check(lib.ct_tokenizer_train(context.pointer, list(paths), len(paths), opts))


def theirs_of(paths, split, vocab_size, special=(), min_frequency=0):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = splitter(split), decoders.ByteLevel()
    t.train([str(p) for p in paths], trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=list(special),
                                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return t


def saved(context, ours, path):
    context.check(lib.ct_tokenizer_save(ours, str(path).encode()))
    return Tokenizer.from_file(str(path)), json.loads(path.read_text())


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("split", range(4))
def test_merges(tmp_path, split, threads):
    """On this project's text and on small random texts with many ties."""
    with ct.Context(threads=threads) as context:
        paths = []
        for i, text in enumerate(tokenizers_of.corpus()[:6] + [tokenizers_of.STRANGE]):
            paths.append(tmp_path / f"{i}.txt")
            paths[-1].write_text(text)
        theirs = theirs_of(paths, split, 900, ["<|test end|>"])
        again, file = saved(context, ours_of(context, paths, split=split, vocab_size=900, special=["<|test end|>"]), tmp_path / "ours.json")
        want = json.loads(theirs.to_str())["model"]
        assert file["model"]["vocab"] == want["vocab"] and file["model"]["merges"] == want["merges"]
        texts = Texts(5, ["<|test end|>", "Ġthe"])
        for raw in (texts.text() for _ in range(300)):
            text = raw.decode("utf-8", "replace")
            assert again.encode(text).ids == theirs.encode(text).ids
        draw = random.Random(split)
        for turn in range(25):
            letters = "ab \n" if turn % 2 else "aé中 1\r\n'"
            path = tmp_path / "small.txt"
            path.write_bytes("".join(draw.choice(letters) for _ in range(draw.randrange(400))).encode())
            least = draw.choice([0, 2, 5])
            theirs = json.loads(theirs_of([path], split, 300, min_frequency=least).to_str())["model"]
            _, file = saved(context, ours_of(context, [path], split=split, vocab_size=300, min_frequency=least), tmp_path / "ours.json")
            assert file["model"]["vocab"] == theirs["vocab"] and file["model"]["merges"] == theirs["merges"]
