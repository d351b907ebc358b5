"""Classifiers of sequences and of tokens against transformers, live: logits, losses and gradients of every family that has them,
heads that a file lacks, names of labels, and folders in both directions."""
import json
import re
import subprocess

import pytest
import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

import ct
from ct import lib
from test_models_live import BERT, DISTILBERT, LLAMA, ROBERTA, SMALL, error, forward, open_lm

FILE, NONE, CAUSAL, MASKED, SEQUENCE, TOKEN = range(6)
CROSS_ENTROPY, BCE, MSE = "single_label_classification", "multi_label_classification", "regression"
GPT2 = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "pad_token_id": 0}
TWO = {"num_hidden_layers": 2}

# family: (prefix of the classes, config's class, config, class of the base)
FAMILIES = {
    "gpt2": ("GPT2", "GPT2Config", GPT2, "GPT2Model"),
    "llama": ("Llama", "LlamaConfig", LLAMA | TWO, "LlamaModel"),
    "mistral": ("Mistral", "MistralConfig", LLAMA | TWO | {"sliding_window": 5}, "MistralModel"),
    "qwen2": ("Qwen2", "Qwen2Config", LLAMA | TWO, "Qwen2Model"),
    "qwen3": ("Qwen3", "Qwen3Config", LLAMA | TWO | {"head_dim": 16}, "Qwen3Model"),
    "gemma3_text": ("Gemma3Text", "Gemma3TextConfig", LLAMA | TWO | {"head_dim": 16, "final_logit_softcapping": 1.5}, "Gemma3TextModel"),
    "smollm3": ("SmolLM3", "SmolLM3Config", LLAMA | TWO, "SmolLM3Model"),
    "olmo2": ("Olmo2", "Olmo2Config", LLAMA | TWO, "Olmo2Model"),
    "gpt_neox": ("GPTNeoX", "GPTNeoXConfig", SMALL | TWO | {"max_position_embeddings": 64, "pad_token_id": 0}, "GPTNeoXModel"),
    "bert": ("Bert", "BertConfig", BERT | TWO, "BertModel"),
    "roberta": ("Roberta", "RobertaConfig", ROBERTA | TWO, "RobertaModel"),
    "xlm-roberta": ("XLMRoberta", "XLMRobertaConfig", ROBERTA | TWO, "XLMRobertaModel"),
    "distilbert": ("DistilBert", "DistilBertConfig", DISTILBERT | {"n_layers": 2}, "DistilBertModel"),
}
KINDS = {"ForSequenceClassification": SEQUENCE, "ForTokenClassification": TOKEN}
CLASSES = [(family, kind) for family, (prefix, *_) in FAMILIES.items() for kind in KINDS if hasattr(transformers, prefix + kind)]


def make(family, kind, dtype=torch.float32, **more):
    prefix, config, sizes, base = FAMILIES[family]
    config = getattr(transformers, config)(**sizes | more, attn_implementation="sdpa" if dtype == torch.float64 else "eager")
    torch.manual_seed(5)
    model = getattr(transformers, base if not kind else prefix + kind)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.to(dtype)


class Info:
    """ct_lm_about as Python's values."""

    def __init__(self, lm):
        about = lib.ct_lm_about(lm)
        text = lambda at: ct.ffi.string(at).decode()
        texts = lambda at, n: [text(at[i]) for i in range(n)]
        self.head, self.problem = about.head, text(about.problem_type) if about.problem_type else None
        self.labels, self.drawn = texts(about.label_names, about.labels), texts(about.drawn, about.n_drawn)
        self.config = json.loads(text(about.config))


def names(*texts):
    return list(texts)


def padded(left, shape=(4, 9), pad=0):
    """Ids, a mask, and the positions that transformers gives no row by itself. Only padding has the id `pad`."""
    ids, mask = torch.randint(pad + 1, 97, shape), torch.ones(shape, dtype=torch.bool)
    for row, n in enumerate((0, 3, 5, 8)):
        mask[row, :n if left else 0] = False
        mask[row, shape[1] if left else shape[1] - n:] = False
    return torch.where(mask, ids, pad), mask, (mask.long().cumsum(-1) - 1).clamp(min=0)


