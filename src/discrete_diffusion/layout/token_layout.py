"""``TokenLayout``: which token ids are legal where."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf


class TokenLayout(nn.Module):
    """The legal clean ids of every position, and the groups of positions.

    ``num_legal``, Int[L], counts the K_l legal ids of each position. The layout is a module only so
    that its buffers follow ``.to(device)``; it has no parameters and no state.

    Args:
        support: Bool[L, V], True where an id may stand in *clean* data: never MASK, never PAD.
        mask_id: the id of MASK, the same at every position.
        pad_id: the id of PAD, the same at every position; None if samples have one length.
        group: Int[L], index into ``group_names`` (e.g. node, edge); by default all 0.
        group_names: names of the groups.
        num_given: number of leading positions that a sample is conditioned on, such as a text to
            be summarised. They are not real, but have ids, which are seen and never corrupted.
        sites: Int[L, K], what each position touches, such as the two nodes of a pair; positions
            without a common site depend little on each other. None: not known.

    Raises:
        ValueError: a position has no legal id, or MASK or PAD is declared legal.
    """

    group: Tensor
    num_legal: Tensor
    sites: Tensor | None
    _rows: Tensor  # Bool[1 or L, V], one row where all are alike

    def __init__(
        self,
        support: Tensor,
        *,
        mask_id: int,
        pad_id: int | None = None,
        group: Tensor | None = None,
        group_names: Sequence[str] = ("token",),
        num_given: int = 0,
        sites: Tensor | None = None,
    ) -> None:
        super().__init__()
        if support.ndim != 2 or support.dtype != torch.bool:
            raise ValueError(
                f"support must be Bool[L, V], got {support.dtype} {tuple(support.shape)}"
            )
        # MASK and PAD are ids that are legal nowhere
        self.length, self.vocab_size = support.shape
        self.mask_id, self.pad_id = int(mask_id), None if pad_id is None else int(pad_id)
        for name, special in (("mask_id", self.mask_id), ("pad_id", self.pad_id)):
            if special is None:
                continue
            if not 0 <= special < self.vocab_size:
                raise ValueError(
                    f"{name}={special} is outside the vocabulary 0..{self.vocab_size - 1}"
                )
            if not support.is_meta and support[:, special].any():
                raise ValueError(f"{name}={special} is marked as a legal clean id; remove it")
        if self.mask_id == self.pad_id:
            raise ValueError(f"mask_id and pad_id are both {self.mask_id}; give them different ids")
        # one row is kept where all are alike
        alike = support.stride(0) == 0 or (support == support[:1]).all()
        self.rows_alike = not support.is_meta and bool(alike)
        rows = support[:1].clone() if self.rows_alike else support
        num_legal = rows.count_nonzero(dim=1).expand(self.length).clone()
        if not support.is_meta and (empty := (num_legal == 0).nonzero()).numel():
            raise ValueError(f"position {empty[0].item()} has no legal id")
        group = torch.zeros_like(num_legal) if group is None else group
        self.group_names, self.num_given = tuple(group_names), num_given
        self.register_buffer("_rows", rows, persistent=False)
        self.register_buffer("group", group.long(), persistent=False)
        self.register_buffer("num_legal", num_legal, persistent=False)
        self.register_buffer("sites", sites, persistent=False)

    @property
    def support(self) -> Tensor:
        """Legal clean ids of each position, Bool[L, V]; one row in memory if all are alike."""
        return self._rows.expand(self.length, -1)

    @classmethod
    def flat(
        cls,
        length: int,
        vocab_size: int,
        *,
        mask_id: int,
        pad_id: int | None = None,
        num_given: int = 0,
    ) -> TokenLayout:
        """Layout of plain text: every id but MASK and PAD is legal at every position.

        Args:
            length: L, number of positions.
            vocab_size: V, number of ids, MASK and PAD included.
            mask_id: the id of MASK.
            pad_id: the id of PAD, or None.
            num_given: number of leading positions that are given.

        Returns:
            The layout, with one group named ``token``.

        Raises:
            ValueError: an id lies outside the vocabulary, or both are the same.
        """
        legal = torch.ones(vocab_size, dtype=torch.bool)
        legal[[i for i in (mask_id, pad_id) if i is not None and 0 <= i < vocab_size]] = False
        return cls(legal.expand(length, -1), mask_id=mask_id, pad_id=pad_id, num_given=num_given)

    def uniform_log_probs(self) -> Tensor:
        """The uniform distribution on each position's legal ids.

        Returns:
            Float64[L, V], log-probabilities in nats; one row in memory where all are alike.
        """
        log_k = self.num_legal[: len(self._rows)].double().log().unsqueeze(-1)
        return (-log_k).masked_fill(~self._rows, neg_inf(torch.float64)).expand(self.length, -1)

    def digest(self) -> dict[str, str]:
        """Fingerprint of lengths, ids and support, for checkpoints.

        Returns:
            16 hex digits under the key ``layout``.
        """
        text = f"{self.length} {self.vocab_size} {self.mask_id} {self.pad_id}"
        found = hashlib.sha256(text.encode())
        for row in self.support:
            found.update(row.to(torch.uint8).numpy().tobytes())
        return {"layout": found.hexdigest()[:16]}

    def is_real(self, x: Tensor) -> Tensor:
        """Positions that are not PAD.

        Args:
            x: Int[B, L], ids.

        Returns:
            Bool[B, L].
        """
        return torch.ones_like(x, dtype=torch.bool) if self.pad_id is None else x != self.pad_id

    def check(self, x0: Tensor, real: Tensor | None = None) -> None:
        """Check that tokens are clean data.

        Args:
            x0: Int[B, L], ids.
            real: Bool[B, L], positions that must hold legal ids, while all others hold PAD; by
                default the positions that are not PAD.

        Raises:
            ValueError: x0 has another shape or an illegal id; the message names sample, position
                and id.
        """
        if x0.ndim != 2 or x0.shape[1] != self.length:
            raise ValueError(f"expected tokens of shape (B, {self.length}), got {tuple(x0.shape)}")
        real = self.is_real(x0) if real is None else real
        # legal ids at real positions, PAD at the others
        ids = x0.clamp(0, self.vocab_size - 1)
        legal = self.support[torch.arange(self.length, device=x0.device), ids] & (ids == x0)
        padded = torch.zeros_like(legal) if self.pad_id is None else x0 == self.pad_id
        wrong = (~torch.where(real, legal, padded)).nonzero()
        if wrong.numel() == 0:
            return
        sample, position = wrong[0].tolist()
        kind = self.group_names[int(self.group[position])]
        if real[sample, position]:
            expected = f"one of {self.support[position].nonzero().flatten().tolist()}"
        else:
            expected = f"PAD ({self.pad_id})"
        raise ValueError(
            f"sample {sample}, position {position} ({kind}): id {int(x0[sample, position])} "
            f"is not legal there; expected {expected}"
        )


def first_positions(length: int, num_given: int, sizes: Tensor) -> Tensor:
    """The first ``sizes`` Int[B] of L positions after ``num_given``: Bool[B, L]."""
    position = torch.arange(length, device=sizes.device) - num_given
    return (position >= 0) & (position < sizes.unsqueeze(1))
