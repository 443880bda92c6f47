"""Tokenizer, chat template and image processor of the miniature pair.

A byte-level BPE of about 600 tokens, trained on generated questions and reasoning. Every fixed line of the
prompt set (`prompts/default/prompts.toml`) is one token of its own: a miniature shouldn't spend its time on reading
boilerplate. Any other text still works, byte by byte, but the models never saw it.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from mai_servers.tiny import cpu_torchvision  # noqa: F401  (must come before transformers)
from mai_servers.tiny.drawing import HEIGHT, WIDTH
from mai_servers.tiny.scenes import TRAINING, random_example

# The imports above make transformers importable, so it comes after them.
# isort: split
from transformers import PreTrainedTokenizerFast

PATCH, MERGE = 16, 2
SEEN_WIDTH, SEEN_HEIGHT = WIDTH // 4, HEIGHT // 4  # what any 4:3 picture is scaled to

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")

CHAT_TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}
{{- message.content }}
{%- else %}
{%- for part in message.content %}
{%- if part.type == 'image' or part.type == 'image_url' or 'image' in part or 'image_url' in part %}
{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif 'text' in part %}
{{- part.text }}
{%- endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

_PROMPTS = Path(__file__).parents[3] / "prompts" / "default" / "prompts.toml"
_IMAGE_PROCESSOR = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "merge_size": MERGE,
    "patch_size": PATCH,
    "resample": 3,
    "rescale_factor": 1 / 255,
    "size": {"longest_edge": SEEN_WIDTH * SEEN_HEIGHT, "shortest_edge": SEEN_WIDTH * SEEN_HEIGHT},
    "temporal_patch_size": 2,
    "processor_class": "Qwen3VLProcessor",
}


@cache
def prompt_texts() -> dict[str, str]:
    """Return the texts of the default prompt set: "simple", "think", "answer", "transfer", "option"."""
    raw = tomllib.loads(_PROMPTS.read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in raw.items() if isinstance(text, str)}


def _fixed_lines() -> list[str]:
    texts = [prompt_texts()[name] for name in ("simple", "think", "answer", "transfer")]
    lines = [line for text in texts for line in text.splitlines() if "{" not in line]
    return list(dict.fromkeys(lines))


def train_tokenizer(vocabulary: int, examples: int = 4000) -> PreTrainedTokenizerFast:
    """Train the BPE on generated text; always the same for the same arguments."""
    rng = np.random.default_rng([TRAINING, 0])
    texts = []
    for example in (random_example(rng) for _ in range(examples)):
        options = "".join(f"\n{letter}. {text}" for letter, text in zip("ABCD", example.options, strict=False))
        answer = example.query.answer(example.scene) or ""
        texts += [
            f"{example.question}{options}",
            example.reasoning(),
            f"{example.answer} {answer}",
            answer,
        ]
        texts.append("user\nassistant\n")
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = [PAD, START, END, *VISION]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(_fixed_lines()),
        special_tokens=specials,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.add_tokens([AddedToken(line, normalized=False) for line in _fixed_lines()])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token=PAD, eos_token=END, extra_special_tokens=list(VISION), model_max_length=2048
    )


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Read the tokenizer that `save_processor` wrote."""
    return PreTrainedTokenizerFast.from_pretrained(folder)


def save_processor(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write tokenizer, chat template and image processor files in the layout of a Qwen3-VL checkpoint."""
    tokenizer.save_pretrained(folder)
    files = {
        "preprocessor_config.json": _IMAGE_PROCESSOR | {"image_processor_type": "Qwen2VLImageProcessor"},
        "video_preprocessor_config.json": _IMAGE_PROCESSOR | {"video_processor_type": "Qwen3VLVideoProcessor"},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
