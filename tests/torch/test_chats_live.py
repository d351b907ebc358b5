"""Chats against transformers: the text of a folder's template, ids, and targets of what an assistant says."""
import importlib.util
import json
import random
from pathlib import Path

import numpy
import pytest
import transformers

import ct
import tokenizers_of
from ct import C, ChatOpts, Message, lib

CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SMOLLM2 = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI "
           "assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
           "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + "
          "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
          "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
GEMMA = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
         "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must "
         "alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
         "{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
         "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
ZEPHYR = ("{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n"
          "{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n"
          "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n"
          "{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
PHI3 = ("{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
        "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}"
        "{% else %}{{ eos_token }}{% endif %}")


def original(name):
    """The template of a model's folder, of which the package trl has a copy."""
    return (Path(importlib.util.find_spec("trl").submodule_search_locations[0]) / "chat_templates" / f"{name}.jinja").read_text()


def first_qwen3():
    """The template with which Qwen3 came, in which contents are always strings."""
    text = original("qwen3")
    for new, old in ((" and message.content is string and", " and"), ("reasoning_content is string", "reasoning_content is defined and message.reasoning_content is not none"),
                     ("""    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
""", ""), ("'\\n' + content + '<|im_end|>'", "'\\n' + message.content + '<|im_end|>'"),
                     ("assistant\" %}\n        {%- set reasoning", "assistant\" %}\n        {%- set content = message.content %}\n        {%- set reasoning"),
                     ("        {{- content }}\n", "        {{- message.content }}\n"),
                     ("""            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
""", """            {%- if '</think>' in message.content %}
                {%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}
                {%- set reasoning_content = message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
""")):
        assert text.count(new) == 1, new
        text = text.replace(new, old)
    return text


# name: (template, the kind's number, the token that ends a turn)
KINDS = {"chatml": (CHATML, 1, "<|im_end|>"), "smollm2": (SMOLLM2, 0, "<|im_end|>"), "llama3": (LLAMA3, 2, "<|eot_id|>"),
         "gemma": (GEMMA, 3, "<end_of_turn>"), "zephyr": (ZEPHYR, 4, "</s>"), "phi3": (PHI3, 5, "<|end|>"), "phi3.5": (original("phi3_5"), 0, "<|end|>"),
         "llama3.1": (original("llama3_1"), 6, "<|eot_id|>"), "llama3.2": (original("llama3_2"), 6, "<|eot_id|>"),
         "gemma3": (original("gemma3"), 7, "<end_of_turn>"), "qwen2.5": (original("qwen2_5"), 0, "<|im_end|>"),
         "qwen3": (original("qwen3"), 8, "<|im_end|>"), "qwen3 at first": (first_qwen3(), 8, "<|im_end|>"),
         "qwen3 2507": (original("qwen3_instruct_2507"), 1, "<|im_end|>")}
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>",
           "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<think>", "</think>"]
THOUGHTS = ["<think>\nreason\n</think>\n\nanswer", "<think></think>x", "\n<think>\n\na\n<think>b\n\n</think>\ny</think>\n\nz\n", "no</think>",
            "<tool_response>\n3\n</tool_response>", "<tool_response></tool_response> not only"]
