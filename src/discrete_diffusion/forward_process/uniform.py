"""The uniform process: tokens turn into random legal ones."""

from __future__ import annotations

from torch import Tensor

from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.layout import TokenLayout
from discrete_diffusion.noise_schedules import Schedule


class Uniform(ForwardProcess):
    """b_t(y) = (1 - alpha(t)) / K_l on the K_l legal ids of each position, 0 elsewhere
    (Austin et al., arXiv 2107.03006; UDLM, arXiv 2412.10193).

    Deviation: the papers' prior is uniform on the whole vocabulary; a node type never enters an
    edge slot here, and neither MASK nor PAD is ever drawn.
    """

    name = "uniform"
    pi: Tensor

    def __init__(self, layout: TokenLayout, schedule: Schedule) -> None:
        super().__init__(layout, schedule)
        self.register_buffer("pi", layout.uniform_log_probs().exp(), persistent=False)

    def prior(self) -> Tensor:
        return self.pi
