"""Files that ct_lm_save writes, run by llama.cpp: 64 greedy ids of each family of decoders, and an answer in a chat. `make test-llama-cpp`
builds the package llama-cpp-python, which takes ten minutes. GPT-NeoX is left out: llama.cpp computes its GELU in another form."""
import itertools

import llama_cpp
import numpy
import pytest
import torch
import transformers

import ct
import real
import tokenizers_of
from ct import lib
from test_gguf_models_live import GGUF_MODELS
from test_models_live import make

FAMILIES = [name for name in GGUF_MODELS if name not in ("bert", "gpt_neox")]
TOKENS = 64
F32 = 0  # ggml's number


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """GPT-2's rules with a vocabulary of the models' size, which all files get."""
    path = tmp_path_factory.mktemp("tokenizer")
    trained = tokenizers_of.gpt2()
    transformers.PreTrainedTokenizerFast(tokenizer_object=trained, eos_token="<|endoftext|>").save_pretrained(path)
    return path, trained.get_vocab_size()


def llama(path):
    """Keys and values in f32, and plain attention, as here."""
    return llama_cpp.Llama(str(path), n_ctx=128, n_threads=1, verbose=False, logits_all=False, type_k=F32, type_v=F32, flash_attn=False)


def greedy(model, prompt):
    """Ids behind the prompt, also behind the end of a text."""
    model.reset()
    return list(itertools.islice(model.generate(prompt, temp=0, repeat_penalty=1), TOKENS))


def ours(context, lm, prompt):
    ids, length = numpy.array(prompt, numpy.int64), numpy.array([len(prompt)], numpy.int64)
    batch = lib.ct_batch_of(context.pointer, ids, None, length, 1, ct.BatchOpts())
    generator = context.check(lib.ct_generate_new(lm, batch, ct.GenerateOpts(max_new=TOKENS, no_eos=True)))
    out, id = [], numpy.zeros(1, numpy.int64)
    while lib.ct_generate_next(generator, id):
        out.append(int(id[0]))
    context.check()
    return out


@pytest.mark.parametrize("name", FAMILIES)
def test_greedy(context, tokenizer, tmp_path, name):
    folder, size = tokenizer
    torch.manual_seed(FAMILIES.index(name))
    kind, config = GGUF_MODELS[name]
    length = {"n_positions": 128} if name == "gpt2" else {"max_position_embeddings": 128}
    model = make(name, models={name: (kind, config | {"vocab_size": size, "initializer_range": 0.2} | length)})
    model.save_pretrained(tmp_path / "m")
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "m")
    lm = real.open_lm(context, tmp_path / "m")
    context.check(lib.ct_lm_save(lm, str(tmp_path / "m.gguf").encode(), ct.SaveOpts(floats=1)))
    theirs = llama(tmp_path / "m.gguf")
    opened = real.open_tokenizer(context, tmp_path / "m.gguf")
    for text in ("The quick brown fox", "int main(void) { return 12345; }", "naïve café"):
        prompt = real.encode(opened, text)
        assert theirs.tokenize(text.encode(), add_bos=False, special=True) == prompt
        got = ours(context, lm, prompt)
        assert len(got) == TOKENS and got == greedy(theirs, prompt), text
    lib.ct_module_free(lm)


def test_chat(context, smollm2_gguf, tmp_path):
    """SmolLM2 written as F32: the text of the chat by its template, and the answer."""
    lm, tokenizer = real.open_lm(context, smollm2_gguf), real.open_tokenizer(context, smollm2_gguf)
    context.check(lib.ct_lm_save(lm, str(tmp_path / "m.gguf").encode(), ct.SaveOpts(floats=1)))
    theirs = llama_cpp.Llama(str(tmp_path / "m.gguf"), n_ctx=256, n_threads=2, verbose=False, type_k=F32, type_v=F32, flash_attn=False)
    for question in ("What is the capital of France?", "Write a line about rivers."):
        messages = [{"role": "user", "content": question}]
        answer = theirs.create_chat_completion(messages, temperature=0, max_tokens=TOKENS)["choices"][0]["message"]["content"]
        _, ids = real.encode_chat(context, tokenizer, messages)
        end = lib.ct_chat_end(tokenizer, ct.ChatOpts())
        got = ours(context, lm, ids)
        got = got[:got.index(end)] if end in got else got
        assert real.decode(tokenizer, got) == answer
    lib.ct_module_free(lm)
