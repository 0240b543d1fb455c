"""The bound of MaskGIT is tight and its samples follow the data, in a world that is enumerated.

Run it with the folders of this file and of ``tests`` on the path.
"""

from __future__ import annotations

import torch
from my_algorithms import MaskGIT

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.sampling import FirstHitting
from toy_algorithms import Toy
from toy_world import FULL, PAD, ToyWorld, all_schedules, total_variation, toy_layout

TOY = Toy("absorbing", MaskGIT)  # the algorithm with the exact denoiser in its network's place


def test_the_bound_is_tight():
    """The mean NELBO of the exact denoiser is the entropy; that of a wrong one is larger."""
    world, num = ToyWorld.make(), 20_000
    x0 = world.x0[torch.multinomial(world.prob, num, True, generator=make_generator(0))]
    for schedule in all_schedules(toy_layout()).values():
        for tilt, excess in ((0.0, 0.0), (4.0, 0.1)):
            algorithm = TOY.exact(schedule, tilt)
            nelbo = algorithm.loss(Batch(x0, x0 != PAD), make_generator(1)).nelbo.double()
            gap, error = nelbo.mean() - world.entropy, nelbo.std() / num**0.5
            assert gap > excess if tilt else abs(gap) < 4.5 * error


def test_samples_have_the_distribution_of_the_data():
    world = ToyWorld.make()
    algorithm = TOY.exact(all_schedules(toy_layout())["cosine"])
    real = FULL.expand(20_000, -1)
    tokens = FirstHitting().sample(algorithm, real, generator=make_generator(2)).x0
    assert total_variation(world.distribution(tokens), world.prob) < 0.03
