"""Molecules that contain a given scaffold: the scaffold put into slots, the rest drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from discrete_diffusion.categorical import make_generator
from discrete_diffusion.data.base import draw_sizes
from discrete_diffusion.domains.molecules.dataset import SMILES_ORDER
from discrete_diffusion.domains.molecules.molecule import Molecule, decode
from discrete_diffusion.domains.molecules.scaffold import Scaffold
from discrete_diffusion.evaluation.token_samples import TokenSamples, complete_token_samples
from discrete_diffusion.sampling.scoring import log_prob_of

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.trained_model import Model
    from discrete_diffusion.layout.vocab_config import VocabConfig

PROPOSALS = 16
"""Ways to place a scaffold that are weighed for each completion, if the order of atoms counts."""

_SIZES, _PLACES, _SCORES, _CHOICE = 30, 31, 32, 33


@dataclass(frozen=True)
class Completed:
    """``molecules``: scaffold atoms first, numbered as given, then the sampled ones; ``lines``: of
    the scaffold of each; ``real``, ``known``: Bool[M, L], positions, and those of the scaffold."""

    molecules: list[Molecule]
    lines: list[int]
    drawn: TokenSamples
    real: Tensor
    known: Tensor


def complete(
    model: Model,
    scaffolds: Sequence[Scaffold],
    vocab: VocabConfig,
    *,
    node_order: str,
    size_counts: Sequence[int],
    completions: int,
    size: int | Sequence[int] | None,
    seed: int,
) -> Completed:
    """``completions`` molecules for each scaffold, of sizes sampled from ``size_counts`` among
    those with at least one new atom, or of ``size``.

    A model that knows molecules in random order takes the scaffold in the first slots: the exact
    conditional, where the sampler is exact. One of the order of SMILES has to be given the place of
    the scaffold's atoms stand: ``PROPOSALS`` walks over them, spread over random slots, are weighed
    by the model's probability of what they fix, and one is sampled: an approximation.

    Raises ``ValueError`` for another order, and for a scaffold that no size leaves room for.
    """
    if node_order not in ("random", SMILES_ORDER):
        raise ValueError(
            f"given=FILE takes a model of data.node_order=random or {SMILES_ORDER}; this one has "
            f"{node_order}"
        )
    rows = [scaffold for scaffold in scaffolds for _ in range(completions)]
    sizes = [
        number
        for k, scaffold in enumerate(scaffolds)
        for number in _sizes(scaffold, size_counts, completions, size, (seed, _SIZES, k))
    ]
    proposals = 1 if node_order == "random" else PROPOSALS
    chooser = random.Random(f"{seed} {_PLACES}")
    orders, slots, tokens = [], [], []
    for scaffold, number in zip(rows, sizes, strict=True):
        for _ in range(proposals):
            if node_order == "random":
                order, places = list(range(len(scaffold))), list(range(len(scaffold)))
            else:
                order = scaffold.walk(chooser)
                places = sorted(chooser.sample(range(number), len(scaffold)))
            orders.append(order)
            slots.append(places)
            tokens.append(scaffold.tokens(order, places, number, vocab))
    partial = torch.tensor(tokens)
    chosen = torch.arange(len(rows))
    if proposals > 1:
        weights = _log_weights(model, partial, vocab, seed).view(len(rows), proposals)
        generator = make_generator(seed, _CHOICE)
        picked = torch.multinomial(weights.softmax(dim=1), 1, generator=generator).squeeze(1)
        chosen = chosen * proposals + picked
    real = vocab.real_positions(torch.tensor(sizes))
    known = real & (partial[chosen] >= 0)
    drawn = complete_token_samples(model, partial[chosen], real, entropy=(seed,))
    molecules = [
        _as_given(molecule, orders[row], slots[row])
        for molecule, row in zip(decode(drawn.tokens, vocab), chosen.tolist(), strict=True)
    ]
    return Completed(molecules, [scaffold.line for scaffold in rows], drawn, real, known)


def _sizes(
    scaffold: Scaffold,
    size_counts: Sequence[int],
    num: int,
    size: int | Sequence[int] | None,
    entropy: Sequence[int],
) -> list[int]:
    least = len(scaffold) + 1
    if isinstance(size, int):
        if size < least:
            raise ValueError(
                f"num_atoms={size}: the scaffold of line {scaffold.line} has {len(scaffold)} "
                f"atoms; ask for {least} or more"
            )
        return [size] * num
    counts = [
        count if n >= least and (size is None or n in size) else 0
        for n, count in enumerate(size_counts)
    ]
    if not any(counts):
        raise ValueError(
            f"the scaffold of line {scaffold.line} has {len(scaffold)} atoms, and no molecule that "
            f"was trained on has more; ask for a number, num_atoms={least}"
        )
    return draw_sizes(counts, num, make_generator(*entropy)).tolist()


def _log_weights(model: Model, partial: Tensor, vocab: VocabConfig, seed: int) -> Tensor:
    """Float64[R]: log-probability of all that is known of each."""
    real = partial != vocab.pad_id
    device = model.algorithm.layout.support.device
    found = log_prob_of(
        model.algorithm,
        *(part.to(device) for part in (partial.clamp(min=0), real & (partial >= 0), real)),
        generator=make_generator(seed, _SCORES, device=device),
        batch_size=model.rows_at_once,
    )
    return found.log_prob.cpu()


def _as_given(molecule: Molecule, order: Sequence[int], slots: Sequence[int]) -> Molecule:
    """Renumbered: atom ``order[k]`` of the scaffold was in slot ``slots[k]``."""
    new = dict(zip(slots, order, strict=True))
    others = (slot for slot in range(len(molecule.atoms)) if slot not in new)
    new.update({slot: len(order) + k for k, slot in enumerate(others)})
    atoms = [""] * len(molecule.atoms)
    for slot, place in new.items():
        atoms[place] = molecule.atoms[slot]
    ends = ((new[i], new[j], kind) for i, j, kind in molecule.bonds)
    bonds = [(min(i, j), max(i, j), kind) for i, j, kind in ends]
    return Molecule(tuple(atoms), tuple(sorted(bonds)))
