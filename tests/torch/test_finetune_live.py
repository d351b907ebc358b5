"""The program finetune against a training loop of transformers: the loss of each of 20 steps on conversations and texts, packed and padded."""
import json
import math
import os
import subprocess

import pytest
import tokenizers
import torch
import transformers

import ct

STEPS, LR, WARMUP, DECAY = 20, 5e-3, 2, 0.1
SIZES = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128}
MODELS = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES)),
    "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=128,
                                                                          attn_pdrop=0, resid_pdrop=0, embd_pdrop=0)),
}
CHATS = [("the fox", "jumps over"), ("the dog, and <|im_end|>", "is lazy"), ("who?", "a quick brown fox jumps"), ("where?", "there")]
TEXTS = ["hello fox", "the dog jumps over the fox and the fox over the dog", "<|im_start|>user\nthe fox<|im_end|>\n"]
COMPLETIONS = [("the dog ", "<|im_end|> and the fox"), ("who?", " a fox")]


def make_tokenizer(folder):
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([t for chat in CHATS for t in chat] + TEXTS, vocab_size=280,
                                  special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], show_progress=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    return tokenizer


def documents(tokenizer):
    """(ids, labels) of each document, by pieces; a user's <|im_end|> is ordinary text."""
    bare = tokenizers.Tokenizer.from_str(json.dumps({**json.loads(tokenizer.to_str()), "added_tokens": []}))
    start, end, eos = (tokenizer.token_to_id(t) for t in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"))

    def whole(text):
        return bare.encode(text).ids

    for user, assistant in CHATS:
        before = [start, *whole("user\n" + user), end, *whole("\n"), start, *whole("assistant\n")]
        answer = [*whole(assistant), end]
        yield before + answer + whole("\n"), [-100] * len(before) + answer + [-100]
    for text in TEXTS:  # special tokens of a text are tokens
        ids = [*tokenizer.encode(text).ids, eos]
        yield ids, ids
    for prompt, completion in COMPLETIONS:  # the tokens that begin in the completion are learned
        encoding = tokenizer.encode(prompt + completion)
        yield [*encoding.ids, eos], [*(id if begin >= len(prompt) else -100 for id, (begin, _) in zip(encoding.ids, encoding.offsets)), eos]
    start_of, answer = [start, *whole("user\nthe fox"), end, *whole("\n"), start, *whole("assistant\n")], [*whole("jumps"), end]
    ids = start_of + answer + whole("\n") + start_of + answer + whole("\n")  # the first answer has weight 0
    yield ids, [-100] * (len(start_of) + len(answer) + 1 + len(start_of)) + answer + [-100]


def train(model, rows):
    """The losses of steps whose batch is all documents."""
    model.train()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optim = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}])
    losses = []
    for step in range(STEPS):
        for group in optim.param_groups:
            part = (step + 1) / (WARMUP + 1) if step < WARMUP else (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))) / 2
            group["lr"] = LR * part
        optim.zero_grad()
        total, count = 0, 0
        for ids, labels in rows:
            logits = model(torch.tensor([ids])).logits[0, :-1]
            total = total + torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]), reduction="sum")
            count += sum(label != -100 for label in labels[1:])
        loss = total / count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("way", ["packed", "padded", "accumulated"])
