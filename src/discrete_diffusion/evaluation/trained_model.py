"""Trained model with a sampler, its samples, and the structure that samples must have."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor

from discrete_diffusion.categorical import effective_number, log_mean, make_generator
from discrete_diffusion.config.values import counted
from discrete_diffusion.data.base import sample_sizes
from discrete_diffusion.evaluation.tables import TableRow, TableSection, finite_or_none
from discrete_diffusion.runtime.atomic_files import refuse_overwriting
from discrete_diffusion.runtime.processes import Shard
from discrete_diffusion.sampling.exactness import approximations
from discrete_diffusion.sampling.model import Model, sample_in_batches

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.config.plugins import Registry
    from discrete_diffusion.data.base import Dataset
    from discrete_diffusion.evaluation.requests import Request
    from discrete_diffusion.layout.vocab_config import VocabConfig, Vocabulary
    from discrete_diffusion.sampling.partial_samples import Narrowing


class KindOfData(Protocol):
    """Interface to the kind of data of a model; ``domains.domain.Domain`` implements it."""

    title: ClassVar[str]
    group_titles: ClassVar[Mapping[str, str]]
    data_sets_of_files: ClassVar[Mapping[str, str]]
    fixed_keys: ClassVar[tuple[str, ...]]
    options: ClassVar[Mapping[str, tuple[Any, ...]]]

    def complete(self, data: DictConfig) -> None: ...

    def build(self, data: DictConfig) -> Dataset: ...

    def test_data(self, data: DictConfig) -> Dataset: ...

    def vocabulary(self, data: Mapping[str, Any]) -> Vocabulary: ...

    def tokens(self, data: Mapping[str, Any], samples: Any) -> Tensor: ...

    def decode(self, data: Mapping[str, Any], tokens: Tensor) -> list[Any]: ...


@dataclass(frozen=True)
class TrainedModel:
    """The model of a checkpoint with a sampler, as ``sample`` and ``evaluate`` use it.

    ``algorithm``, ``config``, ``size_counts``, ``step``, ``data_fingerprint``, ``path``: as in
    ``Checkpoint``. ``domain``: kind of the training data. ``sampling``: name and arguments of the
    sampler. ``device``: device of the model. ``sharing``: context in which processes share the
    work, at the requested precision. ``append``: writes samples as they are made; if given, a
    ``Stop`` of a single process ends the sampling, and the finished samples are returned.
    ``stop_asked``: called between parts of later work, which ends early if it returns True.
    ``another``: reads another checkpoint onto the device, with ``algorithm`` and ``config``, to
    measure with a second model.
    """

    path: str
    algorithm: Any
    config: DictConfig
    domain: KindOfData
    size_counts: list[int]
    step: int
    data_fingerprint: str | None
    sampler: Any
    sampling: dict[str, Any]
    device: str
    steps: int | None
    batch_size: int | None
    sharing: Callable[[], AbstractContextManager[Shard]]
    append: Callable[[str], None] | None = None
    stop_asked: Callable[[], bool] = lambda: False
    another: Callable[[str], Any] = field(kw_only=True)

    @property
    def data_config(self) -> DictConfig:
        """``config.data`` of the training run."""
        return self.config.data

    def model(self, shard: Shard, text: Callable[[Tensor, Any], str] | None = None) -> Model:
        """Build the ``Model`` for a process.

        ``text``: formats rows Int[b] and the samples for them, for ``append``.
        """
        # a single process appends samples as they come
        on_sampled, append = None, self.append
        if append is not None and shard.world_size == 1:  # else none of them has all samples

            def on_sampled(rows: Tensor, drawn: Any) -> None:
                if text is not None:
                    append(text(rows, drawn))

        settings = (self.device, self.steps, self.batch_size)
        return Model(self.algorithm, self.sampler, *settings, shard, on_sampled)

    def approximations(self, **request: Any) -> list[str]:
        """Reasons for which samples of the model are approximate, see ``sampling.exactness``."""
        return approximations(self.sampler, self.algorithm, steps=self.steps, **request)

    def refuse_overwriting_data(
        self, folder: Path, names: Iterable[str], other: Mapping[str, Any] | None
    ) -> None:
        """Raise ``ValueError`` if one of the ``names`` in a folder is a file of the training data,
        or of the data config ``other``."""
        names = list(names)
        for data in (self.data_config, other or {}):
            for key, value in data.items():
                if str(key).endswith("path") and isinstance(value, str):
                    refuse_overwriting(folder, names, f"data.{key!s}", [value])

    def check_weights(self) -> None:
        """Raise ``ValueError`` for diverged weights: they are not finite."""
        if not all(weight.isfinite().all() for weight in self.algorithm.parameters()):
            raise ValueError(
                f"{self.path} cannot be sampled: its weights hold NaN or infinity, training has "
                "diverged; take an earlier checkpoint"
            )


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenSamples:
    """Samples of tokens.

    ``tokens``: Int[num, L]; ``seconds``: time to sample all; ``cpu_seconds``: CPU time of all
    processes for it; ``trajectory``: states of the first samples, Int[K, at most ``trajectories``,
    L], or None; others: as in ``SampleOutput``.
    """

    tokens: Tensor
    nfe: Tensor
    log_weights: Tensor
    rows: Tensor
    seconds: float
    cpu_seconds: float
    trajectory: Tensor | None = None
    num_forced: Tensor | None = None

    @property
    def network_calls(self) -> float:
        """Mean number of network calls per sample."""
        return float(self.nfe.double().mean()) if len(self.nfe) else 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """Entries of ``metrics.json``."""
        return {
            "num_samples": len(self.tokens),
            "network_calls_per_sample": self.network_calls,
            "seconds": self.seconds,
        }


def sample_tokens(
    model: Model,
    real: Tensor,
    *,
    entropy: Sequence[int],
    clamp: Tensor | None = None,
    trajectories: int = 0,
) -> TokenSamples:
    """Sample once per row of ``real`` Bool[M, L], the positions that carry data.

    The samples are a function of ``entropy``. ``clamp``: Int[M, L], ids to keep, -1 where tokens
    are sampled. The log of a single process says what they cost.
    """
    start, cpu_start = time.perf_counter(), time.process_time()
    output = sample_in_batches(
        model,
        real,
        generator=make_generator(*entropy, 1, device=model.device),
        clamp=clamp,
        conditions=model.shared_conditions_of(len(real)),
        trajectories=trajectories,
    )
    seconds = time.perf_counter() - start
    cpu_seconds = sum(model.shard.exchange(time.process_time() - cpu_start))
    assert output.rows is not None
    # tokens sampled, unless a signal ended the sampling
    free = int((real if clamp is None else real & (clamp < 0)).sum())
    calls, finished = float(output.nfe.sum()), len(output.x0) == len(real)
    columns = 0 if output.columns is None else float(output.columns.sum())
    if model.on_sampled is not None and finished and free and calls and columns:
        logger.info(
            "cost of a sample: %.4g network calls, %.3g tokens a call, %.3g columns a token",
            *(calls / len(real), free / calls, columns / free),
        )
    drawn = (output.x0, output.nfe, output.log_weights, output.rows)
    return TokenSamples(*drawn, seconds, cpu_seconds, output.trajectory, output.num_forced)


def fresh_sizes(
    num: int,
    size_counts: Sequence[int],
    *,
    entropy: Sequence[int],
    size: int | Sequence[int] | None = None,
) -> Tensor:
    """Sample sizes Int[num] from ``size_counts``, the histogram of the training data.

    ``size``: one size for all, or several to choose among.
    """
    if isinstance(size, int):
        return torch.full((num,), size)
    # the histogram of these sizes
    counts = [count if size is None or n in size else 0 for n, count in enumerate(size_counts)]
    return sample_sizes(counts, num, make_generator(*entropy, 0))


def sample_fresh(
    trained: TrainedModel,
    model: Model,
    num: int,
    *,
    entropy: Sequence[int],
    size: int | Sequence[int] | None = None,
    trajectories: int = 0,
) -> TokenSamples:
    """Sample ``num`` times from a checkpoint, with sizes as for ``fresh_sizes``.

    ``entropy``: a seed, and numbers that keep the samples apart from other samples of that seed.
    """
    sizes = fresh_sizes(num, trained.size_counts, entropy=entropy, size=size)
    real = trained.domain.vocabulary(trained.data_config).real_positions(sizes)
    return sample_tokens(model, real, entropy=entropy, trajectories=trajectories)


def requested_sizes(
    trained: TrainedModel, n_max: int, **key: int | Sequence[int] | None
) -> int | list[int] | None:
    """Read sizes of samples from an option, ``num_nodes=...``: one, several, or None for all.

    Raises ``ValueError`` for a size that is too large for the model, or, among several, was not in
    the training data; warns of a single size that was not.
    """
    # the option, and words for the message
    ((name, asked),) = key.items()
    one = [asked] if isinstance(asked, int) else []
    several = [] if asked is None or isinstance(asked, int) else [*asked]
    domain, seen = trained.domain, trained.size_counts
    samples, nodes = domain.title, domain.group_titles.get("node", "tokens")
    largest = "max_nodes" if "node" in domain.group_titles else "length"
    # sizes that cannot be sampled
    for size in several or one:
        if size > n_max:
            raise ValueError(
                f"{name}={size}: {trained.path} was trained on {samples} of at most {n_max} "
                f"{nodes}; ask for fewer, or train with data.{largest}={size}"
            )
        if several and not (size < len(seen) and seen[size]):
            raise ValueError(
                f"{name}={asked}: {trained.path} was trained on no {samples.removesuffix('s')} of "
                f"{size} {nodes}, so none would be drawn among the others; {name}={size} alone "
                "draws them"
            )
    warn_of_sizes(trained, one)
    return several or (one[0] if one else None)


def warn_of_sizes(trained: TrainedModel, sizes: Iterable[int]) -> None:
    """Warn of requested sizes that the model was not trained on."""
    seen = [size for size, count in enumerate(trained.size_counts) if count]
    if unseen := sorted({*sizes} - {*seen}):
        logger.warning(
            "%s was trained on %s of %s %s, on none of %s; samples of a size that it has not seen "
            "may be poor: train it on some, or ask for another size",
            *(trained.path, trained.domain.title, ", ".join(map(str, seen))),
            *(trained.domain.group_titles.get("node", "tokens"), ", ".join(map(str, unseen))),
        )


NUM_SAMPLES, COMPLETIONS = 64, 4
"""Defaults of ``num_samples`` and ``num_completions`` of ``sample``."""


def complete_tokens(
    model: Model, partial: Tensor, real: Tensor, *, entropy: Sequence[int]
) -> TokenSamples:
    """Sample once per row of ``partial`` Int[M, L], whose ids are kept; -1 marks tokens to sample.

    ``real``: Bool[M, L], the positions that carry data or are given (``TokenLayout.num_given``);
    elsewhere ``partial`` is not read. Raises
    ``ValueError`` naming row and position for an illegal id.
    """
    clamp, sampled = partial.where(real, -1), real.clone()
    sampled[:, : model.algorithm.layout.num_given] = False
    return sample_tokens(model, sampled, entropy=entropy, clamp=clamp)


_MEANINGS = {
    "forced_draws_per_sample": "tokens whose draw was changed",
    "dead_ends": "samples of weight 0: a token had no value left, so they need not have it",
    "mean_weight": "share of the model's own samples that have it, where weights are exact",
    "effective_samples": "equally weighted samples that these are worth, weighted",
}


@dataclass(frozen=True)
class Structure:
    """Property that all samples of a request must have, such as being a tree.

    ``name``: name of a registered structure; None for free samples.
    """

    name: str | None
    _make: Callable[[], Narrowing] | None = None

    @classmethod
    def requested(
        cls,
        request: Request,
        structures: Registry[Callable[[VocabConfig], Narrowing]],
        vocab: VocabConfig,
    ) -> Structure:
        """Find the structure that ``structure=`` names; raise ``ValueError`` for an unknown one."""
        if request.structure is None:
            return cls(None)
        build = structures.find(request.structure)
        return cls(request.structure, lambda: build(vocab))

    def __bool__(self) -> bool:
        return self.name is not None

    def narrowed(self, model: Model) -> Model:
        """Copy a model so that its samples are narrowed."""
        return replace(model, narrowing=self._make) if self else model

    def check_given(self, partial: Tensor, mask_id: int, places: Sequence[str]) -> None:
        """Raise ``ValueError`` for the first given sample that cannot have the structure.

        ``partial``: Int[M, L], negative where nothing is given; ``places``: where each row was
        read, for the message.
        """
        # unknown positions are MASK
        tokens = partial.masked_fill(partial < 0, mask_id)
        for row, why in self._make().contradictions(tokens).items() if self._make else ():
            raise ValueError(
                f"{places[row]}: {why}, which structure={self.name} forbids; mend the line, or "
                "leave structure out"
            )

    def facts(self, drawn: Sequence[TokenSamples], *, given: bool = False) -> dict[str, Any]:
        """Entries of ``metrics.json`` on sets of samples.

        ``given``: True for completions, whose weights can be compared only within one input.
        """
        if not self:
            return {}
        log_weights = torch.cat([each.log_weights for each in drawn])
        forced = [each.num_forced for each in drawn if each.num_forced is not None]
        found: dict[str, Any] = {"structure": self.name}
        # forced tokens, weights, and their effective number
        if len(log_weights):
            found["forced_draws_per_sample"] = float(torch.cat(forced).double().mean())
            dead_ends = int(log_weights.isneginf().sum())
            if dead_ends:
                found["dead_ends"] = dead_ends
            found["mean_weight"] = float(log_weights.exp().mean())
            if dead_ends < len(log_weights):
                found["log_mean_weight"] = log_mean(log_weights)
            # weights of fresh samples compare
            if not given:
                each = [effective_number(one.log_weights) for one in drawn]
                found["effective_samples"] = sum(each) / len(each)
        return found

    def weights(self, log_weights: Tensor) -> dict[str, Sequence[Any]]:
        """Log weights, a further key of lines of ``samples.jsonl``; null for weight 0."""
        return {"log_weight": finite_or_none(log_weights.tolist())} if self else {}

    def summary(self, facts: dict[str, Any]) -> str:
        """Format a line of the log; "" without a structure."""
        if (forced := facts.get("forced_draws_per_sample")) is None:
            return ""
        meaning = _meaning_of_shares(facts)
        return f"\nstructure={self.name}: {forced:.2f} forced draws a sample; {meaning}"


def _meaning_of_shares(facts: dict[str, Any]) -> str:
    """Sentence on the share of samples that have the structure."""
    found = "samples have it by construction, which says nothing about the model"
    if dead_ends := facts.get("dead_ends", 0):
        found += f" (but {counted(dead_ends, 'dead end')}, of weight 0, that need not have it)"
    return found


def structure_sections(facts: dict[str, Any]) -> list[TableSection]:
    """Table of a narrowing, from ``Structure.facts``; [] without a narrowing."""
    rows = tuple(
        TableRow(name, f"{facts[name]:.4g}", meaning=meaning)
        for name, meaning in _MEANINGS.items()
        if name in facts
    )
    return [TableSection(f"narrowed: structure={facts['structure']}", rows)] if rows else []


def structure_notes(facts: dict[str, Any]) -> list[str]:
    """Notes on reading the numbers of narrowed samples; [] without a narrowing."""
    if "structure" not in facts:
        return []
    return [
        f"structure={facts['structure']} narrows what is sampled: {_meaning_of_shares(facts)}, so "
        "V.U.N., valid and connected under it do not compare with those of free samples. Compare "
        "them with the forced draws, the free samples (structure left out) and samples made "
        "without a network. All numbers are of the samples as drawn, without their weights."
    ]
