"""What is learned of conversations: the table in docs/text.md, and beside the masks of the templates that trl has patched."""
import random
import re

import pytest

import ct
from chat_targets import CONVERSATIONS, FORMS, Rules, cells_of, listed, title
from chats import MASKED, PRIVATE, TEMPLATES, TOOLS, TRL, Chats, Tokenizer, folder_of, source_of, special_of

# A call of this one ends with <|tool_response>, and behind a tool's message its generation prompt is empty, so that the model writes the role.
ALONE = {("diffusion_gemma", "tool"): "<|tool_response><|turn>model\n"}
PATCHED = [name for name in TRL if name + "_training" in TRL]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_page_says_what_is_learned(context, tmp_path, name):
    assert listed()[title(name)] == cells_of(context, tmp_path, name)


def test_the_page_has_no_other_templates():
    known = set(map(title, TEMPLATES))
    assert {name for name in listed() if ": " not in name} == {name for name in known if ": " not in name}
    assert not PRIVATE or set(listed()) == known


@pytest.mark.parametrize("name", PATCHED)
def test_targets_lie_in_the_patched_mask(context, tmp_path, name):
    """trl's patched template encloses what is learned by {% generation %}: with the role before it, the reasoning that a prompt already has, the line
    end behind it, or answers that later messages rewrite. Nothing else is learned without it."""
    plain, patched = TRL[name], TRL[name + "_training"]
    source = source_of(special_of(plain + patched))
    tokenizer = Tokenizer.from_str(source)
    ends = [id for id in map(tokenizer.token_to_id, ["<|call|>", "<|tool_response>"]) if id is not None]
    ours = [Chats(context, folder_of(source, tmp_path / str(i), text, ends)) for i, text in enumerate((plain, patched))]
    for conversation, (messages, options) in CONVERSATIONS.items():
        try:
            if ours[0].text(messages, **options) != ours[1].text(messages, **options):
                continue
        except ct.Error:
            continue
        (ids, learned), (_, enclosed) = (one.encode(messages, **options) for one in ours)
        alone = tokenizer.decode([a for a, b in zip(learned, enclosed) if a != -100 and b == -100], skip_special_tokens=False)
        assert alone == ALONE.get((name, conversation), ""), conversation
        more = tokenizer.decode([b for a, b in zip(learned, enclosed) if a == -100 and b != -100], skip_special_tokens=False)
        assert "question" not in more and "result1" not in more and "answer2" not in more and "calledcity" not in more, (conversation, more)


def numbered(draw):
    """A random conversation; each text is a letter for who wrote it and a number of its own."""
    numbers = iter(draw.sample(range(100000, 999999), 40))
    text = lambda letter: f"{letter}{next(numbers)}"
    messages = [{"role": "system", "content": text("s")}] if draw.random() < 0.3 else []
    for turn in range(draw.randrange(1, 5)):
        messages.append({"role": "user", "content": text("u")} if turn % 2 == 0 else {"role": "assistant", "content": text("a")})
        if turn % 2 and draw.random() < 0.4:
            messages[-1]["reasoning_content"] = text("r")
        if turn % 2 and draw.random() < 0.4:
            call = {"name": "get_weather", "arguments": {"city": text("c")}}
            messages[-1] |= {"content": "", "tool_calls": [{"type": "function", "id": "a23456789", "function": call}]}
            messages.append({"role": "tool", "name": "get_weather", "tool_call_id": "a23456789", "content": text("t")})
            messages.append({"role": "assistant", "content": text("a")})
    if draw.random() < 0.2:
        messages.append({"role": "assistant", "content": text("a"), "weight": 0})
    return messages, {"tools": TOOLS if draw.random() < 0.4 else None, "prompt": draw.random() < 0.3}


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name not in MASKED])
def test_no_target_lies_in_anothers_message(context, tmp_path, name):
    """A learned run is of one assistant's message: it has no text of another, nor of one that is not learned."""
    rules, draw = Rules(context, tmp_path, TEMPLATES[name]), random.Random(name)
    parts, found = "llava" in name or "idefics" in name or "smolvlm" in name, 0   # whose contents are parts
    for _ in range(30):
        messages, options = numbered(draw)
        runs = rules.learned(FORMS[2](messages) if parts else messages, options) or []
        found += len(runs)
        for run in runs:
            spelled = re.findall(r"[suatrc]\d{6}", run)
            others = [message["content"] for message in messages if message["role"] != "assistant" or message.get("weight") == 0]
            assert not set(spelled) & set(others), (messages, options, runs)
            of = {i for i, message in enumerate(messages) for text in spelled if text in str(message)}
            assert len(of) <= 1, (messages, options, runs)
    assert found
