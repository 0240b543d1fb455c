"""Networks that read Dirichlet-to-Neumann maps: encoder, U-Nets on images and on ids of pixels,
regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from continuous_states.networks.film_unet import FiLMUNet
from discrete_diffusion.models import (
    MLP,
    TransformerBlock,
    corrupted_share,
    process_t,
    sinusoid,
    zeroed,
)


@dataclass(frozen=True)
class EncodedDtN:
    """Encoded maps, indexed by samples. ``vector``: Float[B, D], one per map. ``tokens``: Float[B,
    n, D], one per column of a map. ``weights``: Float[B, n], weights of the columns in ``vector``,
    which sum to 1."""

    vector: Tensor
    tokens: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return len(self.vector)

    def __getitem__(self, rows: Tensor | slice) -> EncodedDtN:
        return EncodedDtN(self.vector[rows], self.tokens[rows], self.weights[rows])


class DtNEncoder(nn.Module):
    """Transformer over the columns of a map (B, n, n): one vector per map, and one per column.

        v = (dtn - shift) / scale, per entry
        x = embedding(column of v) + time_proj(sinusoid(1000 t)) + sinusoid(column index)  (B, n, D)
        x <- x + attention(norm1(x)), x <- x + mlp(norm2(x))                          n_layers times
        vector = sum_k w_k x_k, w = softmax over the columns of score(norm(x))                (B, D)

    ``shift``, ``scale``: Float[n, n], 0 and 1 until ``fit_condition``; saved in the checkpoint.
    ``pool_layers``: number of layers of ``score``, 1 or 2.
    ``token_dropout``: probability that the embedding of a column is set to 0 in training.
    ``time_conditioning``: if false, ``time_proj`` is left out, and t is not read.

    Deviation: the entries of maps are standardised by those of training; the description reads raw
    maps.
    Deviation: t is multiplied by 1000; ``time_scale=1`` is the literal sinusoid of t in [0, 1].

    Raises ``ValueError`` for values outside these, an odd ``d_model``, and if ``n_heads`` does not
    divide ``d_model``.
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
    ) -> None:
        super().__init__()
        if d_model % 2:
            raise ValueError(f"sinusoids need an even d_model, got {d_model}; choose {d_model + 1}")
        if not 0 <= token_dropout < 1:
            raise ValueError(f"token_dropout={token_dropout}: expected a share in [0, 1)")
        # standardisation of the entries
        self.num_boundary, self.d_model = num_boundary, d_model
        self.token_dropout, self.time_scale = token_dropout, time_scale
        self.register_buffer("shift", torch.zeros(num_boundary, num_boundary))
        self.register_buffer("scale", torch.ones(num_boundary, num_boundary))
        # embedding, blocks and pooling
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
        self.register_load_state_dict_pre_hook(_drop_unused_time)
        self.pooling = AttentionPooling(d_model=d_model, num_layers=pool_layers)

    @property
    def reads_time(self) -> bool:
        """True if the output depends on t."""
        return self.time_proj is not None

    def fit_condition(self, dtn: Tensor) -> None:
        """Set shift and scale to mean and standard deviation of every entry over the training maps
        Float[S, n, n]; a constant entry has scale 1. Raises ``ValueError`` for other shapes."""
        self._check(dtn)
        for row in range(self.num_boundary):  # in float64, without a copy of all maps
            scale, shift = torch.std_mean(dtn[:, row].double(), dim=0, correction=0)
            scale = torch.where(scale > 1e-6 * shift.abs(), scale, 1.0)
            self.shift[row], self.scale[row] = shift, scale

    def forward(self, dtn: Tensor, t: Tensor | float | None = None) -> EncodedDtN:
        """Encode maps dtn Float[B, n, n] at times t Float[B] in [0, 1], or without a time if t is
        None. Raises ``ValueError`` for other shapes."""
        self._check(dtn)
        weight = self.embedding.weight
        # one token per standardised column
        dtn = dtn.to(torch.promote_types(dtn.dtype, self.shift.dtype))
        columns = rearrange((dtn - self.shift) / self.scale, "b row column -> b column row")
        x = self.embedding(columns.to(weight.dtype))  # (B, n, D)
        # drop whole columns in training
        if self.training and self.token_dropout > 0:
            kept = F.dropout(torch.ones_like(x[..., :1]), self.token_dropout) > 0
            x = x.masked_fill(~kept, 0.0)
        # add the time and the index of the column
        if self.time_proj is not None and t is not None:
            waves = sinusoid(self.time_scale * process_t(t, len(dtn), dtn.device), self.d_model)
            x = x + self.time_proj(waves.to(weight.dtype)).unsqueeze(1)
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


