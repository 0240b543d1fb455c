"""Summaries of held-out dialogues, and of other dialogues in their place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from continuous_states.dialogue.dataset import PairDataset
from continuous_states.dialogue.splitting import nearest_other
from continuous_states.sampling.conditional_samples import (
    ConditionalSamples,
    Tensors,
    first_examples,
    sample_conditional,
    sampled_from_others,
)
from discrete_diffusion.contracts import SampleOutput
from discrete_diffusion.runtime import write_text

if TYPE_CHECKING:
    from discrete_diffusion.sampling import Model

SUMMARIES = "samples.jsonl"

_LONGEST_SHOWN = 2_000
"""Characters of a dialogue among examples."""

_SUMMARY_STREAM = 75
"""Keeps these samples apart from others with the same seed."""


@dataclass(frozen=True)
class Summaries:
    """M pairs of a split, in its order, and what was generated.

    ``dialogues``, ``references``: the texts of the pairs. ``generated``: a summary of each
    dialogue. ``shuffled``: one of the dialogue of another pair (``nearest_other``), with the same
    noise; empty if none were requested or all dialogues are the same. ``nfe``: Float64[M], network
    calls per summary. ``seconds``: spent sampling ``generated``, summed over processes.
    """

    dialogues: tuple[str, ...]
    references: tuple[str, ...]
    generated: tuple[str, ...]
    shuffled: tuple[str, ...]
    nfe: Tensor
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.generated)

    def write(self, folder: Path, beside: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Write ``samples.jsonl`` into a folder; half characters are written as escapes."""
        write_text(folder / SUMMARIES, self.lines(beside))

    def lines(self, beside: Sequence[Mapping[str, Any]] | None = None) -> str:
        """``dialogue``, ``summary`` (generated) and, where there is one, ``reference``, a JSON
        object per line. ``beside``: further keys of each."""
        texts = zip(self.dialogues, self.generated, self.references, strict=True)
        lines = [
            {**more, "dialogue": d, "summary": s, **({"reference": r} if r else {})}
            for more, (d, s, r) in zip(beside or [{}] * len(self), texts, strict=True)
        ]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def examples(self, num: int = 5) -> str:
        """The first ``num`` dialogues as text, the middle of long ones left out, each with its
        reference, if there is one, and what was generated."""
        shown = zip(self.dialogues, self.references, self.generated, strict=True)
        return "\n\n".join(
            _shortened(dialogue)
            + (f"\n  reference: {reference}" * bool(reference))
            + f"\n  generated: {generated}"
            for dialogue, reference, generated in list(shown)[:num]
        )


def _shortened(text: str) -> str:
    half = _LONGEST_SHOWN // 2
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:half]} [...] {text[-half:]}"


def read_summaries(path: Path) -> list[dict[str, str]]:
    """The lines of ``samples.jsonl``, as ``Summaries.write`` wrote them."""
    with path.open(encoding="utf-8") as lines:  # str.splitlines would split at U+2028, too
        return [json.loads(line) for line in lines]


def summarise_held_out(
    model: Model,
    data: PairDataset,
    split: str,
    *,
    num: int | None,
    seed: int,
    shuffled: bool = True,
) -> Summaries:
    """A summary of each of the first ``num`` dialogues of a split (None: of all) and, if
    ``shuffled``, one of another of these dialogues: what does not depend on the dialogue is as good
    there.

    Summaries depend on ``model.batch_size``, not on the number of processes. Raises ``ValueError``
    if the split is empty or ``num`` below 0.
    """
    pairs = data.pairs[split][: len(first_examples(data, split, num))]
    dialogues = tuple(pair.dialogue for pair in pairs)
    references = tuple(pair.summary for pair in pairs)
    if not pairs:
        return Summaries((), (), (), (), torch.zeros(0, dtype=torch.float64))
    sources = data.ids[split].sources[: len(pairs)]

    def draw(given: Tensors, generator: torch.Generator) -> Tensors:
        drawn = _sampled(model, given["sources"], data.target_length, generator)
        return {"targets": drawn.x0[:, -data.target_length :], "nfe": drawn.nfe.double()}

    def drawn_from(model: Model, sources: Tensor) -> ConditionalSamples:
        return sample_conditional(
            model, {"sources": sources}, draw, entropy=(seed, _SUMMARY_STREAM)
        )

    own, of_others = drawn_from(model, sources), []
    if shuffled and len(own) == len(pairs) and (others := nearest_other(dialogues)):
        drawn = sampled_from_others(model, partial(drawn_from, sources=sources[others]))
        of_others = [] if drawn is None else data.decode(drawn.values["targets"])
    return Summaries(
        dialogues[: len(own)],
        references[: len(own)],
        generated=tuple(data.decode(own.values["targets"])),
        shuffled=tuple(of_others),
        nfe=own.values["nfe"],
        seconds=own.seconds,
    )


def _sampled(
    model: Model, sources: Tensor, target_length: int, generator: torch.Generator
) -> SampleOutput:
    """Summaries of dialogues ``sources`` Int[B, S] with PAD behind: the last ``target_length`` ids
    of the samples. A sampler of tokens generates them behind a dialogue that is given."""
    algorithm, sampler = model.algorithm, model.sampler
    free = torch.ones(len(sources), target_length, dtype=torch.bool, device=sources.device)
    asked: dict[str, Any] = {"real": free, "conditions": {"source": sources}}
    if sampler.state == "tokens":
        given = sources.masked_fill(~algorithm.layout.is_real(sources), -1)
        asked = {
            "real": torch.cat([torch.zeros_like(sources).bool(), free], dim=1),
            "clamp": torch.cat([given, -free.long()], dim=1),
        }
    return sampler.sample(algorithm, **asked, generator=generator, steps=model.steps)