def losses(context, lm, ids, targets, reduction=0, **call):
    call = {k: context.tensor(v) for k, v in call.items()}
    opts = ct.CrossEntropyOpts(reduction=reduction)
    return context.check(lib.ct_lm_loss(lm, context.tensor(ids), context.tensor(targets), ct.LmCall(**call), opts))


def same_gradients(context, parameters, model, family):
    grads = {key: value.grad for key, value in model.named_parameters() if value.grad is not None}
    assert {key for key, pointer in parameters.items() if lib.ct_grad(pointer)} == set(grads)
    largest = max(grad.abs().max() for grad in grads.values())
    for key, grad in grads.items():
        if family == "gpt2" and key.split(".")[-2] in ("c_attn", "c_proj", "c_fc") and grad.ndim == 2:
            grad = grad.T
        assert (context.grad(parameters[key]) - grad).abs().max() < 1e-5 * max(grad.abs().max(), 1e-3 * largest), key


@pytest.mark.parametrize("family, kind", CLASSES)
def test_logits_losses_gradients(context, tmp_path, family, kind):
    """Each loss that the class has, on the left and on the right padded; the folder says the kind, the labels and the loss."""
    problems = [(CROSS_ENTROPY, 5), (MSE, 1), (MSE, 3), (BCE, 4)] if kind == "ForSequenceClassification" else [(None, 5)]
    for number, (problem, labels) in enumerate(problems):
        model = make(family, kind, torch.float64, num_labels=labels, problem_type=problem)
        make(family, kind, num_labels=labels, problem_type=problem).save_pretrained(tmp_path / str(number))
        lm = open_lm(context, tmp_path / str(number), dtype=1)
        about = Info(lm)
        assert (about.head, about.problem, len(about.labels), about.drawn) == (KINDS[kind], problem, labels, [])
        context.check(lib.ct_module_train(lm, False))
        parameters = context.parameters(lm)
        for left in (True, False):
            ids, mask, positions = padded(left, pad=model.config.pad_token_id)
            more = {} if family.endswith("roberta") or (family == "bert" and not left) else {"position_ids": positions}   # RoBERTa counts by ids
            if problem == MSE or problem == BCE:
                targets = torch.randn(4, labels).double() if problem == MSE else torch.randint(0, 2, (4, labels)).double()
            else:
                targets = torch.randint(0, labels, (4,) if problem else (4, 9))
            if not problem:
                targets = torch.where(mask & (torch.rand(4, 9) < 0.6), targets, -100)
                targets[0, 2] = 1
            out = model(ids, attention_mask=mask.long(), labels=targets, **more)
            got, want = context.value(forward(context, lm, ids, key_mask=mask)), out.logits.detach()
            assert error(got[mask] if not problem else got, want[mask] if not problem else want) < 2e-6
            ours = targets.float() if targets.is_floating_point() else targets
            if targets.is_floating_point():
                out = model(ids, attention_mask=mask.long(), labels=ours.double(), **more)
            loss = losses(context, lm, ids, ours, key_mask=mask)
            assert error(context.value(loss), out.loss.detach()) < 2e-6
            for pointer in parameters.values():
                lib.ct_zero_grad(pointer)
            model.zero_grad()
            context.backward([loss], [torch.tensor(1.0, dtype=torch.float64)])
            out.loss.backward()
            same_gradients(context, parameters, model, family)
            if problem:
                each = {CROSS_ENTROPY: torch.nn.functional.cross_entropy, MSE: torch.nn.functional.mse_loss,
                        BCE: torch.nn.functional.binary_cross_entropy_with_logits}[problem]
                for reduction, name in enumerate(("mean", "sum", "none")):
                    loss = losses(context, lm, ids, ours, reduction, key_mask=mask)
                    assert error(context.value(loss), each(want, ours if problem == CROSS_ENTROPY else ours.double(), reduction=name)) < 2e-6


