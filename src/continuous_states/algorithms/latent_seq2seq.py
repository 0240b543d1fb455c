"""Text-to-text generation through latent vectors, trained jointly or part by part."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

import torch
import torch.nn.functional as F
from einops import reduce
from torch import Tensor

from continuous_states.networks.latent_space import LatentSpaceModel
from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.config import NotNegative, OneOf, check_name
from discrete_diffusion.contracts import Batch, LossOutput

_PARTS = ("encoder", "compression", "middle", "adapter", "prefix_norm", "stop_latent", "decoder")
TRAINED_PARTS: dict[str, tuple[str, ...]] = {
    "joint": _PARTS,
    "autoencode": ("middle", "stop_latent"),
    "latent_model": ("middle", "stop_latent"),
    "adapter": ("compression", "adapter", "prefix_norm", "stop_latent"),
}
"""Parts of the backbone that are trained in each stage; the other parts stay unchanged."""
_WITHOUT_TEXT = ("autoencode", "latent_model")
_RECONSTRUCTION = "reconstruction"


def info_nce(a: Tensor, b: Tensor, temperature: float = 0.1) -> Tensor:
    """Contrastive loss between samples a and b, both Float[B, K, D]: each is compared with the
    other samples of the batch, in both directions.

        s_ij = cos(mean_k a_ik, mean_k b_jk) / temperature
        InfoNCE = mean over i of -log softmax_j(s_ij) at j = i, and of -log softmax_i(s_ij) likewise

    (arXiv 1807.03748). If the latents of all samples are the same, the loss is log B.
    """
    means = [F.normalize(reduce(x.float(), "b k d -> b d", "mean"), dim=-1) for x in (a, b)]
    similar = means[0] @ means[1].T / temperature
    same = torch.arange(len(a), device=a.device)
    return (F.cross_entropy(similar, same) + F.cross_entropy(similar.T, same)) / 2


class LatentSeq2Seq(Algorithm):
    """Generation of a target text from latent vectors of its source text, without noise.

    Encoder and compression turn the source into latents z and its target into latents u; y =
    middle(z). CE(x) is the mean of -log p(target | x), by adapter and decoder, over the tokens of
    all targets, EOS included. sg stops the gradient.

        stage=joint:         CE(y) + latent_weight * D(y, u)
        stage=autoencode:    D(y, sg(z))
        stage=latent_model:  D(y, sg(u))
        stage=adapter:       CE(u), or CE(y) with ``adapter_uses_latent_model``

        D(a, b) = mean of (a - sg(b))^2 + infonce_weight * InfoNCE(a, b)

    The squared error alone would make all latents equal; InfoNCE keeps them apart. In every loss
    the stop latent is an additional sample: as z, as u, and as x, with a target text of EOS alone.
    The parts in ``TRAINED_PARTS`` are trained; the other parts get no gradient and stay in eval
    mode.

    ``joint`` is for parts with random weights: D shows an encoder which words matter. A trained
    encoder and a trained decoder take the other stages in turn: ``autoencode``, ``adapter``,
    ``latent_model``, and ``adapter`` again with ``adapter_uses_latent_model``.

    Deviation: in the public code of these stages the compression keeps its random weights; here
    ``adapter`` trains it.

    The NELBO is exact: -log p(target | x). For ``adapter`` with x = u it measures the
    ``reconstruction`` of the target from its own latents. ``autoencode`` and ``latent_model``
    produce no text; their NELBO is -log N(latents; y, I) over the K D numbers of a sample, as for
    ``Regression``.

    Conditions of a batch: ``source`` Int[B, S], source texts, and ``encoded_target`` Int[B, S], the
    targets in the ids of sources, both followed by ``source_pad_id``.

    Raises ``ValueError`` for an unknown stage, a weight below 0, or an option of another stage.
    """

    name = "latent-seq2seq"
    state = "latent"
    samplers = ("generate",)
    calls_parts = True
    evaluation_draw = "exact"
    backbone: LatentSpaceModel

    def __init__(
        self,
        backbone: LatentSpaceModel,
        *,
        eos_id: int,
        pad_id: int,
        source_pad_id: int,
        stage: Annotated[str, OneOf(TRAINED_PARTS)] = "joint",
        latent_weight: NotNegative = 1.0,
        infonce_weight: NotNegative = 0.1,
        adapter_uses_latent_model: bool = False,
    ) -> None:
        super().__init__(backbone, time_conditioning=False)
        if adapter_uses_latent_model and stage != "adapter":
            raise ValueError(
                "algo.adapter_uses_latent_model=true is an option of algo.stage=adapter, and the "
                f"stage is {stage}, which has the latent model anyway; leave it out"
            )
        if latent_weight != 1 and stage != "joint":
            raise ValueError(
                f"algo.latent_weight={latent_weight} is an option of algo.stage=joint, and the "
                f"stage is {stage}, which has one loss; leave it out"
            )
        # special ids, stage and weights
        self.eos_id, self.pad_id, self.source_pad_id = eos_id, pad_id, source_pad_id
        self.stage, self.adapter_uses_latent_model = stage, adapter_uses_latent_model
        self.latent_weight, self.infonce_weight = float(latent_weight), float(infonce_weight)
        # quantity of the bound, None for -log p(target | source)
        self.bound = "gaussian" if stage in _WITHOUT_TEXT else None
        if stage == "adapter" and not adapter_uses_latent_model:
            self.bound = _RECONSTRUCTION
        # only the parts of the stage get a gradient
        for name, part in backbone.named_children():
            part.requires_grad_(name in TRAINED_PARTS[stage])

    def train(self, mode: bool = True) -> LatentSeq2Seq:
        """Set training mode; parts that the stage does not train stay in eval mode."""
        super().train(mode)
        for name, part in self.backbone.named_children():
            part.train(mode and name in TRAINED_PARTS[self.stage])
        return self

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        """Loss of a batch; uses no random numbers."""
        check_name("draw", draw or self.evaluation_draw, [self.evaluation_draw])
        if self.bound == _RECONSTRUCTION:
            return self._token_loss(self.encode(batch.conditions["encoded_target"]), batch)
        # latents of the source, and what the middle makes of them
        z = self.backbone.with_stop(self.encode(batch.conditions["source"]))
        y = self.backbone.middle(z)
        # stages without text: the distance of latents alone
        if self.stage in _WITHOUT_TEXT:
            target = (z if self.stage == "autoencode" else self._target(batch)).detach()
            # the bound leaves out the stop latent, which is the last
            squares = (y - target)[:-1].detach().float().square().flatten(1).sum(dim=1)  # (B,)
            numbers = target[0].numel()
            nelbo = squares / 2 + numbers / 2 * math.log(2 * math.pi)
            num_real = torch.full_like(squares, numbers, dtype=torch.long)
            return LossOutput(self._distance(y, target), nelbo, num_real)
        # stages with text: the cost of the targets, and in joint training the distance of latents
        output = self._token_loss(y[:-1], batch)
        if self.stage == "adapter" or self.latent_weight == 0:
            return output
        loss = output.loss + self.latent_weight * self._distance(y, self._target(batch))
        return LossOutput(loss, output.nelbo, output.num_real)

    def prepare_batch(self, batch: Batch) -> Batch:
        """Remove columns of the batch that contain only padding."""
        texts = {name: self._trimmed(texts) for name, texts in batch.conditions.items()}
        longest = _longest_text(batch.real)
        x0, real = batch.x0[:, :longest], batch.real[:, :longest]
        return replace(batch, x0=x0, real=real, conditions=texts)

    def encode(self, texts: Tensor) -> Tensor:
        """Encode texts Int[B, S] (ids of sources, then PAD) as latents Float[B, K, D]."""
        return self.backbone.encode(texts, texts != self.source_pad_id)

    def target_latents(self, source: Tensor) -> Tensor:
        """Latents y Float[B, K, D] from which the targets of sources Int[B, S] are decoded."""
        return self.backbone.middle(self.encode(self._trimmed(source)))

    def _trimmed(self, texts: Tensor) -> Tensor:
        """Texts Int[B, S] without columns that contain only padding."""
        return texts[:, : _longest_text(texts != self.source_pad_id)]

    def _target(self, batch: Batch) -> Tensor:
        """Latents of the targets followed by the stop latent, Float[B + 1, K, D]."""
        return self.backbone.with_stop(self.encode(batch.conditions["encoded_target"]))

    def _distance(self, y: Tensor, target: Tensor) -> Tensor:
        squares = F.mse_loss(y.float(), target.detach().float())
        return squares + self.infonce_weight * info_nce(y, target)

    def _token_loss(self, latents: Tensor, batch: Batch) -> LossOutput:
        """Loss of the targets given latents Float[B, K, D]."""
        ids, real = batch.x0, batch.real
        # one more text, EOS alone, for the stop latent
        end = torch.full_like(ids[:1], self.pad_id)
        end[:, 0] = self.eos_id
        target, there = torch.cat([ids, end]), torch.cat([real, torch.zeros_like(real[:1])])
        there[-1, 0] = True
        # cross-entropy of each id, 0 for padding
        prefix = self.backbone.prefix(self.backbone.with_stop(latents))
        logits = self.backbone.token_logits(prefix, target).float()
        costs = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        costs = costs.view_as(target).masked_fill(~there, 0.0)
        nelbo = costs[:-1].detach().sum(dim=1)
        return LossOutput(costs.sum() / there.sum(), nelbo, real.sum(dim=1))


def _longest_text(real: Tensor) -> int:
    """Largest number of leading True values in a row of Bool[B, L]; at least 1."""
    return max(int(real.sum(dim=1).max()), 1)
