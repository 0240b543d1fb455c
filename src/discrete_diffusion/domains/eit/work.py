"""All that this kind of data needs torch for, imported as one when ``domain`` first needs it."""

from __future__ import annotations

from discrete_diffusion.domains.eit.build import build_eit, build_test_images, complete_eit
from discrete_diffusion.domains.eit.comparing import ImageCells
from discrete_diffusion.domains.eit.evaluation import evaluate_images
from discrete_diffusion.domains.eit.image_report import ImageReport
from discrete_diffusion.domains.eit.sampling import sample_images

__all__ = [
    "ImageCells",
    "ImageReport",
    "build_eit",
    "build_test_images",
    "complete_eit",
    "evaluate_images",
    "sample_images",
]
