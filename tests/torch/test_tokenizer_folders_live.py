"""The files beside a tokenizer.json, against transformers.AutoTokenizer: roles, added tokens, ids."""
import json
import os
import random

import pytest

from ct import lib
from test_tokenizer_live import Ours
import tokenizers_of

os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import AutoTokenizer  # noqa: E402

ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
TEXT = "low <pad><s> a</s> <|endoftext|> x<unk> <x>the<y>[PAD] <z> <pad>"
FILES = ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json"]


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, **flags}


def compare(context, folder, files):
    """Opens a folder with these files on both sides."""
    for name, value in zip(FILES, files):
        (folder / name).unlink(missing_ok=True)
        if value is not None:
            (folder / name).write_text(json.dumps(value))
    theirs, ours = AutoTokenizer.from_pretrained(str(folder)), Ours(context, folder)
    for role in ROLES:
        want = getattr(theirs, f"{role}_id")
        assert lib.ct_token_role(ours.pointer, role.encode()) == (-1 if want is None else want), (role, files)
    assert lib.ct_tokenizer_size(ours.pointer) == len(theirs), files
    want = theirs.backend_tokenizer.encode(TEXT).ids
    assert ours.encode(TEXT.encode())[0].tolist() == want, files
    assert ours.decode(ours.encode(TEXT.encode())[0], False).decode() == theirs.backend_tokenizer.decode(want), files


@pytest.mark.parametrize("name", ["GPT2Tokenizer", "Qwen2TokenizerFast", "LlamaTokenizerFast", "PreTrainedTokenizerFast", "Unheard"])
def test_classes(context, tmp_path, name):
    kind = tokenizers_of.qwen2 if name.startswith("Qwen2") else tokenizers_of.gpt2
    kind().save(str(tmp_path / "tokenizer.json"))
    compare(context, tmp_path, [{"tokenizer_class": name, "add_bos_token": True, "add_eos_token": True}, None, None, None])
    compare(context, tmp_path, [{"tokenizer_class": name, "eos_token": None, "unk_token": "<|endoftext|>"}, None, None, None])


@pytest.mark.parametrize("model", ["gpt2", "qwen2", "llama"])
def test_models(context, tmp_path, model):
    (tokenizers_of.qwen2 if model == "qwen2" else tokenizers_of.gpt2)().save(str(tmp_path / "tokenizer.json"))
    compare(context, tmp_path, [{"model_max_length": 1024}, None, None, {"model_type": model}])
    compare(context, tmp_path, [None, None, None, {"model_type": model}])


def random_files(rng):
    contents = ["<|endoftext|>", "<s>", "</s>", "<pad>", "<x>", "<y>", "[PAD]", "the", "<unk>"]
    flags = lambda: {f: rng.random() < 0.2 for f in ("lstrip", "rstrip", "normalized", "single_word")}  # noqa: E731
    named = lambda: {r: rng.choice(contents + [None]) for r in rng.sample(ROLES, rng.randrange(5))}  # noqa: E731
    config = named()
    if rng.random() < 0.5:
        config["added_tokens_decoder"] = {str(i): token(c, **flags(), special=rng.random() < 0.7)
                                          for i, c in zip(rng.sample(range(3000), 3), rng.sample(contents, 3))}
    if rng.random() < 0.4:
        config["image_token"] = rng.choice(contents)
    if rng.random() < 0.4:
        config[rng.choice(["extra_special_tokens", "additional_special_tokens"])] = rng.sample(contents, 2)
    config["add_bos_token"] = rng.random() < 0.5
    mapped = {r: token(c, **flags()) if c and rng.random() < 0.5 else c for r, c in named().items()}
    old = {c: 2500 + i for i, c in enumerate(rng.sample(["<x>", "<y>", "<z>", "<pad>"], 2))}
    return [config, rng.choice([mapped, None]), rng.choice([old, None, None]), None]


@pytest.mark.parametrize("block", range(4))
def test_random_folders(context, tmp_path, block):
    rng = random.Random(block)
    tokenizers_of.gpt2().save(str(tmp_path / "tokenizer.json"))
    for _ in range(40):
        compare(context, tmp_path, random_files(rng))