@pytest.mark.parametrize("family, kind", CLASSES)
def test_a_new_head(context, tmp_path, family, kind):
    """A base as a classifier: what is drawn is named and is as transformers draws it; both load each other's folders."""
    base = make(family, None)
    base.save_pretrained(tmp_path / "base")
    lm = open_lm(context, tmp_path / "base", head=KINDS[kind], labels=3, label_names=names("no", "jein \"ü\"", "yes"))
    about = Info(lm)
    assert about.labels == ["no", "jein \"ü\"", "yes"] and about.head == KINDS[kind]
    auto = AutoModelForSequenceClassification if KINDS[kind] == SEQUENCE else AutoModelForTokenClassification
    reference, info = auto.from_pretrained(tmp_path / "base", num_labels=3, output_loading_info=True)
    assert set(about.drawn) == set(info["missing_keys"])
    parameters, state = context.parameters(lm), dict(reference.named_parameters())
    assert set(parameters) == set(state)
    for key in about.drawn:
        value = context.value(parameters[key])
        if key.endswith("bias"):
            assert not value.any()
        else:
            assert value.shape == state[key].shape and abs(value.mean()) < 0.02 and 0.01 < value.std() < 0.03
    context.check(lib.ct_lm_save(lm, str(tmp_path / "out").encode(), ct.SaveOpts()))
    again, info = auto.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert again.config.id2label == {0: "no", 1: "jein \"ü\"", 2: "yes"} and again.config.label2id == {"no": 0, "jein \"ü\"": 1, "yes": 2}
    assert again.config.architectures == [FAMILIES[family][0] + kind]
    lib.ct_module_train(lm, False)
    ids, mask, positions = padded(False)
    with torch.no_grad():
        want = again.eval()(ids, attention_mask=mask.long()).logits
    got = context.value(forward(context, lm, ids, key_mask=mask))
    assert error(got[mask] if got.ndim == 3 else got, want[mask] if got.ndim == 3 else want) < 5e-6
    assert torch.equal(context.value(forward(context, open_lm(context, tmp_path / "out"), ids, key_mask=mask)), got)
    again.save_pretrained(tmp_path / "theirs")
    lm = open_lm(context, tmp_path / "theirs")
    assert Info(lm).labels == about.labels and torch.equal(context.value(forward(context, lm, ids, key_mask=mask)), got)


def head_of(lm, context, path):
    return context.value(context.parameters(lm)[path])


@pytest.mark.parametrize("family, kind, head", [("bert", "ForSequenceClassification", "classifier"), ("llama", "ForTokenClassification", "score")])
def test_heads_of_another_kind_or_number(context, tmp_path, family, kind, head):
    model = make(family, kind, num_labels=3, id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2})
    model.save_pretrained(tmp_path)
    weight = model.state_dict()[head + ".weight"]
    own, other = KINDS[kind], SEQUENCE + TOKEN - KINDS[kind]
    for opts in ({}, {"labels": 3}, {"head": own}, {"head": own, "labels": 3, "label_names": names("x", "y", "z")}):
        lm = open_lm(context, tmp_path, **opts)
        assert Info(lm).drawn == [] and torch.equal(head_of(lm, context, head + ".weight"), weight)
        assert Info(lm).labels == (["x", "y", "z"] if "label_names" in opts else ["a", "b", "c"])
    for opts in ({"labels": 4}, {"head": own, "labels": 2}, {"head": other}, {"head": other, "labels": 3}):
        lm = open_lm(context, tmp_path, **opts)
        n = opts.get("labels", 3)
        assert head + ".weight" in Info(lm).drawn and all(head in name for name in Info(lm).drawn)
        assert head_of(lm, context, head + ".weight").std() < 0.04 and head_of(lm, context, head + ".weight").shape == (n, 32)
        assert Info(lm).labels == (["a", "b", "c"] if n == 3 else [f"LABEL_{i}" for i in range(n)])


