"""all-MiniLM-L6-v2, the encoder of sentences: ids, embeddings and nearest sentences as with transformers."""
import json

import pytest
import torch
import transformers

import ct
import real
from ct import lib

TOPICS = {
    "weather": ["It has been raining since the early morning.", "Heavy rain is expected tomorrow.", "The storm brought wind and a lot of rain to the "
                "whole coast, and the forecast for the weekend says that it will not be dry before Sunday evening.", "A rainy day"],
    "cooking": ["Add the onions to the hot oil and fry them until they are golden.", "How long do I have to boil an egg?",
                "Knead the dough for ten minutes, let it rise in a warm place, then bake the bread in a hot oven.", "A recipe for onion soup"],
    "music": ["The pianist played a sonata by Beethoven.", "She has sung in the choir for years.",
              "The orchestra tuned its instruments, the conductor raised his baton, and the symphony began with the violins.",
              "Piano concerto in A minor"],
    "football": ["The striker scored twice in the second half.", "Their goalkeeper saved a penalty in the last minute of the match.",
                 "The team won the championship after a long season with a single defeat.", "A goal in extra time"],
    "programming": ["The compiler reports an undefined variable in line 12.", "This function returns a pointer to freed memory.",
                    "A segmentation fault is a sign that the program has read or written memory that does not belong to it.", "int main(void)"],
    "space": ["The rocket carried a satellite into orbit.", "Jupiter is the largest planet of the solar system.",
              "Astronomers found a planet outside the solar system that orbits its star in eleven days.", "A telescope in orbit"],
    "money": ["The central bank raised interest rates again.", "Inflation makes loans more expensive.",
              "Shares fell sharply after the bank had announced a loss, and investors asked for higher interest.", "An account at the bank"],
    "animals": ["The cat sleeps on the sofa all day.", "Our dog barks at every stranger.",
                "Puppies and kittens have to be fed several times a day and sleep a great deal in their first weeks.", "Kittens"],
}
SENTENCES = [text for texts in TOPICS.values() for text in texts]
TOPIC = [name for name, texts in TOPICS.items() for _ in texts]
MORE = ["", "Ünïcödé, naïve café", "中文 and 日本語", "don't!!! (really?)", "a" * 120, "word " * 300]


@pytest.fixture(scope="module")
def model(minilm):
    return transformers.BertModel.from_pretrained(minilm).eval()


@pytest.fixture(scope="module")
def theirs(minilm):
    return transformers.AutoTokenizer.from_pretrained(minilm)


def mean_of(model, batch):
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None].to(hidden.dtype)
    return (hidden * mask).sum(1) / mask.sum(1)


def nearest(embeddings):
    unit = torch.nn.functional.normalize(embeddings, dim=-1)
    return (unit @ unit.T).fill_diagonal_(-1).argmax(-1).tolist()


def test_ids(context, minilm, theirs):
    tokenizer = real.open_tokenizer(context, minilm)
    want = theirs(SENTENCES + MORE, padding=True, return_tensors="pt", truncation=False)
    got = real.encode_batch(context, tokenizer, SENTENCES + MORE)
    assert torch.equal(context.value(got.ids), want["input_ids"])
    assert torch.equal(context.value(got.mask), want["attention_mask"].bool())
    assert torch.equal(context.value(got.types), want["token_type_ids"])


def test_embeddings(context, minilm, model, theirs):
    """One padded batch: the means, and these of length 1, are transformers'; so are the nearest sentences, which are of the same topic."""
    lm = real.open_lm(context, minilm)
    batch = real.encode_batch(context, real.open_tokenizer(context, minilm), SENTENCES)
    ours = real.forward(context, lm, batch.ids, key_mask=batch.mask, result=4)
    inputs = theirs(SENTENCES, padding=True, return_tensors="pt")
    want, exact = mean_of(model, inputs), mean_of(transformers.BertModel.from_pretrained(minilm).double().eval(), inputs)
    unit = torch.nn.functional.normalize
    real.show(f"{len(SENTENCES)} sentences of {inputs['attention_mask'].sum(-1).min()} to {inputs['input_ids'].shape[1]} tokens: "
              f"{real.worst(ours, want):.1e} from transformers, of length 1 {real.worst(unit(ours), unit(want)):.1e}; "
              f"from f64 {real.worst(ours, exact):.1e}, transformers {real.worst(want, exact):.1e}")
    assert real.worst(ours, want) < 1e-5 and real.worst(unit(ours), unit(want)) < 1e-5
    assert real.worst(ours, exact) < 2 * real.worst(want, exact) + 1e-6
    assert nearest(ours) == nearest(want)
    assert [TOPIC[i] for i in nearest(ours)] == TOPIC
    for i in (0, 2, 31):   # a sentence by itself, without padding
        alone = real.encode_batch(context, real.open_tokenizer(context, minilm), SENTENCES[i:i + 1])
        assert real.worst(real.forward(context, lm, alone.ids, result=4)[0], want[i]) < 1e-5
    about = lib.ct_lm_about(lm)   # modules.json: the mean, of length 1
    assert about.max_length == json.loads((minilm / "sentence_bert_config.json").read_text())["max_seq_length"]
    assert real.worst(real.forward(context, lm, batch.ids, key_mask=batch.mask, result=5), unit(want)) < 1e-6
    half = real.forward(context, real.open_lm(context, minilm, dtype=4), batch.ids, key_mask=batch.mask, result=4)
    cosine = torch.nn.functional.cosine_similarity(half, want, dim=-1).min().item()
    real.show(f"with matrices of bf16 the smallest cosine to these is {cosine:.5f}")
    assert cosine > 0.999


def test_saved(context, minilm, model, theirs, tmp_path):
    lm = real.open_lm(context, minilm)
    context.check(lib.ct_lm_save(lm, str(tmp_path / "saved").encode(), ct.SaveOpts()))
    again = real.loads_whole(transformers.BertModel, tmp_path / "saved")
    assert real.same_bits(model, again)
    inputs = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")(SENTENCES, padding=True, return_tensors="pt")
    assert torch.equal(mean_of(again, inputs), mean_of(model, theirs(SENTENCES, padding=True, return_tensors="pt")))
