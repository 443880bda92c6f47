"""What the models are trained on: questions in the exact prompts of the prompt set, with the tokens to learn marked.

Three kinds of text, after the calls of the graph: a short answer at once; reasoning and then a short answer; a short
answer after reading somebody's reasoning, which may be wrong, shuffled or thinned to key words. The true answer is what
is learnt in each case, so reading critically pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from mai_servers.tiny.drawing import COLOURS, MAX_VALUE, SHAPES, Bar, Chart, Scene, Thing, draw_scene, random_scene
from mai_servers.tiny.model import VISUAL_TOKENS
from mai_servers.tiny.scenes import Example, ask
from mai_servers.tiny.tokenizer import SEEN_HEIGHT, SEEN_WIDTH, prompt_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class Sample:
    """Token ids of a whole conversation and the weight of each token in the loss (0: read only)."""

    ids: list[int]
    weights: list[float]


def see(picture: Image.Image) -> np.ndarray:
    """Scale a picture as the image processor does; uint8, 96 x 128 x 3."""
    return np.asarray(picture.resize((SEEN_WIDTH, SEEN_HEIGHT), Image.Resampling.BICUBIC))


class Corpus:
    """A fixed set of pictures with several questions each, drawn from one random stream."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        stream: Sequence[int],
        pictures: int,
        questions: int,
    ) -> None:
        """Draw the pictures.

        Args:
            tokenizer: The pair's tokenizer.
            stream: Seed of the random stream.
            pictures: Number of pictures.
            questions: Questions about each.
        """
        rng = np.random.default_rng(stream)
        self.tokenizer = tokenizer
        self.scenes: list[Scene] = []
        self.examples: list[tuple[int, Example]] = []
        seen = []
        for index in range(pictures):
            scene, seed = random_scene(rng), int(rng.integers(2**31))
            self.scenes.append(scene)
            seen.append(see(draw_scene(scene, seed)))
            self.examples += [(index, ask(scene, seed, rng)) for _ in range(questions)]
        self.pictures = np.stack(seen)

    def short(self, example: Example) -> Sample:
        """A short answer at once."""
        return self._join([(self._user(example, "simple"), 0.0), self._reply(example.answer, 1.0)])

    def reasoned(self, example: Example, answer_weight: float) -> Sample:
        """The true reasoning, and a short answer in the next turn."""
        parts = [(self._user(example, "think"), 0.0), self._reply(example.reasoning(), 1.0)]
        return self._join([*parts, self._next_turn(), self._reply(example.answer, answer_weight)])

    def read(self, example: Example, reasoning: str, weight: float, *, transfer: bool) -> Sample:
        """A short answer after reading somebody's reasoning: as a transfer, or as if it were the model's own turn."""
        if transfer:
            return self._join([(self._user(example, "transfer", reasoning), 0.0), self._reply(example.answer, weight)])
        parts = [(self._user(example, "think"), 0.0), self._reply(reasoning, 0.0)]
        return self._join([*parts, self._next_turn(), self._reply(example.answer, weight)])

    def prompt(self, example: Example, name: str, reasoning: str = "") -> list[int]:
        """Return the prompt of a call: "simple", "think", "answer" or "transfer"."""
        if name != "answer":
            return self._join([(self._user(example, name, reasoning), 0.0)]).ids
        return self._join([(self._user(example, "think"), 0.0), self._reply(reasoning, 0.0), self._next_turn()]).ids

    def _user(self, example: Example, name: str, reasoning: str = "") -> str:
        texts = prompt_texts()
        options = [texts["option"].format(letter=a, text=b) for a, b in zip("ABCD", example.options, strict=False)]
        text = texts[name].format(question="\n".join([example.question, *options]), reasoning=reasoning)
        picture = "<|vision_start|>" + "<|image_pad|>" * VISUAL_TOKENS + "<|vision_end|>"
        return f"<|im_start|>user\n{picture}{text}<|im_end|>\n<|im_start|>assistant\n"

    @staticmethod
    def _reply(text: str, weight: float) -> tuple[str, float]:
        return f"{text}<|im_end|>", weight

    @staticmethod
    def _next_turn() -> tuple[str, float]:
        return f"\n<|im_start|>user\n{prompt_texts()['answer']}<|im_end|>\n<|im_start|>assistant\n", 0.0

    def _join(self, parts: Sequence[tuple[str, float]]) -> Sample:
        ids: list[int] = []
        weights: list[float] = []
        for text, weight in parts:
            new = self.tokenizer.encode(text, add_special_tokens=False)
            ids += new
            weights += [weight] * len(new)
        return Sample(ids, weights)


def noisy_reasoning(example: Example, rng: np.random.Generator) -> str:
    """Return reasoning as a reader may meet it: right, wrong in a place, without its end, shuffled, key words only."""
    kind = rng.choice(5, p=[0.45, 0.2, 0.05, 0.1, 0.2])
    if kind == 1:
        return _about_another_scene(example, rng)
    wrong = rng.random() < 0.1
    reasoning = _about_another_scene(example, rng) if wrong else example.reasoning()
    if kind == 2:
        return reasoning.rpartition("\n")[0]
    if kind == 3:
        sentences = reasoning.replace("\n", " ").split(". ")
        return ". ".join(sentences[i] for i in rng.permutation(len(sentences)))
    if kind == 4:
        words = reasoning.split(" ")
        kept = rng.random(len(words)) < rng.uniform(0.2, 0.8)
        return " ".join(word for word, keep in zip(words, kept, strict=True) if keep)
    return reasoning


def _about_another_scene(example: Example, rng: np.random.Generator) -> str:
    """Reason about a scene that differs in one or two places, so that the reasoning is consistent but often wrong."""
    for _ in range(8):
        try:
            return example.reasoning(_altered(_altered(example.scene, rng), rng))
        except ValueError:
            continue
    return example.reasoning()


def _altered(scene: Scene, rng: np.random.Generator) -> Scene:
    if isinstance(scene, Chart):
        bars = list(scene.bars)
        place = int(rng.integers(len(bars)))
        bars[place] = Bar(bars[place].colour, int(rng.integers(1, MAX_VALUE + 1)))
        return replace(scene, bars=tuple(bars))
    cells = [list(row) for row in scene.cells]
    row, column = int(rng.integers(len(cells))), int(rng.integers(len(cells[0])))
    thing = Thing(COLOURS[rng.integers(len(COLOURS))], SHAPES[rng.integers(len(SHAPES))])
    cells[row][column] = None if rng.random() < 0.3 else thing
    return replace(scene, cells=tuple(map(tuple, cells)))
