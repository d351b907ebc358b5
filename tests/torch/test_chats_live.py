"""Chats against transformers: the text of a folder's template, ids, and targets of what an assistant says."""
import json
import random

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
# name: (template, the kind's number, the token that ends a turn)
KINDS = {"chatml": (CHATML, 1, "<|im_end|>"), "smollm2": (SMOLLM2, 0, "<|im_end|>"), "llama3": (LLAMA3, 2, "<|eot_id|>"),
         "gemma": (GEMMA, 3, "<end_of_turn>"), "zephyr": (ZEPHYR, 4, "</s>"), "phi3": (PHI3, 5, "<|end|>")}
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>",
           "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
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
        self.context, self.kind = context, kind
        self.pointer = context.check(lib.ct_tokenizer_open(context.pointer, str(folder).encode()))

    def call(self, messages, opened):
        return (Message * len(messages))(*[Message(m["role"].encode(), m["content"].encode()) for m in messages]), len(messages), \
            ChatOpts(kind=self.kind, open=opened)

    def text(self, messages, opened):
        n = self.context.check(lib.ct_chat_text(self.pointer, *self.call(messages, opened), None, 0))
        out = C.create_string_buffer(n + 1)
        assert lib.ct_chat_text(self.pointer, *self.call(messages, opened), out, n + 1) == n
        return out.raw[:n].decode()

    def encode(self, messages, opened):
        ids, targets = numpy.zeros(4096, numpy.int64), numpy.zeros(4096, numpy.int64)
        n = self.context.check(lib.ct_chat_encode(self.pointer, *self.call(messages, opened), ids.ctypes.data, targets.ctypes.data, 4096))
        assert 0 < n <= 4096
        return ids[:n].tolist(), targets[:n].tolist()


def conversations(name, n, seed=3):
    draw = random.Random(seed)
    for _ in range(n):
        messages = [] if name == "gemma" or draw.random() < 0.5 else [{"role": "system", "content": draw.choice(CONTENTS)}]
        for turn in range(draw.randint(1, 5)):
            messages.append({"role": ["user", "assistant"][turn % 2], "content": draw.choice(CONTENTS)})
        yield messages, draw.random() < 0.5


@pytest.mark.parametrize("name", KINDS)
def test_texts_and_ids(context, source, tmp_path, name):
    template, kind, end = KINDS[name]
    folder = folder_of(source, tmp_path, template)
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    for number in {kind, 0}:
        ours = Chats(context, folder, number)
        for messages, opened in conversations(name, 60):
            text = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=opened)
            assert ours.text(messages, opened) == text
            ids, targets = ours.encode(messages, opened)
            want = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
            assert ids == want["input_ids"]
            learned = [False] * len(text)   # characters of an assistant's content or of the end of its turn
            role = {"gemma": "model"}.get(name, "assistant")
            head = {"chatml": f"<|im_start|>{role}\n", "smollm2": f"<|im_start|>{role}\n", "gemma": f"<start_of_turn>{role}\n",
                    "llama3": f"<|start_header_id|>{role}<|end_header_id|>\n\n"}.get(name, f"<|{role}|>\n")
            at = 0
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
    for kind, messages, words in ((0, [user], "not one that is known"), (9, [user], "the kind 9"), (3, [system, user], "no system messages"),
                                  (3, [user, user], "must alternate"), (3, [assistant], "must alternate"), (1, [], "no messages"),
                                  (4, [{"role": "tool", "content": "x"}], "none of system"), (5, [{"role": "tool", "content": "x"}], "none of system")):
        ours.kind = kind
        with pytest.raises(ct.Error, match=words):
            ours.text(messages, False)
