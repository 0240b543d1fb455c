"""Samplers whose calls reveal fixed sets of positions: dilated, planned and few-call."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from discrete_diffusion.algorithms.call_order import MOST_CUTS, choose_call_order, num_tried
from discrete_diffusion.algorithms.distill import Distill
from discrete_diffusion.algorithms.many_ids import LazyLogD
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on, make_generator, uniform_draws
from discrete_diffusion.config.values import Count, NotNegative, is_a
from discrete_diffusion.contracts import Batch
from discrete_diffusion.runtime.atomic_files import write_text
from discrete_diffusion.sampling.base import Exactness
from discrete_diffusion.sampling.first_hitting import FirstHitting
from discrete_diffusion.sampling.partial_samples import Block, PartialSamples, time_of_masked_share
from discrete_diffusion.sampling.tokens import TokenSampler, are_alike

logger = logging.getLogger(__name__)


class FixedOrder(TokenSampler):
    """Base class of samplers whose calls reveal fixed sets of positions, block by block.

    The tokens of a call are sampled independently. The network's t is the time that corresponds to
    the share of masked positions of the block.
    """

    absorbing_only = True

    def calls_of(self, samples: PartialSamples, block: Block) -> tuple[Tensor, int]:
        """Return Int[B, L], the call (from 0) that reveals each position of a block, and the number
        of calls. Calls without a free position are skipped if the tensor is on the CPU."""
        real, within = samples.real.cpu(), block.real.cpu()
        call = torch.zeros(real.shape, dtype=torch.long)
        # samples of the same real positions share their calls
        patterns, kind = torch.stack([real, within], dim=1).unique(dim=0, return_inverse=True)
        for k, (whole, part) in enumerate(patterns):
            if part.any():
                call[kind == k] = self.order(samples, whole, part, kind == k)
        return call, int(call.max()) + 1 if call.numel() else 0

    def order(self, samples: PartialSamples, real: Tensor, within: Tensor, rows: Tensor) -> Tensor:
        """Return Int[L], the call of each of the positions ``within`` Bool[L], those of a block,
        among the positions ``real`` Bool[L] of the samples ``rows`` Bool[B]; on the host."""
        raise NotImplementedError

    def before_call(self, samples: PartialSamples) -> None:
        """Prepare the next call of all samples; by default nothing."""

    def run(self, samples: PartialSamples) -> None:
        """Reveal the free positions, one fixed set after the other.

        Args:
            samples: the samples at their start; afterwards all their tokens are clean.
        """
        host = samples.on_host
        parts = [(block, *self.calls_of(samples, block)) for block in samples.blocks]
        samples.calls.expect(sum(number for _, _, number in parts))
        for block, call, number in parts:
            countable = call.device.type == "cpu"
            free = block.free if not countable or host is None else host.free
            call_here = call.to(samples.x.device)
            for k in range(number):
                self.before_call(samples)
                counts = ((call == k) & free).sum(dim=1) if countable else None
                if counts is not None and not counts.any():
                    continue
                t = time_of_masked_share(samples.algorithm, samples.masked & block.real, block.real)
                self.reveal(samples, (call_here == k) & block.free, t, counts)
                samples.record()


@cache
def dilated_calls(num: int, calls: int | None) -> tuple[int, ...]:
    """Return the call of each of ``num`` successive positions, with ``calls`` calls in all.

    Call 0 has the multiples of the spacing 2^(K - 1), each further call the positions halfway
    between known ones. Without ``calls`` the spacing is the first with a single multiple: K = 1 +
    ceil(log2 num). More calls than that split the largest sets into their even and odd members.
    """
    most = (num - 1).bit_length() + 1
    spacing = 2 ** (min(calls or most, most) - 1)
    sets = [[*range(0, num, spacing)]]
    while spacing > 1:
        sets.append([*range(spacing // 2, num, spacing)])
        spacing //= 2
    # further calls
    while calls is not None and len(sets) < min(calls, num):
        largest = max(range(len(sets)), key=lambda k: len(sets[k]))
        sets[largest : largest + 1] = [sets[largest][::2], sets[largest][1::2]]
    call_of = {position: k for k, one in enumerate(sets) for position in one}
    return tuple(call_of[position] for position in range(num))


class Dilated(FixedOrder):
    """Dilated unmasking of sequences: positions that are far apart are sampled together.

    The first call samples position 0, and every further call the positions halfway between known
    ones, so that 1 + ceil(log2 L) calls fill L positions (Luxembourg et al., arXiv 2506.19037).

    In a Markov chain of order 1 the tokens of a call are independent of each other given the known
    tokens, so sampling is exact if the network is exact and does not depend on t. For other data it
    is an approximation: it ignores the dependence that remains between positions sampled together.

    ``steps``: number of calls; with fewer calls, the first one samples positions at a spacing of
    2^(steps - 1); with more, the largest sets are split. Each of the ``blocks`` begins with its own
    position 0, after all tokens of earlier blocks.
    """

    name = "dilated"
    exactness = Exactness.ANY_ORDER

    def order(self, samples: PartialSamples, real: Tensor, within: Tensor, rows: Tensor) -> Tensor:
        # positions of the block, counted from its first one
        call = torch.zeros(within.shape, dtype=torch.long)
        call[within] = torch.tensor(dilated_calls(int(within.sum()), samples.steps))
        return call

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return max(dilated_calls(num, steps), default=0) + 1 < num if num else False

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        return num * (max(dilated_calls(num, None), default=0) + 1)


@dataclass(kw_only=True)
class Planned(FixedOrder):
    """Planned unmasking: few calls, each of which samples positions that depend little on others.

    A call that samples several positions independently loses their total correlation given the
    visible tokens. ``choose_call_order`` chooses sets of positions with a small loss under the
    model, estimated from 32 to 128 first-hitting samples of it: once for all sizes, if it is known
    which sizes are typical and nothing is given; else once per set of real positions. The log
    states the loss in nats, an estimate of KL(distribution of the model || distribution of planned
    samples).

    If the layout has ``sites``, as graphs have, and more than 64 tokens, only the sizes of many
    calls are chosen, and the positions of a call share few sites. One order serves all samples: it
    is kept, and a network that knows no order of nodes gives the same graphs for any numbering.

    With one position per call this is exact if D is exact and does not depend on t. With fewer
    calls than tokens it is an approximation.

    Completions use the same calls, without those that have no free position to reveal. With
    conditions, the calls are chosen under those of the first samples. The chosen orders are kept
    in this object and in the last of its ``files``, those of the same weights alone.

    Args:
        temperature: see ``TokenSampler``.
        top_p: see ``TokenSampler``.
        guidance: see ``TokenSampler``.
        refresh: see ``TokenSampler``.
        calls: number of calls; overridden by ``steps`` if that is given.
        lost: largest estimated loss in nats per sample, of which each block has the share of its
            tokens; the fewest calls within it are used.

    Raises:
        ValueError: ``calls`` and ``lost`` are both given, or the process has no MASK.
    """

    name = "planned"
    exactness = Exactness.ANY_ORDER
    continuous_time_only = True

    calls: Count | None = None
    lost: NotNegative | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calls is not None and self.lost is not None:
            raise ValueError(
                f"sampling.calls={self.calls} and sampling.lost={self.lost:g} both choose the "
                "number of calls; give one"
            )
        self._chosen: dict[str, list[int]] = {}
        self._fresh: dict[str, Batch] = {}
        self._under: dict[str, str] = {}
        self._weights = ""

    def run(self, samples: PartialSamples) -> None:
        # the weights may have changed since the last request
        weights = _digest(*samples.algorithm.backbone.state_dict().values())
        if weights != self._weights:
            self._weights, self._fresh, self._under = weights, {}, {}
        super().run(samples)

    def number(self, steps: int | None, num: int) -> int | None:
        """Number of calls for ``num`` tokens; None if it follows from ``lost``."""
        if steps is None and self.calls is None and self.lost is not None:
            return None
        return min(steps or self.calls or 8, num)

    def order(self, samples: PartialSamples, real: Tensor, within: Tensor, rows: Tensor) -> Tensor:
        num = int(within.sum())
        # one position a call needs no choice
        if self.number(samples.steps, num) == num:
            return (within.cumsum(dim=0) - 1).clamp(min=0)
        algorithm = samples.algorithm
        # one order for samples of all sizes, unless something that is given may tell the size
        tried = num_tried(len(real))
        like = real.expand(tried, -1)
        if self.typical and not samples.conditions and not algorithm.layout.num_given:
            typical = self.typical(tried).cpu()
            like = typical if typical.any(dim=0)[real].all() else like
        # the block, after all earlier ones
        blocks = torch.zeros(len(real)) if algorithm.blocks is None else algorithm.blocks.cpu()
        block, whole = blocks[within][0], like.any(dim=0)
        within = whole & (blocks == block)
        num = int(within.sum())
        number = self.number(samples.steps, num)
        model = f"{self._weights} {_digest(like)}"
        if samples.conditions or algorithm.layout.num_given:
            # conditions of the first request serve later ones
            index = _repeated(rows, len(like)).to(samples.x.device)
            given = samples.x[index, : algorithm.layout.num_given]
            under = _digest(given, *samples.conditions_of(index).values())
            model = self._under.setdefault(model, f"{model} {under}")
        key = f"{model} {int(block)} {f'lost {self.lost}' if number is None else number}"
        key += " apart" * (algorithm.layout.sites is not None and num > MOST_CUTS)
        if not self._chosen:
            self._chosen = self._kept()
        if len(self._chosen.get(key, ())) != len(real):
            if model not in self._fresh:
                self._fresh[model] = self._examples(samples, like, rows)
            found = choose_call_order(
                algorithm,
                self._fresh[model],
                *(number, make_generator(0)),
                are_samples=True,
                lost=None if self.lost is None else self.lost * num / int(whole.sum()),
                within=within,
                before=whole & (blocks < block),
            )
            logger.info("samples of up to %d tokens: %s", num, found.sentence())
            self._chosen[key] = found.call.tolist()
            self._write()
        return torch.tensor(self._chosen[key])

    def _examples(self, samples: PartialSamples, real: Tensor, rows: Tensor) -> Batch:
        """Fresh samples of the positions ``real`` Bool[M, L], under the conditions of the samples
        ``rows``."""
        algorithm, num_given = samples.algorithm, samples.algorithm.layout.num_given
        index = _repeated(rows, len(real)).to(samples.x.device)
        # ids at the layout's given positions are part of the condition
        clamp = torch.full_like(samples.x[index], -1)
        clamp[:, :num_given] = samples.x[index, :num_given]
        generator = make_generator(0, device=samples.generator.device)
        fresh = PartialSamples.start(algorithm, real.to(clamp.device), clamp, generator)
        fresh.conditions = samples.conditions_of(index)
        # large graphs in some 300 calls, which is enough for the sizes of calls
        is_sure = algorithm.layout.sites is None or self.lost is not None
        several = 1 if is_sure else max(1, real.shape[1] // 256)
        FirstHitting(tokens_per_call=several).run(fresh)
        return Batch(fresh.x, fresh.real, conditions=fresh.conditions)

    def _kept(self) -> dict[str, list[int]]:
        """Read the orders that earlier runs have kept."""
        found: dict[str, list[int]] = {}
        for file in filter(Path.exists, self.files):
            try:
                for key, calls in json.loads(file.read_text()).items():
                    if not all(is_a(int, call) and 0 <= call < len(calls) for call in calls):
                        raise ValueError(f"{key} has something other than numbers of calls")
                    found[key] = calls
            except (ValueError, TypeError, AttributeError, OSError) as error:
                logger.warning("%s is not read, and written anew: %s", file, error)
        return found

    def _write(self) -> None:
        """Write all orders of these weights into the last of the files."""
        for file in self.files[-1:]:
            self._chosen = self._kept() | self._chosen
            own = {key: x for key, x in self._chosen.items() if key.startswith(self._weights)}
            try:
                write_text(file, json.dumps(own))
            except OSError as error:
                logger.warning("the calls chosen are not kept in %s: %s", file, error)

    def samples_together(self, num: int, steps: int | None = None) -> bool:
        return self.number(steps, num) != num

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        return num * (self.number(None, num) or num)


def _repeated(rows: Tensor, num: int) -> Tensor:
    """Indices of the True of Bool[B], over and over again, Int[num]."""
    index = rows.nonzero().squeeze(1)
    return index[torch.arange(num) % len(index)]


def _digest(*tensors: Tensor) -> str:
    """Short digest of the values of tensors."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()[:16]


