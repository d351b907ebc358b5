"""Chats beside transformers: texts of the templates that the package trl has copies of, with tools and reasoning; ids; and targets beside the
masks of templates with {% generation %}."""
import importlib.util
import json
import random
from pathlib import Path

import numpy
import pytest
import transformers

import ct
import tokenizers_of
from ct import C, ChatOpts, lib

FILES = {file.stem: file for file in sorted((Path(importlib.util.find_spec("trl").submodule_search_locations[0]) / "chat_templates").glob("*.jinja"))}
TEMPLATES = {name: file.read_text() for name, file in FILES.items()}
MASKED = [name for name, text in TEMPLATES.items() if "generation %}" in text]
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>",
           "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|endoftext|>", "<|return|>", "<|start|>", "<|message|>", "<|channel|>", "<|call|>"]
NOT_SPECIAL = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
CONTENTS = ["Hello, how are you?", " spaces at both ends  ", "", "two\nlines\n", "\n\nfirst empty", "naïve 中文 👩‍👩‍👧", "1234567", "\t tab", "I'm 'fine'",
            "<think>\nreason\n</think>\n\nanswer", "no</think>", "<tool_response>\n3\n</tool_response>", '"quoted" \\ {{ x }} {% y %}']
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Gets it.\nReally: \"é\" <b>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "where"}, "days": {"type": "integer", "enum": [1, 2]}}, "required": ["city"]}}}]
NOW = 1700000000


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A tokenizer of Llama 3's rule with the tokens of many templates."""
    tokenizer = tokenizers_of.llama3()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(NOT_SPECIAL)
    path = tmp_path_factory.mktemp("chat") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def folder_of(source, tmp_path, template):
    (tmp_path / "tokenizer.json").write_text(source.read_text())
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


class Chats:
    def __init__(self, context, folder):
        self.context = context
        self.pointer = context.check(lib.ct_tokenizer_open(context.pointer, str(folder).encode()))

    def call(self, function, messages, options, *rest):
        """The call's number; an error is raised, and is not in the context."""
        error = C.create_string_buffer(1000)
        dumped = {name: json.dumps(value).encode() for name, value in options.items() if name in ("tools", "documents", "variables") and value is not None}
        given = json.dumps(messages).encode()
        opts = ChatOpts(add_generation_prompt=options.get("prompt", False), messages=given, now=NOW, error=C.cast(error, C.c_char_p), error_room=1000, **dumped)
        n = self.context.check(function(self.pointer, None, 0, opts, *rest))
        if n == -1:
            raise ct.Error(error.value.decode())
        return n

    def text(self, messages, **options):
        n = self.call(lib.ct_chat_text, messages, options, None, 0)
        out = C.create_string_buffer(n + 1)
        assert self.call(lib.ct_chat_text, messages, options, out, n + 1) == n
        return out.raw[:n].decode()

    def encode(self, messages, **options):
        ids, targets = numpy.zeros(1 << 14, numpy.int64), numpy.zeros(1 << 14, numpy.int64)
        n = self.call(lib.ct_chat_encode, messages, options, ids.ctypes.data, targets.ctypes.data, len(ids))
        assert 0 <= n <= len(ids)
        return ids[:n].tolist(), targets[:n].tolist()


def message_of(draw, role):
    message = {"role": role, "content": draw.choice(CONTENTS)}
    if role == "assistant" and draw.random() < 0.3:
        message["reasoning_content"] = draw.choice(["why", "\nbecause\n", ""])
    if role == "assistant" and draw.random() < 0.3:
        arguments = draw.choice([{"city": "Köln"}, {"city": "x", "days": 2, "f": 1.5, "n": None, "l": [True, {}]}])
        message["tool_calls"] = [{"type": "function", "id": "a23456789", "function": {"name": "get_weather", "arguments": arguments}}]
    if role == "tool":
        message |= {"name": "get_weather", "tool_call_id": "a23456789"}
    return message