def test_masked_and_causal_heads_on_other_files(context, tmp_path):
    """A masked-LM head is drawn on a classifier's file and read from its own; the base of a masked-LM file becomes a classifier."""
    make("bert", "ForSequenceClassification").save_pretrained(tmp_path / "classes")
    lm = open_lm(context, tmp_path / "classes", head=MASKED)
    drawn = {"cls.predictions.bias", *(f"cls.predictions.transform.{part}.{name}" for part in ("dense", "LayerNorm") for name in ("weight", "bias"))}
    assert set(Info(lm).drawn) == drawn
    context.check(lib.ct_lm_save(lm, str(tmp_path / "masked").encode(), ct.SaveOpts()))
    again, info = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "masked", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    ids = torch.randint(1, 97, (2, 9))
    with torch.no_grad():
        assert error(context.value(forward(context, lm, ids)), again.eval()(ids).logits) < 5e-6
    lm = open_lm(context, tmp_path / "masked", head=SEQUENCE)
    assert set(Info(lm).drawn) == {f"{part}.{name}" for part in ("classifier", "bert.pooler.dense") for name in ("weight", "bias")}
    assert open_lm(context, tmp_path / "masked", head=MASKED) and not Info(open_lm(context, tmp_path / "masked", head=MASKED)).drawn
    assert not Info(open_lm(context, tmp_path / "masked", head=NONE)).drawn
    make("llama", "ForSequenceClassification").save_pretrained(tmp_path / "score")
    assert Info(open_lm(context, tmp_path / "score", head=CAUSAL)).drawn == ["lm_head.weight"]
    make("gpt2", "ForSequenceClassification").save_pretrained(tmp_path / "gpt2")
    assert Info(open_lm(context, tmp_path / "gpt2", head=CAUSAL)).drawn == []      # tied
    for folder, head in (("score", MASKED), ("masked", CAUSAL)):
        with pytest.raises(ct.Error, match="head"):
            open_lm(context, tmp_path / folder, head=head)
    for family in ("gemma3_text", "olmo2"):
        make(family, None).save_pretrained(tmp_path / family)
        with pytest.raises(ct.Error, match="no " + family + " with a classifier of tokens"):
            open_lm(context, tmp_path / family, head=TOKEN)


@pytest.mark.parametrize("dtype", [4, 5, 6])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_bases_at_rest(context, tmp_path, family, dtype):
    """Beside a base in bf16 or blocks what is drawn, and a classifier that is read, is f32 and gets gradients."""
    make(family, "ForMaskedLM" if family == "bert" else "ForCausalLM").save_pretrained(tmp_path / "base")
    for folder, opts in (("base", {"head": SEQUENCE, "labels": 3}), ("saved", {})):
        lm = open_lm(context, tmp_path / folder, dtype=dtype, **opts)
        ids, mask, _ = padded(True)
        loss = losses(context, lm, ids, torch.tensor([2, 0, 1, 1]), key_mask=mask)
        parameters = context.parameters(lm)
        context.backward([loss], [torch.tensor(1.0)])
        trained = {name for name, pointer in parameters.items() if lib.ct_dtype_of(pointer) == 0 and "weight" in name
                   and any(part in name for part in ("score", "classifier", *(["pooler"] if opts else [])))}
        assert len(trained) == (2 if family == "bert" and opts else 1)
        assert all(context.grad(parameters[name]).abs().max() > 0 for name in trained)
        context.check(lib.ct_lm_save(lm, str(tmp_path / "saved").encode(), ct.SaveOpts()))


