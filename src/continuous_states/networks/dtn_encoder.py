"""A transformer that reads a Dirichlet-to-Neumann map, one token per column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from discrete_diffusion.models import MLP, TransformerBlock, process_t, sinusoid

POSITIONS = ("sinusoidal", "none")


@dataclass(frozen=True)
class EncodedDtN:
    """``vector`` Float[B, D] of each map; ``tokens`` Float[B, n, D] of its columns; ``weights``
    Float[B, n] of the columns in the vector, which sum to 1.

    Indexed by samples like a tensor: ``encoded[rows]``, rows Int or Bool.
    """

    vector: Tensor
    tokens: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.vector)

    def __getitem__(self, rows: Tensor | slice) -> EncodedDtN:
        return EncodedDtN(self.vector[rows], self.tokens[rows], self.weights[rows])


class DtNEncoder(nn.Module):
    """A map (B, n, n) -> one vector per map, and one per column.

        v = (dtn - shift) / scale, per entry
        x = embedding(column of v) + time_proj(sinusoid(1000 t)) + sinusoid(column index)  (B, n, D)
        x <- x + attention(norm1(x)), x <- x + mlp(norm2(x))                          n_layers times
        vector = sum_k w_k x_k, w = softmax over the columns of score(norm(x))                (B, D)

    ``shift``, ``scale``: Float[n, n], 0 and 1 until ``fit_condition``; kept in the checkpoint.
    ``pool_layers``: layers of ``score``, 1 or 2.
    ``token_dropout``: the share of columns whose embedding is set to 0 in training.
    ``time_conditioning``: without it there is no ``time_proj``, and t is not read.
    ``pos``: ``sinusoidal``, or ``none``: then permuted columns give the same vector.

    Deviation: the entries of maps are standardised by those of training; the description takes maps
    as they are.
    Deviation: t is multiplied by 1000; ``time_scale=1`` is the literal sinusoid of t in [0, 1].

    Raises ``ValueError`` for other values of these, an odd ``d_model``, and if ``n_heads`` does not
    divide it.
    """

    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        *,
        num_boundary: int,
        d_model: int,
        n_layers: int,
        n_heads: int,
        mlp_ratio: float = 4,
        dropout: float = 0.0,
        pool_layers: int = 1,
        token_dropout: float = 0.0,
        time_conditioning: bool = True,
        time_scale: float = 1000.0,
        pos: str = "sinusoidal",
    ) -> None:
        super().__init__()
        if pos not in POSITIONS:
            raise ValueError(f"pos={pos!r}; choose {' or '.join(POSITIONS)}")
        if d_model % 2:
            raise ValueError(f"sinusoids need an even d_model, got {d_model}; choose {d_model + 1}")
        if not 0 <= token_dropout < 1:
            raise ValueError(f"token_dropout={token_dropout}: expected a share in [0, 1)")
        self.num_boundary, self.d_model, self.pos = num_boundary, d_model, pos
        self.token_dropout, self.time_scale = token_dropout, time_scale
        self.register_buffer("shift", torch.zeros(num_boundary, num_boundary))
        self.register_buffer("scale", torch.ones(num_boundary, num_boundary))
        self.embedding = nn.Linear(num_boundary, d_model)
        self.time_proj = nn.Linear(d_model, d_model) if time_conditioning else None
        self.blocks = nn.ModuleList(
            TransformerBlock(
                d_model,
                n_heads,
                norm=nn.LayerNorm,
                mlp=partial(MLP, d_model, mlp_ratio),
                dropout=dropout,
            )
            for _ in range(n_layers)
        )
        self.register_load_state_dict_pre_hook(_without_unused_time)
        self.pooling = AttentionPooling(d_model=d_model, num_layers=pool_layers)

    @property
    def reads_time(self) -> bool:
        """True if what comes out depends on t."""
        return self.time_proj is not None

    def fit_condition(self, dtn: Tensor) -> None:
        """Set shift and scale to mean and standard deviation of every entry over the maps of
        training, Float[S, n, n]; an entry that does not vary keeps the scale 1.

        Raises ``ValueError`` for another shape.
        """
        self._check(dtn)
        for row in range(self.num_boundary):  # in float64, without a copy of all maps
            scale, shift = torch.std_mean(dtn[:, row].double(), dim=0, correction=0)
            scale = torch.where(scale > 1e-6 * shift.abs(), scale, 1.0)
            self.shift[row], self.scale[row] = shift, scale

    def forward(self, dtn: Tensor, t: Tensor | float | None = None) -> EncodedDtN:
        """dtn Float[B, n, n], t Float[B] in [0, 1] or None: what comes out holds for every t.

        Raises ``ValueError`` for other shapes.
        """
        self._check(dtn)
        weight = self.embedding.weight
        dtn = dtn.to(torch.promote_types(dtn.dtype, self.shift.dtype))
        columns = rearrange((dtn - self.shift) / self.scale, "b row column -> b column row")
        x = self.embedding(columns.to(weight.dtype))  # (B, n, D)
        if self.training and self.token_dropout > 0:
            kept = F.dropout(torch.ones_like(x[..., :1]), self.token_dropout) > 0
            x = x.masked_fill(~kept, 0.0)
        if self.time_proj is not None and t is not None:
            waves = sinusoid(self.time_scale * process_t(t, len(dtn), dtn.device), self.d_model)
            x = x + self.time_proj(waves.to(weight.dtype)).unsqueeze(1)
        if self.pos == "sinusoidal":
            exact = torch.promote_types(weight.dtype, torch.float32)
            index = torch.arange(self.num_boundary, device=x.device, dtype=exact)
            x = x + sinusoid(index, self.d_model).to(weight.dtype)
        for block in self.blocks:
            x = block(x)
        return self.pooling(x)

    def _check(self, dtn: Tensor) -> None:
        num = self.num_boundary
        if dtn.ndim != 3 or dtn.shape[1:] != (num, num):
            raise ValueError(
                f"dtn has shape {tuple(dtn.shape)}; expected (B, {num}, {num}), as "
                f"data.num_boundary={num} says"
            )


def _without_unused_time(encoder: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Encoders without a time once had a ``time_proj`` that was never read."""
    if encoder.time_proj is None:
        for name in ("weight", "bias"):
            state.pop(f"{prefix}time_proj.{name}", None)


class AttentionPooling(nn.Module):
    """A weighted sum of tokens, the weights made of the tokens themselves.

        w = softmax over the tokens of score(norm(x))                            (B, N)
        vector = sum_n w_n x_n                                                   (B, D)

    ``num_layers``: of ``score``: 1, a linear layer, or 2, Linear(GELU(Linear(x))).
    """

    def __init__(self, *, d_model: int, num_layers: int = 1) -> None:
        super().__init__()
        if num_layers not in (1, 2):
            raise ValueError(f"pool_layers={num_layers}: the scoring head has 1 layer or 2")
        self.norm = nn.LayerNorm(d_model)
        self.score: nn.Module = nn.Linear(d_model, 1)
        if num_layers == 2:
            self.score = nn.Sequential(nn.Linear(d_model, d_model), nn.GELU(), self.score)

    def forward(self, x: Tensor) -> EncodedDtN:
        """x (B, N, D) -> the vectors, x itself, and the weights."""
        weights = self.score(self.norm(x)).squeeze(-1).softmax(dim=-1)
        return EncodedDtN(torch.einsum("bn,bnd->bd", weights.to(x.dtype), x), x, weights)
