"""Trains the miniature pair from scratch on the CPU: `python -m mai_servers.tiny.train`.

Both models at the same time, one process and one thread each. Every random choice is seeded: on the same machine and
versions the same weights come out. The steps of each:

1. the vision tower alone learns what each cell shows, with linear heads that are thrown away;
2. the whole model learns to reason, to answer after reasoning (own or somebody's, right or wrong), and to answer at
   once. How good it may get at answering at once is capped (`Stage.ceiling`): above, such samples pause until the next
   look. That is what makes one model weak at once and strong after thinking, and the other good at both.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from mai_servers.tiny.corpus import Corpus, Sample, noisy_reasoning
from mai_servers.tiny.drawing import COLOURS, COLUMNS, MAX_VALUE, ROWS, SHAPES, Grid, Scene
from mai_servers.tiny.model import Name, build, generate, hidden_states, pixel_values, visual_tokens
from mai_servers.tiny.scenes import TRAINING
from mai_servers.tiny.tokenizer import END, PAD, START, VISION, load_tokenizer, save_processor, train_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration

VOCABULARY = 608
VALIDATION = 2  # first number of the random stream of `look`

Batch = tuple[list[int], list[Sample]]  # pictures by number, and a sample about each


@dataclass(frozen=True)
class Stage:
    """A part of the training, with an optimiser of its own.

    Attributes:
        steps: Optimiser steps.
        decay: Step at which the learning rate would reach its lowest; more than `steps` where a stage ends before.
        rate: Peak learning rate.
        pictures: Number of pictures.
        read_from: Step from which on a quarter of the conversations read somebody's reasoning.
        transfer: Share of those that do so in the transfer prompt, the rest as the model's own turn.
        short_from: Step from which on short answers at once are learnt.
        short_batch: Such conversations in a step.
        short_weight: Their weight in the loss.
        ceiling: Accuracy of short answers at once above which their samples pause until the next look.
        sorted_over: Batches that are drawn together and sorted by length, to pad less.
    """

    steps: int
    decay: int
    rate: float
    pictures: int
    read_from: int
    transfer: float
    short_from: int
    short_batch: int
    short_weight: float
    ceiling: float
    sorted_over: int


# The steps that the committed weights were trained with; README.md says what differed (the wording of the reasoning).
# fmt: off
STAGES: dict[Name, tuple[Stage, ...]] = {
    "small": (
        Stage(steps=2500, decay=8000, rate=2e-3, pictures=10000, read_from=0, transfer=0.25,
              short_from=1500, short_batch=16, short_weight=1.0, ceiling=0.62, sorted_over=1),
        Stage(steps=750, decay=3800, rate=2e-3, pictures=6000, read_from=1200, transfer=0.25,
              short_from=1200, short_batch=16, short_weight=0.3, ceiling=0.58, sorted_over=4),
        Stage(steps=2000, decay=2400, rate=2e-3, pictures=6000, read_from=800, transfer=0.25,
              short_from=800, short_batch=16, short_weight=0.3, ceiling=0.58, sorted_over=4),
        Stage(steps=1100, decay=1100, rate=1e-3, pictures=6000, read_from=500, transfer=0.25,
              short_from=0, short_batch=8, short_weight=0.3, ceiling=0.58, sorted_over=4),
    ),
    "large": (
        Stage(steps=1250, decay=4000, rate=1.5e-3, pictures=10000, read_from=0, transfer=0.7,
              short_from=250, short_batch=16, short_weight=1.0, ceiling=0.86, sorted_over=1),
        Stage(steps=250, decay=2200, rate=1.5e-3, pictures=6000, read_from=600, transfer=0.7,
              short_from=600, short_batch=24, short_weight=0.4, ceiling=0.86, sorted_over=4),
        Stage(steps=1000, decay=1600, rate=1.5e-3, pictures=6000, read_from=500, transfer=0.7,
              short_from=500, short_batch=24, short_weight=0.4, ceiling=0.86, sorted_over=4),
        Stage(steps=500, decay=600, rate=1.2e-3, pictures=6000, read_from=250, transfer=0.7,
              short_from=0, short_batch=16, short_weight=0.4, ceiling=0.86, sorted_over=4),
    ),
}
# fmt: on
SEEDS: dict[Name, int] = {"small": 1, "large": 2}
BATCH, QUESTIONS = 16, 4
VISION_STEPS, VISION_BATCH = 1000, 48
LOOK_EVERY, LOOK_REASONED_EVERY, LOOK_SIZE = 250, 500, 100


def train(name: Name, folder: Path, log: Path, first_stage: int = 0) -> None:
    """Train one model and write its folder; with a later first stage, go on from the weights in that folder."""
    torch.set_num_threads(1)
    seed = SEEDS[name]
    torch.manual_seed(seed)
    tokenizer = train_tokenizer(VOCABULARY) if first_stage == 0 else load_tokenizer(folder)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in (PAD, START, END, *VISION)}
    model = build(name, ids, VOCABULARY)
    start = time.monotonic()

    def say(**facts: object) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"model": name, "seconds": round(time.monotonic() - start), **facts}) + "\n")

    say(parameters=model.num_parameters())
    for index, stage in enumerate(STAGES[name]):
        if index < first_stage:
            continue
        if index > 0:
            load(model, folder)
        rng = np.random.default_rng([TRAINING, seed, 1 + index])
        corpus = Corpus(tokenizer, [TRAINING, seed, 100 * index], stage.pictures, QUESTIONS)
        unseen = Corpus(tokenizer, [VALIDATION, seed], 400, 1)
        say(stage=index, questions=len(corpus.examples), **asdict(stage))
        if index == 0:
            say(vision=_train_vision(model, corpus, unseen, rng))
        for facts in _run(model, stage, corpus, unseen, rng):
            say(stage=index, **facts)
            save(model, tokenizer, folder)


def _run(
    model: Qwen3VLForConditionalGeneration, stage: Stage, corpus: Corpus, unseen: Corpus, rng: np.random.Generator
) -> Iterator[dict[str, object]]:
    """Run a stage; yields what each look sees."""
    optimiser, schedule = _optimiser(model, stage.rate, stage.decay)
    waiting: list[Batch] = []
    answering = False
    sums = np.zeros(3)
    for step in range(stage.steps + 1):
        if step % LOOK_EVERY == 0 or step == stage.steps:
            facts = look(model, unseen, reasoned=step % LOOK_REASONED_EVERY == 0 or step == stage.steps)
            answering = step >= stage.short_from and facts["short"] < stage.ceiling
            yield {"step": step, "answering": answering, "losses": (sums / LOOK_EVERY).round(4).tolist(), **facts}
            sums[:] = 0
        if step == stage.steps:
            break
        model.train()
        waiting = waiting or _long_batches(corpus, stage, reading=step >= stage.read_from, rng=rng)
        long_loss = _loss(model, corpus, *waiting.pop())
        short_loss = torch.zeros(())
        if answering:
            short_loss = _loss(model, corpus, *_short_batch(corpus, stage.short_batch, rng))
        optimiser.zero_grad()
        (long_loss + stage.short_weight * short_loss).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        sums += [float(long_loss.detach()), float(short_loss.detach()), float(norm)]


def load(model: Qwen3VLForConditionalGeneration, folder: Path) -> None:
    """Read the weights that `save` wrote."""
    weights = load_file(folder / "model.safetensors")
    model.load_state_dict(weights | {"lm_head.weight": weights["model.language_model.embed_tokens.weight"]})


def save(model: Qwen3VLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a folder that vLLM and transformers load, weights in bfloat16."""
    weights = {key: value.to(torch.bfloat16) for key, value in model.state_dict().items() if key != "lm_head.weight"}
    kept = model.dtype
    model.config.dtype = torch.bfloat16
    model.save_pretrained(folder, state_dict=weights)
    model.config.dtype = kept
    save_processor(folder, tokenizer)


