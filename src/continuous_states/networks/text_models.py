"""Encoders and decoders of text from the library ``transformers``; needs the extra ``text``.

They are built from a config, with random weights, or read from a local folder.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from discrete_diffusion.config import check_divides, check_whole_number
from discrete_diffusion.hub import read_pretrained, transformers_library


class TextEncoder(nn.Module):
    """Text encoder: a network of ``transformers`` without a head, one state per id.

    ``hidden_size``: width C of the states.
    ``num_unfrozen_layers``: number of last layers that are trained, 0 for none; None: the whole
    encoder.

    Raises ``ValueError`` if ``num_unfrozen_layers`` is more than the number of layers.
    """

    def __init__(self, network: Any, *, num_unfrozen_layers: int | None = None) -> None:
        super().__init__()
        self.network = network
        self.hidden_size: int = network.config.get_text_config().hidden_size
        self.num_unfrozen_layers = num_unfrozen_layers
        if num_unfrozen_layers is not None:
            key = "model.encoder.num_unfrozen_layers"
            check_whole_number(key, num_unfrozen_layers, least=0)
            if num_unfrozen_layers > (held := len(self._layers())):
                raise ValueError(f"{key}={num_unfrozen_layers}: the encoder has {held} layers")

    def requires_grad_(self, requires_grad: bool = True) -> TextEncoder:
        """Freeze the encoder, or unfreeze the layers that ``num_unfrozen_layers`` allows."""
        if self.num_unfrozen_layers is None:
            return super().requires_grad_(requires_grad)
        # all frozen but the last layers
        super().requires_grad_(False)
        layers = self._layers()
        for layer in layers[len(layers) - self.num_unfrozen_layers :]:
            layer.requires_grad_(requires_grad)
        return self

    def _layers(self) -> nn.ModuleList:
        """Layers in order: the longest list of modules in the network."""
        lists = [m for m in self.network.modules() if isinstance(m, nn.ModuleList)]
        return max(lists, key=len, default=nn.ModuleList())

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Encode ids Int[B, L] as states Float[B, L, C], which are unspecified where ``real``
        Bool[B, L] is False."""
        return self.network(input_ids=ids, attention_mask=real).last_hidden_state


