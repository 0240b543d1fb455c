"""``sample`` of a model of text: fresh texts, and completions of texts with blanks and open ends.

Samples longer than the windows that a model was trained on are sampled window by window.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.config.values import counted
from discrete_diffusion.contracts import Conditions, SampleOutput
from discrete_diffusion.data.files import TextSource, read_text, split_lines
from discrete_diffusion.domains.text import report
from discrete_diffusion.domains.text.corpus_files import json_text, text_of
from discrete_diffusion.domains.text.judge import Judge, read_judge
from discrete_diffusion.domains.text.vocabulary import IdVocabulary, Vocabulary, vocabulary_of
from discrete_diffusion.evaluation import trained_model
from discrete_diffusion.evaluation.report import Samples, SavedSamples
from discrete_diffusion.evaluation.requests import SampleRequest
from discrete_diffusion.evaluation.trained_model import COMPLETIONS, TokenSamples, TrainedModel
from discrete_diffusion.runtime.inputs import JSON_LINES, GivenObjects, place_of_line
from discrete_diffusion.sampling.exactness import exactness_facts
from discrete_diffusion.sampling.model import Model

logger = logging.getLogger(__name__)

UNKNOWN = -1
"""Placeholder of a token that is sampled."""

_BLANK = re.compile(r"\[MASK\]|_{4,}")
"""Blank in a prompt: one token, or as many tokens as underscores."""


def read_prompts(
    given: str | GivenObjects, vocabulary: Vocabulary, num_tokens: int
) -> dict[int, Tensor]:
    """Texts by line number, each Int64[num_tokens], with ``UNKNOWN`` in blanks and at the end.

    A line is a text, or in JSON lines a text or an object with a ``text``; for a model without a
    tokenizer it has ids with spaces between. Raises ``ValueError`` naming file and line for a text
    that is empty, too long or has unknown characters.
    """
    prompts = {}
    # one text a line
    for number, text in _given_texts(given):
        place = place_of_line(given, number)
        if not text:
            raise ValueError(f"{place} is empty; give a text, or leave the line out")
        # ids of the text between its blanks
        parts = re.split(rf"({_BLANK.pattern})", text)
        known = torch.cat([_prompt_ids(part, place, vocabulary) for part in parts])
        if len(known) > num_tokens:
            raise ValueError(
                f"{place} has {len(known):,} tokens, and samples have {num_tokens}; cut it"
            )
        prompts[number] = torch.full((num_tokens,), UNKNOWN)
        prompts[number][: len(known)] = known
    if not prompts:
        raise ValueError(f"{given} holds no text; expected a text a line")
    return prompts


def _prompt_ids(part: str, place: str, vocabulary: Vocabulary) -> Tensor:
    # a blank has unknown tokens
    if _BLANK.fullmatch(part):
        return torch.full((1 if part[0] == "[" else len(part),), UNKNOWN)
    # ids are numbers
    if isinstance(vocabulary, IdVocabulary):
        return torch.from_numpy(vocabulary.parse(part, place))
    return torch.from_numpy(
        vocabulary.encode(
            TextSource(place, part),
            known="those that the model was trained on",
            remedy="write it otherwise, or replace it by [MASK]",
        )
    )


def _given_texts(given: str | GivenObjects) -> Iterator[tuple[int, str]]:
    """Yield numbers of lines and their texts."""
    # objects, as from Python
    if isinstance(given, GivenObjects):
        for number, value in enumerate(given.objects, start=1):
            yield number, text_of(value, place_of_line(given, number))
        return
    # lines of a file
    source = read_text(given, JSON_LINES, expected="a text a line, or JSON lines")
    is_json = source.kind is JSON_LINES
    for number, line in enumerate(split_lines(source.text), start=1):
        if is_json and line.strip():
            yield number, json_text(line, source.place(number))
        elif not is_json:
            yield number, line


@dataclass(frozen=True)
class SampleLength:
    """Length of samples: N = ``num`` tokens, from a model of windows of L = ``length`` tokens.

    ``context``: tokens that a window shares with the window before it; None if N tokens and PAD
    make one window. The first window is a sample of the model, and each next window completes the
    last ``context`` tokens before it, so that

        p(x_1..x_N) = p(x_1..x_L)  product over windows  p(next tokens | ``context`` tokens)

    with the conditionals of the model's sampler. The last window ends with the sample and has more
    context. A sample of N < L is the beginning of a window.
    """

    num: int
    length: int
    context: int | None = None

    def model(self, model: Model) -> Model:
        """Model that samples this length."""
        if self.context is None:
            return model
        of_model = {one.name: getattr(model, one.name) for one in fields(Model)}
        return WindowedModel(**of_model, size=self)

    def real(self, rows: int) -> Tensor:
        """Bool[rows, L], or for several windows Bool[rows, N]: True at tokens."""
        columns = self.length if self.context is None else self.num
        return (torch.arange(columns) < self.num).expand(rows, -1)

    def windows(self, tokens: Tensor) -> Iterator[Tensor]:
        """Yield views Int[M, L] of ``tokens`` Int[M, max(N, L)], to be filled one by one."""
        last = max(0, tokens.shape[1] - self.length)
        step = self.length - (self.context or 0)
        for start in (*range(0, last, step), last):
            yield tokens[:, start : start + self.length]

    def padded(self, tokens: Tensor) -> Tensor:
        """Copy of tokens Int[M, N], filled up to a window with ``UNKNOWN``."""
        after = tokens.new_full((len(tokens), max(0, self.length - tokens.shape[1])), UNKNOWN)
        return torch.cat([tokens, after], dim=1)

    @property
    def facts(self) -> dict[str, Any]:
        """Entries of ``metrics.json``."""
        is_longer = self.num > self.length
        return {"num_tokens": self.num, "context": self.context} if is_longer else {}


@dataclass(frozen=True)
class WindowedModel(Model):
    """Model of windows whose samples have the length ``size``."""

    size: SampleLength = SampleLength(1, 1)

    def sample_batch(
        self,
        real: Tensor,
        *,
        generator: torch.Generator,
        clamp: Tensor | None = None,
        conditions: Conditions | None = None,
        keep_trajectory: bool = False,
    ) -> SampleOutput:
        """Sample as a ``Model`` does, for ``real`` Bool[B, N] and ``clamp`` Int[B, N];
        ``conditions`` are those of a window, and no trajectory is kept."""
        # all tokens, filled window by window
        free = torch.full(real.shape, UNKNOWN)
        tokens = self.size.padded(free if clamp is None else clamp.cpu())
        outputs = []
        for window in self.size.windows(tokens):
            output = super().sample_batch(
                torch.ones_like(window, dtype=torch.bool),
                generator=generator,
                clamp=None if bool((window == UNKNOWN).all()) else window.clone(),
                conditions=conditions,
            )
            # the next window goes on from these tokens
            window.copy_(output.x0)
            outputs.append(output)
        return replace(
            outputs[0],
            x0=tokens[:, : self.size.num],
            nfe=torch.stack([output.nfe for output in outputs]).sum(dim=0),
            log_weights=torch.stack([output.log_weights for output in outputs]).sum(dim=0),
        )


def encode_texts(data: Mapping[str, Any], texts: Sequence[Any]) -> Tensor:
    """Encode texts of at most a window each, padded, as Int[M, L].

    Without a tokenizer, samples are rows of L ids. Raises ``ValueError`` naming a text that is too
    long, has an unknown character, or has U+FFFD, which ``decode`` puts in place of bytes that are
    not UTF-8.
    """
    # ids need no encoding
    vocabulary, length = vocabulary_of(data), int(data["length"])
    if isinstance(vocabulary, IdVocabulary):
        return vocabulary.rows(texts, length)
    # padded rows
    pad_id = vocabulary.pad_id
    tokens = torch.full((len(texts), length), 0 if pad_id is None else pad_id)
    for k, text in enumerate(texts):
        if vocabulary.unit != "characters" and "\ufffd" in text:
            raise ValueError(
                f"samples[{k}] holds U+FFFD, which stands for bytes that are not UTF-8; give "
                "tokens Int[M, L]"
            )
        # ids that fit a window, or fill it where there is no PAD
        ids = torch.from_numpy(vocabulary.encode(TextSource(f"samples[{k}]", text)))
        if len(ids) > length:
            raise ValueError(
                f"samples[{k}] has {len(ids):,} {data['token_unit']}, more than "
                f"data.length={length}; cut it into windows"
            )
        if pad_id is None and len(ids) < length:
            raise ValueError(
                f"samples[{k}] has {len(ids):,} {data['token_unit']}; rows of "
                f"data.pack={data['pack']} are whole: give texts of {length}, or tokens Int[M, "
                f"{length}]"
            )
        tokens[k, : len(ids)] = ids
    return tokens


def sample_text(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Sample completions of ``given`` or ``prompt``; without them fresh texts."""
    has_text = request.given is not None or request.prompt is not None
    return (complete_texts if has_text else sample_texts)(request, trained)


