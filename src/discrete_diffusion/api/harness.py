"""Models of text for the tasks of lm-evaluation-harness, which needs the extra ``lm-eval``.

    python -m discrete_diffusion.api.harness --model discrete_diffusion
        --model_args checkpoint=runs/text --tasks lambada_openai --batch_size 32

This is the command of the harness with one more model. In Python,
``lm_eval.simple_evaluate(TextModel("runs/text"), tasks=[...])``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import eq
from typing import Any

import torch
from torch import Tensor

from discrete_diffusion.algorithms.ar import AR
from discrete_diffusion.algorithms.many_ids import AT_ONCE
from discrete_diffusion.api.requests import trained_model_here
from discrete_diffusion.categorical import log_prob_at, make_generator
from discrete_diffusion.checkpoints.contents import read_checkpoint
from discrete_diffusion.config.files import as_list
from discrete_diffusion.config.values import counted
from discrete_diffusion.contracts import Batch
from discrete_diffusion.domains.registry import domain_of
from discrete_diffusion.evaluation.bound import MeasurementSettings, sample_bounds
from discrete_diffusion.evaluation.requests import SampleRequest
from discrete_diffusion.evaluation.trained_model import complete_tokens
from discrete_diffusion.runtime.package import install_command
from discrete_diffusion.sampling.likelihood import log_prob_of, order_sampler

try:
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
except ImportError as error:
    raise ImportError(
        f"tasks of lm-evaluation-harness take lm-eval: {install_command('lm-eval')}"
    ) from error

logger = logging.getLogger(__name__)

_NEW_TOKENS = 256
"""Tokens to generate where a task does not say how many, as in the harness's own models."""

_AT_ONCE = 1024
"""Rows of tokens in memory at once."""

Pair = tuple[list[int], list[int]]
"""Ids of a context and of its continuation."""


