"""MaskGIT as an algorithm of your own."""

from __future__ import annotations

from discrete_diffusion.algorithms import TokenAlgorithm, register_algorithm, sample_masks


@register_algorithm("maskgit")
class MaskGIT(TokenAlgorithm):
    """Cross-entropy on the masked tokens, all with the same weight (arXiv 2202.04200).

    The reported bound has the weights of MDLM.
    """

    name = "maskgit"
    processes = ("absorbing",)
    evaluation_draw = "uniform_count"

    def loss(self, batch, generator, draw=None):
        masked = sample_masks(draw or "uniform_count", self.process, batch, generator)
        log_d0 = self.denoise(masked.xt, masked.t, batch.real, batch.conditions)  # (B, L, V)
        cross_entropy = self.cross_entropy(log_d0, batch).masked_fill(masked.weight == 0, 0.0)
        nelbo = (masked.weight.to(log_d0.dtype) * cross_entropy).sum(dim=1)  # (B,)
        return self.output(nelbo, batch, cross_entropy.sum(dim=1).mean() / self.layout.length)