@pytest.mark.parametrize("config", [{"num_labels": 3}, {"id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 5}, {}, {"problem_type": "regression", "num_labels": 1}])
def test_labels_of_a_config(context, tmp_path, config):
    """num_labels stands before id2label; two labels are the default."""
    text = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]} | BERT | config
    theirs = transformers.BertConfig(**config)
    lm = context.check(lib.ct_lm_new(context.pointer, json.dumps(text).encode(), ct.LmOpts()))
    about = Info(lm)
    assert about.labels == list(theirs.id2label.values()) and about.problem == theirs.problem_type and about.drawn == []
    context.check(lib.ct_lm_save(lm, str(tmp_path / "out").encode(), ct.SaveOpts()))
    again = transformers.AutoConfig.from_pretrained(tmp_path / "out")
    assert (again.num_labels, again.id2label, again.label2id, again.problem_type) == (theirs.num_labels, theirs.id2label, theirs.label2id, theirs.problem_type)


@pytest.mark.parametrize("family, kind, rate, share", [
    ("gpt2", SEQUENCE, {"hidden_dropout": 0.35}, 0), ("gpt2", TOKEN, {"hidden_dropout": 0.35}, 0.35), ("gpt2", TOKEN, {"hidden_dropout": None}, 0.1),
    ("llama", SEQUENCE, {"classifier_dropout": 0.35}, 0), ("llama", TOKEN, {"classifier_dropout": 0.35}, 0.35),
    ("llama", TOKEN, {"hidden_dropout": None, "classifier_dropout": None}, 0.1), ("gpt_neox", TOKEN, {"classifier_dropout": 0.35}, 0.35),
    ("bert", SEQUENCE, {"classifier_dropout": 0.35}, 0.35), ("bert", TOKEN, {"classifier_dropout": 0.35}, 0.35)])
def test_dropout(context, tmp_path, family, kind, rate, share):
    """The rate before the Linear: the share of zeros of its input's columns shows in its gradient, for one text and one label."""
    kind = next(name for name in KINDS if KINDS[name] == kind)
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} if family == "bert" else {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
    model = make(family, kind, num_labels=2, **(rate | off if family in ("bert", "gpt2") else rate))
    model.save_pretrained(tmp_path)
    lm = open_lm(context, tmp_path)
    context.check(lib.ct_module_train(lm, True))
    weight = context.parameters(lm)[("score" if hasattr(model, "score") else "classifier") + ".weight"]
    zeros = []
    for _ in range(60):
        lib.ct_zero_grad(weight)
        targets = torch.tensor([1]) if KINDS[kind] == SEQUENCE else torch.tensor([[1]])
        context.backward([losses(context, lm, torch.tensor([[7]]), targets)], [torch.tensor(1.0)])
        zeros.append((context.grad(weight)[0] == 0).float().mean())
    assert abs(torch.stack(zeros).mean() - share) < (0.05 if share else 1e-9)


def word_tokenizer(folder, words):
    """Words of white space, between [CLS] and [SEP]; id 0 is [PAD]."""
    vocab = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    text = {"version": "1.0", "added_tokens": [{"id": vocab[t], "content": t, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
                                               for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")],
            "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": None,
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}}
    (folder / "tokenizer.json").write_text(json.dumps(text))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}))
    return vocab


WORDS = [f"w{i}" for i in range(40)]
CASES = {   # what stands in a line, by the first word of the text
    "classify": lambda words: {"text": " ".join(words), "label": "abc"[int(words[0][1:]) % 3]},
    "several": lambda words: {"text": " ".join(words), "label": [x for x in "ab" if int(words[0][1:]) % (2 if x == "a" else 3) == 0]},
    "real": lambda words: {"text": " ".join(words), "label": int(words[0][1:]) / 4 + 0.125},
    "tag": lambda words: {"tokens": words, "tags": ["even" if int(word[1:]) % 2 == 0 else "odd" for word in words]},
}


