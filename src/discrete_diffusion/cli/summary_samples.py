"""``sample`` of a model of dialogues: summaries of those in a file, or of held-out ones."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discrete_diffusion.cli.checkpoint_data import held_out_split, readable_data
from discrete_diffusion.data.dialogue import PairDataset, read_given_dialogues
from discrete_diffusion.data.dialogue.build import given_dialogues
from discrete_diffusion.evaluation import (
    SUMMARIES,
    Summaries,
    SummaryReport,
    example_summaries,
    summarise_held_out,
    write_summaries,
)
from discrete_diffusion.evaluation.json_values import write_metrics
from discrete_diffusion.metrics import score_summaries
from discrete_diffusion.naming import counted
from discrete_diffusion.sampling import rows_at_once

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from discrete_diffusion.cli.computing import Computing
    from discrete_diffusion.cli.sample_source import SampleSource
    from discrete_diffusion.shards import Shard

logger = logging.getLogger(__name__)

NUM_DIALOGUES = 64


def sample_summaries(config: DictConfig, source: SampleSource, here: Computing) -> None:
    """Summarise the first ``num_samples`` dialogues that the checkpoint held out, or each of
    ``given``, ``completions`` times.

    Writes ``samples.jsonl`` and ``metrics.json``; logs the first ones.
    """
    source.check_weights()
    source.refuse_overwriting_data(config, (SUMMARIES, "metrics.json"))
    found, facts = (_held_out if config.given is None else _given)(config, source, here)
    facts = {
        "checkpoint": source.path,
        "seed": config.seed,
        "precision": str(config.precision),
        "sampling": source.sampling,
        "num_samples": len(found),
        "network_calls_per_sample": float(found.nfe.mean()),
        "seconds": found.seconds,
        **facts,
    }
    write_metrics(Path(str(config.out)), facts)
    logger.info("%s", example_summaries(found))
    scores = f": ROUGE-L {facts['rouge_l']:.3f}" if "rouge_l" in facts else ""
    path = Path(str(config.out)) / SUMMARIES
    logger.info("%d summaries in %.1f s%s; %s", len(found), found.seconds, scores, path)


def _held_out(
    config: DictConfig, source: SampleSource, here: Computing
) -> tuple[Summaries, dict[str, Any]]:
    data = readable_data(source, "give the dialogues as given=FILE")
    split = held_out_split(data)
    num = NUM_DIALOGUES if config.num_samples is None else config.num_samples
    with here.shared() as shard:
        found = summarise(config, source, data, split, num=num, shard=shard)
    report = SummaryReport(data)
    report.save(found, Path(str(config.out)))
    return found, {"split": split, **report.measure(found)}


def _given(
    config: DictConfig, source: SampleSource, here: Computing
) -> tuple[Summaries, dict[str, Any]]:
    """Scored where the file has summaries, too; keys of the lines are kept, and their numbers."""
    path, times = str(config.given), config.completions or 1
    given = read_given_dialogues(path)
    each = [dialogue for dialogue in given for _ in range(times)]
    texts = [dialogue.dialogue for dialogue in each]
    data = given_dialogues(source.checkpoint.config.data, texts, path)
    unknown = data.unknown_share("test")
    logger.info(
        "%s: %s, %d summar%s of each; unknown words: %.2f%%",
        *(path, counted(len(given), "dialogue"), times, "y" if times == 1 else "ies"),
        100 * unknown,
    )
    with here.shared() as shard:
        found = summarise(config, source, data, "test", num=None, shard=shard, shuffled=False)
    found = replace(found, references=tuple(dialogue.summary for dialogue in each))
    beside = [{**dialogue.others, "given": dialogue.line} for dialogue in each]
    write_summaries(Path(str(config.out)), found, beside)
    facts = {"given": path, "num_inputs": len(given), "completions": times}
    return found, {**facts, "unknown_words": unknown, **_scores(found)}


def _scores(found: Summaries) -> dict[str, float]:
    """Of the summaries that have a reference; none without one."""
    both = zip(found.generated, found.references, strict=True)
    pairs = [(text, reference) for text, reference in both if reference]
    if not pairs:
        return {}
    texts, references = map(list, zip(*pairs, strict=True))
    return {"num_references": len(pairs), **score_summaries(texts, references).as_dict()}


def summarise(
    config: DictConfig,
    source: SampleSource,
    data: PairDataset,
    split: str,
    *,
    num: int | None,
    shard: Shard,
    shuffled: bool = True,
) -> Summaries:
    """As ``config`` says: ``seed``, ``steps``, ``batch_size``; with a warning if the model was not
    trained to write summaries of dialogues."""
    if (bound := source.checkpoint.algorithm.bound) is not None:
        logger.warning(
            "%s was not trained to write the summary of a dialogue (its bound is nelbo_%s): "
            "summaries mean little before the last stage",
            *(source.path, bound),
        )
    return summarise_held_out(
        source.checkpoint.algorithm,
        source.sampler,
        data,
        split,
        num=num,
        seed=config.seed,
        steps=source.steps,
        batch_size=source.batch_size or rows_at_once(source.device),
        device=source.device,
        shard=shard,
        shuffled=shuffled,
    )
