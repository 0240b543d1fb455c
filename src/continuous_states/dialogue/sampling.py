"""``sample`` of a model of dialogues: summaries of those in a file, or of held-out ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from continuous_states.dialogue.build import given_dialogues
from continuous_states.dialogue.metrics import score_summaries
from continuous_states.dialogue.reading import read_given_dialogues
from continuous_states.dialogue.summarising import SUMMARIES, Summaries, summarise_held_out
from continuous_states.dialogue.summary_report import SummaryReport
from discrete_diffusion.config import counted
from discrete_diffusion.evaluation import Samples, SavedSamples, held_out_split, readable_data

if TYPE_CHECKING:
    from torch import Tensor

    from continuous_states.dialogue.dataset import PairDataset
    from continuous_states.sampling.conditional_samples import Tensors
    from discrete_diffusion.evaluation import SampleRequest, TrainedModel

logger = logging.getLogger(__name__)

NUM_DIALOGUES = 64


def sample_summaries(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Summarise the first ``num_samples`` dialogues that the checkpoint held out, or each of
    ``given``, ``completions`` times: ``Summaries``, written as ``samples.jsonl``; the first ones
    are logged then.
    """
    return (_held_out if request.given is None else _given)(request, trained)


def _sampled(
    request: SampleRequest, trained: TrainedModel, found: Summaries, facts: Mapping[str, Any]
) -> SavedSamples:
    facts = {
        "sampling": trained.sampling,
        "num_samples": len(found),
        "network_calls_per_sample": float(found.nfe.mean()),
        "seconds": found.seconds,
        **facts,
    }
    scores = f": ROUGE-L {facts['rouge_l']:.3f}" if "rouge_l" in facts else ""
    path = request.out / SUMMARIES
    return SavedSamples(
        facts,
        f"{found.examples()}\n{counted(len(found), 'summary')} in {found.seconds:.1f} s{scores}; "
        f"{path}",
    )


def _held_out(request: SampleRequest, trained: TrainedModel) -> Samples:
    data = readable_data(trained, "give the dialogues as given=FILE")
    split = held_out_split(data)
    num = NUM_DIALOGUES if request.num_samples is None else request.num_samples
    report = SummaryReport(data, split)
    warn_of_stage(trained)
    with trained.sharing() as shard:
        model = trained.on(shard, partial(_lines, data, split))
        found = report.sample(model, num, request.seed)

    def write() -> SavedSamples:
        report.save(found, request.out)
        return _sampled(request, trained, found, {"split": split, **report.measure(found)})

    return Samples(found, write)


def _given(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Scored where the file has summaries, too; keys of the lines are kept, and their numbers."""
    path, times = str(request.given), request.completions or 1
    given = read_given_dialogues(request.given)
    each = [dialogue for dialogue in given for _ in range(times)]
    texts = [dialogue.dialogue for dialogue in each]
    data = given_dialogues(trained.data_config, texts, path)
    unknown = data.ids["test"].unknown_share
    logger.info(
        "%s: %s, %d summar%s of each; unknown words: %.2f%%",
        *(path, counted(len(given), "dialogue"), times, "y" if times == 1 else "ies"),
        100 * unknown,
    )
    warn_of_stage(trained)
    beside = [{**dialogue.others, "given": dialogue.line} for dialogue in each]
    with trained.sharing() as shard:
        model = trained.on(shard, partial(_lines, data, "test", beside=beside))
        found = summarise_held_out(model, data, "test", num=None, seed=request.seed, shuffled=False)
    each = each[: len(found)]
    found = replace(found, references=tuple(dialogue.summary for dialogue in each))

    def write() -> SavedSamples:
        found.write(request.out, beside[: len(found)])
        facts = {"given": path, "num_inputs": len(given), "completions": times}
        facts |= {"unknown_words": unknown, **_scores(found)}
        return _sampled(request, trained, found, facts)

    return Samples(found, write)


def _lines(
    data: PairDataset,
    split: str,
    rows: Tensor,
    drawn: Tensors,
    beside: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """The lines of some pairs of a split and of the summaries sampled for them; ``beside``: further
    keys of every pair."""
    pairs = [data.pairs[split][row] for row in rows.tolist()]
    part = Summaries(
        dialogues=tuple(pair.dialogue for pair in pairs),
        references=tuple(pair.summary for pair in pairs),
        generated=tuple(data.decode(drawn["targets"])),
        shuffled=(),
        nfe=drawn["nfe"],
    )
    return part.lines(beside and [beside[row] for row in rows.tolist()])


def _scores(found: Summaries) -> dict[str, float]:
    """Scores of the summaries that have a reference; none without one."""
    both = zip(found.generated, found.references, strict=True)
    pairs = [(text, reference) for text, reference in both if reference]
    if not pairs:
        return {}
    texts, references = map(list, zip(*pairs, strict=True))
    return {"num_references": len(pairs), **score_summaries(texts, references).as_dict()}


def warn_of_stage(trained: TrainedModel) -> None:
    """A warning if the model was not trained to write summaries of dialogues."""
    if (bound := trained.algorithm.bound) is not None:
        logger.warning(
            "%s was not trained to write the summary of a dialogue (its bound is nelbo_%s): "
            "summaries mean little before the last stage",
            *(trained.path, bound),
        )
