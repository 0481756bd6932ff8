"""What of a model's text is its answer: reasoning is left out, a quote of its marks is not."""

from __future__ import annotations

import sys

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model.reasoning import without_reasoning

HARMONY = "<|channel|>analysis<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>fine"


@pytest.mark.spec("MODEL-7")
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>plan</think>fine", "fine"),
        ("<think>\nplan\n</think>\n\nfine", "fine"),
        (" \n\ufeff<think>plan</think>fine", "fine"),
        ("<THINKING>plan</thinking>fine", "fine"),
        ("<thought>plan</thought >fine", "fine"),
        ("<reasoning>plan</reasoning>fine", "fine"),
        ('<thinking effort="high">plan</thinking>fine', "fine"),
        ("<seed:think>plan</seed:think>fine", "fine"),
        ("[THINK]plan[/THINK]fine", "fine"),
        ("◁think▷plan◁/think▷fine", "fine"),
        ("<|channel>thought\nplan<channel|>fine", "fine"),
        ("<|START_THINKING|>plan<|END_THINKING|>fine", "fine"),
        ("<think></think>fine", "fine"),
        ("<think>plan</think>\n<think>more</think> <thought>and more</thought>\nfine", "fine"),
        ("<think>plan with <b>marks</b>, <thought> and `code`</think>fine", "fine"),
        ("<think>a<think>b</think>c</think>fine", "fine"),
        ("<think>they want a </think> in it\n</think>\nfine", "fine"),
        (
            "<think>plan</think>fine, with <think>a quote</think> in it",
            "fine, with <think>a quote</think> in it",
        ),
    ],
)
def test_blocks_of_reasoning_at_the_start_are_left_out(text: str, answer: str):
    assert without_reasoning(text) == answer


@pytest.mark.spec("MODEL-7")
@pytest.mark.parametrize(
    "text",
    [
        "<think>plan",
        "<think>plan</thinking>fine",
        "<think>plan</think><reasoning>more",
        "<reasoning>plan. Now the answer: fine",
        "[THINK]plan</think>fine",
        "<|channel>thought\nplan",
        "plan\n</think>\n<think>more",
        "<think>plan</think>",
        "plan\n</think>\n",
    ],
)
def test_a_block_that_is_not_closed_or_nothing_after_it_is_no_answer(text: str):
    assert without_reasoning(text).strip() == ""


@pytest.mark.spec("MODEL-8")
@pytest.mark.parametrize(
    "text",
    [
        "plan\n</think>\n\nfine",
        "plan.</think>fine",
        "plan</think>\nfine",
        "plan\n  </think>fine",
        "</think>fine",
        "plan\n</thought>\nfine",
        "plan[/THINK]fine",
        "plan <channel|>".replace(" ", "") + "fine",
        "They said <think> is a tag.\n</think>\nfine",
        "Quoted: `</think>`, and so on.\n</think>\nfine",
        'It says "</think>".</think>fine',
        "plan<think>more</think>still plan</think>fine",
        "First draft:\n```\nx = 1\n```\nBetter not.\n</think>\nfine",
        "A draft that breaks off:\n```\nx = 1\n</think>\nfine",
        "one\n</think>\ntwo\n</think>\nfine",
        "plan\n</think>\n<think>more</think>\nfine",
        "<think>plan</think>more\n</think>\nfine",
        "don't, 'tis\n</think>\nfine",
    ],
)
def test_reasoning_whose_opening_tag_stood_in_the_prompt_is_left_out(text: str):
    assert without_reasoning(text).strip() == "fine"


QUOTES = [
    "Models emit <think>plan</think> before the answer.",
    "Wrap it in <think> and </think> tags.",
    "End the block with </think> and go on.",
    "It ends with </think>.",
    "It ends with </think>",
    "- </think>",
    "Write `</think>` at its end.",
    "Write ``x</think>`` at its end.",
    'Split at "x</think>" please.',
    "Split at 'x</think>' please.",
    "Split at “x</think>” please.",
    r're.sub(r"^.*?</think>", "", text)',
    r"re.sub(r'^.*?\'</think>', '', text)",
    r'{"prompt": "say \"hi\"</think>"}',
    "(</think>)",
    "**</think>**",
    "|</think>|",
    "Do this:\n\n```\nplan\n</think>\nfine\n```\n\nThat is all.",
    "~~~ text\nplan\n</think>\n~~~",
    "```\nplan\n</think>\nfine\n```",
    "Indented:\n\n    plan\n    </think>\n",
    "Tabs:\n\n\t</think>",
    "The form is\n<think>\nplan\n</think>\nfine",
    "<answer>\n<reasoning kind='x'>\nplan\n</reasoning>\nfine\n</answer>",
    "Use <|channel|>final<|message|> for it.",
    "An analysis<|message|> of it.",
    "analysis of the assistantfinal marker",
    "analysis\nassistantfinal",
    "analysisWe know of none.",
    "fi<think>plan</think>ne",
    "a < b and <thinker> stays",
    "[THINKING] about it",
]


