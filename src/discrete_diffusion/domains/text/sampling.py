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
from discrete_diffusion.domains.text.judge import Judge, read_judge
from discrete_diffusion.domains.text.prompts import UNKNOWN, read_prompts
from discrete_diffusion.domains.text.quality import quality_line, text_quality
from discrete_diffusion.domains.text.report import SAMPLE_TEXTS, numbered_texts, write_texts
from discrete_diffusion.domains.text.vocabulary import Vocabulary, vocabulary_of
from discrete_diffusion.domains.text.windows import SampleLength
from discrete_diffusion.evaluation.report import Samples, SavedSamples
from discrete_diffusion.evaluation.token_samples import complete_tokens, sample_fresh, sample_tokens
from discrete_diffusion.runtime.inputs import GivenObjects
from discrete_diffusion.sampling.exactness import exactness

if TYPE_CHECKING:
    from discrete_diffusion.contracts import SampleOutput
    from discrete_diffusion.evaluation.requests import SampleRequest
    from discrete_diffusion.evaluation.trained_model import TrainedModel

logger = logging.getLogger(__name__)

NUM_SAMPLES, COMPLETIONS = 64, 4
"""If ``num_samples`` or ``completions`` does not say."""


def encode_texts(data: Mapping[str, Any], texts: Sequence[Any]) -> Tensor:
    """Int[M, L]: texts of at most a window each, shorter ones with PAD behind them; of ids, rows
    of L.

    Raises ``ValueError``, naming the text, for a longer one, an unknown character and, of bytes,
    for what ``decode`` puts in the place of bytes that are no text."""
    vocabulary, length = vocabulary_of(data), int(data["length"])
    if isinstance(vocabulary, IdVocabulary):
        return vocabulary.rows(texts, length)
    pad_id = vocabulary.pad_id
    tokens = torch.full((len(texts), length), 0 if pad_id is None else pad_id)
    for k, text in enumerate(texts):
        if vocabulary.unit != "characters" and "\ufffd" in text:
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
        if pad_id is None and len(ids) < length:
            raise ValueError(
                f"samples[{k}] has {len(ids):,} {data['tokens']}; rows of data.pack={data['pack']} "
                f"are whole: give texts of {length}, or tokens Int[M, {length}]"
            )
        tokens[k, : len(ids)] = ids
    return tokens


