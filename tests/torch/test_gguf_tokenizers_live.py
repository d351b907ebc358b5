"""Tokenizers inside GGUF files: files of gguf-py against the tokenizers package and sentencepiece, and files of ours, read by gguf-py, against
the tokenizer that they were made of. GGUF_STRINGS=100000 takes more texts of each than the default."""
import io
import json
import os
import random

import gguf
import pytest
import sentencepiece
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

import ct
import tokenizers_of
from ct import lib
from test_tokenizer_live import Ours
from texts import Texts

STRINGS = int(os.environ.get("GGUF_STRINGS", 3000))
probe = ct.Library(ct.BUILD / "tests" / "libtext.so")
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


def texts(seed, tokens):
    """Random texts of whole characters."""
    drawn = Texts(seed, tokens)
    return [drawn.text().decode("utf-8", "replace") for _ in range(STRINGS)]


def plain_tokens(tokenizer):
    """What the tokens of a vocabulary look like in texts."""
    return [t for t in (tokenizer.decode([i], skip_special_tokens=False) for i in range(tokenizer.get_vocab_size())) if t]


def compare(ours, theirs, drawn):
    for text in drawn:
        assert ours.encode(text.encode())[0].tolist() == theirs.encode(text).ids, text


def write(path, architecture, model, pre, tokens, types, scores=None, merges=None, ids={}, flags={}):
    """A GGUF file of a tokenizer, as llama.cpp's converter calls gguf-py."""
    w = gguf.GGUFWriter(str(path), architecture)
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    if scores:
        w.add_token_scores(scores)
    w.add_token_types(types)
    if merges:
        w.add_token_merges(merges)
    for role, id in ids.items():
        getattr(w, f"add_{role}_token_id")(id)
    for name, value in flags.items():
        getattr(w, f"add_{name}")(*value if isinstance(value, tuple) else [value])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    return path


def keys(path):
    return {name: field.contents() for name, field in gguf.GGUFReader(str(path)).fields.items() if name.startswith("tokenizer.")}


def put(folder, architecture, rows, path):
    message = ct.room(2000)
    done = probe.text_probe_gguf(str(folder).encode(), architecture.encode(), rows, str(path).encode(), message, len(message))
    return None if done else ct.ffi.string(message).decode()


# ---- byte-level BPE ----

def bpe_file(path, tokenizer, pre, flags, gaps=0):
    file = json.loads(tokenizer.to_str())
    special = {t["content"]: t["special"] for t in file["added_tokens"]}
    by_id = {i: t for t, i in tokenizer.get_vocab(True).items()}
    rows = max(by_id) + 1 + gaps
    tokens = [by_id.get(i, f"[PAD{i}]") for i in range(rows)]
    types = [UNUSED if i not in by_id else (CONTROL if special[t] else USER) if t in special else NORMAL for i, t in enumerate(tokens)]
    merges = [m if isinstance(m, str) else " ".join(m) for m in file["model"]["merges"]]
    ids = {"bos": tokenizer.token_to_id("<|begin_of_text|>")} if flags.get("add_bos_token") else {}
    return write(path, "llama", "gpt2", pre, tokens, types, merges=merges, ids=ids, flags=flags)


BPE = {"gpt2": ("gpt-2", {}), "smollm": ("smollm", {}), "qwen2": ("qwen2", {"add_bos_token": False}), "llama3": ("llama-bpe", {"add_bos_token": True})}


def bpe_of(name):
    """A tokenizer whose added tokens a GGUF file can have: none is normalized."""
    tokenizer = getattr(tokenizers_of, name)()
    file = json.loads(tokenizer.to_str())
    for token in file["added_tokens"]:
        token["normalized"] = False
    return Tokenizer.from_str(json.dumps(file))


@pytest.mark.parametrize("name", BPE)
def test_bpe(context, tmp_path, name):
    pre, flags = BPE[name]
    theirs = bpe_of(name)
    drawn = texts(7, plain_tokens(theirs))
    ours = Ours(context, bpe_file(tmp_path / "x.gguf", theirs, pre, flags, gaps=5))
    compare(ours, theirs, drawn)
    assert lib.ct_tokenizer_save(ours.pointer, str(tmp_path / "again.json").encode())
    compare(ours, Tokenizer.from_file(str(tmp_path / "again.json")), drawn)
    # and the other way, twice
    theirs.save(str(tmp_path / "tokenizer.json"))
    rows = theirs.get_vocab_size() + 5
    (tmp_path / "out").mkdir()
    assert put(tmp_path / "tokenizer.json", "llama", rows, tmp_path / "out" / "y.gguf") is None
    compare(Ours(context, tmp_path / "out" / "y.gguf"), theirs, drawn)
    mine, converted = keys(tmp_path / "out" / "y.gguf"), keys(tmp_path / "x.gguf")
    for key in "model", "pre", "tokens", "token_type", "merges":
        assert mine[f"tokenizer.ggml.{key}"] == converted[f"tokenizer.ggml.{key}"], key
    assert mine["tokenizer.ggml.add_bos_token"] == flags.get("add_bos_token", False)