class FewCall(FixedOrder):
    """Few-call sampling of distilled students, in the number of calls that they were trained for.

    In each call a component z is chosen uniformly at random for each sample, then the tokens of the
    call's set are sampled from D(. | z): exactly the distribution whose -log p ``Distill``
    minimises.

    With clamped tokens this is an approximation: they are visible from the first call on, which the
    student did not see in training, and z does not depend on them.

    Raises ``ValueError`` for an algorithm other than ``distill``, or if ``steps`` is given.
    """

    name = "few-call"
    exactness = Exactness.MODEL  # of as many calls as the student has
    sees_given = False
    algorithms = ("distill",)
    takes_no_steps = (
        "few-call sampling makes the calls that the student was distilled to; leave steps={steps} "
        "unset, or train with algo=distill algo.calls={steps}"
    )

    def work(self, num: int, algorithm: TokenAlgorithm | None = None) -> int:
        return num * (num if algorithm is None else cast(Distill, algorithm).calls)

    def calls_of(self, samples: PartialSamples, block: Block) -> tuple[Tensor, int]:
        student = cast(Distill, samples.algorithm)
        return student.call_order.expand(samples.free.shape), student.calls

    def before_call(self, samples: PartialSamples) -> None:
        # a random component of the mixture
        components = cast(Distill, samples.algorithm).components
        if components > 1:
            u = uniform_draws((len(samples.x),), samples.generator, samples.x.device)
            samples.conditions = {**samples.conditions, "component": (u * components).long()}

    def _unguided_log_d0(
        self, samples: PartialSamples, rows: Tensor, t: Tensor, here: Tensor, given: dict[str, Any]
    ) -> LazyLogD:
        """Predict x0, computing each component once where samples are otherwise alike."""
        x, real, student = samples.x[rows], samples.real[rows], cast(Distill, samples.algorithm)
        if [*given] != ["component"] or not are_alike(x, t, real):
            return super()._unguided_log_d0(samples, rows, t, here, given)
        logits = student.component_logits(x[:1], t[:1], real[:1])  # (1, M, L, V)
        row, position = here.nonzero(as_tuple=True)
        component, support = given["component"][row], student.layout.support
        log_d0 = log_softmax_on(logits[0, component, position], support[position])
        return LazyLogD(log_d0, position, support)
