"""``list`` says what fits what: the same as the parts themselves, once they are built."""

from __future__ import annotations

from collections import defaultdict

from discrete_diffusion.algorithms import _ALGORITHM_BUILDERS, build_algorithm
from discrete_diffusion.cli import compose
from discrete_diffusion.cli.listing import sampled_by
from discrete_diffusion.data import complete_data
from discrete_diffusion.sampling import _SAMPLER_BUILDERS, fitting_samplers


def test_the_listing_names_the_algorithms_that_each_sampler_accepts():
    accepted = defaultdict(set)
    for name in _ALGORITHM_BUILDERS:  # each with its default noise, absorbing where it can be
        config = compose("train", [f"algo={name}", "algo.backbone=dit", "model=dit_tiny"])
        built = build_algorithm(complete_data(config))
        assert built.process.absorbing == ("absorbing" in built.processes)
        for sampler in fitting_samplers(built):
            accepted[sampler].add(name)
    assert {name: sampled_by(name) for name in _SAMPLER_BUILDERS} == {
        name: sorted(algorithms) for name, algorithms in accepted.items()
    }
