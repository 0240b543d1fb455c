"""``sample`` of a model of text."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discrete_diffusion.config.naming import counted
from discrete_diffusion.data.text_files import TextSource
from discrete_diffusion.domains.text.ids import IdVocabulary
from discrete_diffusion.domains.text.report import SAMPLE_TEXTS, numbered_texts, write_texts
from discrete_diffusion.domains.text.vocabulary import vocabulary_of
from discrete_diffusion.evaluation.report import Samples, SavedSamples
from discrete_diffusion.evaluation.token_samples import sample_fresh

if TYPE_CHECKING:
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel
    from discrete_diffusion.types import SampleOutput

logger = logging.getLogger(__name__)

NUM_SAMPLES = 64
"""If ``num_samples`` does not say."""


def encode_texts(data: Mapping[str, Any], texts: Sequence[Any]) -> Tensor:
    """Int[M, L]: texts of at most a window each, shorter ones with PAD behind them; of ids, rows
    of L.

    Raises ``ValueError``, naming the text, for a longer one, an unknown character and, of bytes,
    for what ``decode`` puts in the place of bytes that are no text."""
    vocabulary, length = vocabulary_of(data), int(data["length"])
    if isinstance(vocabulary, IdVocabulary):
        return vocabulary.rows(texts, length)
    tokens = torch.full((len(texts), length), vocabulary.pad_id)
    for k, text in enumerate(texts):
        if vocabulary.characters is None and "\ufffd" in text:
            raise ValueError(
                f"samples[{k}] holds U+FFFD, which stands for bytes that are no UTF-8; give tokens "
                "Int[M, L]"
            )
        ids = torch.from_numpy(vocabulary.encode(TextSource(f"samples[{k}]", text)))
        if len(ids) > length:
            raise ValueError(
                f"samples[{k}] has {len(ids):,} {data['tokens']}, more than data.length={length}; "
                "cut it into windows"
            )
        tokens[k, : len(ids)] = ids
    return tokens


def sample_texts(request: SampleRequest, trained: TrainedModel) -> Samples:
    """``num_samples`` texts, of ids lists of them; written as ``samples.txt``."""
    vocabulary = vocabulary_of(trained.data_config)
    if vocabulary.unit == "ids":
        logger.info("the model has no tokenizer: its samples are ids")

    def numbered(rows: Tensor, output: SampleOutput) -> str:
        return numbered_texts(vocabulary.lines(output.x0), rows.tolist())

    with trained.sharing() as shard:
        num = NUM_SAMPLES if request.num_samples is None else request.num_samples
        drawn = sample_fresh(trained, trained.on(shard, numbered), num, entropy=(request.seed,))
    texts = vocabulary.lines(drawn.tokens)

    def write() -> SavedSamples:
        path = request.out / SAMPLE_TEXTS
        write_texts(path, texts)
        what = counted(len(texts), "sample")
        return SavedSamples(drawn.facts, f"{what} in {drawn.seconds:.1f} s; {path}")

    return Samples(vocabulary.samples(drawn.tokens), write)
