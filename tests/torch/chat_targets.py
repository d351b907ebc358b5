"""The table in docs/text.md of what is learned in the templates of chats.py: `make chat-targets PRIVATE_DATA=DIR` writes it, from what ct_chat_encode
returns for five conversations. Templates of PRIVATE_DATA that trl has no copy of have rows too, so without it the table is not written."""
import os
import re
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

import ct
from chats import PRIVATE, ROOT, TEMPLATES, TOOLS, TRL, Chats, folder_of, source_of, special_of

PAGE = ROOT / "docs" / "text.md"
BEGIN, END = "<!-- what is learned: made by make chat-targets -->\n", "<!-- end -->\n"


def user(n):
    return {"role": "user", "content": f"question{n}"}


def answer(n, **more):
    return {"role": "assistant", "content": f"answer{n}"} | more


CALL = {"type": "function", "id": "a23456789", "function": {"name": "get_weather", "arguments": {"city": "calledcity"}}}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "a23456789", "content": "result1"}
# Each with the texts of its assistants' messages: R is the reasoning, C the call, A the answer.
CONVERSATIONS = {
    "plain": ([user(1), answer(1), user(2), answer(2)], {}),
    "tool": ([user(1), {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT, answer(2)], {"tools": TOOLS}),
    "reasoning": ([user(1), answer(1, reasoning_content="reason1"), user(2), answer(2, reasoning_content="reason2")], {}),
    "two answers": ([user(1), answer(1), answer(2)], {}),
    "assistant first": ([answer(1), user(1), answer(2)], {})}

# What generation_config.json of gpt-oss and of Gemma 4 names, behind a call.
CALL_ENDS = ["<|call|>", "<|tool_response>"]
# Some templates read a call where there is no content, and some read contents that are parts.
FORMS = [lambda messages: messages, lambda messages: [{key: value for key, value in message.items() if value != ""} for message in messages],
         lambda messages: [message | {"content": [{"type": "text", "text": message["content"]}]} for message in messages]]


def texts_of(message):
    """{letter: texts} of a message."""
    texts = {"R": [message.get("reasoning_content")], "C": [], "A": [message["content"]]}
    for call in message.get("tool_calls", []):
        texts["C"] = [call["function"]["name"], call["function"]["arguments"]["city"]]
    return {letter: [text for text in given if text] for letter, given in texts.items() if any(given)}


def spans_of(ids, targets):
    """The learned ids as runs."""
    runs, before = [], False
    for t in range(1, len(ids)):
        learned = targets[t - 1] != -100
        assert not learned or targets[t - 1] == ids[t]
        if learned and not before:
            runs.append([])
        if learned:
            runs[-1].append(ids[t])
        before = learned
    return runs


class Rules:
    """What is learned by one template."""

    def __init__(self, context, folder, template):
        special = special_of(template)
        source = source_of(special)
        self.special, self.tokenizer = set(special), Tokenizer.from_str(source)
        ends = [self.tokenizer.token_to_id(token) for token in CALL_ENDS if token in special]
        self.ours = Chats(context, folder_of(source, folder, template, ends))

    def turn(self, message, runs):
        """Letters of what is learned of a message, small where the first token is not; h: its header; a dot: the special token that ends it."""
        texts = texts_of(message)
        for run in runs:
            found = {letter: [text[-5:] in run for text in given] for letter, given in texts.items()}
            if not any(map(any, found.values())):
                continue
            letters = "".join(letter if all(text in run for text in texts[letter]) else letter.lower() for letter, is_in in found.items() if any(is_in))
            ends = [(run.index(text[-5:]), run.rindex(text[-5:]) + 5) for given in texts.values() for text in given if text[-5:] in run]
            header = re.search(r"assistant|model|bot|gpt|response", run[:min(ends)[0]].split("<think>")[0], re.I)
            token = any(token in run[max(ends)[1]:] for token in self.special)
            return ("h" if header else "") + letters + ("." if token else "")
        return "-"

    def learned(self, messages, options):
        """The texts of what is learned, or None where the template refuses."""
        try:
            ids, targets = self.ours.encode(messages, **options)
        except ct.Error:
            return None
        return [self.tokenizer.decode(run, skip_special_tokens=False) for run in spans_of(ids, targets)]

    def cell(self, name):
        messages, options = CONVERSATIONS[name]
        written = []   # (assistants' texts that the template writes, in a form of the conversation)
        for form in FORMS:
            try:
                text = self.ours.text(form(messages), **options)
            except ct.Error:
                continue
            written.append((sum(part in text for message in messages for parts in texts_of(message).values() for part in parts), form))
        if not written:
            return "refused"
        runs = self.learned(max(written, key=lambda pair: pair[0])[1](messages), options)
        for message in messages:
            assert message["role"] == "assistant" or not any(message["content"] in run for run in runs), (name, runs)
        return " ".join(self.turn(message, runs) for message in messages if message["role"] == "assistant")


def title(name):
    return name if name in TRL else name.replace("__chat_templates_", ": ").replace("__", ": ").replace("_template", "")


def cells_of(context, folder, name):
    rules = Rules(context, folder, TEMPLATES[name])
    return tuple(rules.cell(conversation) for conversation in CONVERSATIONS)


def table(rows):
    """The lines of {name: cells}; templates of which the same is learned share one."""
    groups = {}
    for name, cells in sorted(rows.items()):
        groups.setdefault(cells, []).append(name)
    lines = ["| templates | " + " | ".join(CONVERSATIONS) + " |", "|---" * (1 + len(CONVERSATIONS)) + "|"]
    for cells, names in sorted(groups.items(), key=lambda group: (-len(group[1]), group[1])):
        lines.append(f"| {', '.join(names)} | " + " | ".join(cells) + " |")
    return "".join(line + "\n" for line in lines)


def listed():
    """{name: cells} as the page has them."""
    rows = {}
    for line in PAGE.read_text().split(BEGIN)[1].split(END)[0].split("\n")[2:]:
        if line:
            names, *cells = line.strip("| ").split(" | ")
            rows |= {name: tuple(cells) for name in names.split(", ")}
    return rows


def main():
    if not PRIVATE:
        sys.exit("usage: make chat-targets PRIVATE_DATA=DIR")
    with ct.Context() as context, tempfile.TemporaryDirectory() as folder:
        rows = {title(name): cells_of(context, Path(folder) / str(i), name) for i, name in enumerate(TEMPLATES)}
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + table(rows) + END + rest.split(END, 1)[1])
    print(f"wrote what is learned of {len(rows)} templates into {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