@pytest.mark.spec("MODEL-7", "MODEL-8", "MODEL-9")
@pytest.mark.parametrize("text", QUOTES)
def test_an_answer_that_only_quotes_the_marks_of_reasoning_is_left_as_it_is(text: str):
    assert without_reasoning(text) == text


@pytest.mark.spec("MODEL-9")
@pytest.mark.parametrize(
    "text",
    [
        HARMONY,
        f"\n{HARMONY}<|return|>",
        f"{HARMONY}<|end|>\n",
        f"<|start|>assistant{HARMONY}",
        f"{HARMONY}<|end|><|start|>assistant<|channel|>analysis<|message|>more",
        "<|channel|>final<|message|>fine",
        "<|channel|>final <|constrain|>json<|message|>fine",
        "<|channel|>commentary to=functions.run <|constrain|>json<|message|>{}<|call|>"
        "<|start|>assistant<|channel|>final<|message|>fine",
        "<|channel|>analysis<|message|>plan<|channel|>final<|message|>fine",
        "<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>fine",
        "<think>plan</think><|channel|>final<|message|>fine",
        "analysisThe user wants it short.assistantfinalfine",
        'analysis"Fine" will do.assistantfinalfine',
        "commentaryI begin.assistantfinalfine",
    ],
)
def test_of_harmony_only_the_final_channel_is_the_answer(text: str):
    assert without_reasoning(text) == "fine"


@pytest.mark.spec("MODEL-9")
@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>analysis<|message|>plan",
        "<|channel|>analysis<|message|>plan<|end|><|start|>assistant",
        "<|channel|>commentary to=functions.run<|message|>{}<|call|>",
        "<|channel|>finality<|message|>plan",
        "<|start|>assistant<|message|>plan",
        "<|channel|>",
    ],
)
def test_harmony_without_a_final_channel_is_no_answer(text: str):
    assert without_reasoning(text) == ""


@pytest.mark.spec("MODEL-9")
def test_a_final_message_may_quote_the_marks_of_harmony():
    quote = "It is <|start|>assistant<|channel|>final<|message|>, closed by <|end|> or <|return|>, as I said."
    assert without_reasoning(f"<|channel|>final<|message|>{quote}<|return|>") == quote


def without(chars: str) -> st.SearchStrategy[str]:
    """Text in which neither these characters nor a mark of reasoning can stand."""
    text = st.text(st.characters(exclude_characters=f"<>[]◁▷{chars}"))
    return text.filter(lambda text: not text.startswith(("analysis", "commentary")))


WORDS = without("`~\"'“«„\\")
MENTIONS = st.sampled_from(
    [
        "`<think>`",
        "`a</think>`",
        '"</thought>"',
        "in <think>a</think> they",
        "a </reasoning> b",
        "a\n```\n</think>\n```\n",
        "a\n<think>\nb\n</think>\n",
        "a <|channel|>final<|message|>",
    ]
)
HONEST = st.lists(st.tuples(WORDS, MENTIONS), min_size=1, max_size=4).map(
    lambda parts: "An answer. " + "".join(words + mention for words, mention in parts)
)


@pytest.mark.spec("MODEL-7", "MODEL-8", "MODEL-9")
@given(text=st.one_of(without(""), HONEST))
def test_an_answer_without_reasoning_at_its_start_comes_through_untouched(text: str):
    assert without_reasoning(text) == text


@pytest.mark.spec("MODEL-7", "MODEL-8", "MODEL-9")
@given(
    reasoning=without("`~"),
    answer=st.one_of(WORDS, HONEST),
    frame=st.sampled_from(
        [
            ("<think>", "</think>"),
            ("[THINK]", "[/THINK]"),
            ("<reasoning>", "\n</reasoning>\n"),
            ("", "\n</think>\n\n"),
            ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ]
    ),
)
def test_reasoning_of_any_kind_before_any_answer_is_left_out(
    reasoning: str, answer: str, frame: tuple[str, str]
):
    opening, closing = frame
    assert without_reasoning(f"{opening}{reasoning}{closing}{answer}").strip() == answer.strip()


REPEATED = (
    "`",
    "``",
    "```",
    "~~~\n",
    '"',
    "'",
    "\\",
    '\\"',
    "\\`",
    "“",
    "«",
    "„",
    "<think>",
    "<think ",
    "</",
    "<|channel|>final",
)
FULL_LENGTH = """
import sys
from supervisor.model.reasoning import without_reasoning

for unit in sys.argv[1:]:
    for end in ("</think>", "\\n</think>\\n"):
        without_reasoning("a" + unit * (1_000_000 // len(unit)) + end)
"""


@pytest.mark.spec("MODEL-8")
async def test_no_text_of_the_full_length_holds_the_program_up():
    """In a process of its own, since nothing cancels it: in squared time one of them would take minutes."""
    with trio.fail_after(60):
        await trio.run_process([sys.executable, "-c", FULL_LENGTH, *REPEATED])
