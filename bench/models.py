"""The rows of models.c with transformers and peft: the same shapes, numbers and work, with the loss that transformers computes,
scaled_dot_product_attention, and a fused AdamW.

    echo 3 | python bench/models.py lora_smollm2 --threads 2 [--attention eager]
"""
import argparse
import math

import numpy
import torch
import transformers

from rounds import measure, name_bits
from torch_rows import fill, sum_of_sizes

transformers.logging.set_verbosity_error()
BATCH, LENGTH, PROMPT, NEW, DECODED = 2, 512, 64, 128, 64
CONFIGS = {
    "smollm2": lambda: transformers.LlamaConfig(
        hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536, vocab_size=49152,
        tie_word_embeddings=True, rope_theta=100000, max_position_embeddings=8192, rms_norm_eps=1e-5),
    "qwen2": lambda: transformers.Qwen2Config(
        hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864, vocab_size=151936,
        tie_word_embeddings=True, rope_theta=1000000, max_position_embeddings=32768, rms_norm_eps=1e-6),
    "gpt2": lambda: transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0),
}


def adapters(model):
    """The name of each adapter's matrix as cotangent has it."""
    for name, p in model.named_parameters():
        if ".lora_" in name:
            yield name.removeprefix("base_model.model.").removesuffix(".default.weight"), p


def fill_model(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2:  # GPT-2's matrices are (in, out) in transformers only
                turned = model.config.model_type == "gpt2" and ".h." in name
                values = fill(torch.empty(p.T.shape if turned else p.shape), name, 0.02)
                p.copy_(values.T if turned else values)


def make(options):
    work, name = options.row.removesuffix("_bf16").split("_")
    half = options.row.endswith("_bf16")
    dtype = torch.bfloat16 if half else torch.float32
    config = CONFIGS[name]()
    config._attn_implementation = options.attention
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    fill_model(model)
    if work == "lora":
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
        for name, p in adapters(model):
            p.data = p.data.float()
            fill(p, name, 0.01)
    tokens = lambda rows, n, first: torch.stack([
        torch.from_numpy((name_bits("tokens", b * (LENGTH + 1) + first, n) % numpy.uint32(config.vocab_size)).astype(numpy.int64))
        for b in range(rows)])
    state = {"last": math.nan, "steps": 0}
    if work in ("lora", "full"):
        model.train()
        parameters = [p for p in model.parameters() if p.requires_grad]
        optim = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, fused=True)
        ids, targets = tokens(BATCH, LENGTH, 0), tokens(BATCH, LENGTH, 1)

        def step():
            optim.zero_grad()
            loss = model(input_ids=ids, labels=targets, shift_labels=targets, use_cache=False).loss
            loss.backward()
            optim.step()
            state["last"] = loss.item()

    else:
        model.eval()
        model.generation_config.eos_token_id = None
        ids = tokens(1, LENGTH if work == "prompt" else PROMPT, 0)
        cache = transformers.DynamicCache(config=config)

        def decode():
            """The sum of the ids behind the prompt, whose keys and values but the last token's stay."""
            if cache.get_seq_length():
                cache.crop(PROMPT - 1 - cache.get_seq_length())
            token, last = ids[:, cache.get_seq_length():], 0
            for _ in range(DECODED):
                token = model(input_ids=token, past_key_values=cache, logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)
                last += token.item()
            return last

        @torch.inference_mode()
        def step():
            if work == "prompt":
                y = model(input_ids=ids, logits_to_keep=1, use_cache=False).logits
                state["last"] = sum_of_sizes(y.float()) if state["steps"] < 3 else math.nan
            elif work == "decode":
                state["last"] = decode()
            else:
                y = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False, pad_token_id=0)
                state["last"] = y[0, PROMPT:].sum().item()
            state["steps"] += 1

    return step, lambda: state["last"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--attention", default="sdpa", help="eager or sdpa")
    options, _ = parser.parse_known_args()
    torch.set_num_threads(options.threads)
    measure(options, make)


main()