@pytest.mark.parametrize("case", [*CASES, "csv"])
def test_the_program(tmp_path, case):
    """finetune --task: the figure that it prints is that of the folder in transformers, over the texts held out."""
    base, data, out = tmp_path / "base", tmp_path / ("data.csv" if case == "csv" else "data.jsonl"), tmp_path / "out"
    make("bert", "ForMaskedLM", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).save_pretrained(base)
    vocab = word_tokenizer(base, WORDS)
    generator = torch.Generator().manual_seed(3)
    lines = [CASES["classify" if case == "csv" else case]([WORDS[i] for i in torch.randint(0, 40, (3 + n % 4,), generator=generator).tolist()]) for n in range(60)]
    if case == "csv":
        data.write_bytes("".join([f'text,"id",label\r\n', *(f'"{line["text"]}",,"{line["label"]}"\r\n' for line in lines)]).encode())
    else:
        data.write_text("".join(json.dumps(line | {"other": [{"x": "\u00e9\""}]}) + "\n" for line in lines))
    task = "tag" if case == "tag" else "classify"
    run = subprocess.run([ct.BUILD / "finetune", base, "--task", task, "--data", data, "--out", out, "--hold-out", "0.25", "--batch", "4",
                          "--steps", "6", "--lr", "1e-3", "--threads", "1", "--allow-worse"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "drawn: " in run.stdout and "classifier.weight" in run.stdout
    auto = AutoModelForTokenClassification if case == "tag" else AutoModelForSequenceClassification
    model = auto.from_pretrained(out).eval()
    names = {"classify": list("abc"), "csv": list("abc"), "several": list("ab"), "real": ["LABEL_0"], "tag": ["even", "odd"]}[case]
    assert list(model.config.id2label.values()) == names
    right = all_ = squares = 0
    for i, line in enumerate(lines):
        if int((i + 1) * 0.25) == int(i * 0.25):
            continue
        words = line["tokens"] if case == "tag" else line["text"].split()
        with torch.no_grad():
            logits = model(torch.tensor([[2, *(vocab[word] for word in words), 3]])).logits[0]
        if case == "tag":
            said = [names[k] for k in logits[1:-1].argmax(-1)]
            right, all_ = right + sum(a == b for a, b in zip(said, line["tags"])), all_ + len(words)
        elif case == "real":
            squares, all_ = squares + (logits[0] - line["label"]).item() ** 2, all_ + 1
        else:
            said = [name for name, x in zip(names, logits) if x > 0] if case == "several" else names[logits.argmax()]
            right, all_ = right + (said == line["label"]), all_ + 1
    got = float(re.search(r"(?:error|accuracy) ([0-9.]+)", run.stdout)[1])
    assert abs(got - ((squares / all_) ** 0.5 if case == "real" else right / all_)) < 1e-3, run.stdout
    # evaluate prints the same
    held = [line for i, line in enumerate(lines) if int((i + 1) * 0.25) > int(i * 0.25)]
    (tmp_path / "held.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held))
    report = subprocess.run([ct.BUILD / "evaluate", out, "--data", tmp_path / "held.jsonl", "--threads", "1", "--json", tmp_path / "held.json"], capture_output=True, text=True)
    assert report.returncode == 0, report.stderr
    figures = json.loads((tmp_path / "held.json").read_text())["models"][0]
    if case == "real":
        assert f"error {figures['mse'] ** 0.5:.4f} over" in run.stdout
    else:
        assert f"accuracy {figures['accuracy']:.4f}, F1 {figures['f1_macro']:.4f} " in run.stdout, (figures, run.stdout)


@pytest.mark.parametrize("family, kind, case", [("bert", "ForMaskedLM", "classify"), ("bert", "ForTokenClassification", "tag"), ("llama", None, "tag"),
                                                ("gpt2", None, "several"), ("qwen2", None, "real")])
def test_adapters_of_the_program(tmp_path, family, kind, case):
    """finetune --task --lora: PEFT puts the folder, with its head, on the base, and has the logits of the model that --merge writes."""
    import peft

    base, data = tmp_path / "base", tmp_path / "data.jsonl"
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} if family == "bert" else {}
    make(family, kind, **off, **({"num_labels": 2, "id2label": {0: "odd", 1: "even"}, "label2id": {"odd": 0, "even": 1}} if "Token" in str(kind) else {})).save_pretrained(base)
    vocab = word_tokenizer(base, WORDS)
    generator = torch.Generator().manual_seed(3)
    lines = [CASES[case]([WORDS[i] for i in torch.randint(0, 40, (3 + n % 4,), generator=generator).tolist()]) for n in range(30)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = "tag" if case == "tag" else "classify"
    run = lambda program, *args: subprocess.run([ct.BUILD / program, *args, "--data", data, "--threads", "1"], cwd=tmp_path, capture_output=True, text=True)
    for out, how in (("adapter", []), ("merged", ["--merge"])):
        got = run("finetune", "base", "--task", task, "--lora", "--rank", "3", "--out", out, "--batch", "4", "--steps", "8", "--lr", "1e-2", "--allow-worse", *how)
        assert got.returncode == 0, got.stderr
        assert ("Saved the model as merged" if how else "Saved the adapters as adapter") in got.stdout and ", and the head" in got.stdout
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    head = "classifier" if family == "bert" or (family, case) == ("gpt2", "tag") else "score"
    assert settings["task_type"] == {"tag": "TOKEN_CLS"}.get(case, "SEQ_CLS") and head in settings["modules_to_save"]
    auto = AutoModelForTokenClassification if case == "tag" else AutoModelForSequenceClassification
    merged = auto.from_pretrained(tmp_path / "merged").eval()
    labels = merged.config.num_labels
    torch.manual_seed(99)   # what PEFT's folder lacks would be drawn otherwise
    adapted = peft.PeftModel.from_pretrained(auto.from_pretrained(base, num_labels=labels, ignore_mismatched_sizes=True), tmp_path / "adapter").eval()
    assert type(adapted) is (peft.PeftModelForTokenClassification if case == "tag" else peft.PeftModelForSequenceClassification)
    ids = torch.randint(4, 40, (3, 6), generator=generator)
    with torch.no_grad():
        want, got = merged(ids).logits, adapted(input_ids=ids).logits
        assert (want - got).abs().max() < 1e-4 * want.abs().max(), (want, got)
    names = ",".join(merged.config.id2label.values())
    figures = []
    for model, *args in (["merged"], ["adapter", "--task", task, "--labels", names]):
        got = run("evaluate", model, *args, "--json", "figures.json")
        assert got.returncode == 0, got.stderr
        figures.append(json.loads((tmp_path / "figures.json").read_text())["models"][0])
    key = "mse" if case == "real" else "accuracy"
    assert figures[0][key] == pytest.approx(figures[1][key], rel=1e-4)
    if case != "real":
        assert figures[0]["labels"] == figures[1]["labels"]
    if kind != "ForTokenClassification":
        assert "base has no " in run("evaluate", "base", "--task", task, "--labels", names).stderr
        assert run("evaluate", "adapter").returncode == 2
    else:   # the base has the head and its names
        got = run("evaluate", "adapter", "--json", "figures.json")
        assert got.returncode == 0, got.stderr


def test_a_gguf_file_has_no_head(tmp_path):
    for more in ([], ["--lora"], ["--lora", "--adapter-only"]):
        run = subprocess.run([ct.BUILD / "finetune", tmp_path, "--task", "classify", "--data", tmp_path / "no", "--out", "out.gguf", *more], capture_output=True, text=True)
        assert run.returncode == 2 and "a GGUF file has no place for the head" in run.stderr


@pytest.mark.parametrize("name, text, word", [
    ("d.jsonl", '{"text": "a"}', ':1: an object needs "text" and "label"'), ("d.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "label": ["x"]}', ":2: some labels are lists"),
    ("d.jsonl", '{"text": "a", "label": true}', ":1: a label is neither"), ("d.jsonl", '{"text": "a", "label": "x"', ":1: JSON needs a }"),
    ("d.jsonl", '{"text": "\\ud800", "label": "x"}', ":1: half of a surrogate"), ("d.jsonl", '{"text": "a", "label": "x"}', "one label only"),
    ("d.csv", "text,tag\na,b\n", ":1: the first line"), ("d.csv", 'text,label\n"a\nb",x\n"c,y\n', "a quoted field does not end"),
    ("d.csv", "text,label\na\n", ":2: a line has another number"), ("d.csv", 'text,label\n"a"b,x\n', ":2: text stands behind")])
def test_data_that_the_program_refuses(tmp_path, name, text, word):
    base = tmp_path / "base"
    make("bert", None).save_pretrained(base)
    word_tokenizer(base, WORDS)
    (tmp_path / name).write_text(text)
    run = subprocess.run([ct.BUILD / "finetune", base, "--task", "classify", "--data", tmp_path / name, "--out", tmp_path / "out"], capture_output=True, text=True)
    assert run.returncode == 2 and word in run.stderr, run.stderr
    assert not (tmp_path / "out").exists()
