"""First-hitting sampling: exact for absorbing processes, one token per network call."""

from __future__ import annotations

import torch

from discrete_diffusion.algorithms import Algorithm
from discrete_diffusion.categorical import draw, uniform_draws
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.sampling.base import Sampler
from discrete_diffusion.types import SampleOutput, SampleRequest


class FirstHitting(Sampler):
    """Reveal one token at a time, at the times at which the reverse process would reveal them.

    Every free masked position l has an unmask time T_l with 1 - alpha_l(T_l) ~ U(0, 1),
    independent of the data. All are drawn at the start and revealed in descending order, the
    network being told t = T_l, per sample. The result has exactly the distribution of ancestral
    sampling with infinitely many steps, for time-conditioned networks and schedules per group
    too (Zheng et al., arXiv 2409.02908).

    A sample costs as many network calls as it has free tokens; samples with the same number left
    share a call, and a sample takes part only while it has any.

    Raises ``ValueError`` for a process that is not absorbing, or if ``steps`` is given.
    """

    def _run(self, algorithm: Algorithm, request: SampleRequest) -> SampleOutput:
        process, real = algorithm.process, request.real
        if not isinstance(process, Absorbing):
            raise ValueError(
                f"first-hitting sampling needs an absorbing process, got {type(process).__name__}; "
                "use sampling=ancestral"
            )
        if request.steps is not None:
            raise ValueError("first-hitting sampling makes one call per token; leave steps unset")
        x = self._start(algorithm, request)
        free = real & (request.clamp < 0)
        u = uniform_draws(tuple(real.shape), request.generator, real.device)
        times = process.unmask_times(1 - u)  # (B, L)
        times = times.masked_fill(~free, -1.0)
        times, positions = times.sort(dim=1, descending=True)
        left = free.sum(dim=1)
        log_weights = torch.zeros(real.shape[0], dtype=torch.float64, device=real.device)
        trajectory = [x] if request.keep_trajectory else []
        for remaining in range(int(left.max()) if left.numel() else 0, 0, -1):
            rows = (left >= remaining).nonzero().squeeze(1)
            turn = (left[rows] - remaining).unsqueeze(1)
            position = positions[rows].gather(1, turn)  # (R, 1)
            t = times[rows].gather(1, turn).squeeze(1)  # (R,)
            prediction = algorithm.predict(
                x[rows],
                t,
                torch.zeros_like(t),
                real[rows],
                request.support_of(rows),
                temperature=self.temperature,
                top_p=self.top_p,
                conditions=request.conditions_of(rows),
            )
            here = torch.arange(len(rows), device=real.device).unsqueeze(1)
            token = draw(prediction.log_probs[here, position], request.generator)  # (R, 1)
            log_weights[rows] += prediction.log_kept[here, position].squeeze(1).double()
            x = x.index_put((rows.unsqueeze(1), position), token)
            if request.keep_trajectory:
                trajectory.append(x)
        return SampleOutput(
            tokens=x,
            nfe=left,
            log_weights=log_weights,
            trajectory=torch.stack(trajectory) if trajectory else None,
        )
