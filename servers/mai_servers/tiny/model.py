"""Architecture of the miniature pair, and a fast way through it for training.

Both are stock `Qwen3VLForConditionalGeneration`. As every picture has the same size and comes first in its prompt,
`visual_tokens` runs all pictures of a batch at once and `hidden_states` needs no position search; both use the stock
modules, and a test compares them with the stock forward pass.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mai_servers.tiny.tokenizer import MERGE, PATCH, SEEN_HEIGHT, SEEN_WIDTH

# The imports above make transformers importable, so it comes after them.
# isort: split
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_vl.modeling_qwen3_vl import (
    Qwen3VLVisionAttention,
    Qwen3VLVisionModel,
    apply_rotary_pos_emb_vision,
    get_vision_interpolation_indices_and_weights,
    get_vision_position_ids,
)

Name = Literal["small", "large"]

ROWS, COLUMNS = SEEN_HEIGHT // PATCH, SEEN_WIDTH // PATCH  # patches
VISUAL_TOKENS = ROWS * COLUMNS // MERGE**2
IMAGE_START = 4  # <|im_start|> user \n <|vision_start|>
_SHIFT = VISUAL_TOKENS - max(ROWS, COLUMNS) // MERGE  # M-RoPE: a picture takes as many positions as its longer side

_TEXT: dict[Name, dict[str, int]] = {
    "small": {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4},
    "large": {"hidden_size": 192, "intermediate_size": 576, "num_hidden_layers": 4, "num_attention_heads": 6},
}


def build(name: Name, token_ids: dict[str, int], vocabulary: int) -> Qwen3VLForConditionalGeneration:
    """Build an untrained model.

    Args:
        name: Which of the two.
        token_ids: Ids of the special tokens, e.g. "<|image_pad|>".
        vocabulary: Number of token embeddings.
    """
    text = {
        "vocab_size": vocabulary,
        "head_dim": 32,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "mrope_interleaved": True, "mrope_section": [8, 4, 4],
        },
        "tie_word_embeddings": True,
        "pad_token_id": token_ids["<|endoftext|>"],
        "eos_token_id": token_ids["<|im_end|>"],
        "bos_token_id": None,
        **_TEXT[name],
    }  # fmt: skip
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 192,
        "num_heads": 2,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "out_hidden_size": text["hidden_size"],
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token_ids["<|image_pad|>"],
        video_token_id=token_ids["<|video_pad|>"],
        vision_start_token_id=token_ids["<|vision_start|>"],
        vision_end_token_id=token_ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    return Qwen3VLForConditionalGeneration(config)


def pixel_values(pictures: np.ndarray) -> Tensor:
    """Cut pictures (uint8, n x 96 x 128 x 3) into patches as the image processor does; shape (n, patches, values)."""
    n = len(pictures)
    x = torch.from_numpy(pictures).float() / 127.5 - 1
    x = x.view(n, ROWS // MERGE, MERGE, PATCH, COLUMNS // MERGE, MERGE, PATCH, 3)
    x = x.permute(0, 1, 4, 2, 5, 7, 3, 6)  # n, row, column, row in it, column in it, channel, y, x
    x = x.unsqueeze(6).expand(-1, -1, -1, -1, -1, -1, 2, -1, -1)  # a still picture is two equal frames
    return x.reshape(n, ROWS * COLUMNS, -1)


def visual_tokens(model: Qwen3VLForConditionalGeneration, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Encode n pictures at once; returns the visual tokens (n, 12, hidden) and those of each deepstack level."""
    visual = model.model.visual
    n = len(pixels)
    grid = torch.tensor([[1, ROWS, COLUMNS]])
    patch = visual.patch_embed.proj  # a convolution whose stride is its kernel: one matrix product
    x = functional.linear(pixels, patch.weight.flatten(1), patch.bias)
    x = x + _position_embeddings(visual, grid)
    rotation = visual.rotary_pos_emb(x, get_vision_position_ids(grid, MERGE))
    deep = []
    for index, block in enumerate(visual.blocks):
        x = x + _vision_attention(block.attn, block.norm1(x), *rotation)
        x = x + block.mlp(block.norm2(x))
        if index in visual.deepstack_visual_indexes:
            merger = visual.deepstack_merger_list[visual.deepstack_visual_indexes.index(index)]
            deep.append(merger(x.reshape(n * ROWS * COLUMNS, -1)).view(n, VISUAL_TOKENS, -1))
    return visual.merger(x.reshape(n * ROWS * COLUMNS, -1)).view(n, VISUAL_TOKENS, -1), deep


def _position_embeddings(visual: Qwen3VLVisionModel, grid: Tensor) -> Tensor:
    indices, weights = get_vision_interpolation_indices_and_weights(
        grid,
        num_grid_per_side=visual.num_grid_per_side,
        mode=visual.interpolation_mode,
        align_corners=visual.interpolation_align_corners,
        spatial_merge_size=MERGE,
    )
    return (visual.pos_embed(indices) * weights[:, :, None]).sum(1)