def _drop_unused_time(encoder: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Remove ``time_proj`` from old checkpoints of encoders that do not read the time."""
    if encoder.time_proj is None:
        for name in ("weight", "bias"):
            state.pop(f"{prefix}time_proj.{name}", None)


class AttentionPooling(nn.Module):
    """Weighted sum of tokens, with weights computed from the tokens.

        w = softmax over the tokens of score(norm(x))                            (B, N)
        vector = sum_n w_n x_n                                                   (B, D)

    ``num_layers``: number of layers of ``score``: 1, a linear layer, or 2, Linear(GELU(Linear(x))).
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
        """Pool tokens x (B, N, D); return the vectors, x unchanged, and the weights."""
        weights = self.score(self.norm(x)).squeeze(-1).softmax(dim=-1)
        return EncodedDtN(torch.einsum("bn,bnd->bd", weights.to(x.dtype), x), x, weights)


class DtNUNet(nn.Module):
    """Conditional U-Net that predicts clean images from noisy images and their maps.

        cond = norm(bridge(encoder(dtn, t).vector))                              (B, K)
        clean = unet(x_t, t, cond), t = 1 - exp(-sigma)                          (B, C, H, W)

    With ``unet.token_dim`` the pixels also attend to the encoder's tokens.

    At first the condition has no effect, as the linear layers that read it start at 0. They get a
    gradient once the output layer is not 0, and the encoder gets one once these layers are not 0:
    at the third step with ``zero_init_out``, at the second without.

    Raises ``ValueError`` if ``unet.token_dim`` is not ``encoder.d_model``.
    """

    def __init__(self, *, unet: FiLMUNet, encoder: DtNEncoder) -> None:
        super().__init__()
        if unet.token_dim not in (None, encoder.d_model):
            raise ValueError(
                f"the U-Net attends to tokens of width {unet.token_dim}, the encoder has "
                f"d_model={encoder.d_model}; make them equal"
            )
        self.unet, self.encoder = unet, encoder
        # from the vector of the encoder to the condition of the U-Net
        self.bridge = nn.Linear(encoder.d_model, unet.cond_dim)
        self.norm = nn.LayerNorm(unet.cond_dim)
        self._last_weights: Tensor | None = None  # of the last forward pass in training

    @property
    def encoder_reads_time(self) -> bool:
        """True if encoded maps depend on the time."""
        return self.encoder.reads_time

    def fit_conditions(self, conditions: Mapping[str, Tensor]) -> None:
        """Fit the standardisation of maps to the training maps ``dtn`` Float[S, n, n], if there are
        any."""
        if "dtn" in conditions:
            self.encoder.fit_condition(conditions["dtn"])

    def encode(self, dtn: Tensor, sigma: Tensor | None = None) -> EncodedDtN:
        """Encode maps Float[B, n, n] at noise levels sigma; if None, without a time."""
        reads = sigma is not None and self.encoder.reads_time
        return self.encoder(dtn, corrupted_share(sigma) if reads else None)

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        dtn: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        encoded: EncodedDtN | None = None,
    ) -> Tensor:
        """Predict clean images from x_t Float[B, C, H, W] and sigma Float[B] (None: 0). ``dtn``:
        Float[B, n, n]; None: without a condition. ``keep``: Bool[B], False where a sample's
        condition is dropped (classifier-free guidance, arXiv 2207.12598). ``encoded``: result of
        ``encode`` for ``dtn``; if given, ``dtn`` is not read."""
        if encoded is None and dtn is not None:
            encoded = self.encode(dtn, sigma)
        cond = tokens = None
        if encoded is not None:
            # vector and tokens of the map, and the pooling weights for ``diagnostics``
            cond, tokens = self.norm(self.bridge(encoded.vector)), encoded.tokens
        if self.training and not torch.compiler.is_compiling():
            self._last_weights = None if encoded is None else encoded.weights.detach()
        return self.unet(x_t, corrupted_share(sigma), cond, tokens=tokens, keep=keep)

    @torch.no_grad()
    def diagnostics(self) -> dict[str, float]:
        """Numbers to log about the effect of the condition. ``cond_gate``: mean of the gates. From
        the last forward pass in training: ``time_film`` and ``cond_film``
        (``FiLMUNet.film_sizes``), and the entropy in nats (``pool_entropy``) and maximum
        (``pool_largest``) of the pooling weights, as means over the samples."""
        numbers = {"cond_gate": float(self.unet.gate.mean()), **self.unet.film_sizes()}
        if self._last_weights is not None:
            weights = self._last_weights.float()
            numbers["pool_entropy"] = float(torch.special.entr(weights).sum(dim=-1).mean())
            numbers["pool_largest"] = float(weights.amax(dim=-1).mean())
        return numbers


