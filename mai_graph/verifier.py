"""Do two answers say the same thing? Pure functions: reading an answer from what a model wrote, and comparing two.

An answer that can't be read is None, and None agrees with nothing.
"""

import re
import string
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from mai_graph.config import Metric
from mai_graph.state import Verdict

_MARKER = re.compile(r"^[ \t*_#>]*(?:final[ \t]+)?answer[ \t]*[*_]*[ \t]*(?::|is\b)", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"([-+]?)[$€£]?(\d{1,3}(?:,\d{3})+|\d+)?(\.\d+)?[ ]?(%?)")
_LETTER = re.compile(r"\(?([A-Za-z])[.):]{0,2}")
_LETTER_AND_TEXT = re.compile(r"\(?([A-Za-z])[.):]{1,2}[ \t]+(.+)")


def read_answer(text: str, *, options: Sequence[str] = (), reasoning: bool = False) -> str | None:
    """The short answer in what a model wrote.

    Args:
        text: The model's words.
        options: Texts of a multiple-choice question; the answer is then the letter.
        reasoning: Whether `text` is reasoning: then only a marked answer ("Answer: 7") counts. In a short reply a
            single line counts as it is.

    Returns:
        The answer without marker, decoration and final full stop, or None when there is none.
    """
    text = text.rpartition("</think>")[2] if "</think>" in text else text
    marked = list(_MARKER.finditer(text))
    if marked:
        lines = text[marked[-1].end() :].strip().splitlines()
        candidate = lines[0] if lines else ""
    elif reasoning or len(text.strip().splitlines()) != 1:
        return None
    else:
        candidate = text
    answer = candidate.strip().strip("*_`\"'").strip().removesuffix(".").strip()
    if options:
        return _letter(answer, options)
    return answer if any(character.isalnum() for character in answer) else None


def verify(
    a: str | None, b: str | None, *, metric: Metric | None, options: Sequence[str] = (), anls_threshold: float = 0.9
) -> Verdict:
    """Compare two answers as read by `read_answer`.

    Args:
        a: One answer.
        b: The other.
        metric: How to compare; None guesses: "choice" with options, "number" when both are numbers, else "em".
        options: Texts of a multiple-choice question.
        anls_threshold: Similarity from which "anls" calls two answers the same. The benchmark's own is 0.5
            (https://arxiv.org/abs/1907.00490), made for scoring: as agreement it would accept 2018 for 2019 (0.75).
    """
    chosen = metric or _guess(a, b, options)
    score = 0.0 if a is None or b is None else _similarity(a, b, chosen, options)
    threshold = anls_threshold if chosen == "anls" else 1.0
    return {"agree": score >= threshold, "metric": chosen, "guessed": metric is None, "score": score}


def _guess(a: str | None, b: str | None, options: Sequence[str]) -> Metric:
    if options:
        return "choice"
    return "number" if a and b and _number(a) is not None and _number(b) is not None else "em"


def _similarity(a: str, b: str, metric: Metric, options: Sequence[str]) -> float:
    match metric:
        case "choice":
            letter = _letter(a, options)
            return float(letter is not None and letter == _letter(b, options))
        case "number":
            number = _number(a)
            return float(number is not None and number == _number(b))
        case "relaxed":
            x, y = _number(a), _number(b)
            if x is None or y is None or x.unit != y.unit:
                return float(_normalise(a) == _normalise(b))
            # ChartQA allows 5 % of the reference; of two models' answers neither is one, so the smaller counts.
            return float(abs(x.value - y.value) <= Decimal("0.05") * min(abs(x.value), abs(y.value)))
        case "anls":
            return Levenshtein.normalized_similarity(_normalise(a), _normalise(b))
        case "em":
            return float(_normalise(a) == _normalise(b))


def _normalise(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    # A leading sign or decimal point belongs to a number, so only quotes and brackets go from the front.
    return " ".join(folded.split()).lstrip("\"'`([{").rstrip("\"'`)]}.,;:!? ")


class _Number(NamedTuple):
    value: Decimal
    unit: str


def _number(text: str) -> _Number | None:
    found = _NUMBER.fullmatch(_normalise(text).replace("\u2212", "-"))
    if not found or not (found[2] or found[3]):
        return None
    sign, whole, fraction, unit = found.groups()
    return _Number(Decimal(f"{sign}{(whole or '0').replace(',', '')}{fraction or ''}"), unit)


def _letter(answer: str, options: Sequence[str]) -> str | None:
    letters = string.ascii_uppercase[: len(options)]
    texts = [_normalise(option) for option in options]
    if alone := _LETTER.fullmatch(answer):
        letter = alone[1].upper()
        return letter if letter in letters else None
    if _normalise(answer) in texts:
        return letters[texts.index(_normalise(answer))]
    if both := _LETTER_AND_TEXT.fullmatch(answer):
        letter = both[1].upper()
        # A letter beside another option's text contradicts itself: no answer.
        return letter if letter in letters and texts[letters.index(letter)] == _normalise(both[2]) else None
    return None
