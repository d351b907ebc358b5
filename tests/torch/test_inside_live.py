"""Hidden states, attentions and embeddings as inputs, beside transformers with attn_implementation="eager"."""

import pytest
import torch

import ct
from ct import lib
from test_models_live import MODELS, error, make, open_lm, result

NEAR = 5e-6   # transformers computes softmax, frequencies and some norms in f32, also in a model of f64


class Inside:
    """The arrays of a call, and the call."""

    def __init__(self, context, lm, hidden=True, attentions=True, **call):
        layers = lib.ct_lm_about(lm).layers
        self.context, self.lm = context, lm
        self.hidden = ct.ffi.new("ct_tensor *[]", layers + 1) if hidden else None
        self.attentions = ct.ffi.new("ct_tensor *[]", layers) if attentions else None
        call = {k: context.tensor(v) if isinstance(v, torch.Tensor) else v for k, v in call.items()}
        self.call = ct.LmCall(hidden_states=self.hidden, attentions=self.attentions, **call)

    def run(self, ids):
        return self.context.check(lib.ct_lm_forward(self.lm, self.context.tensor(ids), self.call))

    def values(self):
        return [[self.context.value(x) for x in array or []] for array in (self.hidden, self.attentions)]


def theirs(model, ids=None, **more):
    return model(ids, output_hidden_states=True, output_attentions=True, **more)


def open_pair(context, folder, name):
    """transformers' model of f64, and ours."""
    model = make(name)
    model.save_pretrained(folder)
    lm = open_lm(context, folder, dtype=1)
    lib.ct_module_train(lm, False)
    return model.double(), lm


@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients(context, folder, name):
    """The loss is a random sum of the result, every hidden state and every attention; ids or embeddings go in."""
    model, lm = open_pair(context, folder, name)
    parameters = context.parameters(lm)
    for by_embeds in (False, True):
        ids = torch.randint(1, 97, (2, 13))
        table = model.get_input_embeddings()
        rows = (table(ids).detach() + 0.1 * torch.randn(2, 13, 32, dtype=torch.float64)).requires_grad_()
        assert error(context.value(context.check(lib.ct_lm_token_embeds(lm, context.tensor(ids)))), table(ids).detach()) < 1e-6
        want = theirs(model, inputs_embeds=rows) if by_embeds else theirs(model, ids)
        embeds = context.tensor(rows, grad=True) if by_embeds else None
        inside = Inside(context, lm, embeds=embeds)
        ours = [inside.run(None if by_embeds else ids), *inside.hidden, *inside.attentions]
        wanted = [result(want), *want.hidden_states, *want.attentions]
        assert len(ours) == len(wanted) and [tuple(context.value(x).shape) for x in ours] == [tuple(x.shape) for x in wanted]
        for number, (got, expected) in enumerate(zip(ours, wanted)):
            assert error(context.value(got), expected.detach()) < NEAR, number
        cotangents = [torch.randn(x.shape, dtype=torch.float64) * (5 if x.ndim == 4 else 1) for x in wanted]
        for pointer in parameters.values():
            lib.ct_zero_grad(pointer)
        context.backward(ours, cotangents)
        model.zero_grad()
        sum((x * c).sum() for x, c in zip(wanted, cotangents)).backward()
        # a tied matrix has two names; ours is the one that the library lists
        grads = {key: value.grad for key, value in model.named_parameters(remove_duplicate=False) if value.grad is not None and key in parameters}
        assert {key for key, pointer in parameters.items() if lib.ct_grad(pointer)} == set(grads)
        largest = max(grad.abs().max() for grad in grads.values())
        for key, grad in grads.items():
            if name.startswith("gpt2") and key.split(".")[-2] in ("c_attn", "c_proj", "c_fc") and grad.ndim == 2:
                grad = grad.T
            assert (context.grad(parameters[key]) - grad).abs().max() < 2e-5 * max(grad.abs().max(), 1e-3 * largest), key
        if by_embeds:
            assert error(context.grad(embeds), rows.grad) < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_padding(context, folder, name):
    """A query that sees a key has transformers' weights; one that sees none has zeros."""
    lm = open_pair(context, folder, name)[1]
    model = make(name)   # in f64 a row of transformers that sees nothing is NaN, and spreads
    ids, lengths = torch.randint(5, 97, (3, 11)), torch.tensor([11, 4, 7])   # no pad_token_id, which RoBERTa does not count
    first = model.config.pad_token_id + 1 if "roberta" in name else 0
    for left in (True, False):
        index = torch.arange(11)
        mask = index >= 11 - lengths[:, None] if left else index < lengths[:, None]
        more = {"position_ids": (mask.long().cumsum(-1) - 1).clamp(min=0) + first}
        with torch.no_grad():
            want = theirs(model, ids, attention_mask=mask.long(), **more)
        inside = Inside(context, lm, key_mask=mask, result=2)   # CT_LM_HIDDEN
        inside.run(ids)
        hidden, attentions = inside.values()
        for got, expected in zip(hidden, want.hidden_states):
            assert error(got[mask], expected[mask]) < 2e-5
        causal = lib.ct_lm_about(lm).causal
        sees = torch.tril(torch.ones(11, 11, dtype=torch.bool)) if causal else torch.ones(11, 11, dtype=torch.bool)
        for got, expected in zip(attentions, want.attentions):
            got, expected = got.transpose(1, 2), expected.transpose(1, 2)   # (B, T, H, S)
            assert error(got[mask], expected[mask]) < 2e-5
            blind = ~(sees & mask[:, None, :]).any(-1)
            assert (got[blind] == 0).all() and (got.transpose(2, 3)[~mask[:, None, :].expand(3, 11, 11)] == 0).all()


@pytest.mark.parametrize("name", [name for name in MODELS if "bert" not in name and "both ways" not in name])
def test_caches(context, folder, name):
    """transformers forgets keys that have left a window; here they have zeros."""
    model, lm = open_pair(context, folder, name)
    ids, cache, past = torch.randint(1, 97, (2, 12)), context.check(lib.ct_lm_cache_new(lm, 2, 12)), None
    for begin, end in ((0, 6), (6, 7), (7, 10), (10, 12)):
        with torch.no_grad():
            want = theirs(model, ids[:, begin:end], use_cache=True, cache=past)
        past = want.cache
        inside = Inside(context, lm, cache=cache, result=2)
        inside.run(ids[:, begin:end])
        hidden, attentions = inside.values()
        for got, expected in zip(hidden, want.hidden_states):
            assert error(got, expected) < NEAR
        for got, expected in zip(attentions, want.attentions):
            gone = got.shape[-1] - expected.shape[-1]
            assert got.shape == (2, expected.shape[1], end - begin, end)
            assert error(got[..., gone:], expected) < NEAR and (got[..., :gone] == 0).all()
