"""Chats beside transformers: texts of the templates that the package trl has copies of, with tools and reasoning; ids; and targets beside the
masks of templates with {% generation %}. PRIVATE_DATA adds templates, renders and expressions with their results."""
import json
import random
import re
from datetime import datetime

import pytest

import ct
import test_jinja_live
from chats import MASKED, NOT_SPECIAL, NOW, PRIVATE, SPECIAL, TEMPLATES, TOOLS, Chats, folder_of, private, source_of, theirs_of

CONTENTS = ["Hello, how are you?", " spaces at both ends  ", "", "two\nlines\n", "\n\nfirst empty", "naïve 中文 👩‍👩‍👧", "1234567", "\t tab", "I'm 'fine'",
            "<think>\nreason\n</think>\n\nanswer", "no</think>", "<tool_response>\n3\n</tool_response>", '"quoted" \\ {{ x }} {% y %}']


@pytest.fixture(scope="module")
def source():
    return source_of(SPECIAL)


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


if PRIVATE:
    def test_renders(context, source, tmp_path):
        """Texts of PRIVATE_DATA that transformers rendered, and where it refused."""
        ours = Chats(context, folder_of(source, tmp_path, ""))
        for row in private("templates.jsonl"):
            given = dict(row["variables"])
            messages, tools, prompt = given.pop("messages"), given.pop("tools", None), given.pop("add_generation_prompt")
            day = re.search(r"\d{4}-\d\d-\d\d", row["result"] or "") if "strftime_now" in row["template"] else None
            now = int(datetime.strptime(day[0], "%Y-%m-%d").timestamp()) + 3600 if day else NOW
            options = dict(prompt=prompt, tools=tools, variables=given, template=row["template"], now=now)
            if row["result"] is None:
                with pytest.raises(ct.Error):
                    ours.text(messages, **options)
            else:
                assert ours.text(messages, **options) == row["result"], (row["name"], row["scenario"])

    def test_snippets(context, source, tmp_path):
        """Expressions of PRIVATE_DATA and what jinja2 makes of them: "!" stands before an error, and an address is refused. Messages are no variable."""
        chats = Chats(context, folder_of(source, tmp_path, ""))
        for row in private("semantics.jsonl"):
            given = dict(row["variables"])
            messages, tools, documents, prompt = (given.pop(name, None) for name in ("messages", "tools", "documents", "add_generation_prompt"))
            if messages is None:
                text, words = test_jinja_live.ours(row["template"], row["variables"])
            else:
                # a text without braces would be the name of a template
                template = row["template"] if re.search("{[{%]", row["template"]) else "{{ '' }}" + row["template"]
                options = dict(prompt=bool(prompt), tools=tools, documents=documents, variables=given, template=template)
                try:
                    text, words = chats.text(messages, **options), ""
                except ct.Error as fault:
                    text, words = None, str(fault)
            refused = row["result"].startswith("!") or " at 0x" in row["result"] or "integers beyond 64 bits" in words
            assert (text is None) == refused, (row, words)
            assert text is None or text == row["result"], row
