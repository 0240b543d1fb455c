"""Worlds of sequences whose exact denoiser is known: Markov chains and hidden Markov models."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import pick, uniform_draws
from discrete_diffusion.layout.token_layout import TokenLayout


class HiddenMarkov(nn.Module):
    """Hidden Markov model of sequences, and its exact denoiser as a backbone.

        p(x) = sum over s of  start(s_1) emission(x_1 | s_1)
                              product over l > 1 of  transition(s_l | s_{l-1}) emission(x_l | s_l)

    ``forward`` returns log D, the leave-one-out posterior p(x_l | all x_t but x_t's l), by messages
    from the left and the right. With it a sampler's error is its own, at any length: exact samples
    differ from those of a sampler only by what the sampler gets wrong.

    ``start``: Float[S]; ``transition``: Float[S, S], rows sum to 1; ``emission``: Float[S, V], rows
    sum to 1; ``length``: L. Ids are 0 to V - 1, MASK is V. With MASK the noise is absorbing; a
    token that is not MASK is observed with the probabilities of uniform noise at alpha =
    exp(-sigma) if ``uniform``, else exactly.

    Raises ``ValueError`` for shapes that do not fit, or rows that are no distributions.
    """

    start: Tensor
    transition: Tensor
    emission: Tensor

    def __init__(
        self,
        start: Tensor,
        transition: Tensor,
        emission: Tensor,
        *,
        length: int,
        uniform: bool = False,
    ) -> None:
        super().__init__()
        states = len(start)
        if transition.shape != (states, states) or emission.shape[:1] != (states,):
            raise ValueError(
                f"start, transition, emission: expected [S], [S, S], [S, V], got "
                f"{tuple(start.shape)}, {tuple(transition.shape)}, {tuple(emission.shape)}"
            )
        for name, table in (("start", start), ("transition", transition), ("emission", emission)):
            sums = table.double().sum(dim=-1)
            if (table < 0).any() or not torch.allclose(sums, torch.ones_like(sums), atol=1e-6):
                raise ValueError(f"{name}: expected probabilities whose rows sum to 1")
            self.register_buffer(name, table.double())
        self.length, self.uniform = length, uniform

    @classmethod
    def chain(cls, probs: Tensor, *, length: int, uniform: bool = False) -> HiddenMarkov:
        """Markov chain of order k: p(x_l | x_{l-k}, ..., x_{l-1}), begun in its stationary law.

        ``probs``: Float[V, ..., V], k + 1 axes, the last sums to 1. A state is the last k tokens.
        """
        order, num = probs.ndim - 1, probs.shape[-1]
        last = torch.arange(num**order)
        rows = probs.double().reshape(num**order, num)
        # the next state drops the oldest token and adds the new one
        follower = (last.unsqueeze(1) * num + torch.arange(num)) % num**order
        transition = torch.zeros(num**order, num**order, dtype=torch.float64)
        transition.scatter_(1, follower, rows)
        start = torch.full((num**order,), 1 / num**order, dtype=torch.float64)
        for _ in range(1000):
            start = start @ transition
        emission = torch.eye(num, dtype=torch.float64)[last % num]
        return cls(start, transition, emission, length=length, uniform=uniform)

    @property
    def vocab_size(self) -> int:
        """V, without MASK."""
        return self.emission.shape[1]

    def layout(self) -> TokenLayout:
        """Layout of the sequences: L positions of V ids, and MASK."""
        support = torch.ones(self.length, self.vocab_size + 1, dtype=torch.bool)
        support[:, self.vocab_size] = False
        return TokenLayout(support, mask_id=self.vocab_size)

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        """log D of every position, Float64[B, L, V + 1], from tokens Int[B, L]."""
        seen = self._evidence(x_t, sigma)  # (B, L, S)
        before, after = torch.empty_like(seen), torch.empty_like(seen)
        # from the left: p(s_l | tokens before l); from the right: p(tokens after l | s_l)
        left, right = self.start.expand(len(x_t), -1), torch.ones_like(seen[:, 0])
        for place in range(self.length):
            before[:, place] = left
            left = _normalised((left * seen[:, place]) @ self.transition)
            after[:, self.length - 1 - place] = right
            right = _normalised((right * seen[:, self.length - 1 - place]) @ self.transition.T)
        log_d = (_normalised(before * after) @ self.emission).log()
        return torch.cat([log_d, torch.full_like(log_d[..., :1], -torch.inf)], dim=-1)

    def _evidence(self, x_t: Tensor, sigma: Tensor | None) -> Tensor:
        """p(token seen at l | s_l) up to a factor, Float64[B, L, S]."""
        table = self.emission
        if self.uniform:
            assert sigma is not None
            alpha = (-sigma.double()).exp().view(-1, 1, 1)
            table = alpha * table + (1 - alpha) / self.vocab_size  # (B, S, V)
        else:
            table = table.expand(len(x_t), -1, -1)
        # MASK says nothing
        table = torch.cat([table, torch.ones_like(table[..., :1])], dim=-1)
        index = x_t.unsqueeze(1).expand(-1, table.shape[1], -1)
        return table.gather(2, index).transpose(1, 2)

    def sample(self, num: int, generator: torch.Generator) -> Tensor:
        """Exact samples, Int[num, L]."""
        tokens = []
        log_prob = self.start.log().expand(num, -1)
        for _ in range(self.length):
            u = uniform_draws((2, num), generator, self.start.device)
            state = pick(log_prob, u[0])
            tokens.append(pick(self.emission.log()[state], u[1]))
            log_prob = self.transition.log()[state]
        return torch.stack(tokens, dim=1)

    def log_prob(self, x0: Tensor) -> Tensor:
        """log p of clean sequences Int[B, L]: Float64[B], nats."""
        total = torch.zeros(len(x0), dtype=torch.float64)
        state = self.start.expand(len(x0), -1)
        for place in range(self.length):
            state = state * self.emission[:, x0[:, place]].T
            norm = state.sum(dim=-1, keepdim=True)
            total += norm.squeeze(1).log()
            state = (state / norm) @ self.transition
        return total


def _normalised(values: Tensor) -> Tensor:
    return values / values.sum(dim=-1, keepdim=True)


def pair_divergence(samples: Tensor, truth: Tensor, distance: int = 1) -> float:
    """KL(truth || samples) of the pairs (x_l, x_{l + distance}), nats.

    ``samples``: Int[N, L]; ``truth``: Float[V, V], the probabilities of a pair. Half a count is
    added to every pair of the samples.
    """
    num = len(truth)
    pairs = samples[:, :-distance] * num + samples[:, distance:]
    counts = pairs.flatten().bincount(minlength=num * num).double() + 0.5
    p, q = truth.double().flatten(), counts / counts.sum()
    return float(torch.special.xlogy(p, p / q).sum())
