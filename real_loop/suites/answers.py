"""Take the code, or the text, out of what a model said. Text only: nothing that a model wrote is parsed or compiled on this side."""

from __future__ import annotations

import re
import textwrap

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})([^\n`]*)")  # of one line, to be matched whole
_CODE = re.compile(r"^(?:(?:async )?def \w+ *\(|class \w|import \w|from [\w.]+ import|@\w|\w+ *= *\S)", re.MULTILINE)
_STRING = re.compile(r"('{3}|\"{3})(.*?)(?:\1|\Z)", re.DOTALL)
_KEYWORDS = "def|class|import|from|async|if|for|while|try|except|else|elif|finally|with|assert|return|raise|del|global|not|match|lambda"
_PROSE = re.compile(rf"^(?:(?!(?:{_KEYWORDS})\b)[A-Za-z][\w'-]*[,:]? [A-Za-z]|\*\*|- )", re.MULTILINE)  # two words side by side
_THOUGHT = "</think>"


def _defines(code: str, entry_point: str) -> bool:
    name = re.escape(entry_point)
    return re.search(rf"^[ \t]*(?:async[ \t]+)?(?:def[ \t]+{name}[ \t]*\(|{name}[ \t]*=)", code, re.MULTILINE) is not None


def _fenced(text: str) -> list[str]:
    """Return what stands between fences; a fence that is not closed goes on to the end."""
    blocks: list[str] = []
    fence, inside = "", list[str]()
    for line in text.splitlines(keepends=True):
        found = _FENCE.fullmatch(line.rstrip("\n"))
        if not fence and found:
            fence = found[1]
        elif fence and found and found[1] == fence and not found[2].strip():
            blocks.append("".join(inside))
            fence, inside = "", []
        elif fence:
            inside.append(line)
    return [*blocks, "".join(inside)] if fence else blocks


def code_of(answer: str, entry_point: str = "") -> str:
    """Return the code in an answer; empty when there is none.

    Of several fenced blocks it is the last that defines the entry point, else the last one. Without a fence it is the text
    from the first line that begins like a program to the first after it that reads like prose. What a model thought aloud
    before ``</think>`` is left out.
    """
    text = answer.replace("\r\n", "\n").rpartition(_THOUGHT)[2]
    blocks = [block for block in _fenced(text) if block.strip()]
    if blocks:
        fitting = [block for block in blocks if entry_point and _defines(block, entry_point)]
        return textwrap.dedent(fitting[-1]) if fitting else blocks[-1]
    text = text.lstrip("\n")
    plain = _STRING.sub(lambda match: match[1] + re.sub(r"[^\n]", " ", match[0][3:]), text)  # what strings say is neither code nor prose
    if not text[:1].isspace():  # else it is the body of a function
        begin = _CODE.search(plain)
        if begin is None:
            return ""
        text, plain = text[begin.start() :], plain[begin.start() :]
    elif not text.strip():
        return ""
    end = _PROSE.search(plain)
    return text if end is None else text[: end.start()]


def complete(code: str, entry_point: str, prompt: str) -> str:
    """Put the stub before an answer that is only the body of its function."""
    first = next((line for line in code.splitlines() if line.strip()), "")
    return prompt + code if first[:1].isspace() and not _defines(code, entry_point) else code


def text_of(answer: str) -> str:
    """Return the Markdown of an answer, without the fence and the remarks that a model may put around it; empty when there is none.

    A fenced block is taken for the whole when it is longer than what is said around it. What a model thought aloud before
    ``</think>`` is left out.
    """
    text = answer.replace("\r\n", "\n").rpartition(_THOUGHT)[2].strip()
    blocks = _fenced(text)
    if not blocks:
        return text
    block = max(blocks, key=len)
    around = "\n".join(line for line in text.replace(block, "", 1).splitlines() if line.strip() and not _FENCE.fullmatch(line))
    return block.strip() if len(block) > len(around) or not around else text
