"""evaluate on labelled texts: its figures are those that are counted here, by hand, from the logits of the folder in transformers."""
import json
import math

import pytest
import torch

from test_evaluate_live import evaluate, standard_error
from test_heads_live import CASES, WORDS, make, word_tokenizer

NAMES = {"classify": list("abc"), "several": list("ab"), "real": ["LABEL_0"], "tag": ["odd", "even", "neither"]}
PROBLEMS = {"classify": "single_label_classification", "several": "multi_label_classification", "real": "regression", "tag": None}


def classifier(folder, family, case, seed=0, **more):
    names = NAMES[case]
    kind = "ForTokenClassification" if case == "tag" else "ForSequenceClassification"
    model = make(family, kind, num_labels=len(names), id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)}, problem_type=PROBLEMS[case], **more)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)
    return model.eval(), word_tokenizer(folder, WORDS)


def lines_of(case, n=40):
    generator = torch.Generator().manual_seed(8)
    return [CASES[case]([WORDS[i] for i in torch.randint(0, 40, (3 + n % 5,), generator=generator).tolist()]) for n in range(n)]


def put(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def answers(model, vocab, case, lines, length=None):
    """(what is said, what is true) of each line: lists of labels of words, a set of labels, a label, or a number."""
    for line in lines:
        words = line["tokens"] if case == "tag" else line["text"].split()
        words = words[:length - 2] if length else words
        with torch.no_grad():
            logits = model(torch.tensor([[2, *(vocab[word] for word in words), 3]])).logits[0]
        names = NAMES[case]
        if case == "tag":
            yield [names[k] for k in logits[1:-1].argmax(-1)], line["tags"][:len(words)]
        elif case == "several":
            yield {name for name, x in zip(names, logits) if torch.sigmoid(x) > 0.5}, set(line["label"])
        elif case == "real":
            yield logits[0].item(), line["label"]
        else:
            yield names[logits.argmax()], line["label"]


def counts(case, pairs, label):
    """true positives, false positives and false negatives of a label."""
    tp = fp = fn = 0
    for said, real in pairs:
        for s, r in zip(said, real) if case == "tag" else [(said, real)]:
            s, r = (label in s, label in r) if case == "several" else (s == label, r == label)
            tp, fp, fn = tp + (s and r), fp + (s and not r), fn + (r and not s)
    return tp, fp, fn


def check(got, case, pairs):
    if case == "real":
        squares = [(s - r) ** 2 for s, r in pairs]
        assert got["mse"] == pytest.approx(sum(squares) / len(pairs), rel=1e-4)
        assert got["mse_stderr"] == pytest.approx(standard_error(squares, [1] * len(pairs)), rel=1e-4)
        assert got["pearson"] == pytest.approx(torch.corrcoef(torch.tensor(pairs, dtype=torch.float64).T)[0, 1].item(), rel=1e-4)
        return
    right = [sum(s == r for s, r in zip(*pair)) if case == "tag" else pair[0] == pair[1] for pair in pairs]
    decisions = [len(pair[0]) if case == "tag" else 1 for pair in pairs]
    assert got["accuracy"] == pytest.approx(sum(right) / sum(decisions))
    assert got["accuracy_stderr"] == pytest.approx(standard_error(right, decisions))
    table = {label: counts(case, pairs, label) for label in NAMES[case]}
    f1 = {label: 2 * tp / (2 * tp + fp + fn) for label, (tp, fp, fn) in table.items() if tp + fp + fn}
    total = [sum(column) for column in zip(*table.values())]
    assert got["f1_macro"] == pytest.approx(sum(f1.values()) / len(f1))
    assert got["f1_micro"] == pytest.approx(2 * total[0] / (2 * total[0] + total[1] + total[2]))
    assert got["f1_weighted"] == pytest.approx(sum(f1[k] * (table[k][0] + table[k][2]) for k in f1) / (total[0] + total[2]))
    assert case == "several" or got["f1_micro"] == pytest.approx(got["accuracy"])
    for row, (label, (tp, fp, fn)) in zip(got["labels"], table.items()):
        assert (row["label"], row["true"], row["said"]) == (label, tp + fn, tp + fp)
        assert row["precision"] == (pytest.approx(tp / (tp + fp)) if tp + fp else None) and row["recall"] == (pytest.approx(tp / (tp + fn)) if tp + fn else None)
        assert row["f1"] == (pytest.approx(f1[label]) if label in f1 else None)


@pytest.mark.parametrize("family, case", [("bert", "classify"), ("bert", "several"), ("bert", "real"), ("bert", "tag"), ("gpt2", "classify"), ("qwen2", "tag"), ("llama", "real")])
def test_figures(tmp_path, family, case):
    model, vocab = classifier(tmp_path / "lm", family, case, seed=3)
    other, _ = classifier(tmp_path / "other", family, case, seed=11)
    lines = lines_of(case)
    put(tmp_path / "data.jsonl", lines)
    result = evaluate(tmp_path, "lm", "--data", "data.jsonl", "--batch", 7, "--against", "other", "--dtype", "f32")
    assert result["kind"] == "labels"
    both = [list(answers(of, vocab, case, lines)) for of in (model, other)]
    for got, pairs in zip(result["models"], both):
        assert (got["texts"], got["left_out"]) == (40, 0)
        check(got, case, pairs)
    if case == "real":
        errors = [[(s - r) ** 2 for s, r in pairs] for pairs in both]
        apart, key, weights = [a - b for a, b in zip(*errors)], "mse", [1] * 40
    else:
        rights = [[sum(s == r for s, r in zip(*pair)) if case == "tag" else int(pair[0] == pair[1]) for pair in pairs] for pairs in both]
        apart, key, weights = [a - b for a, b in zip(*rights)], "accuracy", [len(pair[0]) if case == "tag" else 1 for pair in both[0]]
    difference, sign = result["difference"], -1 if case == "real" else 1
    assert difference[key] == pytest.approx(sum(apart) / sum(weights), rel=1e-3, abs=1e-9)
    assert difference[key + "_stderr"] == pytest.approx(standard_error(apart, weights), rel=1e-3)
    wins, losses = sum(x * sign > 0 for x in apart), sum(x * sign < 0 for x in apart)
    assert difference["texts"] == {"wins": wins, "losses": losses, "ties": 40 - wins - losses} and wins and losses


def test_other_data_of_the_same_model(tmp_path):
    """CSV; ids of labels in place of names; one label for a model of several; whole numbers for one that tells numbers."""
    model, vocab = classifier(tmp_path / "one", "bert", "classify")
    lines = lines_of("classify")
    (tmp_path / "data.csv").write_text("label,text\n" + "".join(f'{line["label"]},"{line["text"]}"\n' for line in lines))
    put(tmp_path / "ids.jsonl", [line | {"label": "abc".index(line["label"])} for line in lines])
    for name in ("data.csv", "ids.jsonl"):
        check(evaluate(tmp_path, "one", "--data", name)["models"][0], "classify", list(answers(model, vocab, "classify", lines)))
    model, vocab = classifier(tmp_path / "several", "bert", "several")
    lines = [line | {"label": "a"} for line in lines]
    put(tmp_path / "data.jsonl", lines)
    check(evaluate(tmp_path, "several", "--data", "data.jsonl")["models"][0], "several", list(answers(model, vocab, "several", lines)))
    model, vocab = classifier(tmp_path / "real", "bert", "real")
    lines = [line | {"label": int(line["text"][1])} for line in lines]
    put(tmp_path / "data.jsonl", lines)
    check(evaluate(tmp_path, "real", "--data", "data.jsonl")["models"][0], "real", list(answers(model, vocab, "real", lines)))


@pytest.mark.parametrize("case", ["classify", "several", "real"])
def test_without_problem_type(tmp_path, case):
    """The number of labels and the data say what a config.json does not."""
    model, vocab = classifier(tmp_path / "lm", "bert", case)
    config = json.loads((tmp_path / "lm" / "config.json").read_text())
    del config["problem_type"]
    (tmp_path / "lm" / "config.json").write_text(json.dumps(config))
    lines = lines_of(case, 12)
    put(tmp_path / "data.jsonl", lines)
    check(evaluate(tmp_path, "lm", "--data", "data.jsonl")["models"][0], case, list(answers(model, vocab, case, lines)))


def test_what_is_left_out(tmp_path):
    """Words behind --length, and texts without a token. Models that read other words are not paired."""
    model, vocab = classifier(tmp_path / "lm", "bert", "tag")
    lines = lines_of("tag")
    put(tmp_path / "data.jsonl", [*lines, {"tokens": [], "tags": []}])
    got = evaluate(tmp_path, "lm", "--data", "data.jsonl", "--length", 6)["models"][0]
    pairs = list(answers(model, vocab, "tag", lines, 6))
    check(got, "tag", [*pairs, ([], [])])
    assert got["words"] == sum(len(said) for said, _ in pairs) and got["left_out"] == sum(max(len(line["tags"]) - 4, 0) for line in lines) > 0
    model, vocab = classifier(tmp_path / "gpt2", "gpt2", "classify")
    tokenizer = json.loads((tmp_path / "gpt2" / "tokenizer.json").read_text()) | {"post_processor": None}
    (tmp_path / "gpt2" / "tokenizer.json").write_text(json.dumps(tokenizer))
    lines = [{"text": text, "label": label} for text, label in (("w1 w2", "a"), ("", "b"), ("w3", "c"), (" ", "a"), ("w9", "c"))]
    put(tmp_path / "data.jsonl", lines)
    with torch.no_grad():
        right = [model(torch.tensor([[vocab[word] for word in line["text"].split()]])).logits[0].argmax().item() == "abc".index(line["label"]) for line in lines if line["text"].strip()]
    got = evaluate(tmp_path, "gpt2", "--data", "data.jsonl")["models"][0]
    assert got["left_out"] == 2 and got["accuracy"] == pytest.approx(sum(right) / 3)


def test_refusals(tmp_path):
    for case in NAMES:
        classifier(tmp_path / case, "bert", case)
    make("bert", None).save_pretrained(tmp_path / "base")
    word_tokenizer(tmp_path / "base", WORDS)
    files = {case: tmp_path / f"{case}.jsonl" for case in NAMES}
    for case, path in files.items():
        put(path, lines_of(case))
    put(tmp_path / "unknown.jsonl", [{"text": "w1", "label": "a"}, {"text": "w2", "label": "d"}])
    put(tmp_path / "without.jsonl", [{"text": "w1", "label": "a"}, {"text": "w2"}])
    put(tmp_path / "nothing.jsonl", [{"tokens": [], "tags": []}])
    for model, args, words in [("classify", ("unknown.jsonl",), 'unknown.jsonl:2: the label "d" is none of the model\'s 3 labels'),
                               ("classify", ("without.jsonl",), 'without.jsonl:2: an object needs "text" and "label"'),
                               ("classify", ("tag.jsonl",), 'tag.jsonl:1: an object needs "text" and "label"'),
                               ("tag", ("classify.jsonl",), 'classify.jsonl:1: an object needs "tokens" and "tags"'),
                               ("tag", ("nothing.jsonl",), "nothing.jsonl has no word that the model reads"),
                               ("classify", ("several.jsonl",), "several.jsonl has lists of labels, and classify tells one label for each text"),
                               ("classify", ("real.jsonl",), "real.jsonl has numbers, and classify tells one label for each text"),
                               ("real", ("classify.jsonl",), "classify.jsonl has one label for each text, and real tells numbers"),
                               ("base", ("classify.jsonl",), "no head that tells labels"), ("classify", ("classify.jsonl", "--window", 9), "--window is about other data"),
                               ("classify", ("classify.jsonl", "--labels", "a"), "--labels needs --task"),
                               ("classify", ("classify.jsonl", "--task", "classify", "--labels", ", ,"), "--labels names no label"),
                               ("classify", ("classify.jsonl", "--length", 999), "--length 999 is more than the model's"),
                               ("classify", ("classify.jsonl", "--against", "tag"), 'an object needs "tokens" and "tags"')]:
        assert words in evaluate(tmp_path, model, "--data", *args, code=2), args
    put(files["several"], [line | {"label": "a"} for line in lines_of("classify")])
    assert "of different kinds" in evaluate(tmp_path, "classify", "--data", "several.jsonl", "--against", "several", code=2)


def test_adapters_without_what_the_base_lacks(tmp_path):
    """PEFT saves a classifier, but not the pooler before it, which this base has not."""
    import peft
    import transformers

    make("bert", "ForMaskedLM").save_pretrained(tmp_path / "base")
    word_tokenizer(tmp_path / "base", WORDS)
    put(tmp_path / "data.jsonl", lines_of("classify", 6))
    args = ("adapter", "--base", "base", "--task", "classify", "--labels", "a, b,c", "--data", "data.jsonl")
    for saved in (["classifier"], ["classifier", "pooler"]):
        base = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=3)
        peft.get_peft_model(base, peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"], modules_to_save=[*saved])).save_pretrained(tmp_path / "adapter")
        if len(saved) == 1:
            assert "adapter has no bert.pooler.dense.weight, which --task needs" in evaluate(tmp_path, *args, code=2)
        else:
            assert [label["label"] for label in evaluate(tmp_path, *args)["models"][0]["labels"]] == list("abc")


def test_a_number_that_does_not_vary(tmp_path):
    """Pearson's correlation is not known then."""
    classifier(tmp_path / "lm", "bert", "real")
    put(tmp_path / "data.jsonl", [{"text": f"w{i}", "label": 1.5} for i in range(4)])
    got = evaluate(tmp_path, "lm", "--data", "data.jsonl")["models"][0]
    assert got["pearson"] is None and math.isfinite(got["mse"])