class TextDecoder(nn.Module):
    """Text decoder: a causal network of ``transformers`` that maps embeddings to logits of next
    ids.
    ``hidden_size``: width E of the embeddings. ``vocab_size``: V."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        config = network.config.get_text_config()
        self.hidden_size: int = config.hidden_size
        self.vocab_size: int = config.vocab_size

    def embed(self, ids: Tensor) -> Tensor:
        """Embed ids Int[B, T] as Float[B, T, E], scaled as the network scales its embeddings."""
        return self.network.get_input_embeddings()(ids)

    def forward(
        self, embeddings: Tensor, *, num_logits: int | None = None, cache: Any = None
    ) -> Tensor:
        """Compute logits Float[B, N, V] of the last N = ``num_logits`` positions (None: all T) from
        embeddings Float[B, T, E]. ``cache``: result of ``new_cache``; the embeddings attend to the
        positions in the cache and are added to it."""
        return self.network(
            inputs_embeds=embeddings,
            logits_to_keep=num_logits or 0,
            past_key_values=cache,
            use_cache=cache is not None,
        ).logits

    def new_cache(self) -> Any:
        """Empty cache of keys and values, for generating text id by id."""
        return transformers_library("a cache is built").DynamicCache(config=self.network.config)


def build_text_encoder(
    *,
    vocab_size: int = 50_368,
    hidden_size: int = 768,
    num_layers: int = 22,
    num_heads: int = 12,
    intermediate_size: int = 1152,
    num_unfrozen_layers: int | None = None,
    path: str | None = None,
    download: bool = False,
) -> TextEncoder:
    """Build a ModernBERT (arXiv 2412.13663) with random weights, by default of the size of
    ModernBERT-base, or read the encoder in the folder ``path``. ``download``: if true, ``path`` may
    be a name on the Hugging Face hub, which is downloaded. ``num_unfrozen_layers``: see
    ``TextEncoder``.
    Raises ``ValueError`` if ``transformers`` is not installed, nothing can be read from ``path``,
    weights are missing there, or the encoder has fewer than ``vocab_size`` ids; without ``path``,
    if ``num_heads`` does not divide ``hidden_size``."""
    library = transformers_library("a text encoder is built")
    if path is not None:
        network = _read_network("encoder", library.AutoModel, path, vocab_size, download)
        return TextEncoder(network, num_unfrozen_layers=num_unfrozen_layers)
    # random weights
    _check_heads("encoder", num_heads, hidden_size)
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
    network = library.ModernBertModel(config)
    return TextEncoder(network, num_unfrozen_layers=num_unfrozen_layers)


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
    """Build a Gemma 3 (arXiv 2503.19786) with random weights, by default of the size of
    Gemma-3-270m, or read the causal network in the folder ``path``. ``download`` and errors are as
    in ``build_text_encoder``; also raises ``ValueError`` for numbers of heads that do not fit each
    other, or if the network in ``path`` is not causal."""
    library = transformers_library("a text decoder is built")
    if path is not None:
        kind = library.AutoModelForCausalLM
        decoder = TextDecoder(_read_network("decoder", kind, path, vocab_size, download))
        _check_causal(decoder, path)
        return decoder
    # random weights
    _check_heads("decoder", num_heads, hidden_size)
    if head_dim % 2 or num_heads % num_kv_heads:
        raise ValueError(
            f"model.decoder: head_dim={head_dim}, num_heads={num_heads}, num_kv_heads="
            f"{num_kv_heads}; expected an even head_dim, and num_kv_heads that divides num_heads"
        )
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


def _check_heads(part: str, num_heads: int, hidden_size: int) -> None:
    key = f"model.{part}"
    width = f"{key}.hidden_size={hidden_size}"
    check_divides(num_heads, hidden_size, width, key=f"{key}.num_heads")


_NO_SPECIAL_IDS = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
"""Special ids are left to the data, as the networks read masks instead."""

_UNREAD = "pooler."
"""Module of many encoders whose output ``TextEncoder`` does not use."""

_ROUNDING = 1e-5
"""Differences up to this share of the largest logit may come from rounding."""


def _read_network(part: str, kind: Any, path: str, vocab_size: int, download: bool) -> Any:
    """Read a network from a folder in float32; only safetensors are read, so that nothing is
    unpickled."""
    key = f"model.{part}"

    def read(**options: Any) -> Any:
        # on the meta device only the sizes are wanted
        if torch.get_default_device().type == "meta":
            library = transformers_library(f"the {part} is read")
            config = library.AutoConfig.from_pretrained(path, dtype=torch.float32, **options)
            return kind.from_config(config, trust_remote_code=False)
        network, found = kind.from_pretrained(
            path,
            dtype=torch.float32,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
        # weights of another shape, then weights that are missing and not tied
        for name, held, needed in sorted(found["mismatched_keys"]):
            raise ValueError(
                f"its weights {name} are {tuple(held)}, config.json makes them {tuple(needed)}"
            )
        if missing := sorted(k for k in found["missing_keys"] if not k.startswith(_UNREAD)):
            more = ", ..." if len(missing) > 3 else ""
            raise ValueError(
                f"{len(missing)} weights that the network needs are not there: "
                f"{', '.join(missing[:3])}{more}"
            )
        return network

    # a folder, or a name on the hub
    expected = (
        f"a folder with config.json and model.safetensors, or, with {key}.download=true, a name on "
        "the Hugging Face hub"
    )
    network = read_pretrained(f"{key}.path", path, read, expected=expected, download=download)
    if vocab_size > (held := network.config.get_text_config().vocab_size):
        raise ValueError(
            f"vocab_size={vocab_size} of the data or of {key}, but the {part} in {path} has {held} "
            "ids; use the tokenizer that belongs to it"
        )
    return network


@torch.no_grad()
def _check_causal(decoder: TextDecoder, path: str) -> None:
    """Raise ``ValueError`` if changing the last id changes earlier logits."""
    ids = torch.tensor([[0, 0, 0], [0, 0, 1]])
    if ids.is_meta:
        return
    # two texts that differ in the last id
    logits = decoder(decoder.embed(ids))  # (2, 3, V)
    change = (logits[0, :-1] - logits[1, :-1]).abs().max()
    if change > _ROUNDING * logits.abs().max():
        raise ValueError(
            f"model.decoder.path={path} holds a {type(decoder.network).__name__} that is not "
            "causal: its logits depend on ids behind them; expected a network that was trained to "
            "predict the next id, such as Gemma"
        )
