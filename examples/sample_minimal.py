"""Sample with a network of your own: any module, one sampler, no config and no trainer.

    python examples/sample_minimal.py [--num 5] [--seed 0]

The network is a Markov chain over four letters. It needs no training: the sum over all hidden
letters is exact, so the samples are strings of the chain. Replace it by your module.
Axes: B samples, L = 24 positions, V = 5 ids, of which the last one is MASK.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_diffusion.algorithms import MDLM
from discrete_diffusion.forward_process import Absorbing
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import LogLinear
from discrete_diffusion.sampling import FirstHitting

LETTERS, LENGTH = "acgt", 24
MASK = len(LETTERS)


class MarkovChain(nn.Module):
    """A letter is followed by itself with probability 0.7, else by any other one."""

    def __init__(self) -> None:
        super().__init__()
        self.follow = nn.Parameter(torch.full((4, 4), 0.1) + 0.6 * torch.eye(4))

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        """Logits Float[B, L, V] of noisy ids Int[B, L]; this network ignores the noise level."""
        seen = torch.cat([torch.eye(4), torch.ones(1, 4)])[x_t]  # (B, L, 4), MASK may be any
        left, right = [seen[:, 0]], [torch.ones_like(seen[:, 0])]
        for k in range(1, x_t.shape[1]):
            left.append((left[-1] @ self.follow) * seen[:, k])
            right.append((right[-1] * seen[:, -k]) @ self.follow.T)
        weights = torch.stack(left, dim=1) * torch.stack(right[::-1], dim=1)  # (B, L, 4)
        return nn.functional.pad(weights.log(), (0, 1), value=-1e9)  # MASK is no prediction


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--num", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)

    layout = TokenLayout.flat(LENGTH, MASK + 1, mask_id=MASK)  # every letter at every position
    model = MDLM(MarkovChain(), Absorbing(layout, LogLinear()))
    real = torch.ones(options.num, LENGTH, dtype=torch.bool)  # Bool[B, L], positions that exist
    generator = torch.Generator().manual_seed(options.seed)
    output = FirstHitting().sample(model, real, generator=generator)
    for ids, calls in zip(output.x0.tolist(), output.nfe.tolist(), strict=True):
        print("".join(LETTERS[k] for k in ids), f"  {calls} network calls")


if __name__ == "__main__":
    main()
