"""Generation against transformers' generate: greedy ids of unequal prompts, penalties, ids that end a row, defaults of generation_config.json;
and what a row is by itself."""
import json
import subprocess

import numpy
import pytest
import torch
import transformers

import ct
import test_models_live as models
import tokenizers_of
from ct import lib

NAMES = ["llama", "llama 3", "gpt2", "gemma3", "qwen3", "mistral", "gpt_neox", "smollm3 windows"]


def batch_of(context, rows, left):
    T = max(len(row) for row in rows)
    ids, mask = torch.zeros(len(rows), T, dtype=torch.long), torch.zeros(len(rows), T, dtype=torch.bool)
    for i, row in enumerate(rows):
        at = slice(T - len(row), T) if left else slice(0, len(row))
        ids[i, at], mask[i, at] = row, True
    return ct.Batch(ids=context.tensor(ids), mask=context.tensor(mask)), ids, mask


def generate(context, lm, rows, left=True, **opts):
    batch, _, _ = batch_of(context, rows, left)
    generator = context.check(lib.ct_generate_new(lm, batch, ct.GenerateOpts(**opts)))
    out, ids = [[] for _ in rows], numpy.zeros(len(rows), numpy.int64)
    while lib.ct_generate_next(generator, ids):
        for row, id in zip(out, ids.tolist()):
            if id >= 0:
                row.append(id)
    context.check()
    lib.ct_generate_free(generator)
    return out


def prompts(seed, lengths):
    torch.manual_seed(seed)
    return [torch.randint(3, 97, (n,)) for n in lengths]


@pytest.mark.parametrize("penalty", [1, 1.4])
@pytest.mark.parametrize("name", NAMES)
def test_greedy(context, tmp_path, name, penalty):
    model = models.make(name)
    model.save_pretrained(tmp_path)
    lm = models.open_lm(context, tmp_path)
    rows = prompts(2, (7, 1, 4, 12))
    _, ids, mask = batch_of(context, rows, True)
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        want = model.generate(ids, attention_mask=mask.long(), do_sample=False, max_new_tokens=9, repetition_penalty=float(penalty),
                              pad_token_id=0)[:, ids.shape[1]:]
    for left in True, False:
        got = generate(context, lm, rows, left, max_new=9, no_eos=True, repetition_penalty=penalty)
        assert got == want.tolist()


@pytest.mark.parametrize("dtype", [0, 1, 4], ids=["f32", "f64", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_row_by_itself(context, tmp_path, name, dtype):
    """Nineteen rows together, and each by itself: the same ids, also drawn at a high temperature."""
    models.make(name).save_pretrained(tmp_path)
    lm = models.open_lm(context, tmp_path, dtype=dtype)
    rows = prompts(3, [1 + (5 * i) % 17 for i in range(19)])
    together = generate(context, lm, rows, max_new=8, no_eos=True)
    for i in (0, 3, 8, 11, 18):
        assert generate(context, lm, rows[i:i + 1], max_new=8, no_eos=True) == [together[i]]
    sample = ct.SampleOpts(temperature=5.0, top_k=40)
    drawn = generate(context, lm, rows, max_new=8, no_eos=True, sample=sample, seed=9)
    assert drawn == generate(context, lm, rows, left=False, max_new=8, no_eos=True, sample=sample, seed=9)
    assert drawn != generate(context, lm, rows, max_new=8, no_eos=True, sample=sample, seed=10)
    assert generate(context, lm, rows[:5], max_new=8, no_eos=True, sample=sample, seed=9) == drawn[:5]
    assert len({tuple(row) for row in generate(context, lm, [rows[0]] * 6, max_new=8, no_eos=True, sample=sample)}) == 6


def test_ids_that_end_a_row(context, tmp_path):
    models.make("llama").save_pretrained(tmp_path)
    lm = models.open_lm(context, tmp_path)
    rows = prompts(4, (5, 3, 8))
    free = generate(context, lm, rows, max_new=20, no_eos=True)
    eos = [free[0][4], free[1][7]]
    cut = lambda row: row[: min(row.index(e) for e in eos if e in row) + 1] if set(eos) & set(row) else row
    assert generate(context, lm, rows, max_new=20, eos=eos) == [cut(row) for row in free]
    assert len(generate(context, lm, rows, no_eos=True)[0]) == 100


def test_defaults_of_the_folder(context, tmp_path):
    models.make("llama").save_pretrained(tmp_path)
    options = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [7, 5], "max_new_tokens": 3, "repetition_penalty": 1.1}
    (tmp_path / "generation_config.json").write_text(json.dumps(options))
    opts = lib.ct_lm_generate_opts(models.open_lm(context, tmp_path))
    assert (opts.sample.temperature, opts.sample.top_k, opts.sample.top_p, opts.repetition_penalty) == (0.6, 50, 0.9, 1.1)
    assert opts.max_new == 3 and list(opts.eos[0 : opts.n_eos]) == [7, 5]
    (tmp_path / "generation_config.json").write_text(json.dumps({"temperature": 0.6, "eos_token_id": 9}))
    opts = lib.ct_lm_generate_opts(models.open_lm(context, tmp_path))
    assert opts.sample.temperature == 0 and opts.eos[0] == 9
    (tmp_path / "generation_config.json").write_text('{"top_k": "many"}')
    with pytest.raises(ct.Error, match='"top_k" is "many"'):
        models.open_lm(context, tmp_path)


@pytest.mark.parametrize("change", [{"repetition_penalty": 1.7}, {"do_sample": True, "top_k": 5}, {"temperature": 0.5}, {"num_beams": 2}])
@pytest.mark.parametrize("with_file", [False, True])
def test_options_of_config(context, tmp_path, change, with_file):
    """Without a generation_config.json the keys of config.json hold in transformers."""
    models.make("llama").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    if not with_file:
        (tmp_path / "generation_config.json").unlink()
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path).generation_config
    lm = models.open_lm(context, tmp_path)
    if theirs.num_beams and theirs.num_beams > 1:
        with pytest.raises(ct.Error, match='config.json: "num_beams" is 2'):
            context.check(lib.ct_lm_generate_opts(lm))
        return
    opts = context.check(lib.ct_lm_generate_opts(lm))
    samples = bool(theirs.do_sample)
    assert opts.sample.temperature == (theirs.temperature or 1 if samples else 0)
    assert opts.sample.top_k == (theirs.top_k or 50 if samples else 0)
    assert opts.repetition_penalty == (theirs.repetition_penalty or 0)


