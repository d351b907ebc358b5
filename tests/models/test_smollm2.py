"""SmolLM2-135M-Instruct: ids, chats, logits, greedy texts, files, LoRA and full training as with transformers and PEFT."""
import subprocess
import time

import pytest
import torch
import transformers

import ct
import real
from ct import lib

QUESTIONS = ["What is the capital of France?", "Write one sentence about rain.", "How many days does a week have?", "Name three colours.",
             "Explain to a child why the sky is blue.", "What is 12 + 30?", "Translate 'good morning' into Spanish.",
             "Who wrote Romeo and Juliet?", "Give me a recipe for pancakes.", "Write a function in Python that adds two numbers."]
BEGINNINGS = ["Once upon a time", "The capital of Italy is", "def fibonacci(n):", "Water boils at", "The three laws of motion are", "1, 2, 3, 4,",
              "In the year 1969, people", "Dear Sir or Madam,\n\n", "The difference between a virus and a bacterium is", "#include <stdio.h>\n\nint main("]
TOKENS = 40


@pytest.fixture(scope="module")
def model(smollm2):
    return load(smollm2)


@pytest.fixture(scope="module")
def theirs(smollm2):
    return transformers.AutoTokenizer.from_pretrained(smollm2)


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def ids_of_chat(theirs, messages, opened=True):
    return theirs.apply_chat_template(messages, add_generation_prompt=opened, return_dict=True)["input_ids"]


def prompts(theirs):
    return [ids_of_chat(theirs, [{"role": "user", "content": text}]) for text in QUESTIONS] + [theirs(text)["input_ids"] for text in BEGINNINGS]


def logits_of(model, ids):
    with torch.no_grad():
        return model(ids).logits


# ---- text ----

def docs():
    return [path.read_text() for path in sorted((ct.ROOT / "docs").glob("*.md"))] + [(ct.ROOT / "README.md").read_text()]


def test_ids(context, smollm2, theirs):
    tokenizer = real.open_tokenizer(context, smollm2)
    for text in BEGINNINGS + QUESTIONS + docs() + ["naïve 中文 👩‍👩‍👧 \u00a0x", "<|im_start|>user\n<|im_end|><|endoftext|>", " \n\n\t  x"]:
        ids = real.encode(tokenizer, text)
        assert ids == theirs(text)["input_ids"]
    for role in ("bos_token", "eos_token", "unk_token", "pad_token"):
        assert lib.ct_token_role(tokenizer, role.encode()) == getattr(theirs, role + "_id")


def test_chats(context, smollm2, theirs):
    """The template of the folder is known by its text."""
    tokenizer = real.open_tokenizer(context, smollm2)
    for i, question in enumerate(QUESTIONS):
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": "Well."}, {"role": "user", "content": QUESTIONS[i - 1]}]
        for chat in (messages[:1], messages, [{"role": "system", "content": "You are brief."}] + messages, messages[:2]):
            text, ids = real.encode_chat(context, tokenizer, chat, chat[-1]["role"] == "user")
            opened = chat[-1]["role"] == "user"
            assert text == theirs.apply_chat_template(chat, tokenize=False, add_generation_prompt=opened)
            assert ids == ids_of_chat(theirs, chat, opened)


# ---- values ----

def test_logits(context, smollm2, model, theirs):
    """The f32 error of 300 rows of logits is that of transformers."""
    ids = torch.tensor([theirs(docs()[0])["input_ids"][:300]])
    ours, single = real.forward(context, real.open_lm(context, smollm2), ids), logits_of(model, ids)
    exact = logits_of(load(smollm2).double(), ids)
    real.show(f"logits up to {exact.abs().max():.1f}: {real.worst(ours, exact):.1e} from f64, transformers {real.worst(single, exact):.1e}")
    assert real.worst(ours, exact) < 2 * real.worst(single, exact)


@pytest.fixture(scope="module")
def greedy(model, theirs):
    """(the prompts' ids, the ids that transformers generates behind each by itself, tokens a second)."""
    rows, out, begun = prompts(theirs), [], time.perf_counter()
    for row in rows:
        with torch.no_grad():
            ids = model.generate(torch.tensor([row]), attention_mask=torch.ones(1, len(row), dtype=torch.long), do_sample=False,
                                 max_new_tokens=TOKENS)
        out.append(ids[0, len(row):].tolist())
    return rows, out, sum(map(len, out)) / (time.perf_counter() - begun)


