"""Images of six levels whose maps are linear in them, and what draws them from their maps."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from continuous_states.eit.simulator import (
    LEVELS,
    MASK_ID,
    VOCAB_SIZE,
    conductivity_to_levels,
    levels_to_conductivity,
)
from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.data import Dataset, Examples
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from gaussian_images import GaussianImages

SIZE, NODES = 3, 4
PIXELS = SIZE * SIZE
SHARES = {"train": 60, "val": 14, "test": 7}


class ToyFields(Dataset):
    """Splits, and the levels of their pixels."""

    state, bound = "field", "gaussian"

    def __init__(self, splits: dict[str, Examples], levels: tuple[float, ...] | None) -> None:
        self.splits, self.levels = splits, levels

    def summary(self) -> str:
        return "toy"

    def changed(self, split: str, **parts) -> ToyFields:
        """The same with other examples in one split."""
        changed = {split: replace(self.splits[split], **parts)}
        return ToyFields(self.splits | changed, self.levels)


def _forward() -> Tensor:
    """Float64[P, n, n]: what each pixel adds to a map; symmetric, independent of each other."""
    root = torch.randn(PIXELS, NODES, NODES, generator=make_generator(5), dtype=torch.float64)
    return root + root.transpose(1, 2)


def maps_of_images(images: Tensor) -> Tensor:
    """Float32[M, n, n], linear in Float[M, 1, S, S]."""
    return torch.einsum("mp,pij->mij", images.flatten(1).double(), _forward()).float()


def images_of_maps(maps: Tensor) -> Tensor:
    """The inverse, Float64[M, S S]."""
    return maps.flatten(1).double() @ torch.linalg.pinv(_forward().flatten(1))


def level_images(tokens: bool = False, shares: dict[str, int] = SHARES) -> ToyFields:
    """Pixels are background with probability 1/2; as conductivities, or as ids."""
    splits = {}
    for k, (name, num) in enumerate(shares.items()):
        generator = make_generator(6, k)
        ids = torch.randint(-5, 6, (num, PIXELS), generator=generator).clamp(min=0)
        images = levels_to_conductivity(ids).reshape(num, 1, SIZE, SIZE)
        real = torch.ones(num, PIXELS if tokens else 1, dtype=torch.bool)
        x0 = ids if tokens else images
        splits[name] = Examples(x0, real, conditions={"dtn": maps_of_images(images)})
    return ToyFields(splits, LEVELS)


def gaussian_fields(images: GaussianImages, num: int) -> ToyFields:
    """Images that ``exact_flow(images)`` knows exactly, as many in each split."""
    splits = {}
    for k, name in enumerate(SHARES):
        x0, sign = images.draw(num, seed=k + 1)
        real = torch.ones(num, 1, dtype=torch.bool)
        splits[name] = Examples(x0, real, conditions={"dtn": sign})
    return ToyFields(splits, None)


class InverseBackbone(nn.Module):
    """Logits of the ids that a map is of; without a map, or ``blind``, all ids are alike."""

    def __init__(self, *, blind: bool = False) -> None:
        super().__init__()
        self.blind = blind

    def forward(self, x_t: Tensor, sigma: Tensor | None = None, dtn: Tensor | None = None):
        if dtn is None or self.blind:
            return torch.zeros(*x_t.shape, VOCAB_SIZE)
        ids = conductivity_to_levels(images_of_maps(dtn))
        return 50.0 * nn.functional.one_hot(ids, VOCAB_SIZE).float()


def inverse_mdlm(*, blind: bool = False) -> MDLM:
    layout = TokenLayout.flat(length=PIXELS, vocab_size=VOCAB_SIZE, mask_id=MASK_ID)
    return MDLM(InverseBackbone(blind=blind), Absorbing(layout, LogLinear()))


class Nothing(nn.Module):
    """An algorithm that is not asked."""


class MapSampler:
    """Draws the map's image and noise of deviation ``noise``; remembers what it was asked for."""

    state = "field"

    def __init__(self, noise: float = 1.0, *, blind: bool = False) -> None:
        self.noise, self.blind = noise, blind
        self.asked: list[tuple[int, ...]] = []

    def sample(self, algorithm, real, *, generator, steps=None, conditions=None) -> SampleOutput:
        assert not algorithm.training
        shape = tuple(real.shape)
        self.asked.append(shape)
        noise = torch.randn(shape, generator=generator)
        known = images_of_maps(conditions["dtn"]).reshape(shape).float()
        nfe = torch.full(shape[:1], 1 if steps is None else steps)
        images = (0.0 if self.blind else known) + self.noise * noise
        return SampleOutput(images, nfe, torch.zeros(shape[:1]))