def look(model: Qwen3VLForConditionalGeneration, unseen: Corpus, *, reasoned: bool) -> dict[str, float]:
    """Return the accuracies on unseen scenes: short answers at once, own reasoning, and short answers after it."""
    model.eval()
    facts = {
        "short": _accuracy(model, unseen, unseen.examples, [unseen.prompt(e, "simple") for _, e in unseen.examples])
    }
    if reasoned:
        some = unseen.examples[:LOOK_SIZE]
        pixels = pixel_values(unseen.pictures[[index for index, _ in some]])
        made = generate(model, [unseen.prompt(e, "think") for _, e in some], pixels, limit=150)
        texts = [unseen.tokenizer.decode(ids) for ids in made]
        right = [text.rpartition("Answer: ")[2] == e.answer for text, (_, e) in zip(texts, some, strict=True)]
        facts["reasoning"] = float(np.mean(right))
        facts["exact"] = float(np.mean([text == e.reasoning() for text, (_, e) in zip(texts, some, strict=True)]))
        for call in ("answer", "transfer"):
            prompts = [unseen.prompt(e, call, text) for text, (_, e) in zip(texts, some, strict=True)]
            facts[call] = _accuracy(model, unseen, some, prompts)
    return {key: round(value, 3) for key, value in facts.items()}


@torch.inference_mode()
def _accuracy(
    model: Qwen3VLForConditionalGeneration, corpus: Corpus, examples: list[tuple[int, object]], prompts: list[list[int]]
) -> float:
    made = generate(model, prompts, pixel_values(corpus.pictures[[index for index, _ in examples]]), limit=3)
    texts = map(corpus.tokenizer.decode, made)
    return float(np.mean([text == e.answer for text, (_, e) in zip(texts, examples, strict=True)]))