# ---- WordPiece ----

def test_bert(context, tmp_path):
    theirs = tokenizers_of.bert()
    file = json.loads(theirs.to_str())
    file["added_tokens"] = [t for t in file["added_tokens"] if t["special"]]
    file["model"]["vocab"] = {t: i for t, i in file["model"]["vocab"].items()}
    theirs = Tokenizer.from_str(json.dumps(file))
    by_id = {i: t for t, i in theirs.get_vocab(True).items()}
    special = {t["content"] for t in file["added_tokens"]}
    tokens = [by_id[i] if by_id[i] in special else by_id[i][2:] if by_id[i].startswith("##") else "▁" + by_id[i] for i in range(len(by_id))]
    types = [CONTROL if by_id[i] in special else NORMAL for i in range(len(by_id))]
    ids = {"bos": 2, "eos": 3, "unk": 1, "sep": 3, "pad": 0, "mask": 4}
    path = write(tmp_path / "x.gguf", "bert", "bert", "jina-v2", tokens, types, ids=ids,
                 flags={"bool": ("tokenizer.ggml.normalizer.lowercase", True)})
    drawn = texts(8, plain_tokens(theirs))
    compare(Ours(context, path), theirs, drawn)
    (tmp_path / "folder").mkdir()
    theirs.save(str(tmp_path / "folder" / "tokenizer.json"))
    roles = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
    (tmp_path / "folder" / "tokenizer_config.json").write_text(json.dumps(roles))
    (tmp_path / "out").mkdir()
    assert put(tmp_path / "folder", "bert", len(by_id), tmp_path / "out" / "y.gguf") is None
    compare(Ours(context, tmp_path / "out" / "y.gguf"), theirs, drawn)
    mine, converted = keys(tmp_path / "out" / "y.gguf"), keys(path)
    for key in set(converted) - {"tokenizer.ggml.pre"}:
        assert mine[key] == converted[key], key


# ---- SentencePiece ----

@pytest.fixture(scope="module")
def spm():
    """BPE of sentencepiece with bytes for unknown characters."""
    model = io.BytesIO()
    text = "\n".join(tokenizers_of.corpus()).split("\n")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=1500, model_type="bpe", byte_fallback=True, character_coverage=0.98,
        normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, minloglevel=2,
        user_defined_symbols=["[user]", "<x>"])
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def spm_lists(spm):
    n = spm.get_piece_size()
    types = [UNKNOWN if spm.is_unknown(i) else CONTROL if spm.is_control(i) else BYTE if spm.is_byte(i) else UNUSED if spm.is_unused(i) else NORMAL
             for i in range(n)]
    for i in range(n):
        if spm.id_to_piece(i) in ("[user]", "<x>"):
            types[i] = USER
    return [spm.id_to_piece(i) for i in range(n)], [spm.get_score(i) for i in range(n)], types


