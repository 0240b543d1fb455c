"""Generate: a text from latent vectors, token by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from continuous_states.algorithms.latent_seq2seq import LatentSeq2Seq
from discrete_diffusion.algorithms import eval_mode
from discrete_diffusion.categorical import nucleus, sample_categorical
from discrete_diffusion.config import Bounds, Count, NotNegative, Share
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.runtime import progress
from discrete_diffusion.sampling import Law, Sampler


@dataclass(kw_only=True)
class Generate(Sampler[LatentSeq2Seq]):
    """Generate: a text from latent vectors, token by token.

    Draws a text from left to right, until EOS; the decoder keeps its keys and values.

        p(token) ~ softmax(logits / temperature), of the ``top_k`` likeliest tokens, and of those
        the fewest that have the share ``top_p`` (arXiv 1904.09751)

    ``temperature`` 0: the likeliest token, nothing is drawn. ``top_k`` None: all tokens.

    ``stop_cosine``: if cos(mean_k y_k, mean_k stop_k) of the latents y of a source text is as
    large, the text is empty. None: never.

    One call for the latents and one per token, EOS included; samples that have ended are left out.
    """

    name = "generate"
    law = Law.MODEL
    state = "latent"
    algorithms = ("latent-seq2seq",)

    temperature: NotNegative = 0.7
    top_k: Count | None = 50
    top_p: Share = 0.9
    stop_cosine: Annotated[float, Bounds(least=-1, most=1)] | None = 0.99

    def check(self, algorithm: LatentSeq2Seq, steps: int | None = None) -> None:
        if steps is not None:
            raise ValueError(
                f"steps={steps}: sampling=generate makes one call per token; leave steps out"
            )
        super().check(algorithm, steps)

    def work(self, num: int, algorithm: LatentSeq2Seq | None = None) -> int:
        return num

    def sample(
        self,
        algorithm: LatentSeq2Seq,
        real: Tensor,
        *,
        generator: torch.Generator,
        steps: int | None = None,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
    ) -> SampleOutput:
        """One text per row of the condition ``source`` Int[B, S], source texts with PAD behind: at
        most as many ids as the T columns of ``real`` Bool[B, T], PAD behind EOS."""
        self.check(algorithm, steps)
        self.refuse_clamp(clamp)
        if not conditions or "source" not in conditions:
            raise ValueError("generate samples given source texts; give conditions={'source': ...}")
        with eval_mode(algorithm), progress.calls(1 + real.shape[1]) as counting:
            counting.begin()
            latents = algorithm.target_latents(conditions["source"])
            return self._generate(algorithm, latents, real.shape[1], generator, counting)

    def draw_tokens(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """Float[B, V] -> Int[B]."""
        if self.temperature == 0:
            return logits.argmax(dim=-1)
        num_kept = min(self.top_k or logits.shape[-1], logits.shape[-1])
        likeliest, ids = logits.topk(num_kept, dim=-1)  # (B, k), the largest first
        tempered = (likeliest - likeliest[:, :1]).double() / self.temperature
        chosen = sample_categorical(nucleus(tempered.log_softmax(dim=-1), self.top_p), generator)
        return ids.gather(1, chosen.unsqueeze(1)).squeeze(1)

    def _generate(
        self,
        algorithm: LatentSeq2Seq,
        latents: Tensor,
        target_length: int,
        generator: torch.Generator,
        counting: progress.Calls,
    ) -> SampleOutput:
        """Generate from latents Float[B, K, D]."""
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
            counting.begin()
            logits = model.decoder(read, num_logits=1, cache=cache)[:, -1].float()
            ids = self.draw_tokens(logits, generator)
            targets[rows, position] = ids
            calls[rows] += 1
            going = (ids != algorithm.eos_id).nonzero().squeeze(1)
            if len(going) < len(rows):
                rows, ids = rows[going], ids[going]
                cache.batch_select_indices(going)
            read = model.decoder.embed(ids.unsqueeze(1))
        return SampleOutput(targets, calls, torch.zeros_like(calls).double())

    def _is_stop(self, latents: Tensor, stop: Tensor) -> Tensor:
        """Bool[B], of latents Float[B, K, D] and stop Float[K, D]."""
        if self.stop_cosine is None:
            return torch.zeros(len(latents), dtype=torch.bool, device=latents.device)
        cosine = F.cosine_similarity(latents.mean(dim=1), stop.mean(dim=0), dim=-1)
        return cosine >= self.stop_cosine