def _long_batches(corpus: Corpus, stage: Stage, *, reading: bool, rng: np.random.Generator) -> list[Batch]:
    """Draw batches of conversations with reasoning; as many as are sorted together."""
    rows: list[tuple[int, Sample]] = []
    for place, i in enumerate(rng.integers(len(corpus.examples), size=BATCH * stage.sorted_over)):
        picture, example = corpus.examples[i]
        if reading and place % 4 == 3:
            transfer = bool(rng.random() < stage.transfer)
            reasoning = noisy_reasoning(example, rng)
            rows.append((picture, corpus.read(example, reasoning, 8.0, transfer=transfer)))
        else:
            rows.append((picture, corpus.reasoned(example, answer_weight=4.0)))
    if stage.sorted_over > 1:
        rows.sort(key=lambda row: len(row[1].ids))
    batches = [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]
    order = rng.permutation(len(batches)) if stage.sorted_over > 1 else [0]
    return [([picture for picture, _ in batches[i]], [sample for _, sample in batches[i]]) for i in order]


def _short_batch(corpus: Corpus, size: int, rng: np.random.Generator) -> Batch:
    chosen = [corpus.examples[i] for i in rng.integers(len(corpus.examples), size=size)]
    return [index for index, _ in chosen], [corpus.short(example) for _, example in chosen]


def _loss(model: Qwen3VLForConditionalGeneration, corpus: Corpus, pictures: list[int], samples: list[Sample]) -> Tensor:
    length = max(len(sample.ids) for sample in samples)
    ids = torch.zeros(len(samples), length, dtype=torch.long)
    weights = torch.zeros(len(samples), length)
    for row, sample in enumerate(samples):
        ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
        weights[row, : len(sample.ids)] = torch.tensor(sample.weights)
    hidden = hidden_states(model, ids[:, :-1], pixel_values(corpus.pictures[pictures]))
    learnt = weights[:, 1:] > 0  # logits only where something is learnt
    losses = functional.cross_entropy(model.lm_head(hidden[learnt]), ids[:, 1:][learnt], reduction="none")
    return (losses * weights[:, 1:][learnt]).sum() / weights.sum()


def _optimiser(
    model: torch.nn.Module, rate: float, steps: int, warm_up: int = 100
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """AdamW with a linear warm-up and a linear decay to 2 %."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    factor = lambda step: min((step + 1) / warm_up, 1.0) * (1 - 0.98 * step / steps)  # noqa: E731
    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, factor)


def _train_vision(
    model: Qwen3VLForConditionalGeneration, corpus: Corpus, unseen: Corpus, rng: np.random.Generator
) -> float:
    """Teach the vision tower what each cell shows; returns the accuracy on unseen pictures."""
    visual = model.model.visual
    classes = 1 + len(COLOURS) * (len(SHAPES) + MAX_VALUE)
    width = visual.config.out_hidden_size
    heads = torch.nn.ModuleList([torch.nn.Linear(width, classes) for _ in range(1 + len(visual.deepstack_merger_list))])
    both = torch.nn.ModuleList([visual, heads])
    optimiser, schedule = _optimiser(both, 2e-3, VISION_STEPS)
    truth = torch.tensor([_cells(scene) for scene in corpus.scenes])
    for _ in range(VISION_STEPS):
        chosen = rng.integers(len(truth), size=VISION_BATCH)
        merged, deep = visual_tokens(model, pixel_values(corpus.pictures[chosen]))
        target = truth[chosen].flatten()
        levels = zip(heads, [merged, *deep], strict=True)
        loss = sum((functional.cross_entropy(head(x).flatten(0, 1), target) for head, x in levels), torch.zeros(()))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.inference_mode():
        merged, _ = visual_tokens(model, pixel_values(unseen.pictures))
        found = heads[0](merged).argmax(-1)
    return float((found == torch.tensor([_cells(scene) for scene in unseen.scenes])).float().mean())


def _cells(scene: Scene) -> list[int]:
    """Number what each of the 12 cells shows; in a chart, that is the bar of its column."""
    if isinstance(scene, Grid):
        things = (thing for row in scene.cells for thing in row)
        return [1 + COLOURS.index(t.colour) * len(SHAPES) + SHAPES.index(t.shape) if t else 0 for t in things]
    first = 1 + len(COLOURS) * len(SHAPES)
    column = [first + COLOURS.index(bar.colour) * MAX_VALUE + bar.value - 1 for bar in scene.bars]
    return [column[i % COLUMNS] for i in range(ROWS * COLUMNS)]


def main() -> None:
    """Train one or both models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(STAGES), help="train one of the two")
    parser.add_argument("--first-stage", type=int, default=0, help="go on from the weights in the output folder")
    parser.add_argument(
        "--output", type=Path, default=Path(__file__).parent, help="where small/ and large/ are written"
    )
    parser.add_argument(
        "--log", type=Path, default=Path("training.jsonl"), help="accuracies over time, one JSON a line"
    )
    arguments = parser.parse_args()
    names = [arguments.only] if arguments.only else list(STAGES)
    context = multiprocessing.get_context("spawn")
    jobs = [
        context.Process(target=train, args=(name, arguments.output / name, arguments.log, arguments.first_stage))
        for name in names
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    if any(job.exitcode for job in jobs):
        raise SystemExit("training failed")


if __name__ == "__main__":
    main()
