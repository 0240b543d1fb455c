"""What fits what: algorithms with backbones, by name."""

from __future__ import annotations

from discrete_diffusion.models.registry import available_backbones, backbone_spec


def usable_backbones(algorithm: str) -> list[str]:
    """The backbones that read tokens and offer all that the algorithm needs."""
    from discrete_diffusion.algorithms import _ALGORITHM_BUILDERS

    needs = set(getattr(_ALGORITHM_BUILDERS[algorithm], "backbone_needs", ()))
    specs = [backbone_spec(name) for name in available_backbones()]
    return [
        spec.name
        for spec in specs
        if spec.state == "tokens"
        and needs <= {*spec.conditions, *(("causal",) if spec.causal else ())}
    ]
