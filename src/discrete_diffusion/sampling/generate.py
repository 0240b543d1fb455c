"""Generate: a text from latent vectors, token by token."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from discrete_diffusion.algorithms.latent_seq2seq import LatentSeq2Seq
from discrete_diffusion.categorical import draw, log_softmax_on, nucleus
from discrete_diffusion.options import check_whole_number, is_number
from discrete_diffusion.types import SummaryDraws


class Generate:
    """Draws a summary from left to right, until EOS; the decoder keeps its keys and values.

        p(token) ~ softmax(logits / temperature), of the ``top_k`` likeliest tokens, and of those
        the fewest that have the share ``top_p`` (arXiv 1904.09751)

    ``temperature`` 0: the likeliest token, nothing is drawn. ``top_k`` None: all tokens.

    ``stop_cosine``: if cos(mean_k y_k, mean_k stop_k) of the latents y of a dialogue is as large,
    its summary is empty. None: never.

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
        """One summary per row of ``sources`` Int[B, S], dialogues with PAD behind: at most
        ``target_length`` ids, PAD behind EOS. The algorithm is in eval mode meanwhile."""
        self.check_steps(steps)
        was_training = algorithm.training
        algorithm.eval()
        try:
            latents = algorithm.summary_latents(sources)
            return self._generate(algorithm, latents, target_length, generator)
        finally:
            algorithm.train(was_training)

    def token_log_probs(self, logits: Tensor) -> Tensor:
        """Float[B, V] -> the log-probabilities that tokens are drawn with."""
        if self.temperature == 0:
            kept = F.one_hot(logits.argmax(dim=-1), logits.shape[-1]).bool()
            return log_softmax_on(logits, kept)
        log_probs = torch.log_softmax(logits / self.temperature, dim=-1)
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            likeliest = log_probs.topk(self.top_k, dim=-1).indices
            kept = torch.zeros_like(log_probs, dtype=torch.bool).scatter_(-1, likeliest, True)
            log_probs = log_softmax_on(log_probs, kept)
        return nucleus(log_probs, self.top_p)

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
            ids = draw(self.token_log_probs(logits), generator)
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
