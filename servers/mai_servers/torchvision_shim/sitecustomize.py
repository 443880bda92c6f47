"""Lets vLLM's CPU build import a torchvision that was built for CUDA. Python runs this file in every server process.

pip may put torchvision's CUDA build beside torch's CPU build. Its compiled operators then can't be loaded, and its
Python part, all that vLLM needs, stops at the first that is missing. So they are declared, just before torchvision is
imported and only if its own library really can't be loaded. The launcher puts this folder on PYTHONPATH where it may be
needed.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path


class _BeforeTorchvision(MetaPathFinder):
    """Declares torchvision's operators at its first import, and finds no module itself."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            _declare_missing_operators()
        return None


def _declare_missing_operators() -> None:
    import torch

    torchvision = PathFinder.find_spec("torchvision")
    for folder in (torchvision and torchvision.submodule_search_locations) or []:
        for library in Path(folder).glob("_C*.so"):
            try:
                torch.ops.load_library(library)
            except OSError:
                for name in ("nms", "qnms"):
                    torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou) -> Tensor")


def _run_the_shadowed_one() -> None:
    """Run the environment's own sitecustomize, which this one hides."""
    here = Path(__file__).parent
    shadowed = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if Path(entry) != here])
    if shadowed and shadowed.loader:
        shadowed.loader.exec_module(module_from_spec(shadowed))


sys.meta_path.insert(0, _BeforeTorchvision())
_run_the_shadowed_one()
