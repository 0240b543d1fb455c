"""Judges of sampled text: other models, which measure its likelihood."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from discrete_diffusion.algorithms.ar import AR
from discrete_diffusion.categorical import make_generator
from discrete_diffusion.contracts import Batch
from discrete_diffusion.data.files import TextSource
from discrete_diffusion.domains.text.vocabulary import vocabulary_of
from discrete_diffusion.evaluation.trained_model import TrainedModel
from discrete_diffusion.hub import read_pretrained, transformers_library

PRETRAINED = "hf:"
"""Prefix of the folder of a judge of transformers."""

_MAX_LOGITS = 2**24
"""Most logits of a batch."""

_Window = TypeVar("_Window")


@dataclass(frozen=True)
class SampledTexts:
    """Samples for a judge. ``rows``: ids of each sample, without PAD; ``texts``: None without a
    tokenizer."""

    rows: Sequence[np.ndarray]
    texts: Sequence[str] | None


@dataclass(frozen=True)
class Verdict:
    """Likelihood of samples. ``nats``: Float64[M], -log p of each sample; ``num_tokens``: Int64[M],
    numbers of the judge's tokens; ``texts``: texts of the samples, or None."""

    nats: Tensor
    num_tokens: Tensor
    texts: Sequence[str] | None

    def as_dict(self) -> dict[str, float]:
        """Return the perplexity ``gen_ppl``, bits per character and bits per UTF-8 byte of all
        samples.

        ``gen_ppl`` is exp(nats / tokens), with the standard error of the ratio over samples. Bits
        do not depend on the judge's tokens.
        """
        total, num = float(self.nats.sum()), float(self.num_tokens.sum())
        if not num:
            return {"gen_ppl": math.nan}
        # perplexity, with the error of a ratio
        scores = {"gen_ppl": math.exp(min(total / num, 700.0))}
        if (count := len(self.nats)) > 1:
            rest = self.nats - total / num * self.num_tokens
            error = float(rest.square().sum() * count / (count - 1)) ** 0.5 / num
            scores["gen_ppl_standard_error"] = scores["gen_ppl"] * error
        # bits do not depend on tokens
        if self.texts is not None:
            bits, whole = total / math.log(2), "".join(self.texts)
            scores["gen_bits_per_character"] = bits / len(whole)
            scores["gen_bits_per_byte"] = bits / len(whole.encode("utf-8"))
        return scores


