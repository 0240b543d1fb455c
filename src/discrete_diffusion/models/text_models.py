"""Encoders and decoders of text from the library ``transformers``; needs the extra ``text``.

Built from a config, with random weights, or read from a local folder.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

INSTALL = 'pip install "discrete-diffusion[text]"'


class TextEncoder(nn.Module):
    """Ids -> one state per id, of a network of ``transformers`` without a head.

    ``hidden_size``: width C of the states.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        self.hidden_size: int = network.config.get_text_config().hidden_size

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """ids Int[B, L], real Bool[B, L] -> states Float[B, L, C], of any value where not real."""
        return self.network(input_ids=ids, attention_mask=real).last_hidden_state


class TextDecoder(nn.Module):
    """Embeddings -> logits of the next id at each position, of a causal network of
    ``transformers``.

    ``hidden_size``: width E of the embeddings. ``vocab_size``: V.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        config = network.config.get_text_config()
        self.hidden_size: int = config.hidden_size
        self.vocab_size: int = config.vocab_size

    def embed(self, ids: Tensor) -> Tensor:
        """Int[B, T] -> Float[B, T, E], scaled as the network itself scales what it embeds."""
        return self.network.get_input_embeddings()(ids)

    def forward(
        self, embeddings: Tensor, *, num_logits: int | None = None, cache: Any = None
    ) -> Tensor:
        """Float[B, T, E] -> logits Float[B, N, V] of the last N = ``num_logits`` positions, None
        for all T.

        ``cache``: of ``new_cache``, the positions read so far, seen by all of the embeddings, which
        are added to it.
        """
        if num_logits is not None and not 1 <= num_logits <= embeddings.shape[1]:
            raise ValueError(
                f"num_logits={num_logits} of {embeddings.shape[1]} positions; expected 1 to all"
            )
        return self.network(
            inputs_embeds=embeddings,
            logits_to_keep=num_logits or 0,
            past_key_values=cache,
            use_cache=cache is not None,
        ).logits

    def new_cache(self) -> Any:
        """An empty cache of keys and values, for generating text id by id."""
        return _transformers("a cache").DynamicCache(config=self.network.config)


def build_text_encoder(
    *,
    vocab_size: int = 50_368,
    hidden_size: int = 768,
    num_layers: int = 22,
    num_heads: int = 12,
    intermediate_size: int = 1152,
    path: str | None = None,
    download: bool = False,
) -> TextEncoder:
    """A ModernBERT (arXiv 2412.13663) with random weights, of the size of ModernBERT-base unless
    told otherwise; or, with ``path``, the encoder in that folder, whatever its size.

    ``download``: ``path`` may be a name on the Hugging Face hub, from where it is fetched.

    Raises ``ValueError`` if ``transformers`` is not installed, nothing can be read from ``path``,
    or it has fewer than ``vocab_size`` ids.
    """
    library = _transformers("a text encoder")
    if path is not None:
        network = _read(library.AutoModel, path, download=download, part="encoder")
        return TextEncoder(_checked(network, vocab_size, path, "encoder"))
    config = library.ModernBertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        intermediate_size=intermediate_size,
        **_NO_SPECIAL_IDS,
        cls_token_id=None,
        sep_token_id=None,
    )
    return TextEncoder(library.ModernBertModel(config))


def build_text_decoder(
    *,
    vocab_size: int = 262_144,
    hidden_size: int = 640,
    num_layers: int = 18,
    num_heads: int = 4,
    num_kv_heads: int = 1,
    head_dim: int = 256,
    intermediate_size: int = 2048,
    path: str | None = None,
    download: bool = False,
) -> TextDecoder:
    """A Gemma 3 (arXiv 2503.19786) with random weights, of the size of Gemma-3-270m unless told
    otherwise; or, with ``path``, the causal network in that folder, whatever its size.

    ``download`` and errors as in ``build_text_encoder``.
    """
    library = _transformers("a text decoder")
    if path is not None:
        network = _read(library.AutoModelForCausalLM, path, download=download, part="decoder")
        return TextDecoder(_checked(network, vocab_size, path, "decoder"))
    config = library.Gemma3TextConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        num_key_value_heads=num_kv_heads,
        head_dim=head_dim,
        query_pre_attn_scalar=head_dim,
        intermediate_size=intermediate_size,
        **_NO_SPECIAL_IDS,
    )
    return TextDecoder(library.Gemma3ForCausalLM(config))


_NO_SPECIAL_IDS = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
"""The data say which ids mean what; the networks see masks."""


def _transformers(what: str) -> ModuleType:
    try:
        import transformers
    except ImportError as error:
        raise ValueError(
            f"{what} is built by transformers, which is not installed; {INSTALL}"
        ) from error
    return transformers


def _read(kind: Any, path: str, *, download: bool, part: str) -> Any:
    """The network in a folder, in float32; weights as safetensors, so that nothing is unpickled.

    The library is not asked for names on the hub without ``download``: it opens a connection even
    with ``local_files_only``.
    """
    expected = (
        f"expected a folder with config.json and model.safetensors, or, with "
        f"model.{part}.download=true, a name on the Hugging Face hub"
    )
    if not download and not Path(path).is_dir():
        raise ValueError(f"model.{part}.path={path} is no folder; {expected}")
    options = {"local_files_only": not download, "dtype": torch.float32}
    try:
        if torch.get_default_device().type == "meta":  # sizes only
            config = _transformers(part).AutoConfig.from_pretrained(path, **options)
            return kind.from_config(config)
        return kind.from_pretrained(path, use_safetensors=True, **options)
    except (OSError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise ValueError(f"model.{part}.path={path} cannot be read; {expected}: {said}") from error


def _checked(network: Any, vocab_size: int, path: str, part: str) -> Any:
    held = network.config.get_text_config().vocab_size
    if vocab_size > held:
        raise ValueError(
            f"vocab_size={vocab_size} of the data or of model.{part}, but the {part} in {path} has "
            f"{held} ids; use the tokenizer that belongs to it"
        )
    return network
