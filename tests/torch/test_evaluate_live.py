"""The program evaluate against transformers: perplexity by windows, the loss of what is learned in chats and completions, choices by the rule of
lm-evaluation-harness, and the difference of two models."""
import json
import math
import os
import subprocess

import pytest
import torch

import ct
from test_finetune_live import CHATS, COMPLETIONS, MODELS, TEXTS, documents, make_tokenizer

TEXT = "\n".join(f"the fox number {i} jumps over the {word} dog" for i, word in enumerate(["lazy", "é brown", "quick", "the", "\t fox"] * 8))


def model_in(folder, name, seed=3):
    torch.manual_seed(seed)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model, make_tokenizer(folder)


def evaluate(folder, *args, code=0):
    command = [os.path.abspath(ct.BUILD / "evaluate"), *map(str, args), "--json", "result.json"]
    run = subprocess.run(command, cwd=folder, text=True, capture_output=True)
    assert run.returncode == code, run.stderr + run.stdout
    return json.loads((folder / "result.json").read_text()) if code == 0 else run.stderr


def losses_of(model, ids):
    """-log p of each id but the first."""
    if len(ids) < 2:
        return torch.empty(0)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1]
    return torch.nn.functional.cross_entropy(logits.double(), torch.tensor(ids[1:]), reduction="none")


def windows(model, ids, window, stride):
    """(sum, number) of the predicted tokens of each window, as huggingface.co/docs/transformers/perplexity cuts them."""
    done = 0
    for begin in range(0, len(ids), stride):
        end = min(begin + window, len(ids))
        counted = losses_of(model, ids[begin:end])[max(done - 1 - begin, 0):]
        yield counted.sum().item(), len(counted)
        done = end
        if end == len(ids):
            break


def standard_error(values, weights):
    ratio = sum(values) / sum(weights)
    n = len(values)
    return math.sqrt(n / (n - 1) * sum((x - ratio * w) ** 2 for x, w in zip(values, weights))) / sum(weights)


@pytest.mark.parametrize("name, window, stride", [("llama", 128, 128), ("llama", 40, 13), ("llama", 7, 1), ("gpt2", 128, 0), ("gpt2", 0, 50), ("qwen2", 2, 2)])
def test_perplexity(tmp_path, name, window, stride):
    model, tokenizer = model_in(tmp_path / "lm", name)
    (tmp_path / "text.txt").write_text(TEXT)
    got = evaluate(tmp_path, "lm", "--data", "text.txt", "--window", window, "--stride", stride, "--batch", 3)["models"][0]
    window = window or 128
    stride = stride or window // 2
    parts = list(windows(model, tokenizer.encode(TEXT).ids, window, stride))
    nats, tokens = (sum(column) for column in zip(*parts))
    assert got["tokens"] == tokens and got["bytes"] == len(TEXT.encode()) and got["window"] == window and got["stride"] == stride
    assert got["nats"] == pytest.approx(nats, rel=1e-5)
    assert got["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    assert got["bits_per_byte"] == pytest.approx(nats / math.log(2) / len(TEXT.encode()), rel=1e-5)
    parts = [part for part in parts if part[1]]
    assert got["nats_per_token_stderr"] == pytest.approx(standard_error(*zip(*parts)), rel=1e-3)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_documents(tmp_path, name):
    """Texts are predicted whole, and chats and completions by the targets of finetune. Two models are compared by documents."""
    model, tokenizer = model_in(tmp_path / "lm", name)
    other, _ = model_in(tmp_path / "other", name, seed=4)
    rows = list(documents(tokenizer))
    chats, completions = rows[:len(CHATS)], rows[len(CHATS) + len(TEXTS):-1]
    texts = [(ids, ids) for ids in (tokenizer.encode(text).ids for text in TEXTS)]
    lines = [{"messages": [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]} for user, assistant in CHATS]
    lines += [{"text": text} for text in TEXTS] + [{"prompt": p, "completion": c} for p, c in COMPLETIONS]
    for part, data in ((lines, chats + texts + completions), (lines[len(CHATS):len(CHATS) + len(TEXTS)], texts)):
        (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, part)))
        result = evaluate(tmp_path, "lm", "--data", "data.jsonl", "--template", "chatml", "--batch", 4, "--against", "other")
        both = []
        for got, of in zip(result["models"], (model, other)):
            kept = [torch.tensor(labels[1:]) != -100 for _, labels in data]
            sums = [losses_of(of, ids)[keep].sum().item() for (ids, _), keep in zip(data, kept)]
            counts = [keep.sum().item() for keep in kept]
            assert got["documents"] == len(data) and got["tokens"] == sum(counts)
            assert got["nats"] == pytest.approx(sum(sums), rel=1e-5)
            both.append(sums)
        apart, difference = [a - b for a, b in zip(*both)], result["difference"]
        assert difference["nats_per_token"] == pytest.approx(sum(apart) / sum(counts), rel=1e-3, abs=1e-5)
        assert difference["nats_per_token_stderr"] == pytest.approx(standard_error(apart, counts), rel=1e-3)
        assert difference["documents"] == {"wins": sum(x < 0 for x in apart), "losses": sum(x > 0 for x in apart), "ties": 0}
        if data is texts:
            sizes = [len(text.encode()) * math.log(2) for text in TEXTS]
            assert difference["bits_per_byte"] == pytest.approx(sum(apart) / sum(sizes), rel=1e-3, abs=1e-5)
            assert difference["bits_per_byte_stderr"] == pytest.approx(standard_error(apart, sizes), rel=1e-3)