class FilmUNetTokens(nn.Module):
    """U-Net over images whose pixels are ids in row-major order (L = H W), with logits per pixel.

        x = embedding(x_t), arranged as an image                                 (B, D, H, W)
        logits = network(x, sigma, dtn)                                          (B, V, H, W)

    D and V are the channels that ``network`` takes and returns. MASK is an id like any other; the
    algorithm handles its logit. Other methods are those of ``DtNUNet``.

    Raises ``ValueError`` if the network cannot take images of ``height`` x ``width``.
    """

    def __init__(self, *, network: DtNUNet, height: int, width: int) -> None:
        super().__init__()
        network.unet.check_size(height, width)
        self.network, self.height, self.width = network, height, width
        self.embedding = nn.Embedding(network.unet.out_channels, network.unet.in_channels)

    @property
    def encoder_reads_time(self) -> bool:
        return self.network.encoder_reads_time

    def fit_conditions(self, conditions: Mapping[str, Tensor]) -> None:
        self.network.fit_conditions(conditions)

    def encode(self, dtn: Tensor, sigma: Tensor | None = None) -> EncodedDtN:
        return self.network.encode(dtn, sigma)

    def diagnostics(self) -> dict[str, float]:
        return self.network.diagnostics()

    def forward(
        self,
        x_t: Tensor,
        sigma: Tensor | None = None,
        dtn: Tensor | None = None,
        *,
        keep: Tensor | None = None,
        encoded: EncodedDtN | None = None,
    ) -> Tensor:
        """Predict logits Float[B, L, V] from ids x_t Int[B, L] and sigma Float[B] (None: 0).
        ``dtn``, ``keep`` and ``encoded`` as for ``DtNUNet``. Raises ``ValueError`` for other
        shapes."""
        if x_t.ndim != 2 or x_t.shape[1] != self.height * self.width:
            raise ValueError(
                f"x_t has shape {tuple(x_t.shape)}; expected (B, {self.height * self.width}), the "
                f"pixels of {self.height} x {self.width} images"
            )
        x = rearrange(self.embedding(x_t), "b (h w) d -> b d h w", h=self.height)
        logits = self.network(x, sigma, dtn, keep=keep, encoded=encoded)
        return rearrange(logits, "b v h w -> b (h w) v")


class DtNRegressor(nn.Module):
    """Regression network that predicts the expected image from a map.

        image = head(norm(encoder(dtn).vector))                                  (B, C, H, W)

    ``shape``: (C, H, W). ``head_widths``: widths of the hidden layers of ``head``, each followed by
    GELU; the last layer starts at 0, so the first images are 0. ``read_tokens``: if true, the head
    also reads the n tokens, after the vector. Noisy images and times are not read. The encoder's
    weights fit those of a ``DtNUNet`` whose encoder reads no time.

    Raises ``ValueError`` for an encoder that reads the time, or a width below 1.
    """

    def __init__(
        self,
        *,
        encoder: DtNEncoder,
        shape: tuple[int, int, int],
        head_widths: Sequence[int],
        read_tokens: bool = False,
    ) -> None:
        super().__init__()
        if encoder.reads_time:
            raise ValueError("a regressor has no time; give an encoder without time_conditioning")
        if any(hidden < 1 for hidden in head_widths):
            raise ValueError(f"head_widths={[*head_widths]}: expected numbers of at least 1")
        self.encoder, self.shape, self.read_tokens = encoder, shape, read_tokens
        width = encoder.d_model * (1 + (encoder.num_boundary if read_tokens else 0))
        self.norm = nn.LayerNorm(width)
        # hidden layers with GELU, and a last layer that starts at 0
        widths = [*pairwise([width, *head_widths, math.prod(shape)])]
        hidden = [layer for a, b in widths[:-1] for layer in (nn.Linear(a, b), nn.GELU())]
        self.head = nn.Sequential(*hidden, zeroed(nn.Linear(*widths[-1])))

    def fit_conditions(self, conditions: Mapping[str, Tensor]) -> None:
        """Fit the standardisation of maps as in ``DtNUNet.fit_conditions``."""
        if "dtn" in conditions:
            self.encoder.fit_condition(conditions["dtn"])

    def forward(
        self, x_t: Tensor, sigma: Tensor | None = None, dtn: Tensor | None = None
    ) -> Tensor:
        """Predict images Float[B, C, H, W] from maps dtn Float[B, n, n]; only the shape of x_t
        Float[B, C, H, W] is read. Raises ``ValueError`` without a map, or for images of another
        shape."""
        if dtn is None or tuple(x_t.shape) != (len(dtn), *self.shape):
            maps = "no maps" if dtn is None else f"maps of shape {tuple(dtn.shape)}"
            raise ValueError(
                f"x_t has shape {tuple(x_t.shape)} and there are {maps}; expected (B, "
                f"{', '.join(map(str, self.shape))}) and as many maps"
            )
        channels, height, _ = self.shape
        # the head reads the vector, or vector and tokens
        encoded = self.encoder(dtn)
        read = encoded.vector
        if self.read_tokens:
            read = torch.cat([read, rearrange(encoded.tokens, "b n d -> b (n d)")], dim=1)
        return rearrange(self.head(self.norm(read)), "b (c h w) -> b c h w", c=channels, h=height)