def test_stop_texts(context, tmp_path):
    tokenizer = tokenizers_of.gpt2()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ours = context.check(lib.ct_tokenizer_open(context.pointer, str(tmp_path / "tokenizer.json").encode()))
    config = {"model_type": "llama", **models.LLAMA, "vocab_size": tokenizer.get_vocab_size()}
    lm = context.check(lib.ct_lm_new(context.pointer, json.dumps(config).encode(), ct.LmOpts()))
    rows = [torch.tensor(tokenizer.encode(text).ids) for text in ("The function returns", "A")]
    sample = ct.SampleOpts(temperature=3.0)
    free = generate(context, lm, rows, max_new=30, no_eos=True, sample=sample, seed=5)
    text = tokenizer.decode(free[0], skip_special_tokens=False)
    new = next(i for i in range(9, 30) if tokenizer.decode([free[0][i]]) not in tokenizer.decode(free[0][:i]))
    special = tokenizer.decode([free[0][new]]).encode()   # from now on of a special token, which decoding leaves out
    assert lib.ct_token_add(ours, tokenizer.id_to_token(free[0][new]).encode(), None) == free[0][new]
    # A character of which the last token has only the first bytes is U+FFFD to tokenizers, and not yet a character to us.
    whole = next(text[i : i + 3] for i in range(20, len(text)) if "\ufffd" not in text[i : i + 3])
    for stop in whole.encode(), special:
        got = generate(context, lm, rows, max_new=30, no_eos=True, sample=sample, seed=5, stop=[stop], tokenizer=ours)
        assert stop == special or stop in tokenizer.decode(got[0]).encode()
        assert stop == special or stop not in tokenizer.decode(got[0][:-1]).encode()
        assert got[0] == free[0][: len(got[0])] and len(got[0]) < 30
        assert stop != special or len(got[0]) == new + 1


def test_the_program(context, tmp_path):
    """build/generate continues a text and answers a message; what it writes is what the library generates."""
    tokenizer = tokenizers_of.smollm()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    config = {"model_type": "llama", **models.LLAMA, "vocab_size": tokenizer.get_vocab_size(), "eos_token_id": None}
    lm = context.check(lib.ct_lm_new(context.pointer, json.dumps(config).encode(), ct.LmOpts()))
    context.check(lib.ct_lm_save(lm, str(tmp_path).encode(), ct.SaveOpts()))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    run = lambda *args: subprocess.run([str(ct.BUILD / "generate"), str(tmp_path), *args], capture_output=True)
    text = "The function returns a café"
    got = run("--prompt", text, "--tokens", "12")
    assert got.returncode == 0 and b"12 tokens behind a prompt of" in got.stderr, got.stderr
    ids = torch.tensor(tokenizer.encode(text).ids)
    want = text + tokenizer.decode(generate(context, lm, [ids], max_new=12)[0])
    assert got.stdout.decode() == want + "\n"
    got = run("--prompt", "Hello", "--chat", "--template", "chatml", "--tokens", "7", "--temperature", "1", "--seed", "4", "--bf16")
    assert got.returncode == 0 and b"7 tokens behind a prompt of" in got.stderr
    assert got.stdout == run("--prompt", "Hello", "--chat", "--template", "chatml", "--tokens", "7", "--temperature", "1", "--seed", "4", "--bf16").stdout
    for args, words in ((("--prompt", "a", "--chat"), b"no chat template"), ((), b"--prompt TEXT is needed"), (("--prompt", ""), b"no token"),
                        (("--prompt", "a", "--system", "b"), b"--chat is needed"), (("--prompt", "a", "--tokens", "-1"), b"must lie between")):
        got = run(*args)
        assert got.returncode == 2 and words in got.stderr, got.stderr
    (tmp_path / "tokenizer.json").unlink()
    assert b"tokenizer.json" in run("--prompt", "a").stderr


def test_what_is_refused(context, tmp_path):
    models.make("gpt2").save_pretrained(tmp_path)
    lm = models.open_lm(context, tmp_path)
    row = prompts(1, (4,))
    for opts, words in (({"max_new": 62}, "64 positions"), ({"max_new": -1}, "max_new"), ({"repetition_penalty": -1}, "penalty"),
                        ({"n_stop": 1}, "stop is NULL"), ({"n_eos": 2}, "eos is NULL")):
        with pytest.raises(ct.Error, match=words):
            generate(context, lm, row, **opts)
    with pytest.raises(ct.Error, match="not in the vocabulary of 97"):
        generate(context, lm, [torch.tensor([97])])
    batch = ct.Batch(ids=context.tensor(torch.ones(1, 2, dtype=torch.long)), mask=context.tensor(torch.zeros(1, 2, dtype=torch.bool)))
    with pytest.raises(ct.Error, match="row 0 has no token"):
        context.check(lib.ct_generate_new(lm, batch, ct.GenerateOpts()))