def sample_texts(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Sample ``num_samples`` texts, or lists of ids, of ``num_tokens`` tokens if that is given;
    written as ``samples.txt``."""
    # settings of the request
    vocabulary, judge = _vocabulary(trained), _judge(request, trained)
    size = _sample_length(request, trained)

    def numbered(rows: Tensor, output: SampleOutput) -> str:
        return report.numbered_texts(vocabulary.lines(output.x0), rows.tolist())

    # sample on all devices
    with trained.sharing() as shard:
        num = trained_model.NUM_SAMPLES if request.num_samples is None else request.num_samples
        model = trained.model(shard, numbered)
        entropy = (request.seed,)
        if request.num_tokens is None:
            drawn = trained_model.sample_fresh(trained, model, num, entropy=entropy)
        else:
            drawn = trained_model.sample_tokens(size.model(model), size.real(num), entropy=entropy)
    noun = counted(len(drawn.tokens), "sample")
    return _unwritten(request, vocabulary, judge, noun, drawn, size.facts)


def complete_texts(request: SampleRequest, trained: TrainedModel) -> Samples:
    """Sample ``completions`` of every line of ``given``, or ``num_samples`` of ``prompt``; written
    as fresh texts, each with the number of its line."""
    vocabulary, judge = _vocabulary(trained), _judge(request, trained)
    size = _sample_length(request, trained)
    # a prompt is a file of one line
    given, each = request.given, request.num_completions or COMPLETIONS
    if given is None:
        given, each = GivenObjects("prompt", (request.prompt,)), request.num_samples or COMPLETIONS
    # a row of tokens for each completion
    prompts = read_prompts(given, vocabulary, size.num)
    real = size.real(len(prompts) * each)
    partial = torch.full(real.shape, UNKNOWN)
    partial[:, : size.num] = torch.stack([*prompts.values()]).repeat_interleave(each, dim=0)
    lines = [line for line in prompts for _ in range(each)]

    def numbered(rows: Tensor, output: SampleOutput) -> str:
        return report.numbered_texts(vocabulary.lines(output.x0), rows.tolist(), lines)

    # sample on all devices
    with trained.sharing() as shard:
        model = size.model(trained.model(shard, numbered))
        drawn = trained_model.complete_tokens(model, partial, real, entropy=(request.seed,))
    exact = exactness_facts(_approximations(trained, size, partial), of="completions")
    facts = {"given": str(given), "num_inputs": len(prompts), "completions": each, **exact}
    noun = f"{counted(len(drawn.tokens), 'completion')} of {counted(len(prompts), 'text')}"
    of_rows = [lines[row] for row in drawn.rows.tolist()]
    return _unwritten(request, vocabulary, judge, noun, drawn, size.facts, facts, of_rows)


def _unwritten(
    request: SampleRequest,
    vocabulary: Vocabulary,
    judge: Judge | None,
    noun: str,
    drawn: TokenSamples,
    size_facts: dict[str, Any],
    facts: Mapping[str, Any] | None = None,
    lines: Sequence[int] | None = None,
) -> Samples:
    """Samples with their texts, not written yet, and their quality, including prompts. ``noun``:
    their number in words. ``lines``: line of the text that each completes."""
    texts = vocabulary.lines(drawn.tokens)

    def write() -> SavedSamples:
        path = request.out / report.SAMPLE_TEXTS
        report.write_texts(path, texts, lines)
        named = {} if judge is None else {"judge": judge.name}
        quality = report.text_quality(vocabulary, drawn.tokens, judge)
        entries = {**(facts or {}), **drawn.facts, **size_facts, **named, **quality}
        line = f"{noun} in {drawn.seconds:.1f} s"
        line += f"; {report.quality_line(entries)}; {path}" if texts else ""
        return SavedSamples(entries, line)

    return Samples(vocabulary.samples(drawn.tokens), write)


def _approximations(trained: TrainedModel, size: SampleLength, partial: Tensor) -> list[str]:
    """Reasons why completions, in any window, do not exactly follow the model's distribution."""
    reasons = []
    # each window conditions on the one before
    for k, window in enumerate(size.windows(size.padded(partial))):
        known = window != UNKNOWN
        if k:  # tokens of the window before
            known[:, : size.context] = True
        real = torch.ones_like(known) if size.context else size.real(len(partial))
        reasons += trained.approximations(real=real, known=real & known)
    # a later given token is not seen by earlier windows
    if bool((partial[:, size.length :] != UNKNOWN).any()):
        reasons.append("the windows before a given token do not see it")
    return [*dict.fromkeys(reasons)]


def _judge(request: SampleRequest, trained: TrainedModel) -> Judge | None:
    return (
        None if request.perplexity_model is None else read_judge(request.perplexity_model, trained)
    )


def _sample_length(request: SampleRequest, trained: TrainedModel) -> SampleLength:
    """Length that ``num_tokens`` and ``context`` request; ``ValueError`` if the model cannot sample
    it."""
    # one window, unless more tokens are requested
    data = trained.data_config
    length, num, context = int(data["length"]), request.num_tokens, request.context
    num = length if num is None else int(num)
    if num <= length and context is not None:
        raise ValueError(
            f"context={context}: samples of {num} tokens fit a window of "
            f"{trained.path}; leave it out, or set num_tokens above {length}"
        )
    if num == length or (num < length and vocabulary_of(data).pad_id is not None):
        return SampleLength(num, length)
    # framed rows cannot go on
    if num > length and data.get("pack") == "wrap_bos_eos":
        raise ValueError(
            f"num_tokens={num}: {trained.path} was trained with data.pack=wrap_bos_eos, whose rows "
            f"of data.length={length} begin with BOS and so do not go on from one another; ask for "
            "fewer"
        )
    # several windows
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