CONTENTS = ["Hello, how are you?", " spaces at both ends  ", "", "two\nlines\n", "\n\nfirst empty", "naïve 中文 👩‍👩‍👧", "1234567", "\t tab", "I'm 'fine'"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A tokenizer of Llama 3's rule with the special tokens of all kinds."""
    tokenizer = tokenizers_of.llama3()
    tokenizer.add_special_tokens(SPECIAL)
    path = tmp_path_factory.mktemp("chat") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def folder_of(source, tmp_path, template):
    (tmp_path / "tokenizer.json").write_text(source.read_text())
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


class Chats:
    def __init__(self, context, folder, kind):
        self.context, self.kind, self.date = context, kind, None
        self.pointer = context.check(lib.ct_tokenizer_open(context.pointer, str(folder).encode()))

    def call(self, function, messages, opened, *rest):
        """The call's number; an error is raised, and is not in the context."""
        error = C.create_string_buffer(300)
        opts = ChatOpts(kind=self.kind, open=opened, date=self.date, error=C.cast(error, C.c_char_p), error_room=300)
        given = (Message * len(messages))(*[Message(m["role"].encode(), m["content"].encode()) for m in messages])
        n = self.context.check(function(self.pointer, given, len(messages), opts, *rest))
        if n == -1:
            raise ct.Error(error.value.decode())
        return n

    def text(self, messages, opened):
        n = self.call(lib.ct_chat_text, messages, opened, None, 0)
        out = C.create_string_buffer(n + 1)
        assert self.call(lib.ct_chat_text, messages, opened, out, n + 1) == n
        return out.raw[:n].decode()

    def encode(self, messages, opened):
        ids, targets = numpy.zeros(4096, numpy.int64), numpy.zeros(4096, numpy.int64)
        n = self.call(lib.ct_chat_encode, messages, opened, ids.ctypes.data, targets.ctypes.data, 4096)
        assert 0 < n <= 4096
        return ids[:n].tolist(), targets[:n].tolist()


def conversations(name, n, seed=3):
    draw = random.Random(seed)
    for _ in range(n):
        messages = [] if name == "gemma" or draw.random() < 0.5 else [{"role": "system", "content": draw.choice(CONTENTS)}]
        for turn in range(draw.randint(1, 5)):
            contents = CONTENTS + THOUGHTS[:1] if turn % 2 and name in ("qwen3", "qwen3 at first") else CONTENTS
            messages.append({"role": ["user", "assistant"][turn % 2], "content": draw.choice(contents)})
        yield messages, draw.random() < 0.5


def theirs_of(folder):
    """apply_chat_template at the date that the templates have without a clock."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer, lambda messages, opened, date="26 Jul 2024": tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=opened, date_string=date)


def head_of(name):
    """What stands before an assistant's content."""
    for part, head in (("gemma", "<start_of_turn>model\n"), ("llama3", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
                       ("zephyr", "<|assistant|>\n"), ("phi3", "<|assistant|>\n")):
        if name.startswith(part):
            return head
    return "<|im_start|>assistant\n"


@pytest.mark.parametrize("name", KINDS)
def test_texts_and_ids(context, source, tmp_path, name):
    template, kind, end = KINDS[name]
    folder = folder_of(source, tmp_path, template)
    theirs, text_of = theirs_of(folder)
    for number in {kind, 0}:
        ours = Chats(context, folder, number)
        for messages, opened in conversations(name, 60):
            text = text_of(messages, opened)
            assert ours.text(messages, opened) == text
            ids, targets = ours.encode(messages, opened)
            want = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
            assert ids == want["input_ids"]
            learned = [False] * len(text)   # characters of an assistant's content or of the end of its turn
            head, at = head_of(name), 0
            for message in messages:
                if message["role"] == "assistant":
                    at = text.index(head, at) + len(head)
                    to = text.index(end, at) + len(end)
                    learned[at:to] = [True] * (to - at)
                    at = to
            expected = [-100] * len(ids)
            for t, (begin, _) in enumerate(want["offset_mapping"]):
                if t and learned[begin]:
                    expected[t - 1] = ids[t]
            assert targets == expected


@pytest.mark.parametrize("name", [name for name in KINDS if name != "gemma"])
def test_texts_of_any_order(context, source, tmp_path, name):
    """Roles in any order that the template takes, reasoning, results of tools, and other dates."""
    template, kind, _ = KINDS[name]
    folder = folder_of(source, tmp_path, template)
    _, text_of = theirs_of(folder)
    ours, draw = Chats(context, folder, 0), random.Random(8)
    for _ in range(150):
        roles = [draw.choice(["user", "assistant", "user", "assistant", "system"]) for _ in range(draw.randint(1, 6))]
        if name == "gemma3":
            roles = [role for i, role in enumerate(roles) if i == 0 or role != "system"]
        messages = [{"role": role, "content": draw.choice(CONTENTS + 2 * THOUGHTS)} for role in roles]
        date = draw.choice(["26 Jul 2024", "1 Mai 2025"])
        ours.date = draw.choice([None, b"26 Jul 2024"]) if date[0] == "2" else date.encode()
        try:
            want = text_of(messages, True, date)
        except Exception:   # Gemma 3's roles must alternate
            assert name == "gemma3"
            with pytest.raises(ct.Error, match="must alternate"):
                ours.text(messages, True)
            continue
        assert ours.text(messages, True) == want


@pytest.mark.parametrize("name", KINDS)
def test_a_content_cannot_end_its_turn(context, source, tmp_path, name):
    template, kind, end = KINDS[name]
    ours = Chats(context, folder_of(source, tmp_path, template), kind)
    special = lib.ct_token_id(ours.pointer, end.encode())
    plain, _ = ours.encode([{"role": "user", "content": "Hello"}], True)
    bad, _ = ours.encode([{"role": "user", "content": f"Hello{end} and {end}"}], True)
    assert bad.count(special) == plain.count(special)
    out = C.create_string_buffer(1000)
    n = lib.ct_decode(ours.pointer, numpy.array(bad).ctypes.data, len(bad), True, out, 1000)
    assert f"Hello{end} and {end}" in out.raw[:n].decode()


def test_what_is_refused(context, source, tmp_path):
    ours = Chats(context, folder_of(source, tmp_path, CHATML + " "), 0)
    user, system, assistant = ({"role": r, "content": "x"} for r in ("user", "system", "assistant"))
    for kind, messages, words in ((0, [user], "not one that is known"), (10, [user], "the kind 10"), (7, [user, system], "must be the first"),
                                  (6, [{"role": "ipython", "content": "x"}], "none of system"), (8, [{"role": "tool", "content": "x"}], "none of system"), (3, [system, user], "no system messages"),
                                  (3, [user, user], "must alternate"), (3, [assistant], "must alternate"), (1, [], "no messages"),
                                  (4, [{"role": "tool", "content": "x"}], "none of system"), (5, [{"role": "tool", "content": "x"}], "none of system")):
        ours.kind = kind
        with pytest.raises(ct.Error, match=words):
            ours.text(messages, False)
    for name in ("llama3.2", "qwen2.5", "qwen3", "qwen3 2507"):   # their templates take a tool's messages for something else
        ours = Chats(context, folder_of(source, tmp_path, KINDS[name][0]), 0)
        with pytest.raises(ct.Error, match="none of system"):
            ours.text([user, {"role": "tool", "content": "x"}], False)
