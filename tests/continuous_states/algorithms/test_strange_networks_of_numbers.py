"""Algorithms with networks of numbers whose ``forward`` has another shape than ours."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from continuous_states.algorithms.fields import FlowMatching, Regression
from continuous_states.algorithms.masked_features import MaskedFeatures
from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.noise_schedules import LogLinear
from gaussian_world import row_layout


class Rows(nn.Module):
    """Numbers in, numbers out."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))


class OurRows(Rows):
    def forward(self, x_t, sigma=None, *, masked=None, noisy=None, real=None):
        hidden = masked if noisy is None else noisy
        return self.scale * x_t.masked_fill(hidden.unsqueeze(-1), 0.0) * (1 + sigma[:, None, None])


class TheirRows(OurRows):
    def forward(self, rows, noise_level, real, masked):
        return super().forward(rows, noise_level, masked=masked, real=real)


class OurImages(Rows):
    def forward(self, x_t, sigma=None, *, dtn=None):
        shift = 0 if sigma is None else sigma[:, None, None, None]
        return self.scale * x_t + shift + dtn.mean(dim=(1, 2))[:, None, None, None]


class TheirImages(OurImages):
    def forward(self, image, time, dtn):
        return super().forward(image, time, dtn=dtn)


class MapSecond(OurImages):
    def forward(self, image, dtn):
        return super().forward(image, dtn=dtn)


def losses(algorithm: Algorithm, batch: Batch) -> list[torch.Tensor]:
    algorithm.prepare(batch)
    output = algorithm.loss(batch, make_generator(0))
    output.loss.backward()
    return [output.loss, algorithm.backbone.scale.grad]


def test_rows_of_numbers():
    real = torch.ones(4, 6, dtype=torch.bool)
    batch = Batch(torch.randn(4, 6, 3, generator=make_generator(0)), real)
    noise = Absorbing(row_layout(6), LogLinear())
    found = [
        losses(MaskedFeatures(kind(), noise, num_features=3), batch)
        for kind in (OurRows, TheirRows)
    ]
    assert found[0] == found[1]
    with pytest.raises(ValueError, match="has no argument noisy"):
        MaskedFeatures(TheirRows(), noise, num_features=3, objective="ddpm")


@pytest.mark.parametrize("kind", [FlowMatching, Regression])
def test_images(kind):
    generator = make_generator(0)
    x0 = torch.randn(4, 1, 5, 5, generator=generator)
    dtn = torch.randn(4, 3, 3, generator=generator)
    batch = Batch(x0, torch.ones(4, 1, dtype=torch.bool), conditions={"dtn": dtn})
    expected = losses(kind(OurImages(), channels=1, time_conditioning=True), batch)
    assert losses(kind(TheirImages(), channels=1, time_conditioning=True), batch) == expected
    with pytest.raises(ValueError, match=r"MapSecond\.forward\(image, dtn\) has dtn, which comes"):
        kind(MapSecond(), channels=1).prepare(batch)
