"""The miniature pair's own fast path sees and computes exactly what the stock processor and model do."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from mai_servers.tiny import model as tiny
from mai_servers.tiny.corpus import Corpus, noisy_reasoning, see
from mai_servers.tiny.scenes import make_question
from mai_servers.tiny.tokenizer import prompt_texts

# isort: split
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

FOLDERS = {name: Path(tiny.__file__).parent / name for name in ("small", "large")}
EXAMPLES = [make_question(seed) for seed in range(6)]


@pytest.fixture(scope="module", params=["small", "large"])
def folder(request: pytest.FixtureRequest) -> Path:
    return FOLDERS[request.param]


@pytest.fixture(scope="module")
def processor():
    return AutoProcessor.from_pretrained(FOLDERS["small"])


@pytest.fixture(scope="module")
def corpus(processor) -> Corpus:
    return Corpus(processor.tokenizer, [9], pictures=1, questions=1)


def conversation(example, text: str) -> list[dict]:
    return [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]


def block(example) -> str:
    options = [f"{letter}. {text}" for letter, text in zip("ABCD", example.options, strict=False)]
    return "\n".join([example.question, *options])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.kind)
@pytest.mark.parametrize("name", ["simple", "think", "transfer"])
def test_training_prompts_are_what_the_chat_template_makes(processor, corpus, example, name: str) -> None:
    text = prompt_texts()[name].format(question=block(example), reasoning="Row 1: red star.")
    prompt = processor.apply_chat_template(conversation(example, text), tokenize=False, add_generation_prompt=True)
    stock = processor(text=[prompt], images=[example.image()])["input_ids"][0]
    assert corpus.prompt(example, name, "Row 1: red star.") == list(stock)


def test_the_second_turn_continues_the_first(processor, corpus) -> None:
    example = EXAMPLES[0]
    turns = conversation(example, prompt_texts()["think"].format(question=block(example)))
    turns += [
        {"role": "assistant", "content": example.reasoning()},
        {"role": "user", "content": prompt_texts()["answer"]},
    ]
    prompt = processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    stock = list(processor(text=[prompt], images=[example.image()])["input_ids"][0])
    assert corpus.prompt(example, "answer", example.reasoning()) == stock
    assert stock[: len(corpus.prompt(example, "think"))] == corpus.prompt(example, "think")


@pytest.mark.parametrize("size", [(512, 384), (128, 96), (1024, 768), (640, 480)])
def test_any_picture_of_that_shape_becomes_twelve_visual_tokens(processor, size: tuple[int, int]) -> None:
    out = processor.image_processor(images=[EXAMPLES[0].image().resize(size)], return_tensors="np")
    assert out["image_grid_thw"].tolist() == [[1, 6, 8]]


def test_the_training_sees_the_pixels_that_the_processor_makes(processor) -> None:
    stock = processor.image_processor(images=[e.image() for e in EXAMPLES], return_tensors="pt")["pixel_values"]
    ours = tiny.pixel_values(np.stack([see(e.image()) for e in EXAMPLES]))
    assert torch.allclose(ours.flatten(0, 1), stock, atol=1e-6)


@torch.inference_mode()
def test_the_fast_forward_pass_equals_the_stock_one(processor, corpus, folder: Path) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    example = EXAMPLES[0]
    text = prompt_texts()["think"].format(question=block(example))
    prompt = processor.apply_chat_template(conversation(example, text), tokenize=False, add_generation_prompt=True)
    batch = processor(text=[prompt], images=[example.image()], return_tensors="pt")
    ours = tiny.hidden_states(model, batch["input_ids"], tiny.pixel_values(see(example.image())[None]))
    stock = model.model(**batch).last_hidden_state
    assert torch.allclose(ours, stock, atol=1e-4)
    ids = model.generate(**batch, max_new_tokens=12, do_sample=False)[0, batch["input_ids"].shape[1] :].tolist()
    pixels = tiny.pixel_values(np.stack([see(e.image()) for e in EXAMPLES[:2]]))
    batched = tiny.generate(model, [corpus.prompt(e, "think") for e in EXAMPLES[:2]], pixels, limit=12)
    assert batched[0] == [token for token in ids if token != model.config.text_config.eos_token_id]


@pytest.mark.parametrize("word", ["red", "blue", "green", "yellow", "purple", "circle", "square", "triangle", "star",
                                  "yes", "no", "A", "B", "C", "D", *"0123456789"])  # fmt: skip
def test_every_short_answer_is_one_token(processor, word: str) -> None:
    assert len(processor.tokenizer.tokenize(word)) == 1


def test_both_models_share_one_tokenizer_and_one_template() -> None:
    for name in ("tokenizer.json", "chat_template.jinja", "preprocessor_config.json"):
        assert (FOLDERS["small"] / name).read_bytes() == (FOLDERS["large"] / name).read_bytes()


def test_the_weights_of_both_are_under_20_mb() -> None:
    assert sum((folder / "model.safetensors").stat().st_size for folder in FOLDERS.values()) < 20e6


def test_only_the_answer_is_learnt_after_somebody_elses_reasoning(corpus) -> None:
    example = EXAMPLES[0]
    for transfer in (True, False):
        sample = corpus.read(example, "Row 1: red star.", 8.0, transfer=transfer)
        learnt = [token for token, weight in zip(sample.ids, sample.weights, strict=True) if weight]
        assert corpus.tokenizer.decode(learnt) == f"{example.answer}<|im_end|>"


def test_reasoning_to_read_is_often_right_and_often_not() -> None:
    rng = np.random.default_rng(0)
    texts = [(noisy_reasoning(e, rng), e) for e in EXAMPLES * 50]
    right = sum(text == e.reasoning() for text, e in texts) / len(texts)
    misleading = sum("Answer:" in text and not text.endswith(f"Answer: {e.answer}") for text, e in texts) / len(texts)
    assert 0.3 < right < 0.65
    assert 0.05 < misleading < 0.4
