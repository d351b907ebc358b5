"""What is learned of conversations: the table in docs/text.md, and beside the masks of the templates that trl has patched."""
import pytest

import ct
from chat_targets import CONVERSATIONS, cells_of, listed, title
from chats import PRIVATE, TEMPLATES, TRL, Chats, Tokenizer, folder_of, source_of, special_of

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
