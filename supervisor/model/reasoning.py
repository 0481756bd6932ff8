"""What of a model's text is reasoning and not its answer. Pure.

House rules: reasoning stands at the start, so an answer that only quotes its marks is left as it is. A lone closing tag
further on is the one mark that needs a look at its place: in code, in quotation marks or inside a sentence it is a
quote. Every step is linear: an endpoint chooses the text, and the whole program waits meanwhile.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r"((?:[a-z]{1,10}:)?(?:think|thinking|thought|reasoning))"
_OPENING: Final = re.compile(
    rf"<{_NAME}(?:\s[^<>\n]{{0,200}})?>|\[(THINK)\]|◁(think)▷|<\|(channel)>|<\|START_(THINKING)\|>",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(
    rf"</{_NAME}\s?>|\[/(THINK)\]|◁/(think)▷|<(channel)\|>|<\|END_(THINKING)\|>", re.IGNORECASE
)
_BLANK: Final = re.compile(r"[\s\u200b\u2060\ufeff]*")

_HARMONY: Final = re.compile(r"<\|(?:start|channel|message)\|>")
_HARMONY_FINAL: Final = re.compile(
    r"<\|channel\|>\s?final\b[^<]{0,200}(?:<\|constrain\|>[^<]{0,200})?<\|message\|>"
)
_HARMONY_END: Final = re.compile(r"<\|end\|>\s{0,9}<\|start\|>|<\|(?:end|return|call)\|>\s{0,9}\Z")
_BARE_HARMONY: Final = re.compile(r"(?:analysis|commentary)(?![\s.,:;])")
_BARE_FINAL: Final = "assistantfinal"

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_QUOTED: Final = "|".join(
    (
        r"\\.",  # taken first, so that an escaped quotation mark opens nothing
        r"`{2,}+(?:(?:[^`]|`(?!`))*+`{2,}+)?",  # one that nothing closes is taken too: begun anew inside it, it would be squared
        r"(?<!`)`(?!`)(?:[^`]|`{2,}+)*+`",
        r'"(?:[^"\\]|\\.)*"',
        r"(?<!\w)[rbfu]{0,2}'(?:[^'\\]|\\.)*'(?!\w)",
        "“[^“”]*”",
        "«[^«»]*»",
        "„[^„“”]*[“”]",
    )
)
_TOKEN: Final = re.compile(
    f"(?P<quoted>{_QUOTED})|(?P<opening>{_OPENING.pattern})|(?P<closing>{_CLOSING.pattern})", re.IGNORECASE
)
_ENCLOSED: Final = frozenset({"()", "[]", "{}", "<>", "||", "**", "__"})
_CODE_INDENT: Final = 4
"""So far in, a line is code, as in Markdown."""


def without_reasoning(text: str) -> str:
    """The answer in a model's text: all of it, unless it begins with reasoning. Empty if it is nothing else."""
    start = _behind_blocks(text, 0)
    if start is None:
        return ""
    if (match := _HARMONY.match(text, start)) is not None:
        return _final_message(text, match.start())
    if _BARE_HARMONY.match(text, start) and (found := text.find(_BARE_FINAL, start)) >= 0:
        return text[found + len(_BARE_FINAL) :]
    end = _behind_unopened(text, start)
    if end > start:
        start = _behind_blocks(text, end)
        return "" if start is None else text[start:]
    return text[start:] if start > _after_blank(text, 0) else text


def _after_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


def _behind_blocks(text: str, position: int) -> int | None:
    """Where the text goes on behind the blocks of reasoning that stand here one after the other; None in an open one."""
    position = _after_blank(text, position)
    while (opening := _OPENING.match(text, position)) is not None:
        kind = _kind(opening)
        closing = next((tag for tag in _CLOSING.finditer(text, opening.end()) if _kind(tag) == kind), None)
        if closing is None:
            return None
        position = _after_blank(text, closing.end())
    return position


def _kind(tag: re.Match[str]) -> tuple[int | None, str]:
    return tag.lastindex, str(tag[tag.lastindex or 0]).lower()


def _final_message(text: str, position: int) -> str:
    """What stands in the final channel of Harmony, the format of gpt-oss; empty if there is none."""
    header = _HARMONY_FINAL.search(text, position)
    if header is None:
        return ""
    end = _HARMONY_END.search(text, header.end())
    return text[header.end() : len(text) if end is None else end.start()]


def _behind_unopened(text: str, start: int) -> int:
    """Where reasoning ends whose opening tag is not there because a template put it into the prompt; `start` if none does.

    That is behind the last closing tag which closes nothing and is no quote: it begins a line, or follows upon a word
    without a space.
    """
    end = start
    if _CLOSING.search(text, start) is None:
        return end
    lines = text[start:].split("\n")
    code = _code_lines(lines)
    position, open_blocks = start, 0
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        open_here: list[bool] = []
        for token in _TOKEN.finditer(line) if number not in code else ():
            if token["opening"]:
                open_here.append(_stands_free(token, indent))
            elif token["closing"] and open_here:
                open_here.pop()
            elif token["closing"] and open_blocks:
                open_blocks -= 1
            elif token["closing"] and _stands_free(token, indent):
                end = position + token.end()
        open_blocks += sum(open_here)
        position += len(line) + 1
    return end


def _stands_free(tag: re.Match[str], indent: int) -> bool:
    """Whether the tag is no mention in a sentence: at the start of its line, or glued to what precedes."""
    line, before = tag.string, tag.start() - 1
    if before < indent:
        return indent < _CODE_INDENT and "\t" not in line[:indent]
    return not line[before].isspace() and line[before] + line[tag.end() : tag.end() + 1] not in _ENCLOSED


def _code_lines(lines: list[str]) -> set[int]:
    """The numbers of the lines in fenced code. A fence that is never closed is none: a draft may break off anywhere."""
    code: set[int] = set()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            continue
        if opened is None:
            opened = number, fence[1]
        elif fence[1].startswith(opened[1]) and not fence[2].strip():
            code.update(range(opened[0], number + 1))
            opened = None
    return code
