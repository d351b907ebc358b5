"""The rows prompt_NAME, generate_NAME and decode_NAME of models.c in llama.cpp, through the functions of C of llama-cpp-python. The model
is the file that `rows ROW --gguf FILE` has written, which has no tokenizer: ids go in, logits come out. Everything else is as llama.cpp
has it by itself: keys and values in f16, and its own choice of attention.

    echo 3 | python bench/llama.py decode_smollm2_q8_0 --gguf FILE --threads 2
"""
import argparse
import ctypes
import math

import llama_cpp
import numpy

from rounds import measure, name_bits

LENGTH, PROMPT, NEW, DECODED = 512, 64, 128, 64  # as in models.c

quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)


def make(options):
    work = options.row.split("_")[0]
    llama_cpp.llama_log_set(quiet, None)
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(options.gguf.encode(), llama_cpp.llama_model_default_params())
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = LENGTH
    settings.n_threads = settings.n_threads_batch = options.threads
    context = model and llama_cpp.llama_init_from_model(model, settings)
    if not context:
        raise SystemExit(f"llama.cpp does not open {options.gguf}")
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    memory = llama_cpp.llama_get_memory(context)
    ids = (name_bits("tokens", 0, LENGTH) % numpy.uint32(size)).astype(numpy.int32)
    state = {"last": math.nan}

    def read(tokens):
        """The logits behind the last of these tokens, which follow those that are in the memory."""
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(tokens))):
            raise SystemExit("llama_decode failed")
        return numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (size,))

    def write(tokens, count):
        """The sum of `count` ids behind these tokens."""
        last = 0
        for _ in range(count):
            tokens = [int(read(tokens).argmax())]
            last += tokens[0]
        return last

    def step():
        if work == "decode" and not math.isnan(state["last"]):  # the prompt but its last token stays
            llama_cpp.llama_memory_seq_rm(memory, 0, PROMPT - 1, -1)
            state["last"] = write(ids[PROMPT - 1 : PROMPT], DECODED)
            return
        llama_cpp.llama_memory_clear(memory, True)
        if work == "prompt":
            state["last"] = float(numpy.abs(read(ids)).sum(dtype=numpy.float64))
        else:
            state["last"] = write(ids[:PROMPT], DECODED if work == "decode" else NEW)

    return step, lambda: state["last"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row")
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--threads", type=int, default=1)
    options, _ = parser.parse_known_args()
    measure(options, make)


main()
