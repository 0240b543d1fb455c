"""Phantoms as a ``Dataset``, each with its Dirichlet-to-Neumann map: as fields or as token ids."""

from __future__ import annotations

from torch import Tensor

from continuous_states.eit.levels import LEVELS, MASK_ID, VOCAB_SIZE, are_levels
from discrete_diffusion.data import SPLITS, Dataset, Examples, TokenDataset
from discrete_diffusion.layout import TokenLayout


class _MappedDataset(Dataset):
    """Samples with ``conditions["dtn"]`` Float32[M, n, n].

    ``made_by``: what maps were simulated with, as text; it stands for them in the fingerprint,
    because their last bits are not the same on every machine. None for maps that were read.
    ``source``: what the data is called in the log.
    """

    def __init__(
        self, splits: dict[str, Examples], *, source: str, made_by: str | None = None
    ) -> None:
        self.splits, self.source, self.made_by = splits, source, made_by

    def _meaning(self) -> str:
        return f"{super()._meaning()}{self.made_by or ''}"

    def _condition_tensors(self, examples: Examples) -> list[Tensor]:
        return super()._condition_tensors(examples) if self.made_by is None else []

    def _describe(self, what: str) -> str:
        parts = ", ".join(f"{len(self.splits[name]):,} {name}" for name in SPLITS)
        nodes = self.splits["train"].conditions["dtn"].shape[1]
        return f"{self.source}: {parts} {what}, with maps of {nodes} boundary nodes"


class FieldDataset(_MappedDataset):
    """Images of numbers.

    ``splits[...].x0``: Float32[M, 1, H, W] conductivity, background 1, raw. ``real``: Bool[M, 1],
    all True: a field is there as a whole. ``levels``: the six of phantoms if all pixels of all
    splits are of them.
    """

    state = "field"
    bound = "gaussian"

    def __init__(
        self, splits: dict[str, Examples], *, source: str, made_by: str | None = None
    ) -> None:
        super().__init__(splits, source=source, made_by=made_by)
        if all(are_levels(examples.x0).all() for examples in splits.values()):
            self.levels = LEVELS

    def summary(self) -> str:
        height, width = self.splits["train"].x0.shape[2:]
        return self._describe(f"fields of {height} x {width}")


class EITLevels(_MappedDataset, TokenDataset):
    """The same images as ids of their six levels.

    ``splits[...].x0``: Int64[M, H W] ids 0..5, row by row from the top; 6 is MASK, there is no PAD.
    ``real``: Bool[M, H W], all True.
    """

    levels = LEVELS

    def __init__(
        self, splits: dict[str, Examples], *, source: str, made_by: str | None = None
    ) -> None:
        super().__init__(splits, source=source, made_by=made_by)
        length = splits["train"].x0.shape[1]
        self.layout = TokenLayout.flat(length, VOCAB_SIZE, mask_id=MASK_ID)

    def unit_of_bound(self, split: str, num_tokens: float) -> tuple[str, float]:
        return "nats per image", 1.0

    def summary(self) -> str:
        return self._describe(f"images of {self.layout.length:,} ids")
