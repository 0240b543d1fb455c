"""Generate: a text from latent vectors, token by token."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from discrete_diffusion.algorithms.latent_seq2seq import LatentSeq2Seq
from discrete_diffusion.categorical import draw, nucleus
from discrete_diffusion.options import check_whole_number, is_number
from discrete_diffusion.types import SummaryDraws


class Generate:
    """Draws a summary from left to right, until EOS; the decoder keeps its keys and values.

        p(token) ~ softmax(logits / temperature), of the ``top_k`` likeliest tokens, and of those
        the fewest that have the share ``top_p`` (arXiv 1904.09751)

    ``temperature`` 0: the likeliest token, nothing is drawn. ``top_k`` None: all tokens.

    ``stop_cosine``: if cos(mean_k y_k, mean_k stop_k) of the latents y of a source text is as
    large, its summary is empty. None: never.

    One call for the latents and one per token, EOS included; samples that have ended are left out.
    """

    name: ClassVar[str] = "generate"
    state: ClassVar[str] = "latent"

    def __init__(
        self,
        *,
        temperature: float = 0.7,
        top_k: int | None = 50,
        top_p: float = 0.9,
        stop_cosine: float | None = 0.99,
    ) -> None:
        if not (is_number(temperature) and 0 <= temperature < math.inf):
            raise ValueError(f"sampling.temperature={temperature}: expected a number, at least 0")
        if top_k is not None:
            check_whole_number("sampling.top_k", top_k, least=1)
        if not (is_number(top_p) and 0 < top_p <= 1):
            raise ValueError(f"sampling.top_p={top_p}: expected a number in (0, 1]")
        if stop_cosine is not None and not (is_number(stop_cosine) and -1 <= stop_cosine <= 1):
            raise ValueError(
                f"sampling.stop_cosine={stop_cosine}: expected a cosine in [-1, 1], or null for "
                "no such rule"
            )
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.stop_cosine = stop_cosine

    def check_steps(self, steps: int | None) -> None:
        """Raise ``ValueError`` if ``steps`` are given."""
        if steps is not None:
            raise ValueError(
                f"steps={steps}: sampling=generate makes one call per token; leave steps out"
            )

    @torch.no_grad()
    def summarise(
        self,
        algorithm: LatentSeq2Seq,
        sources: Tensor,
        *,
        target_length: int,
        generator: torch.Generator,
        steps: int | None = None,
    ) -> SummaryDraws:
        """One summary per row of ``sources`` Int[B, S], texts with PAD behind: at most
        ``target_length`` ids, PAD behind EOS. The algorithm is in eval mode meanwhile."""
        self.check_steps(steps)
        was_training = algorithm.training
        algorithm.eval()
        try:
            latents = algorithm.summary_latents(sources)
            return self._generate(algorithm, latents, target_length, generator)
        finally:
            algorithm.train(was_training)

    def draw_tokens(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """Float[B, V] -> Int[B]."""
        if self.temperature == 0:
            return logits.argmax(dim=-1)
        num_kept = min(self.top_k or logits.shape[-1], logits.shape[-1])
        likeliest, ids = logits.topk(num_kept, dim=-1)  # (B, k), the largest first
        tempered = (likeliest - likeliest[:, :1]).double() / self.temperature
        chosen = draw(nucleus(tempered.log_softmax(dim=-1), self.top_p), generator)
        return ids.gather(1, chosen.unsqueeze(1)).squeeze(1)

    def _generate(
        self,
        algorithm: LatentSeq2Seq,
        latents: Tensor,
        target_length: int,
        generator: torch.Generator,
    ) -> SummaryDraws:
        """From latents Float[B, K, D]."""
        model = algorithm.backbone
        num, device = len(latents), latents.device
        targets = torch.full((num, target_length), algorithm.pad_id, device=device)
        calls = torch.ones(num, dtype=torch.long, device=device)
        stopped = self._is_stop(latents, model.stop_latent())
        targets[stopped, 0] = algorithm.eos_id
        rows = (~stopped).nonzero().squeeze(1)  # samples that have not ended
        cache, read = model.decoder.new_cache(), model.prefix(latents[rows])
        for position in range(target_length):
            if len(rows) == 0:
                break
            logits = model.decoder(read, num_logits=1, cache=cache)[:, -1].float()
            ids = self.draw_tokens(logits, generator)
            targets[rows, position] = ids
            calls[rows] += 1
            going = (ids != algorithm.eos_id).nonzero().squeeze(1)
            if len(going) < len(rows):
                rows, ids = rows[going], ids[going]
                cache.batch_select_indices(going)
            read = model.decoder.embed(ids.unsqueeze(1))
        return SummaryDraws(targets, calls)

    def _is_stop(self, latents: Tensor, stop: Tensor) -> Tensor:
        """Bool[B], of latents Float[B, K, D] and stop Float[K, D]."""
        if self.stop_cosine is None:
            return torch.zeros(len(latents), dtype=torch.bool, device=latents.device)
        cosine = F.cosine_similarity(latents.mean(dim=1), stop.mean(dim=0), dim=-1)
        return cosine >= self.stop_cosine