def pair(tokenizer, context, continuation):
    """lm-evaluation-harness, TemplateLM._encode_pair and loglikelihood."""
    if not context:
        ids = tokenizer.encode(continuation).ids
        return ([0], ids) if ids[0] != 0 else (ids[:1], ids[1:])   # <|endoftext|>
    spaces = len(context) - len(context.rstrip())
    if spaces:
        continuation, context = context[-spaces:] + continuation, context[:-spaces]
    whole, before = tokenizer.encode(context + continuation).ids, tokenizer.encode(context).ids
    return before, whole[len(before):]


QUESTIONS = [("the fox jumps", [" over the dog", " the", " fox fox fox fox"], 1), ("the dog, ", ["is lazy", "and"], 0), ("", ["who?", "<|endoftext|>the", "there"], 2),
             ("where? \n", ["a quick brown fox", "é"], 1), ("the fox " * 40, ["jumps over", "is lazy and the dog"], 0), ("who", ["?", "s the fox", "le"], 0)]


@pytest.mark.parametrize("delimiter", ["", " "])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_choices(tmp_path, name, delimiter):
    """A question that is too long loses its beginning."""
    model, tokenizer = model_in(tmp_path / "lm", name)
    other, _ = model_in(tmp_path / "other", name, seed=5)
    key = "prompt" if delimiter else "question"
    lines = [{key: question, "choices": choices, "answer": answer} for question, choices, answer in QUESTIONS]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    result = evaluate(tmp_path, "lm", "--data", "data.jsonl", "--against", "other", "--batch", 4, *(["--delimiter", " "] if delimiter else []))
    right = []
    for got, of in zip(result["models"], (model, other)):
        rows = []
        for question, choices, answer in QUESTIONS:
            scores = []
            for choice in choices:
                before, ids = pair(tokenizer, question, delimiter + choice)
                scores.append(-losses_of(of, (before + ids)[-129:])[-len(ids):].sum().item())
            per_byte = [score / len(choice.encode()) for score, choice in zip(scores, choices)]
            rows.append([float(x.index(max(x)) == answer) for x in (scores, per_byte)])
        for column, key in enumerate(("acc", "acc_norm")):
            values = [row[column] for row in rows]
            assert got[key] == pytest.approx(sum(values) / len(values))
            assert got[key + "_stderr"] == pytest.approx(standard_error(values, [1] * len(values)))
        right.append([row[0] for row in rows])
    apart = [a - b for a, b in zip(*right)]
    assert result["difference"]["acc"] == pytest.approx(sum(apart) / len(apart))
    assert result["difference"]["acc_stderr"] == pytest.approx(standard_error(apart, [1] * len(apart)))
    assert result["difference"]["acc_items"] == {"wins": apart.count(1), "losses": apart.count(-1), "ties": apart.count(0)}


def test_adapters(tmp_path):
    """Beside the model, or as the model, whose base they name."""
    import peft

    model, tokenizer = model_in(tmp_path / "lm", "llama")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"], base_model_name_or_path="lm")).eval()
    for key, value in adapted.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(value, std=0.3)
    adapted.peft_config["default"].base_model_name_or_path = "lm"
    adapted.save_pretrained(tmp_path / "adapter")
    (tmp_path / "text.txt").write_text(TEXT)
    nats = sum(part[0] for part in windows(adapted, tokenizer.encode(TEXT).ids, 128, 128))
    for way in (("lm", "--adapter", "adapter"), ("adapter",), ("adapter", "--base", "lm", "--against", "lm")):
        result = evaluate(tmp_path, *way, "--data", "text.txt", "--stride", 128)
        assert result["models"][0]["nats"] == pytest.approx(nats, rel=1e-5)
    assert abs(result["difference"]["nats_per_token"]) > 1e-4


def test_refusals(tmp_path):
    model_in(tmp_path / "lm", "llama")
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "one.txt").write_text("\n")
    (tmp_path / "result.json").write_text("data")
    (tmp_path / "mixed.jsonl").write_text('{"question": "a", "choices": ["b"], "answer": 0}\n{"text": "c"}\n')
    for args, words in [(("text.txt", "--window", 200), "more than the model's 128 tokens"), (("text.txt", "--window", 20, "--stride", 21), "--stride 21"),
                        (("one.txt",), "no token that could be predicted"), (("mixed.jsonl",), "mixed.jsonl:2: no choices"),
                        (("result.json", "--format", "text"), "would replace an input"), (("text.txt", "--against", "nowhere"), "nowhere")]:
        assert words in evaluate(tmp_path, "lm", "--data", *args, code=2)