@register_model("discrete_diffusion")
class TextModel(LM):
    """Checkpoint of text, with a tokenizer, as a model of lm-evaluation-harness.

    A window of L tokens holds the end of the context, the continuation c, and MASK behind it:

        log p(c | context) = sum_k log D_{l_k}(c_k | context, c_1, ..., c_{k-1})

    from left to right: the exact log-probability of ``algo=ar``, and with absorbing noise that of
    ``sampling=entropy-bounded sampling.entropy_budget=0 sampling.order=left-to-right``. For models
    that do not sample so, such as those of uniform noise, it is NELBO(context) - NELBO(context, c)
    of texts that end with c. That is a lower bound if the context is empty; else the difference of
    two bounds, which ranks continuations of one context as their bounds do.

    ``checkpoint``: as ``load`` takes it. ``batch_size``: rows of a network call. ``device``: the
    CPU is taken without a GPU. ``noise_samples``: number of draws of a bound. ``sampling``,
    ``temperature``, ``seed``: sampler of generated texts, by default that of the run; what a task
    says of it is not read, so nothing is greedy.

    Raises ``ValueError`` for a model of other data, or without a tokenizer.
    """

    def __init__(
        self,
        checkpoint: str,
        *,
        batch_size: int | str = 32,
        max_batch_size: int | None = None,
        device: str = "cuda",
        noise_samples: int = 32,
        sampling: str | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self._device = torch.device(device if torch.cuda.is_available() else "cpu")
        self.checkpoint = read_checkpoint(str(checkpoint), device=self._device)
        self.algorithm, data = self.checkpoint.algorithm, self.checkpoint.config.data
        self.vocabulary = domain_of(data).text_vocabulary(data)
        if self.vocabulary.unit == "ids":
            raise ValueError(f"checkpoint={checkpoint} has no tokenizer, and tasks are of text")
        # tokens of text in a window, which BOS and EOS may frame
        self.begin = [int(data.bos_id)] if data.get("pack") == "wrap_bos_eos" else []
        self.text_length = int(data.length) - 2 * len(self.begin)
        self.batch_size = int(batch_size) if str(batch_size).isdecimal() else max_batch_size or 32
        self.noise_samples, self.seed = noise_samples, seed
        settings = {"name": sampling, "temperature": temperature}
        self.sampling = {key: value for key, value in settings.items() if value is not None}
        # exact from left to right, or bounds of whole samples
        try:
            order_sampler(self.algorithm, "left-to-right")
            self.is_exact = True
        except ValueError as error:
            self.is_exact = False
            logger.warning("log-probabilities are differences of bounds: %s", error)
        if not self.is_exact and self.algorithm.layout.pad_id is None:
            raise ValueError(
                f"checkpoint={checkpoint}: {self.algorithm.name} has bounds of whole rows alone, "
                "and its rows have no PAD; train with data=text or data.pack=pad"
            )

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Log-probabilities of continuations; ``ValueError`` for one that the ids do not hold."""
        # spaces at the end of a context belong to the continuation
        contexts = self._encode([request.args[0].rstrip() for request in requests])
        texts = self._encode(["".join(request.args) for request in requests])
        pairs = []
        for request, context, text in zip(requests, contexts, texts, strict=True):
            new = request.args[1]
            # a token of both belongs to the continuation
            start = sum(takewhile(bool, map(eq, context, text)))
            if self.vocabulary.unknown([new]) or (new and start == len(text)):
                raise ValueError(
                    f"the continuation {new!r} has characters that the model does not know, so its "
                    "score would be of another text; train with data.token_unit=bytes"
                )
            pairs.append((text[:start], text[start:]))
        return self._scores(pairs)

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        """Log-probabilities of whole texts, window by window; no window sees the one before it."""
        scores = []
        for ids in self._encode([request.args[0] for request in requests]):
            windows = [ids[k : k + self.text_length] for k in range(0, len(ids), self.text_length)]
            scores.append(sum(log_p for log_p, _ in self._scores([([], new) for new in windows])))
        return scores

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Continue texts window by window, each from the end of what is there, to a stop string."""
        contexts = self._encode([request.args[0] for request in requests])
        options = [{"max_gen_toks": _NEW_TOKENS, **request.args[1]} for request in requests]
        new: list[list[int]] = [[] for _ in requests]
        texts, waiting, turn = [""] * len(requests), list(range(len(requests))), 0
        while waiting:
            # the end of each text, and MASK for what is missing or half a window
            rows = []
            for k in waiting:
                known, missing = contexts[k] + new[k], options[k]["max_gen_toks"] - len(new[k])
                kept = self.text_length - min(missing, max(1, self.text_length // 2))
                rows.append(self.begin + known[max(0, len(known) - kept) :])
            for k, row, tokens in zip(waiting, rows, self._complete(rows, turn), strict=True):
                new[k] += tokens[len(row) : len(self.begin) + self.text_length]
                texts[k], new[k] = self._up_to_stop(new[k], options[k])
            waiting, turn = [k for k in waiting if new[k]], turn + 1
        return texts

    def _complete(self, rows: list[list[int]], turn: int) -> list[list[int]]:
        """Sample whole windows that begin with ``rows``."""
        request = SampleRequest(sampling=self.sampling, batch_size=self.batch_size)
        trained = trained_model_here(request, self.checkpoint)
        partial, given = self._windows(rows, -1)
        with trained.sharing() as shard:
            model, entropy = trained.model(shard), (self.seed, turn)
            drawn = complete_tokens(model, partial, torch.ones_like(given), entropy=entropy)
        tokens: list[list[int]] = drawn.tokens.tolist()
        return tokens

    def _up_to_stop(self, ids: list[int], options: Mapping[str, Any]) -> tuple[str, list[int]]:
        """Return the text of ids up to its end, and the ids, or [] if the text has ended."""
        shown = ids[: options["max_gen_toks"]]
        if (eos_id := self.vocabulary.eos_id) in shown:
            shown = shown[: shown.index(eos_id)]
        (text,) = self.vocabulary.decode(torch.tensor([shown], dtype=torch.long))
        stops = [stop for stop in as_list(options.get("until")) if stop]
        ends = [text.index(stop) for stop in stops if stop in text]
        going_on = len(shown) == len(ids) < options["max_gen_toks"] and not ends
        return text[: min(ends, default=None)], ids if going_on else []

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts, without characters that the model does not know."""
        if lost := self.vocabulary.unknown(texts):
            number = counted(sum(lost.values()), "character")
            logger.warning("left out %s that the model does not know", number)
        return [ids.tolist() for ids in self.vocabulary.encode_each(texts)]

    def _windows(self, rows: Sequence[list[int]], filling: int) -> tuple[Tensor, Tensor]:
        """Ids Int[M, L] that begin with ``rows``, and Bool[M, L], True there."""
        ids = torch.full((len(rows), self.algorithm.layout.length), filling)
        for own, row in zip(ids, rows, strict=True):
            own[: len(row)] = torch.tensor(row)
        numbers = torch.tensor([[len(row)] for row in rows])
        return ids, torch.arange(ids.shape[1]) < numbers

    def _scores(self, pairs: Sequence[Pair]) -> list[tuple[float, bool]]:
        """Log-probability of each continuation, and whether each of its tokens is the likeliest."""
        fitting = []
        for context, new in pairs:
            if len(new) > self.text_length:
                raise ValueError(
                    f"a text of {len(new):,} tokens is to be scored as a whole, and the model has "
                    f"windows of {self.text_length}; train with a larger data.length"
                )
            kept = context[max(0, len(context) + len(new) - self.text_length) :]
            fitting.append((self.begin + kept, new))
        score = self._chain if self.is_exact else self._bounds
        parts = (fitting[k : k + _AT_ONCE] for k in range(0, len(fitting), _AT_ONCE))
        return [each for part in parts for each in score(part)]

    @torch.no_grad()
    def _chain(self, pairs: Sequence[Pair]) -> Iterator[tuple[float, bool]]:
        x0, shown = self._windows([a + b for a, b in pairs], self.algorithm.layout.mask_id)
        _, given = self._windows([a for a, _ in pairs], 0)
        x0, shown, given = (each.to(self._device) for each in (x0, shown, given))
        known, real = shown & ~given, torch.ones_like(shown)
        if isinstance(self.algorithm, AR):
            # each token from those before it, in one call
            parts = (each.split(self.batch_size) for each in (x0, known, real))
            for tokens, scored, every in zip(*parts, strict=True):
                no_time, ids = tokens.new_zeros(len(tokens)), tokens[scored]
                lazy = self.algorithm.lazy_log_d0(tokens, no_time, every, scored)
                log_p, likeliest = ids.new_zeros(len(ids), dtype=torch.float64), ids >= 0
                at_once = max(1, AT_ONCE // self.vocabulary.vocab_size)
                for at in torch.arange(len(ids)).split(at_once):
                    log_d0 = lazy.read(at)
                    log_p[at] = log_prob_at(ids[at], log_d0)
                    likeliest[at] = log_d0.argmax(dim=-1) == ids[at]
                log_ps = log_p.new_zeros(scored.shape).masked_scatter(scored, log_p).sum(dim=1)
                greedy = (~scored).masked_scatter(scored, likeliest).all(dim=1)
                yield from zip(log_ps.tolist(), greedy.tolist(), strict=True)
            return
        generator = make_generator(self.seed, device=self._device)
        options: dict[str, Any] = {"generator": generator, "batch_size": self.batch_size}
        found = log_prob_of(self.algorithm, x0, known, real, given=given, **options)
        yield from zip(found.log_prob.tolist(), found.likeliest.tolist(), strict=True)

    def _bounds(self, pairs: Sequence[Pair]) -> Iterator[tuple[float, bool]]:
        # the bound of each text once, 0 of the empty one
        texts = dict.fromkeys(tuple(text) for a, b in pairs for text in (a, a + b) if text)
        x0, real = self._windows([[*text] for text in texts], self.algorithm.layout.pad_id)
        parts = (each.split(self.batch_size) for each in (x0, real))
        bounds = sample_bounds(
            self.algorithm,
            [Batch(*part) for part in zip(*parts, strict=True)],
            draws=self.noise_samples,
            settings=MeasurementSettings((self.seed,), self._device),
        )
        nelbo = {(): 0.0, **dict(zip(texts, bounds.nelbo.tolist(), strict=True))}
        for context, new in pairs:
            yield nelbo[tuple(context)] - nelbo[tuple(context + new)], False


if __name__ == "__main__":
    cli_evaluate()
