"""What of the reasoning reaches the large model."""

import pytest

from mai_graph.transfer import shorten

REASONING = "Row 1: red circle, empty. Row 2: blue square 125, empty. That makes 2.\nAnswer: 2"


def test_a_reasoning_that_fits_is_kept_whole() -> None:
    kept = shorten(REASONING, len(REASONING), " [...] ")
    assert kept == {"text": REASONING, "characters": len(REASONING), "of_characters": len(REASONING)}


@pytest.mark.parametrize("keep", range(2, len(REASONING)))
def test_the_middle_is_left_out_with_a_mark_and_never_half_a_word(keep: int) -> None:
    kept = shorten(REASONING, keep, " [...] ")
    head, mark, tail = kept["text"].partition(" [...] ")
    assert mark
    assert REASONING.startswith(head)
    assert REASONING.endswith(tail)
    assert kept["characters"] == len(head) + len(tail) <= keep
    assert kept["of_characters"] == len(REASONING)
    if keep > 40:
        assert set(head.split()) | set(tail.split()) <= set(REASONING.split())


@pytest.mark.parametrize("text", ["字" * 500, " " * 500, "\n" * 500])
def test_a_text_without_words_is_cut_too(text: str) -> None:
    assert 0 <= shorten(text, 100, "~")["characters"] <= 100