@pytest.mark.parametrize("name", MODELS)
def test_losses(tmp_path, name, way):
    torch.manual_seed(3)
    model = MODELS[name]()
    model.save_pretrained(tmp_path / "lm")
    tokenizer = make_tokenizer(tmp_path / "lm")
    with open(tmp_path / "data.jsonl", "w") as file:
        for user, assistant in CHATS:
            messages = [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
            print(json.dumps({"messages": messages}), file=file)
        for text in TEXTS:
            print(json.dumps({"text": text}), file=file)
        for prompt, completion in COMPLETIONS:
            print(json.dumps({"prompt": prompt, "completion": completion}), file=file)
        turn = [{"role": "user", "content": [{"type": "text", "text": "the "}, {"type": "text", "text": "fox"}]}, {"role": "assistant", "content": "jumps"}]
        print(json.dumps({"messages": [turn[0], {**turn[1], "weight": 0}, *turn]}), file=file)
    rows = list(documents(tokenizer))
    command = [os.path.abspath(ct.BUILD / "finetune"), "lm", "--data", "data.jsonl", "--template", "chatml", "--full", "--out", "out", "--log", "log.jsonl"]
    command += {"packed": [], "padded": ["--padded", "--batch", "10"], "accumulated": ["--padded", "--batch", "2", "--accumulate", "5"]}[way]
    flags = ["--steps", str(STEPS), "--lr", str(LR), "--warmup", str(WARMUP / STEPS), "--decay", str(DECAY)]
    run = lambda *args: subprocess.run([*command, *args], cwd=tmp_path, check=True, text=True, capture_output=True).stdout
    if way == "packed":  # a batch is all rows; how many they are is said by a first run
        packed = int(run("--steps", "1", "--out", "few").split(" rows of 128")[0].split()[-1])
        assert packed < len(rows)
        flags += ["--batch", str(packed)]
        (tmp_path / "log.jsonl").unlink()
    said = run(*flags)
    assert f" {sum(len(ids) for ids, _ in rows)} tokens, of which the loss counts {sum(x != -100 for _, row in rows for x in row[1:])};" in said
    losses = [json.loads(line)["loss"] for line in open(tmp_path / "log.jsonl")]
    want = train(model, rows)
    assert len(losses) == STEPS and want[-1] < 0.7 * want[0]
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(want), rtol=2e-4, atol=0)
    again = type(model).from_pretrained(tmp_path / "out")
    got, expected = dict(again.named_parameters()), dict(model.named_parameters())
    for key, value in expected.items():
        torch.testing.assert_close(got[key], value, rtol=0, atol=2e-3, msg=lambda m, key=key: f"{key}: {m}")


def test_a_sample_ends_with_the_positions(tmp_path):
    transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=300, n_embd=32, n_layer=1, n_head=2, n_positions=16)).save_pretrained(tmp_path)
    tokenizer = make_tokenizer(tmp_path)
    (tmp_path / "text.txt").write_text("the dog jumps over the fox and the fox over the dog\n" * 9)

    def run(prompt):
        return subprocess.run([ct.BUILD / "finetune", tmp_path, "--data", tmp_path / "text.txt", "--steps", "2", "--sample", prompt,
                               "--out", tmp_path / "out"], capture_output=True, text=True)

    long = "the fox " * 9
    assert len(tokenizer.encode(long).ids) > 16
    ended = run(long)
    assert ended.returncode == 2 and "the model at most 16" in ended.stderr
    ended = run("the fox")
    assert ended.returncode == 0 and "step 2: the fox >> " in ended.stdout, ended.stderr


def test_other_programs_stop(tmp_path):
    """A folder without a template that is trained with one has it, and the end of a turn ends generation in transformers."""
    torch.manual_seed(4)
    before = MODELS["llama"]()
    before.config.eos_token_id = before.generation_config.eos_token_id = 0
    before.save_pretrained(tmp_path / "lm")
    make_tokenizer(tmp_path / "lm")
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps({"instruction": user, "output": assistant}) + "\n" for user, assistant in CHATS[2:]))
    subprocess.run([os.path.abspath(ct.BUILD / "finetune"), "lm", "--data", "chats.jsonl", "--template", "chatml", "--full", "--out", "out",
                    "--steps", "120", "--lr", "0.01"], cwd=tmp_path, check=True, capture_output=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert tokenizer.eos_token == "<|im_end|>" and model.generation_config.eos_token_id == [tokenizer.eos_token_id, 0]
    for user, assistant in CHATS[2:]:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": user}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
        ids = model.generate(**prompt, max_new_tokens=40, do_sample=False)[0]
        assert tokenizer.decode(ids[prompt["input_ids"].shape[1]:]) == assistant + "<|im_end|>"
