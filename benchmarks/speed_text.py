"""``dit`` on text beside other ways to compute it, for ``speed.py``: the same weights, the same
logits, the layers written as others write them.

*Written out*: attention as softmax(q k^T / sqrt(d)) v, whose weights are kept for the gradient.
*As in the code of Duo*: PyTorch's fused attention, and around it the operations of that code: norms
without their weight, which is multiplied afterwards, ``rotate_half``, x (1 + scale) + shift, and
x + gate * branch. The other functions are shared, so that nothing but layers differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from clock import (
    Spent,
    interleaved,
    products,
    rates,
    ratio_words,
    share_text,
    shares_of_products,
    timed,
)
from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.models.acceleration import tuned
from discrete_diffusion.models.dit import DiT
from discrete_diffusion.models.transformer import corrupted_share, distinct_time, process_t
from record import markdown_table
from speed_cost import WORKS, Model

LENGTHS = ((128, 32), (1024, 4))
"""Pairs (length, samples)."""
GPU = ((128, 512), (1024, 64))
QUICK = ((16, 4), (32, 2))


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1) @ v


class OtherDiT(nn.Module):
    """The function of a ``DiT`` with adaLN, without PAD and without dropout, of the same weights.

    ``forward(x_t, sigma)`` takes and gives what the network does.
    """

    def __init__(self, network: DiT, attention: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.attention = network, attention

    def forward(self, x_t: Tensor, sigma: Tensor | None = None) -> Tensor:
        """x_t Int[B, L], sigma Float[B] or None (read as 0) -> logits Float[B, L, V]."""
        net = self.network
        x = net.token_embedding(x_t)
        times = distinct_time(process_t(corrupted_share(sigma), len(x_t), x_t.device))
        c = F.silu(net.timestep_embedder(times))
        positions = torch.arange(x_t.shape[1], device=x_t.device)
        tables = [torch.cat([table, table], dim=-1) for table in net.rotary(positions)]
        for block in net.blocks:
            x = self._block(block, x, c, *tables)
        shift, scale = net.final.modulation(c).unsqueeze(1).chunk(2, dim=-1)
        logits = F.linear(steered(net.final.norm, x, shift, scale), net.head.weight, net.head.bias)
        if net.pad_id is not None:
            logits[..., net.pad_id] = neg_inf(logits.dtype)
        return logits

    def _block(self, block: Any, x: Tensor, c: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = (
            block.modulation(c).unsqueeze(1).chunk(6, dim=-1)
        )
        attention, mlp = block.attention, block.mlp
        qkv = F.linear(
            steered(block.norm1, x, shift1, scale1), attention.qkv.weight, attention.qkv.bias
        )
        heads = {"three": 3, "h": attention.n_heads}
        q, k, v = rearrange(qkv, "b l (three h d) -> three b h l d", **heads).unbind(0)
        q, k = (y * cos + rotate_half(y) * sin for y in (q, k))
        attended = rearrange(self.attention(q, k, v), "b h l d -> b l (h d)")
        x = x + gate1 * F.linear(attended, attention.out.weight, attention.out.bias)
        hidden = F.linear(steered(block.norm2, x, shift2, scale2), mlp.up.weight, mlp.up.bias)
        return x + gate2 * F.linear(mlp.activation(hidden), mlp.down.weight, mlp.down.bias)


def steered(norm: nn.LayerNorm, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    normed = F.layer_norm(x, norm.normalized_shape, eps=norm.eps) * norm.weight + norm.bias
    return normed * (1 + scale) + shift


def rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


NETWORKS: dict[str, Callable[[DiT], nn.Module]] = {
    "written out": partial(OtherDiT, attention=written_out),
    "as in the code of Duo": partial(OtherDiT, attention=F.scaled_dot_product_attention),
    "`dit`": tuned,
}
"""The first is what the others are compared with."""


def model_of(name: str, length: int, num: int, device: torch.device) -> Model:
    """A model of text whose network is computed in one of the ways of ``NETWORKS``."""
    torch.manual_seed(0)
    return Model.of_text(length, num, device, NETWORKS[name])


def text(
    lengths: tuple[tuple[int, int], ...], device: torch.device, *, repeats: int
) -> dict[str, Any]:
    """A row per length, work and network."""

    def one(work: Callable[[Model], None], model: Model, num: int) -> Callable[[int], Spent]:
        def call() -> int:
            work(model)
            return num

        return lambda repeat: timed(call, device)

    rows, reached = [], {}
    for length, num in lengths:
        models = {name: model_of(name, length, num, device) for name in NETWORKS}
        for work, run in WORKS.items():
            runs = {name: one(run, model, num) for name, model in models.items()}
            for again in runs.values():  # caches, allocator
                again(0)
            plain = products(partial(runs["written out"], 0)) / num  # all of them as matrices
            spent = interleaved(runs, repeats)
            found = [{"name": name, **rates(spent[name], spent["written out"])} for name in runs]
            reached = shares_of_products(found, dict.fromkeys(runs, plain), (), device)
            rows += [{"length": length, "batch": num, "work": work, **row} for row in found]
    clock = "CPU-second" if device.type == "cpu" else "second"
    return {"repeats": repeats, "clock": clock, "rows": rows, "product_rate": reached}


def text_table(found: Mapping[str, Any]) -> str:
    cells = {(row["length"], row["work"], row["name"]): row for row in found["rows"]}
    clock = "per_cpu_second" if found["clock"] == "CPU-second" else "per_second"
    rate = found.get("product_rate", {}).get("float32")
    head = ["L", "batch", "network"]
    for work in WORKS:
        head += [f"{work.replace('_', ' ')}s: sequences per {found['clock']}", "ratio"]
        head += ["share, %"] if rate else []
    rows = []
    for length, num in dict.fromkeys((row["length"], row["batch"]) for row in found["rows"]):
        for name in NETWORKS:
            line = [f"{length:,}", str(num), name]
            for work in WORKS:
                row = cells[length, work, name]
                line += [f"{row[clock]:.1f}", ratio_words(row[f"{clock}_ratio"])]
                line += [share_text(row)] if rate else []
            rows.append(line)
    facts = (
        f"A `dit` of the size of `dit_small` at 102 ids, float32: medians of {found['repeats']} "
        "repeats, ratios to the first in the same repeat, with the lowest and the highest."
    )
    if rate:
        facts += (
            f" *Share*: of the product rate, {rate / 1e9:,.0f} GFLOP/s, counting matrix products "
            "alone."
        )
    return f"{facts}\n\n{markdown_table(head, rows, left=3)}"