def sample_text(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Completions of ``given`` or ``prompt``; without them fresh texts."""
    has_text = request.given is not None or request.prompt is not None
    return (complete_texts if has_text else sample_texts)(request, trained)


def sample_texts(request: SampleRequest, trained: TrainedModel) -> Samples:
    """``num_samples`` texts, of ids lists of them, of ``num_tokens`` tokens if that is given;
    written as ``samples.txt``."""
    vocabulary, judge = _vocabulary(trained), _judge(request, trained)
    size = _length(request, trained)

    def numbered(rows: Tensor, output: SampleOutput) -> str:
        return numbered_texts(vocabulary.lines(output.x0), rows.tolist())

    with trained.sharing() as shard:
        num = NUM_SAMPLES if request.num_samples is None else request.num_samples
        model = trained.on(shard, numbered)
        entropy = (request.seed,)
        if request.num_tokens is None:
            drawn = sample_fresh(trained, model, num, entropy=entropy)
        else:
            drawn = sample_tokens(size.model(model), size.real(num), entropy=entropy)
    texts = vocabulary.lines(drawn.tokens)

    def write() -> SavedSamples:
        path = request.out / SAMPLE_TEXTS
        write_texts(path, texts)
        facts = {**drawn.facts, **size.facts, **_quality(vocabulary, drawn.tokens, judge)}
        what = f"{counted(len(texts), 'sample')} in {drawn.seconds:.1f} s"
        return SavedSamples(facts, f"{what}; {quality_line(facts)}; {path}" if texts else what)

    return Samples(vocabulary.samples(drawn.tokens), write)


def complete_texts(request: SampleRequest, trained: TrainedModel) -> Samples:
    """``completions`` of every line of ``given``, or ``num_samples`` of ``prompt``; written
    likewise, each with the number of its line."""
    vocabulary, judge = _vocabulary(trained), _judge(request, trained)
    size = _length(request, trained)
    given, each = request.given, request.completions or COMPLETIONS
    if given is None:
        given, each = GivenObjects("prompt", (request.prompt,)), request.num_samples or COMPLETIONS
    prompts = read_prompts(given, vocabulary, size.num)
    real = size.real(len(prompts) * each)
    partial = torch.full(real.shape, UNKNOWN)
    partial[:, : size.num] = torch.stack([*prompts.values()]).repeat_interleave(each, dim=0)
    lines = [line for line in prompts for _ in range(each)]

    def numbered(rows: Tensor, output: SampleOutput) -> str:
        return numbered_texts(vocabulary.lines(output.x0), rows.tolist(), lines)

    with trained.sharing() as shard:
        model = size.model(trained.on(shard, numbered))
        drawn = complete_tokens(model, partial, real, entropy=(request.seed,))
    reasons = _approximations(trained, size, partial)
    if reasons:
        logger.info("the completions are approximate: %s", "; ".join(reasons))
    texts = vocabulary.lines(drawn.tokens)

    def write() -> SavedSamples:
        path = request.out / SAMPLE_TEXTS
        write_texts(path, texts, [lines[row] for row in drawn.rows.tolist()])
        facts = {"given": str(given), "num_inputs": len(prompts), "completions": each}
        facts |= {**exactness(reasons), **drawn.facts, **size.facts}
        facts |= _quality(vocabulary, drawn.tokens, judge)
        what = f"{counted(len(texts), 'completion')} of {counted(len(prompts), 'text')}"
        what = f"{what} in {drawn.seconds:.1f} s"
        return SavedSamples(facts, f"{what}; {quality_line(facts)}; {path}" if texts else what)

    return Samples(vocabulary.samples(drawn.tokens), write)


def _approximations(trained: TrainedModel, size: SampleLength, partial: Tensor) -> list[str]:
    """Why completions do not follow the model's own distribution, of any window."""
    reasons = []
    for k, window in enumerate(size.windows(size.padded(partial))):
        known = window != UNKNOWN
        if k:  # what the window goes on from
            known[:, : size.context] = True
        real = torch.ones_like(known) if size.context else size.real(len(partial))
        reasons += trained.approximations(real=real, known=real & known)
    if bool((partial[:, size.length :] != UNKNOWN).any()):
        reasons.append("the windows before a given token do not see it")
    return [*dict.fromkeys(reasons)]


def _judge(request: SampleRequest, trained: TrainedModel) -> Judge | None:
    return None if request.judge is None else read_judge(request.judge, trained)


def _quality(vocabulary: Vocabulary, tokens: Tensor, judge: Judge | None) -> dict[str, Any]:
    """Entries of ``metrics.json`` on what the samples, prompts included, are like."""
    named = {} if judge is None else {"judge": judge.name}
    return {**named, **text_quality(vocabulary, tokens, judge)}


def _length(request: SampleRequest, trained: TrainedModel) -> SampleLength:
    """Of ``num_tokens`` and ``context``; ``ValueError`` for what the model cannot do."""
    data = trained.data_config
    length, num, context = int(data["length"]), request.num_tokens, request.context
    num = length if num is None else int(num)
    if num <= length and context is not None:
        raise ValueError(
            f"context={context}: samples of {num} tokens are no longer than a window of "
            f"{trained.path}; leave it out, or set num_tokens above {length}"
        )
    if num == length or (num < length and vocabulary_of(data).pad_id is not None):
        return SampleLength(num, length)
    if num > length and data.get("pack") == "wrap_bos_eos":
        raise ValueError(
            f"num_tokens={num}: {trained.path} was trained with data.pack=wrap_bos_eos, whose rows "
            f"of data.length={length} begin with BOS and so do not go on from one another; ask for "
            "fewer"
        )
    context = length // 2 if context is None else int(context)
    if not 1 <= context < length:
        raise ValueError(
            f"context={context}: expected 1 to {length - 1} tokens, fewer than data.length={length}"
        )
    return SampleLength(num, length, context)


def _vocabulary(trained: TrainedModel) -> Vocabulary:
    vocabulary = vocabulary_of(trained.data_config)
    if vocabulary.unit == "ids":
        logger.info("the model has no tokenizer: its samples are ids")
    return vocabulary