class Judge(ABC):
    """Model with an exact likelihood that scores samples of another model.

    ``name``: value of the key ``perplexity_model``; ``window``: largest number of tokens in a
    window, all of them predicted; ``width``: number of ids. A longer sample is read in windows that
    do not overlap, each without the text before it.
    """

    name: str
    window: int
    width: int
    device: torch.device | str

    @abstractmethod
    def encode(self, samples: SampledTexts) -> list[np.ndarray]:
        """Encode each sample in the judge's tokens."""

    @abstractmethod
    def nats(self, ids: Tensor, real: Tensor) -> Tensor:
        """-log p, Float[W], of windows of ids Int[W, N]; only ``real`` positions, Bool[W, N],
        count."""

    @torch.no_grad()
    def read(self, samples: SampledTexts) -> Verdict:
        """Likelihood of every sample."""
        rows = self.encode(samples)
        # windows of samples, with the number of their sample
        windows = [
            (owner, row[begin : begin + self.window])
            for owner, row in enumerate(rows)
            for begin in range(0, len(row), self.window)
        ]
        nats = torch.zeros(len(rows), dtype=torch.float64)
        for some in self._batches(windows):
            owners, parts = zip(*some, strict=True)
            of_windows = self.nats(*self._padded(parts))
            nats.index_add_(0, torch.tensor(owners), of_windows.double().cpu())
        return Verdict(nats, torch.tensor([len(row) for row in rows]), samples.texts)

    def _batches(self, windows: Sequence[_Window]) -> Iterator[Sequence[_Window]]:
        at_once = max(1, _MAX_LOGITS // (self.window * self.width))
        for first in range(0, len(windows), at_once):
            yield windows[first : first + at_once]

    def _padded(self, rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Pad rows to ids Int[W, N]; also return Bool[W, N], True for real ids."""
        lengths = torch.tensor([len(row) for row in rows])
        parts = [torch.from_numpy(row) for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
        real = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        return ids.to(self.device), real.to(self.device)


class CheckpointJudge(Judge):
    """Checkpoint of text with ``algo=ar``, whose likelihood is exact and includes the first token.

    Samples of a model with the same vocabulary are read as ids, others as text.
    """

    def __init__(self, name: str, checkpoint: Any, vocabulary: Any) -> None:
        """Prepare to judge samples with this ``vocabulary`` by the model in ``checkpoint``.

        Raises ``ValueError`` if the checkpoint is not ``algo=ar`` trained on text, or if one of the
        models has no tokenizer and their vocabularies differ.
        """
        # only an exact likelihood can judge
        algorithm, data = checkpoint.algorithm, checkpoint.config.data
        if not isinstance(algorithm, AR) or data.get("domain") != "text":
            what = f"algo={checkpoint.config.algo.name} of {data.get('domain')}"
            raise ValueError(
                f"perplexity_model={name} is {what}: expected algo=ar of text, whose likelihood is "
                f"exact, or {PRETRAINED}FOLDER of transformers"
            )
        # ids without a tokenizer have to be the same
        self.name, self.algorithm = name, algorithm.eval()
        self.vocabulary = vocabulary_of(data)
        self.same_ids = self.vocabulary == vocabulary
        if "ids" in (self.vocabulary.unit, vocabulary.unit) and not self.same_ids:
            whose = f"perplexity_model={name}" if self.vocabulary.unit == "ids" else "the model"
            raise ValueError(
                f"perplexity_model={name}: {whose} has ids without a tokenizer, so the samples "
                "cannot be written in the tokens of the judge; give a judge of the same ids"
            )
        # windows as the model was trained on
        layout = algorithm.layout
        self.window, self.width = layout.length, layout.vocab_size
        self.filling = layout.mask_id if layout.pad_id is None else layout.pad_id
        self.device = layout.support.device

    def encode(self, samples: SampledTexts) -> list[np.ndarray]:
        if self.same_ids or samples.texts is None:
            return [np.asarray(row) for row in samples.rows]
        # the text in the judge's own tokens
        known, remedy = f"those of perplexity_model={self.name}", "give a judge that knows them"
        return [
            self.vocabulary.encode(  # type: ignore[union-attr]
                TextSource(f"sample {k + 1}", text), known=known, remedy=remedy
            )
            for k, text in enumerate(samples.texts)
        ]

    def nats(self, ids: Tensor, real: Tensor) -> Tensor:
        # filled up to whole windows
        after = (0, self.window - ids.shape[1])
        ids = torch.nn.functional.pad(ids.where(real, self.filling), after, value=self.filling)
        real = torch.nn.functional.pad(real, after, value=False)
        batch = self.algorithm.prepare_batch(Batch(ids, real))
        return self.algorithm.loss(batch, make_generator(0, device=self.device)).nelbo


class TransformersJudge(Judge):
    """Causal language model in a folder of ``transformers``; it reads text in its own tokens.

    Every window begins with the tokenizer's token for the begin, or else for the end, of a text, so
    that the first token is predicted too.
    """

    def __init__(self, folder: str, device: torch.device | str) -> None:
        """Load the judge from a folder. Raises ``ValueError`` if ``transformers`` is not installed,
        the folder cannot be read, or its tokenizer has no token to begin or end a text."""
        # network and tokenizer of one folder
        library = transformers_library(f"perplexity_model={PRETRAINED}{folder} is read")

        def read(kind: str) -> Any:
            return read_pretrained(
                "perplexity_model",
                folder,
                partial(getattr(library, kind).from_pretrained, folder),
                expected="a causal language model and its tokenizer, of save_pretrained",
                remedy="give another folder",
            )

        # the network, and the token before every window
        self.tokenizer = read("AutoTokenizer")
        self.network = read("AutoModelForCausalLM").eval().to(device)
        tokenizer, config = self.tokenizer, self.network.config
        ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        begin = next((one for one in ends if one is not None), None)
        if begin is None:
            raise ValueError(
                f"perplexity_model={PRETRAINED}{folder}: its tokenizer has neither begin nor end "
                "of text, so nothing predicts a first token; give another model"
            )
        self.name, self.device, self.begin_id = f"{PRETRAINED}{folder}", device, int(begin)
        # the context of the model, at most 1,024
        most = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
        self.window, self.width = min(int(most), 1024) - 1, int(config.vocab_size)

    def encode(self, samples: SampledTexts) -> list[np.ndarray]:
        # text is required
        if samples.texts is None:
            raise ValueError(
                f"perplexity_model={self.name}: the model has ids without a tokenizer, so its "
                "samples are not text; give a checkpoint of algo=ar of the same ids"
            )
        rows = [
            self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
            for text in samples.texts
        ]
        return [np.asarray(row, np.int64) for row in rows]

    def nats(self, ids: Tensor, real: Tensor) -> Tensor:
        before = torch.cat([torch.full_like(ids[:, :1], self.begin_id), ids[:, :-1]], dim=1)
        logits = self.network(input_ids=before).logits.float()
        nll = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids, reduction="none")
        return nll.double().masked_fill(~real, 0.0).sum(dim=1)

    @torch.no_grad()
    def features(self, texts: Sequence[str]) -> np.ndarray:
        """Features of texts for MAUVE, Float[M, D]: the last hidden state of each text's last
        token.

        Texts are cut to the model's context; an empty text has the state of the token before a
        window.
        """
        # cut to the context
        cut = {"truncation": True, "max_length": self.window + 1}
        encoded = [self.tokenizer(text, **cut)["input_ids"] or [self.begin_id] for text in texts]
        rows, parts = [np.asarray(row, np.int64) for row in encoded], []
        # the hidden state of the last token
        for some in self._batches(rows):
            ids, real = self._padded(some)
            hidden = self.network.base_model(input_ids=ids).last_hidden_state  # (W, N, D)
            last = real.sum(dim=1) - 1
            parts.append(hidden[torch.arange(len(ids)), last].float().cpu())
        return torch.cat(parts).numpy()


def read_judge(name: str, trained: TrainedModel) -> Judge:
    """Load the judge named by ``perplexity_model=NAME`` onto the device of the model whose samples
    it reads.

    Raises ``ValueError`` or ``FileNotFoundError`` naming the key if it cannot read these samples.
    """
    vocabulary = vocabulary_of(trained.data_config)
    # transformers or a checkpoint
    if name.startswith(PRETRAINED):
        if vocabulary.unit == "ids":
            raise ValueError(
                f"perplexity_model={name} reads text, and {trained.path} has ids without a "
                "tokenizer; give a checkpoint of algo=ar of the same ids"
            )
        return TransformersJudge(name.removeprefix(PRETRAINED), trained.device)
    return CheckpointJudge(name, trained.another(name), vocabulary)