def test_greedy(context, smollm2, model, theirs, greedy):
    """Twenty texts are transformers', each by itself and in one batch of unequal prompts. A step at which the two largest logits are as
    near as rounding would show here as the least distance."""
    lm, tokenizer = real.open_lm(context, smollm2), real.open_tokenizer(context, smollm2)
    rows, want, speed = greedy
    begun = time.perf_counter()
    got = [real.generate(context, lm, [row], TOKENS)[0] for row in rows]
    middle = time.perf_counter()
    together = real.generate(context, lm, rows, TOKENS)
    ended = time.perf_counter()
    n = sum(map(len, want))
    least = min(distances(model, row, out).min().item() for row, out in zip(rows, want))
    real.show(f"{n} tokens behind prompts of {min(map(len, rows))} to {max(map(len, rows))}: {n / (middle - begun):.0f}/s, in one batch "
              f"{n / (ended - middle):.0f}/s, transformers {speed:.0f}/s; the two largest logits are {least:.1e} apart or more")
    assert got == want
    assert together == want
    for out in want:
        assert real.decode(tokenizer, out) == theirs.decode(out, skip_special_tokens=True)


def distances(model, row, out):
    """The distance of the two largest logits at each step."""
    logits = logits_of(model, torch.tensor([row + out]))[0, len(row) - 1:-1]
    top = logits.topk(2, dim=-1).values
    return top[:, 0] - top[:, 1]


def test_the_program(smollm2, theirs, greedy):
    """build/generate writes the same text."""
    def run(*args):
        return subprocess.run([str(ct.BUILD / "generate"), str(smollm2), "--tokens", str(TOKENS), "--temperature", "0", *args],
                              capture_output=True, check=True).stdout.decode()
    want = [theirs.decode(out, skip_special_tokens=True) for out in greedy[1]]
    assert run("--chat", "--prompt", QUESTIONS[0]) == want[0] + "\n"
    assert run("--prompt", BEGINNINGS[0]) == BEGINNINGS[0] + want[10] + "\n"
    text = run("--chat", "--prompt", QUESTIONS[1], "--stop", ",")
    assert text == want[1][:len(text) - 1] + "\n" and text.count(",") == 1
    assert "Paris" in run("--chat", "--prompt", QUESTIONS[0], "--bf16")


# ---- files ----

def test_saved(context, smollm2, model, theirs, tmp_path):
    for opts, name in (({}, "whole"), ({"shard_bytes": 200 << 20}, "shards")):
        context.check(lib.ct_lm_save(real.open_lm(context, smollm2), str(tmp_path / name).encode(), ct.SaveOpts(**opts)))
        again = real.loads_whole(transformers.AutoModelForCausalLM, tmp_path / name)
        assert real.same_bits(model, again)
        assert again.generation_config.eos_token_id == model.generation_config.eos_token_id
        other = transformers.AutoTokenizer.from_pretrained(tmp_path / name)
        assert ids_of_chat(other, [{"role": "user", "content": "Hello"}]) == ids_of_chat(theirs, [{"role": "user", "content": "Hello"}])


def test_gguf(context, smollm2, smollm2_gguf, model, theirs, tmp_path):
    """The package's file by itself has the bits of the folder that transformers' reader makes of it, generates the same ids, and goes on
    into a folder and into files."""
    lm, folder = real.open_lm(context, smollm2_gguf), real.open_lm(context, smollm2)
    rows = prompts(theirs)[:3] + prompts(theirs)[-3:]
    ids = torch.tensor([rows[0]])
    want = real.forward(context, folder, ids)
    assert torch.equal(real.forward(context, lm, ids), want)
    assert real.generate(context, lm, rows, TOKENS) == real.generate(context, folder, rows, TOKENS)
    tokenizer = real.open_tokenizer(context, smollm2_gguf)
    for text in BEGINNINGS + QUESTIONS:
        assert real.decode(tokenizer, real.encode(tokenizer, text)) == text
    messages = [{"role": "user", "content": QUESTIONS[0]}]
    assert real.encode_chat(context, tokenizer, messages)[0] == theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    context.check(lib.ct_lm_save(lm, str(tmp_path / "again").encode(), ct.SaveOpts()))
    assert real.same_bits(model, real.loads_whole(transformers.AutoModelForCausalLM, tmp_path / "again"))
    other = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert ids_of_chat(other, messages) == real.encode_chat(context, tokenizer, messages)[1]
    context.check(lib.ct_lm_save(lm, str(tmp_path / "m.gguf").encode(), ct.SaveOpts(floats=1)))
    assert torch.equal(real.forward(context, real.open_lm(context, tmp_path / "m.gguf"), ids), want)
    assert context.check(lib.ct_lm_file_dtype(context.pointer, str(smollm2_gguf).encode())) == 5   # CT_Q8_0
    context.check(lib.ct_lm_save(lm, str(tmp_path / "q8.gguf").encode(), ct.SaveOpts(floats=4)))
    plain, rests = real.open_lm(context, tmp_path / "q8.gguf"), real.open_lm(context, tmp_path / "q8.gguf", dtype=5)
    assert torch.equal(real.forward(context, plain, ids), real.forward(context, rests, ids))