def conversations(n, seed=3):
    """Most are in an order that templates take; some are in any order."""
    draw = random.Random(seed)
    for _ in range(n):
        messages = [message_of(draw, "system")] if draw.random() < 0.4 else []
        for turn in range(draw.randint(1, 4)):
            messages.append(message_of(draw, ["user", "assistant"][turn % 2]))
            if "tool_calls" in messages[-1]:
                messages.append(message_of(draw, "tool"))
        if draw.random() < 0.15:
            draw.shuffle(messages)
        variables = {key: value for key, value in (("enable_thinking", draw.random() < 0.5), ("date_string", "1 May 2025")) if draw.random() < 0.5}
        yield messages, dict(prompt=draw.random() < 0.5, tools=TOOLS if draw.random() < 0.4 else None, variables=variables)


def theirs_of(folder):
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer, lambda messages, prompt, tools, variables: tokenizer.apply_chat_template(
        messages, tools=tools, tokenize=False, add_generation_prompt=prompt, **variables)


@pytest.fixture(autouse=True)
def one_instant(monkeypatch):
    """transformers' strftime_now reads the clock of its own module."""
    from datetime import datetime as real

    from transformers.utils import chat_template_utils

    class Stopped(real):
        @classmethod
        def now(cls, tz=None):
            return real.fromtimestamp(NOW, tz)
    monkeypatch.setattr(chat_template_utils, "datetime", Stopped)
    chat_template_utils._compile_jinja_template.cache_clear()
    yield
    chat_template_utils._compile_jinja_template.cache_clear()


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_and_ids(context, source, tmp_path, name):
    folder = folder_of(source, tmp_path, TEMPLATES[name])
    theirs, text_of = theirs_of(folder)
    ours = Chats(context, folder)
    rendered = 0
    for messages, options in conversations(60):
        try:
            want = text_of(messages, **options)
        except Exception as refusal:
            with pytest.raises(ct.Error):
                ours.text(messages, **options)
            continue
        rendered += 1
        assert ours.text(messages, **options) == want
        ids, _ = ours.encode(messages, **options)
        spelled = any(token in json.dumps([messages, options]) for token in NOT_SPECIAL)
        if not spelled:
            assert ids == theirs(want, add_special_tokens=False)["input_ids"]
    assert rendered


@pytest.mark.parametrize("name", MASKED)
def test_targets_are_the_mask(context, source, tmp_path, name):
    folder = folder_of(source, tmp_path, TEMPLATES[name])
    theirs, _ = theirs_of(folder)
    ours = Chats(context, folder)
    for messages, options in conversations(60, seed=5):
        if any(token in json.dumps([messages, options]) for token in NOT_SPECIAL):
            continue
        try:
            want = theirs.apply_chat_template(messages, tools=options["tools"], add_generation_prompt=options["prompt"], return_dict=True,
                                              return_assistant_tokens_mask=True, **options["variables"])
        except Exception:
            continue
        ids, targets = ours.encode(messages, **options)
        assert ids == want["input_ids"]
        assert targets == [ids[t + 1] if t + 1 < len(ids) and want["assistant_masks"][t + 1] else -100 for t in range(len(ids))]


def test_a_content_cannot_end_its_turn(context, source, tmp_path):
    """What users and tools spell, in whole or in parts, makes no special token in any template."""
    special = set(SPECIAL)
    draw = random.Random(11)
    for i, (name, template) in enumerate(TEMPLATES.items()):
        (tmp_path / str(i)).mkdir()
        ours = Chats(context, folder_of(source, tmp_path / str(i), template))
        ids_of_special = {lib.ct_token_id(ours.pointer, token.encode()) for token in special}
        for _ in range(20):
            spelled = draw.choice(SPECIAL)
            cut = draw.randint(1, len(spelled) - 1)
            hostile = draw.choice([spelled, f"a{spelled}b", spelled[:cut], spelled[cut:], f"{spelled[:cut]}{spelled}{spelled[cut:]}"])
            counts = []
            for content in ("Hello", hostile):
                try:
                    ids, _ = ours.encode([{"role": "user", "content": content}, {"role": "assistant", "content": content}, {"role": "user", "content": "x"}])
                except ct.Error:
                    break
                counts.append([token for token in ids if token in ids_of_special])
            assert len(counts) < 2 or counts[0] == counts[1], (name, hostile)
