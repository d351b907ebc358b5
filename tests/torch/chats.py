"""Chats, for the tests of texts, marks and targets: the templates that the package trl has copies of, and those of PRIVATE_DATA, a
folder of others' texts, if it is set; a tokenizer with the tokens of a template; calls of the library's functions."""
import functools
import importlib.util
import json
import os
import re
from pathlib import Path

import numpy
import transformers
from tokenizers import Tokenizer

import ct
import tokenizers_of
from ct import ROOT, ChatOpts, lib

PRIVATE = os.environ.get("PRIVATE_DATA") and Path(os.environ["PRIVATE_DATA"]) / "chat"
TRL = {file.stem: file.read_text() for file in sorted((Path(importlib.util.find_spec("trl").submodule_search_locations[0]) / "chat_templates").glob("*.jinja"))}


def private(name):
    """The lines of a file of PRIVATE_DATA."""
    return [json.loads(line) for line in (PRIVATE / name).read_text().split("\n") if line] if PRIVATE else []


TEMPLATES = {**TRL, **{row["name"]: row["template"] for row in private("templates.jsonl") if row["template"] not in TRL.values()}}
MASKED = [name for name, text in TEMPLATES.items() if "generation %}" in text or "generation -%}" in text]
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>",
           "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|endoftext|>", "<|return|>", "<|start|>", "<|message|>", "<|channel|>", "<|call|>"]
NOT_SPECIAL = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Gets it.\nReally: \"é\" <b>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "where"}, "days": {"type": "integer", "enum": [1, 2]}}, "required": ["city"]}}}]
NOW = 1700000000


@functools.cache
def plain_tokenizer():
    """The JSON of a tokenizer of Llama 3's rule. Its text never changes, because the table in docs/text.md depends on its tokens."""
    return tokenizers_of.llama3([(ROOT / "LICENSE").read_text(), tokenizers_of.STRANGE]).to_str()


def special_of(template):
    """The special tokens of a template's model: those of many templates, and whatever looks like one in its text."""
    spelled = re.findall(r"<\|[\w/-]+\|>|<[\w/-]+\|>|<\|[\w/-]+>|<[a-z_]+_of_[a-z_]+>|<｜[^<>]+｜>|\[/?[A-Z_]{3,}\]", template)
    return list(dict.fromkeys(SPECIAL + [token for token in spelled if token not in NOT_SPECIAL]))


def source_of(special):
    """The text of a tokenizer.json with special tokens, and others."""
    tokenizer = Tokenizer.from_str(plain_tokenizer())
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(NOT_SPECIAL)
    return tokenizer.to_str()


def folder_of(source, tmp_path, template, ends=()):
    """A folder with the text of a tokenizer.json, a chat template, and ids that end a turn."""
    tmp_path.mkdir(exist_ok=True)
    if ends:
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": list(ends)}))
    (tmp_path / "tokenizer.json").write_text(source)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


class Chats:
    def __init__(self, context, folder):
        self.context = context
        self.pointer = context.check(lib.ct_tokenizer_open(context.pointer, str(folder).encode()))

    def call(self, function, messages, options, *rest):
        """The call's number; an error is raised, and is not in the context."""
        error = ct.room(1000)
        dumped = {name: json.dumps(value).encode() for name, value in options.items() if name in ("tools", "documents", "variables") and value is not None}
        if "template" in options:
            dumped["chat_template"] = options["template"].encode()
        opts = ChatOpts(add_generation_prompt=options.get("prompt", False), messages=json.dumps(messages).encode(), now=options.get("now", NOW),
                        error=error, error_room=1000, **dumped)
        n = self.context.check(function(self.pointer, None, 0, opts, *rest))
        if n == -1:
            raise ct.Error(ct.ffi.string(error).decode())
        return n

    def text(self, messages, **options):
        n = self.call(lib.ct_chat_text, messages, options, None, 0)
        out = ct.room(n + 1)
        assert self.call(lib.ct_chat_text, messages, options, out, n + 1) == n
        return ct.ffi.buffer(out)[:n].decode()

    def encode(self, messages, **options):
        ids, targets = numpy.zeros(1 << 14, numpy.int64), numpy.zeros(1 << 14, numpy.int64)
        n = self.call(lib.ct_chat_encode, messages, options, ids, targets, len(ids))
        assert 0 <= n <= len(ids)
        return ids[:n].tolist(), targets[:n].tolist()


def theirs_of(folder):
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer, lambda messages, prompt, tools, variables: tokenizer.apply_chat_template(
        messages, tools=tools, tokenize=False, add_generation_prompt=prompt, **variables)