# ---- training ----

def batches(theirs, n, rows, length):
    """n batches (ids, targets) of the project's own pages; targets are the next ids."""
    ids = [id for text in docs() for id in theirs(text)["input_ids"]]
    step = rows * length
    for i in range(n):
        part = torch.tensor(ids[i * step:i * step + step + 1])
        yield part[:-1].view(rows, length), part[1:].view(rows, length)


def train_theirs(model, data, **opts):
    optim = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], **opts)
    losses = []
    for ids, targets in data:
        loss = torch.nn.functional.cross_entropy(model(ids).logits.flatten(0, 1), targets.flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()
        losses.append(loss.item())
    return losses


def train_ours(context, lm, data, **opts):
    lib.ct_module_train(lm, True)
    optim = context.check(lib.ct_adamw_new(lm, ct.AdamwOpts(**opts)))
    losses = []
    for ids, targets in data:
        scope = lib.ct_scope_open(context.pointer)
        loss = context.check(lib.ct_lm_loss(lm, context.tensor(ids), context.tensor(targets), ct.LmCall(), ct.CrossEntropyOpts()))
        lib.ct_optim_zero_grad(optim)
        lib.ct_backward(loss)
        lib.ct_optim_step(optim)
        losses.append(context.value(loss).item())
        lib.ct_scope_close(scope)
    context.check()
    lib.ct_module_train(lm, False)
    return losses


def compare_losses(what, ours, want, seconds):
    apart = max(abs(a - b) for a, b in zip(ours, want))
    real.show(f"{what}, {len(want)} steps: loss {want[0]:.4f} to {want[-1]:.4f}, {apart:.1e} apart or less; {seconds[0]:.0f} s, "
              f"theirs {seconds[1]:.0f} s")
    assert len(ours) == len(want) and apart < 1e-3


def test_lora(context, smollm2, theirs, tmp_path):
    """Fifty steps with adapters of rank 8, five times over ten batches: from PEFT's own A and B. Then the adapters go back to PEFT."""
    import peft

    torch.manual_seed(1)
    config = peft.LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(load(smollm2), config)
    model.save_pretrained(tmp_path / "first")
    lm = real.open_lm(context, smollm2)
    context.check(lib.ct_lora_load(lm, str(tmp_path / "first").encode()))
    opts, data = {"lr": 1e-3, "weight_decay": 0.01}, list(batches(theirs, 10, 2, 32))
    begun = time.perf_counter()
    ours = train_ours(context, lm, data * 5, **opts)
    middle = time.perf_counter()
    want = train_theirs(model.train(), data * 5, **opts)
    compare_losses("LoRA", ours, want, (middle - begun, time.perf_counter() - middle))
    assert sum(want[-10:]) < sum(want[:10]) - 1   # it has learned: otherwise equal losses would be no sign of equal steps
    context.check(lib.ct_lora_save(lm, str(tmp_path / "trained").encode()))
    again = peft.PeftModel.from_pretrained(load(smollm2), tmp_path / "trained").eval()
    ids = data[0][0]
    assert real.worst(logits_of(again, ids), real.forward(context, lm, ids)) < 2e-3
    assert real.worst(logits_of(again, ids), logits_of(model.eval(), ids)) < 0.1
    context.check(lib.ct_lora_merge(lm))
    context.check(lib.ct_lm_save(lm, str(tmp_path / "merged").encode(), ct.SaveOpts()))
    merged = real.loads_whole(transformers.AutoModelForCausalLM, tmp_path / "merged")
    assert real.worst(logits_of(merged, ids), logits_of(again, ids)) < 2e-3


def test_all_parameters(context, smollm2, theirs, tmp_path):
    """Five steps of the whole model; transformers loads the result."""
    lm, model = real.open_lm(context, smollm2), load(smollm2)
    opts = {"lr": 1e-5, "weight_decay": 0.01}
    begun = time.perf_counter()
    ours = train_ours(context, lm, batches(theirs, 5, 2, 32), **opts)
    middle = time.perf_counter()
    want = train_theirs(model.train(), batches(theirs, 5, 2, 32), **opts)
    compare_losses("all parameters", ours, want, (middle - begun, time.perf_counter() - middle))
    assert abs(want[-1] - train_theirs(load(smollm2), list(batches(theirs, 5, 2, 32))[-1:], **opts)[0]) > 1e-2   # the steps count
    context.check(lib.ct_lm_save(lm, str(tmp_path / "trained").encode(), ct.SaveOpts()))
    again = real.loads_whole(transformers.AutoModelForCausalLM, tmp_path / "trained")
    ids = next(batches(theirs, 1, 2, 32))[0]
    assert real.worst(logits_of(again, ids), real.forward(context, lm, ids)) < 1e-3
