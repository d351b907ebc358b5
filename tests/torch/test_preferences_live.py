"""finetune --method dpo and orpo beside trl: the methods of its trainers that compute a loss, taken out of its files (trl itself needs more packages),
in a training loop of torch. The losses of 20 steps depend on the gradients of all before."""
import ast
import collections
import importlib.util
import json
import os
import subprocess
import types
from pathlib import Path

import pytest
import torch

import ct
from test_finetune_live import MODELS, make_tokenizer

trl = importlib.util.find_spec("trl")
pytestmark = pytest.mark.skipif(trl is None, reason="trl")
F = torch.nn.functional
STEPS, LR, BETA = 20, 3e-3, 0.3
PAIRS = [("the dog", " jumps over the fox", " is lazy"), ("who?", " a quick brown fox", " there"), ("where?", " there is a fox", " who"),
         ("hello", " fox and the dog and the fox", " fox")]


def taken(path, *names):
    """Functions and methods of a file of trl, as they stand there."""
    file = Path(trl.origin).parent / path
    space = {"torch": torch, "nn": torch.nn, "F": F, "Literal": __import__("typing").Literal}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            node.decorator_list = []
            exec(compile(ast.Module([ast.parse("from __future__ import annotations").body[0], node], []), str(file), "exec"), space)
    return [space[name] for name in names]


def rows_of(tokenizer):
    """(ids, the first token of the answer) of the chosen answers, then of the rejected ones."""
    eos = tokenizer.token_to_id("<|endoftext|>")
    for answer in (1, 2):
        for pair in PAIRS:
            encoding = tokenizer.encode(pair[0] + pair[answer])
            yield [*encoding.ids, eos], next(i for i, (begin, _) in enumerate(encoding.offsets) if begin >= len(pair[0]))


def batch_of(tokenizer):
    rows = list(rows_of(tokenizer))
    longest = max(len(ids) for ids, _ in rows)
    pad = lambda values, with_: torch.tensor([v + [with_] * (longest - len(v)) for v in values])
    return {"input_ids": pad([ids for ids, _ in rows], 0), "attention_mask": pad([[1] * len(ids) for ids, _ in rows], 0),
            "completion_mask": pad([[0] * at + [1] * (len(ids) - at) for ids, at in rows], 0)}


def log_probs(model, input_ids, attention_mask, labels):
    logits = model(input_ids=input_ids, attention_mask=attention_mask).logits[:, :-1]
    return -F.cross_entropy(logits.transpose(1, 2), labels[:, 1:], reduction="none"), logits


def dpo(model, batch):
    """(loss, chosen, rejected rewards, margin, accuracy) of trl's DPOTrainer; the reference is the model now."""
    compute, = taken("trainer/dpo_trainer.py", "_compute_loss")
    labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
    with torch.no_grad():
        reference = log_probs(model, batch["input_ids"], batch["attention_mask"], labels)[0].sum(1).chunk(2)
    metrics = collections.defaultdict(lambda: collections.defaultdict(list))
    trainer = types.SimpleNamespace(accelerator=types.SimpleNamespace(device="cpu", gather_for_metrics=lambda x: x, gather=lambda x: x), model=model, beta=BETA, loss_types=["sigmoid"], loss_weights=[1.0],
                                    f_divergence_type="reverse_kl", ld_alpha=None, precompute_ref_logps=True, use_weighting=False, aux_loss_enabled=False,
                                    label_smoothing=0, _metrics=metrics, _total_train_tokens=0, _tp_size=1)

    class Fused:
        training = True

        def __call__(self, input_ids, attention_mask, labels, **_):
            values, logits = log_probs(model, input_ids, attention_mask, labels)
            zeros = torch.zeros_like(values)
            return types.SimpleNamespace(log_probs=values, entropy=zeros, mean_logits=logits.mean(-1), is_top1=zeros > 0)

    def step():
        metrics["train"].clear()
        loss = compute(trainer, Fused(), batch | {"ref_chosen_logps": reference[0], "ref_rejected_logps": reference[1]}, False)
        return loss, metrics["train"]["rewards/margins"][0], metrics["train"]["rewards/accuracies"][0]
    return step


def orpo(model, batch):
    forward, odds, logps, metrics = taken("experimental/orpo/orpo_trainer.py", "concatenated_forward", "odds_ratio_loss", "get_batch_logps", "get_batch_loss_metrics")
    logps.__globals__["selective_log_softmax"] = lambda logits, ids: logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    metrics.__globals__["is_torch_xla_available"] = lambda: False
    odds.__globals__["log1mexp"], = taken("experimental/orpo/orpo_trainer.py", "log1mexp")
    trainer = types.SimpleNamespace(accelerator=types.SimpleNamespace(device="cpu", gather_for_metrics=lambda x: x, gather=lambda x: x), beta=BETA, is_encoder_decoder=False, padding_value=0,
                                    aux_loss_enabled=False, get_batch_logps=logps)
    labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
    trainer.concatenated_inputs = lambda *_, **__: {"concatenated_input_ids": batch["input_ids"], "concatenated_attention_mask": batch["attention_mask"], "concatenated_labels": labels}
    trainer.concatenated_forward = lambda *a: forward(trainer, *a)
    trainer.odds_ratio_loss = lambda *a: odds(trainer, *a)

    def step():
        loss, said = metrics(trainer, model, {"chosen_labels": labels[:len(PAIRS)]})
        return loss, said["rewards/margins"], said["rewards/accuracies"]
    return step


def train(model, step):
    model.train()
    optim = torch.optim.AdamW(model.parameters(), weight_decay=0, lr=LR)
    for _ in range(STEPS):
        for group in optim.param_groups:
            group["lr"] = LR
        optim.zero_grad()
        values = step()
        values[0].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        yield [float(v) for v in values]


@pytest.mark.parametrize("method", [dpo, orpo])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_losses_of_preferences(tmp_path, name, method):
    torch.manual_seed(3)
    model = MODELS[name]()
    model.save_pretrained(tmp_path / "lm")
    batch = batch_of(make_tokenizer(tmp_path / "lm"))
    with open(tmp_path / "data.jsonl", "w") as file:
        for prompt, chosen, rejected in PAIRS:
            print(json.dumps({"prompt": prompt, "chosen": chosen, "rejected": rejected}), file=file)
    said = subprocess.run([os.path.abspath(ct.BUILD / "finetune"), "lm", "--data", "data.jsonl", "--method", method.__name__, "--full", "--beta", str(BETA), "--batch", str(len(PAIRS)),
                           "--steps", str(STEPS), "--lr", str(LR), "--min-lr", "1", "--warmup", "0", "--out", "out", "--log", "log.jsonl"],
                          cwd=tmp_path, check=True, text=True, capture_output=True).stdout
    losses = [json.loads(line)["loss"] for line in open(tmp_path / "log.jsonl")]
    want = list(train(model, method(model, batch)))
    assert len(losses) == STEPS and want[-1][0] < 0.9 * want[0][0]
    torch.testing.assert_close(torch.tensor(losses), torch.tensor([w[0] for w in want]), rtol=2e-4, atol=2e-5)
    shown = [line.split() for line in said.replace("\r", "\n").splitlines() if line.startswith("step ")]
    assert len(shown) >= 1
    last = dict(zip(shown[-1][2::2], shown[-1][3::2]))
    assert abs(float(last["margin"]) - want[-1][1]) < 1e-3 and abs(float(last["accuracy"]) - want[-1][2]) < 0.01