def _vision_attention(attention: Qwen3VLVisionAttention, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    n, patches, width = x.shape
    qkv = attention.qkv(x).view(n * patches, 3, attention.num_heads, -1)
    query, key, value = qkv.permute(1, 0, 2, 3).unbind(0)
    query, key = apply_rotary_pos_emb_vision(query, key, cos.repeat(n, 1), sin.repeat(n, 1))
    heads = [t.reshape(n, patches, attention.num_heads, -1).transpose(1, 2) for t in (query, key, value)]
    mixed = functional.scaled_dot_product_attention(*heads).transpose(1, 2)
    return attention.proj(mixed.reshape(n, patches, width))


def positions(length: int) -> Tensor:
    """Return the M-RoPE positions (3, length) of a prompt that begins with a picture."""
    flat = torch.arange(length) - _SHIFT
    flat[:IMAGE_START] += _SHIFT
    ids = flat.repeat(3, 1)
    cell = torch.arange(VISUAL_TOKENS)
    picture = slice(IMAGE_START, IMAGE_START + VISUAL_TOKENS)
    ids[0, picture] = IMAGE_START
    ids[1, picture] = IMAGE_START + cell // (COLUMNS // MERGE)
    ids[2, picture] = IMAGE_START + cell % (COLUMNS // MERGE)
    return ids


def hidden_states(model: Qwen3VLForConditionalGeneration, ids: Tensor, pixels: Tensor) -> Tensor:
    """Run prompts that begin with a picture, padded on the right; returns hidden states (n, length, hidden)."""
    n, length = ids.shape
    visual, deep = visual_tokens(model, pixels)
    text = model.model.language_model
    embeddings = text.embed_tokens(ids)
    end = IMAGE_START + VISUAL_TOKENS
    embeddings = torch.cat([embeddings[:, :IMAGE_START], visual, embeddings[:, end:]], dim=1)
    is_visual = torch.zeros(n, length, dtype=torch.bool)
    is_visual[:, IMAGE_START:end] = True
    return text(
        inputs_embeds=embeddings,
        position_ids=positions(length)[:, None].expand(3, n, length),
        visual_pos_masks=is_visual,
        deepstack_visual_embeds=[level.flatten(0, 1) for level in deep],
        use_cache=False,
    ).last_hidden_state


@torch.inference_mode()
def generate(
    model: Qwen3VLForConditionalGeneration, prompts: list[list[int]], pixels: Tensor, limit: int
) -> list[list[int]]:
    """Generate greedily for prompts that begin with a picture.

    Args:
        model: Model in evaluation.
        prompts: Token ids of each prompt.
        pixels: Patches of each prompt's picture.
        limit: Most tokens to generate.

    Returns:
        The new tokens of each prompt, without the end token.
    """
    n, longest = len(prompts), max(map(len, prompts))
    end_token, pad = model.config.text_config.eos_token_id, model.config.text_config.pad_token_id
    ids = torch.full((n, longest), pad)
    attended = torch.zeros(n, longest + limit, dtype=torch.long)
    place = torch.zeros(3, n, longest + limit, dtype=torch.long)
    is_visual = torch.zeros(n, longest, dtype=torch.bool)
    for i, prompt in enumerate(prompts):
        start = longest - len(prompt)  # padded on the left, so that all rows end together
        ids[i, start:] = torch.tensor(prompt)
        attended[i, start:] = 1
        place[:, i, start:] = positions(len(prompt) + limit)
        is_visual[i, start + IMAGE_START : start + IMAGE_START + VISUAL_TOKENS] = True
    text = model.model.language_model
    visual, deep = visual_tokens(model, pixels)
    embeddings = text.embed_tokens(ids)
    embeddings[is_visual] = visual.flatten(0, 1)
    output = text(
        inputs_embeds=embeddings,
        attention_mask=attended[:, :longest],
        position_ids=place[:, :, :longest],
        visual_pos_masks=is_visual,
        deepstack_visual_embeds=[level.flatten(0, 1) for level in deep],
        past_key_values=DynamicCache(config=model.config.text_config),
        use_cache=True,
    )
    made: list[list[int]] = [[] for _ in range(n)]
    running = set(range(n))
    for step in range(limit):
        token = model.lm_head(output.last_hidden_state[:, -1]).argmax(-1)
        for i in list(running):
            if token[i] == end_token:
                running.remove(i)
            else:
                made[i].append(int(token[i]))
        if not running or step == limit - 1:
            break
        at = longest + step
        output = text(
            input_ids=token[:, None],
            attention_mask=attended[:, : at + 1],
            position_ids=place[:, :, at : at + 1],
            past_key_values=output.past_key_values,
            use_cache=True,
        )
    return made