def spm_package(tokens, scores, types, by_id=False):
    """The tokenizer of the package as transformers converts sentencepiece's."""
    ids = {t: i for i, t in enumerate(tokens)}
    merges = []
    for token, i in ids.items():
        local = [(token[:k], token[k:]) for k in range(1, len(token)) if token[:k] in ids and token[k:] in ids]
        if types[i] == NORMAL:
            merges += [(i if by_id else -scores[i], i, ids[a], ids[b], a, b) for a, b in local if types[ids[a]] == types[ids[b]] == NORMAL]
    t = Tokenizer(models.BPE(ids, [m[4:] for m in sorted(merges)], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    added = [AddedToken(x, special=types[i] != USER, normalized=False) for i, x in enumerate(tokens) if types[i] in (UNKNOWN, CONTROL, USER)]
    t.add_special_tokens([x for x in added if x.special])
    t.add_tokens([x for x in added if not x.special])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return t


def test_spm(context, tmp_path, spm):
    tokens, scores, types = spm_lists(spm)
    path = write(tmp_path / "x.gguf", "llama", "llama", "default", tokens, types, scores=scores, ids={"bos": 1, "eos": 2, "unk": 0})
    theirs, ours = spm_package(tokens, scores, types), Ours(context, path)
    drawn = texts(9, [t.replace("▁", " ") for t in tokens])
    compare(ours, theirs, drawn)
    spelled = {t for t, kind in zip(tokens, types) if kind in (UNKNOWN, CONTROL, USER, BYTE)}
    alone = [t for t in drawn if not any(s in t for s in spelled) and "▁" not in t and t]
    assert len(alone) > STRINGS // 3
    assert sum([1] + spm.encode(t) == ours.encode(t.encode())[0].tolist() for t in alone) == len(alone)
    # and the other way
    theirs.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))
    (tmp_path / "out").mkdir()
    assert put(tmp_path, "llama", len(tokens) + 3, tmp_path / "out" / "y.gguf") is None
    again = Ours(context, tmp_path / "out" / "y.gguf")
    compare(again, theirs, drawn)
    mine, converted = keys(tmp_path / "out" / "y.gguf"), keys(path)
    assert mine["tokenizer.ggml.tokens"] == tokens + [f"[PAD{len(tokens) + i}]" for i in range(3)]
    assert mine["tokenizer.ggml.token_type"] == types + [UNUSED] * 3
    for key in "model", "pre", "bos_token_id", "eos_token_id", "unknown_token_id":
        assert mine[f"tokenizer.ggml.{key}"] == converted[f"tokenizer.ggml.{key}"], key
    merged = [i for i, kind in enumerate(types) if kind == NORMAL and len(tokens[i]) > 1]
    order = lambda values: sorted(merged, key=lambda i: -values[i])  # noqa: E731
    assert order(mine["tokenizer.ggml.scores"]) == order(scores)


def test_gemma(context, tmp_path, spm):
    """Runs of spaces are tokens that a user defined, merges are in the order of ids, and there is no space before the text."""
    tokens, scores, types = spm_lists(spm)
    runs = ["▁" * n for n in range(2, 8)]
    kept = [i for i, t in enumerate(tokens) if t not in runs]
    at = next(i for i in kept if types[i] == NORMAL)
    cut = kept.index(at)
    tokens = [tokens[i] for i in kept[:cut]] + runs + [tokens[i] for i in kept[cut:]]
    types = [types[i] for i in kept[:cut]] + [USER] * len(runs) + [types[i] for i in kept[cut:]]
    plain = [NORMAL if t in runs else k for t, k in zip(tokens, types)]
    theirs = spm_package(tokens, None, plain, by_id=True)
    theirs.normalizer = normalizers.Replace(" ", "▁")
    theirs.add_tokens([AddedToken(t, normalized=False) for t in runs])
    spelled = [t.replace("▁", " ") if k == USER else t for t, k in zip(tokens, types)]
    path = write(tmp_path / "x.gguf", "gemma3", "llama", "default", spelled, types, scores=[0.0] * len(tokens), ids={"bos": 1, "eos": 2, "unk": 0},
                 flags={"add_space_prefix": False})
    drawn = texts(10, [t.replace("▁", " ") for t in tokens])
    compare(Ours(context, path), theirs, drawn)
    theirs.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    theirs.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))
    (tmp_path / "out").mkdir()
    assert put(tmp_path, "gemma3", len(tokens), tmp_path / "out" / "y.gguf") is None
    compare(Ours(context, tmp_path / "out" / "y.gguf"), theirs, drawn)
    mine = keys(tmp_path / "out" / "y.gguf")
    assert mine["tokenizer.ggml.tokens"] == spelled and mine["tokenizer.ggml.token_type"] == types
    assert mine["tokenizer.ggml.add_space_prefix"] is False


# ---- refused ----

REFUSED = {
    "roberta": "no name stands for",          # a space before the text
    "llama2": "would make other ids",         # merges that are not all ways to cut a token: here the last third is missing
    "bert": "would make other ids",           # an added token that is found without regard to case
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    tokenizer = getattr(tokenizers_of, name)()
    file = json.loads(tokenizer.to_str())
    if name == "llama2":
        del file["model"]["merges"][-len(file["model"]["merges"]) // 3:]
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    roles = {"bert": {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}, "llama2": {"bos_token": "<s>", "unk_token": "<unk>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(roles.get(name, {})))
    assert REFUSED[name] in put(tmp_path, "llama", 4000, tmp_path / "y.gguf")
    assert not (tmp_path / "y.gguf").exists()
