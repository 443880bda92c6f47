"""Transfer: what of the reasoning R the large model gets to read. Here all of it; less only where it would not fit."""

import re

from mai_graph.state import Transferred


def shorten(reasoning: str, keep: int, mark: str) -> Transferred:
    """Leave out the middle of R: its beginning says what is seen, its end what follows from it.

    Args:
        reasoning: R.
        keep: Most characters of R to keep.
        mark: Put where the middle was.

    Returns:
        R whole where it is short enough; else its first and last part, cut between words where there are any.
    """
    if len(reasoning) <= keep:
        return Transferred(text=reasoning, characters=len(reasoning), of_characters=len(reasoning))
    head, tail = reasoning[: keep - keep // 2], reasoning[len(reasoning) - keep // 2 :]
    # Half a word, or worse half a number, would be read as another one.
    head, tail = re.sub(r"\s\S*$", "", head), re.sub(r"^\S*\s", "", tail)
    return Transferred(text=head + mark + tail, characters=len(head) + len(tail), of_characters=len(reasoning))
