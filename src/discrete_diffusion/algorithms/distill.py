"""Distill: a student that samples like its teacher in a few network calls."""

from __future__ import annotations

import logging
import math
from typing import Literal, Unpack, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrete_diffusion.algorithms.base import AlgorithmOptions, eval_mode
from discrete_diffusion.algorithms.token_algorithm import TokenAlgorithm
from discrete_diffusion.categorical import log_softmax_on, send
from discrete_diffusion.config.values import Count, check_name
from discrete_diffusion.contracts import Batch, Conditions, LossOutput
from discrete_diffusion.forward_process.base import ForwardProcess
from discrete_diffusion.forward_process.interpolating import Absorbing
from discrete_diffusion.runtime import progress

logger = logging.getLogger(__name__)

Draw = Literal["one_call", "exact"]


class Distill(TokenAlgorithm):
    """A student of K network calls, each of which samples a set of tokens from a mixture of
    products:

        p(x0) = product over k of  1/M sum_z  product over l in A_k of  D_l(x0_l | x0_{<k}, z)

    A_1, ..., A_K are fixed sets of positions, x0_{<k} the tokens of the sets before A_k, and z one
    of M components, one for all tokens of a call. Tokens of one call that are sampled independently
    (M = 1) miss their dependence; a mixture of enough products is any joint distribution. The loss
    is -log p(x0) itself, not a bound on it.

    Training starts from the weights of a teacher (``init.checkpoint``), a masked diffusion model of
    the same backbone. Before the first step, ``before_first_step`` chooses the sets so that
    sampling the tokens of a set independently loses few nats by the teacher's predictions
    (``choose_call_order``).

    ``calls``: K. ``components``: M; 1 is a product and works with any backbone, more need a
    backbone that takes ``component``. ``draw``: ``one_call`` trains each sample on one of its
    calls, K times its term, all calls equally often in a batch; ``exact`` on all of them.

    ``denoise`` is D of the condition ``component``, or the mean over all components if it is not
    given. The network's t is the time that corresponds to the share of masked tokens.

    Sources: mixtures of products for few steps, Di4C (Hayakawa et al., arXiv 2410.08709); sets that
    cost least by dynamic programming, Watson et al. (arXiv 2106.03802).
    Deviation: Di4C fits the mixture to the teacher's steps; here it is fitted to data by maximum
    likelihood, the gradient of which needs no bound with so few components.

    Raises ``ValueError`` for a number that is not a positive whole number, more calls than
    positions, an unknown draw, and components that the backbone does not take.
    """

    name = "distill"
    processes = ("absorbing",)
    samplers = ("few-call",)
    has_teacher = True
    evaluation_draw = "exact"
    process: Absorbing
    plan: Tensor
    """``call_order``, by its name in checkpoints."""

    def __init__(
        self,
        backbone: nn.Module,
        process: ForwardProcess,
        *,
        calls: Count = 4,
        components: Count = 64,
        draw: Draw = "one_call",
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        super().__init__(backbone, process, **options)
        length = self.layout.length
        if calls > length:
            raise ValueError(
                f"algo.calls={calls}: samples have {length} tokens at most; take calls={length}"
            )
        if components > 1 and not self.takes("component"):
            raise ValueError(
                f"algo.components={components} needs a backbone whose forward takes component, and "
                f"that of {type(backbone).__name__} does not; set algo.components=1"
            )
        self.calls, self.components, self.draw = calls, components, draw
        self.provided_conditions = ("component",) if components > 1 else ()
        # before training: sets of equal size spread over the sequence
        device = self.layout.support.device
        self.register_buffer("plan", torch.arange(length, device=device) % calls)

    @property
    def call_order(self) -> Tensor:
        """Int[L]: the call, from 0, that samples a position."""
        return self.plan

    def before_first_step(self, train: Batch, generator: torch.Generator) -> None:
        """Choose the sets of positions from the predictions of the network, which still is the
        teacher."""
        self.call_order.copy_(choose_call_order(self, train, self.calls, generator))

    def loss(self, batch: Batch, generator: torch.Generator, draw: str | None = None) -> LossOutput:
        draw, num = draw or self.draw, self.calls
        check_name("draw", draw, get_args(Draw))
        if draw == "exact":
            terms = [self.call_nll(batch, torch.full_like(batch.x0[:, 0], k)) for k in range(num)]
            return self.output(torch.stack(terms).sum(dim=0), batch)
        # one call of each sample, all calls equally often
        order = torch.randperm(len(batch), generator=generator, device=generator.device)
        first = torch.randint(num, (1,), generator=generator, device=generator.device)
        call = send(order + first, batch.x0.device) % num
        return self.output(num * self.call_nll(batch, call), batch)

    def call_nll(self, batch: Batch, call: Tensor) -> Tensor:
        """-log p(x0 of the set ``call`` | x0 of the sets before it): Float[B]; ``call``: Int[B]."""
        # mask the set and all later ones
        now = (self.call_order == call.unsqueeze(1)) & batch.real
        hidden = (self.call_order >= call.unsqueeze(1)) & batch.real
        x_t = batch.x0.masked_fill(hidden, self.layout.mask_id)
        t = self.process.time_of_masked(hidden, batch.real)
        # log of the mean over components of the product over the set
        logits = self.component_logits(x_t, t, batch.real, batch.conditions)  # (B, M, L, V)
        log_p_of = self._log_p if logits.device.type == "cpu" else self._log_p_by_mask
        log_p = log_p_of(logits, batch.x0, now)
        return math.log(logits.shape[1]) - log_p.logsumexp(dim=1)

    def _log_p(self, logits: Tensor, x0: Tensor, now: Tensor) -> Tensor:
        """log p of the tokens x0 Int[B, L] at the positions ``now`` Bool[B, L] by component,
        Float[B, M], from logits Float[B, M, L, V]."""
        rows, position = now.nonzero(as_tuple=True)
        logits = logits[rows, :, position]
        log_d0 = log_softmax_on(logits, self.layout.support[position].unsqueeze(1))  # (N, M, V)
        tokens = x0[rows, position].view(-1, 1, 1).expand(-1, logits.shape[1], 1)
        log_p = log_d0.new_zeros(len(x0), logits.shape[1])
        return log_p.index_add(0, rows, log_d0.gather(-1, tokens).squeeze(-1))

    def _log_p_by_mask(self, logits: Tensor, x0: Tensor, now: Tensor) -> Tensor:
        """``_log_p`` by a mask, so that a GPU does not wait until positions are counted."""
        log_d0 = log_softmax_on(logits, self.layout.support)
        tokens = x0[:, None, :, None].expand(-1, logits.shape[1], -1, 1)
        log_p = log_d0.gather(-1, tokens).squeeze(-1)  # (B, M, L)
        return log_p.masked_fill(~now.unsqueeze(1), 0.0).sum(dim=-1)

    def output_shape(self, x_t: Tensor, conditions: Conditions) -> tuple[int, ...]:
        """(B, L, V), or (B, M, L, V) for all components."""
        num, *rest = super().output_shape(x_t, conditions)
        every = conditions.get("component") == "all"
        return (num, self.components, *rest) if every else (num, *rest)

    def component_logits(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        """The backbone's logits of every component: Float32[B, M, L, V]."""
        if self.components == 1:
            return self.logits(x_t, t, real, conditions).unsqueeze(1)
        return self.logits(x_t, t, real, {**(conditions or {}), "component": "all"})

    def denoise(
        self, x_t: Tensor, t: Tensor, real: Tensor, conditions: Conditions | None = None
    ) -> Tensor:
        if "component" in (conditions or {}):
            return super().denoise(x_t, t, real, conditions)
        logits = self.component_logits(x_t, t, real, conditions)
        log_d0 = log_softmax_on(logits, self.layout.support)
        return log_d0.logsumexp(dim=1) - math.log(logits.shape[1])


# -- which call samples which positions ----------------------------------------------------------

NUM_ORDERS, MOST_CUTS, MOST_MOVES = 4, 64, 200
"""Numbers of random orders to try, of positions where a long order may be cut (with many calls, two
per call), and of single positions to move to another call afterwards."""
MOST_SAMPLES, FEWEST_SAMPLES, TOKENS = 128, 32, 2**13
"""Most and fewest samples that an order is tried on, and the tokens that they have within these
limits."""
_AT_ONCE = 64


def choose_call_order(
    algorithm: TokenAlgorithm, train: Batch, calls: int, generator: torch.Generator
) -> Tensor:
    """Int[L]: the call of each position, chosen so that few nats are lost by sampling the tokens of
    a call independently.

    The network predicts the nats e_l(S) of position l given the positions of a set S, so a sample
    costs the sum over l of e_l(the positions of all earlier calls). Some random orders are cut into
    calls where it costs least, by dynamic programming (Watson et al., arXiv 2106.03802), and the
    cheapest is kept; then single positions are moved to the previous or next call where that is
    cheaper.
    """
    length, device = train.x0.shape[1], algorithm.layout.support.device
    num = min(max(TOKENS // length, FEWEST_SAMPLES), MOST_SAMPLES)
    some = torch.randperm(len(train), generator=generator, device=generator.device)[:num]
    examples = train.rows(some)
    num_cuts = min(length, max(MOST_CUTS, 2 * calls))
    cuts = torch.linspace(0, length, num_cuts + 1).round().long()
    num_moves = min(4 * length, MOST_MOVES)  # each position twice either way
    total = NUM_ORDERS * (len(cuts) - 1) + num_moves
    candidates: list[tuple[float, Tensor]] = []
    with progress.task("planning the calls", total, "states") as trying, eval_mode(algorithm):
        # cut random orders
        for _ in range(NUM_ORDERS):
            order = torch.randperm(length, generator=generator, device=generator.device).cpu()
            # nats of every position given those before each cut, then sums of the order's nats
            place = order.argsort()
            nats = torch.stack([_nats_given(algorithm, examples, place < cut) for cut in cuts[:-1]])
            so_far = F.pad(nats[:, order].cumsum(dim=1), (1, 0))[:, cuts]
            cost, starts = cheapest_cuts(so_far - so_far.diagonal().unsqueeze(1), calls)
            call_of = torch.zeros(length, dtype=torch.long)
            call_of[order] = torch.bucketize(torch.arange(length), cuts[starts], right=True) - 1
            candidates.append((cost, call_of))
            trying.advance(len(cuts) - 1)
        call_of = min(candidates, key=lambda each: each[0])[1]
        # move single positions; nats Float64[K, L] of every position given those of earlier calls
        order = torch.randperm(length, generator=generator, device=generator.device)
        moves = [(position, step) for position in order.tolist() for step in (-1, 1)]
        nats = torch.stack([_nats_given(algorithm, examples, call_of < k) for k in range(calls)])
        for position, step in (2 * moves)[:num_moves]:
            call_of, nats = _try_move(algorithm, examples, call_of, nats, position, step)
            trying.advance(1)
    logger.info(
        "the calls sample %s positions; before training, a sample takes %.2f nats",
        ", ".join(map(str, call_of.bincount(minlength=calls).tolist())),
        float(nats.gather(0, call_of[None]).sum()),
    )
    return call_of.to(device)


def _try_move(
    algorithm: TokenAlgorithm, batch: Batch, call_of: Tensor, nats: Tensor, position: int, step: int
) -> tuple[Tensor, Tensor]:
    """Move a position by ``step`` calls if that is cheaper; return the order and its ``nats``."""
    call = int(call_of[position])
    if not 0 <= call + step < len(nats) or int((call_of == call).sum()) == 1:
        return call_of, nats
    moved, nats_moved = call_of.clone(), nats.clone()
    moved[position] = call + step
    changed = max(call, call + step)  # the only call that is given other tokens
    nats_moved[changed] = _nats_given(algorithm, batch, moved < changed)
    cheaper = nats_moved.gather(0, moved[None]).sum() < nats.gather(0, call_of[None]).sum()
    return (moved, nats_moved) if cheaper else (call_of, nats)


def cheapest_cuts(cost: Tensor, calls: int) -> tuple[float, Tensor]:
    """Cut 0..G-1 into ``calls`` <= G runs of least cost; return the cost and the starts,
    Int[calls]. ``cost``: Float[G, G + 1], ``cost[i, j]`` of the run i..j-1."""
    num = len(cost)
    empty = torch.ones(num, num + 1, dtype=torch.bool).tril()  # runs that end where they start
    cost = cost.masked_fill(empty.to(cost.device), torch.inf)
    # best[k, j]: least cost of 0..j-1 in k runs, the last of which starts at before[k, j]
    best = torch.full((calls + 1, num + 1), torch.inf, dtype=cost.dtype)
    before = torch.zeros(calls + 1, num + 1, dtype=torch.long)
    best[0, 0] = 0
    for k in range(1, calls + 1):
        best[k], before[k] = (best[k - 1, :num, None] + cost).min(dim=0)
    # follow the starts back from the end
    starts, end = [], num
    for k in range(calls, 0, -1):
        end = int(before[k, end])
        starts.append(end)
    return float(best[calls, num]), torch.tensor(starts[::-1])


def _nats_given(algorithm: TokenAlgorithm, batch: Batch, shown: Tensor) -> Tensor:
    """Mean nats of every position given those ``shown`` Bool[L], Float64[L]; 0 if never real."""
    layout, process = algorithm.layout, algorithm.process
    assert isinstance(process, Absorbing)
    total = torch.zeros(layout.length, dtype=torch.float64)
    for rows in torch.arange(len(batch)).split(_AT_ONCE):
        part = batch.rows(rows).to(layout.support.device)
        hidden = part.real & ~shown.to(part.real.device)
        x_t = part.x0.masked_fill(hidden, layout.mask_id)
        t = process.time_of_masked(hidden, part.real)
        logits = algorithm.logits(x_t, t, part.real, part.conditions)
        log_d0 = log_softmax_on(logits, layout.support)
        total += algorithm.cross_entropy(log_d0, part).double().sum(dim=0).cpu()
    return total / len(batch)
