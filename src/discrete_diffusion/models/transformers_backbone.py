"""Masked and causal language models of the library ``transformers`` as backbones; needs the extra
``text``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discrete_diffusion.categorical import neg_inf
from discrete_diffusion.config.values import check_name
from discrete_diffusion.hub import read_pretrained, transformers_library
from discrete_diffusion.layout.token_layout import TokenLayout
from discrete_diffusion.models.calling import pack_columns
from discrete_diffusion.runtime.package import install_command

_LEAST_SHARE = 0.9
"""Smallest share of a pretrained model's ids that the data may have; some have more rows than their
tokenizer has ids."""

_UNSAFE = ("auto_map", "quantization_config", "attn_implementation")
"""Keys of ``config.json`` that can name code to fetch, or weights in other formats."""

_OF_SIZES = (RuntimeError, TypeError, AttributeError, LookupError, ArithmeticError)
"""Errors that networks raise for impossible sizes, besides ``ValueError``."""


class TransformersBackbone(nn.Module):
    """Language model of ``transformers`` in which every real position sees all real positions.

        h = network(x_t)                             (B, L, D)
        h_l <- h_(l-1) for l > 0, if ``shift``
        logits = head(h)                             (B, L, V)

    ``network``: a masked or causal model. ``shift``: True for a model that was trained to predict
    the next id, so that its logits at l - 1 are for the id at l (DiffuLLaMA, arXiv 2410.17891;
    Dream, arXiv 2508.15487); position 0 keeps its own. ``pad_id``: an id that is neither attended
    nor predicted; None if the data has none. The network reads no noise level.

    Raises ``ValueError`` if position 0 does not see the last one, as in recurrent networks.
    """

    def __init__(self, network: Any, *, shift: bool, pad_id: int | None = None) -> None:
        super().__init__()
        self.network, self.shift, self.pad_id = network, shift, pad_id
        self._first = _first_position(network)
        # attention in both directions, and a gradient for every id
        network.config.is_causal = network.config.use_cache = False
        for module in network.modules():
            if hasattr(module, "is_causal"):
                module.is_causal = False
            if isinstance(module, nn.Embedding):
                module.padding_idx = None
        # position 0 must see the last id; on the meta device nothing can be computed
        logits = None if next(network.parameters()).is_meta else self._trial()
        if logits is not None and torch.equal(logits[0, 0], logits[1, 0]):
            raise ValueError(
                f"a {type(network).__name__} reads text in one direction: its output at position 0 "
                "does not depend on later ids; give model.path=FOLDER of a model with attention, "
                "such as BERT, GPT-2 or Llama"
            )
        # the head is applied here, unless the network changes its logits behind it
        head = network.get_output_embeddings()
        capped = getattr(network.config, "final_logit_softcapping", None)
        self.head: nn.Module | None = None
        if isinstance(head, nn.Linear) and not capped:
            network.set_output_embeddings(_NoHead())
            self.head = head
            if logits is not None and not torch.allclose(head(self._trial()), logits, 1e-3, 1e-3):
                raise ValueError(
                    f"a {type(network).__name__} changes its logits behind its last layer, which "
                    "is not supported; give model.path=FOLDER of another model"
                )
        # columns of PAD are left out where no other position depends on them
        self._cuts = logits is not None and pad_id is not None
        if self._cuts:
            alone, padded = self._trial([0, 1]), self._trial([0, 1, pad_id])[:, :2]
            self._cuts = torch.allclose(alone, padded, rtol=1e-5, atol=1e-4)
        self.train()

    def forward(self, x_t: Tensor, *, states: bool = False) -> Tensor:
        """x_t Int[B, L] -> logits Float[B, L, V]; with ``states`` the input of ``head``, Float[B,
        L, D].

        On a CPU, columns at the end that are PAD in all samples are left out, if the network's
        output elsewhere does not depend on them. Training computes them, as their dropout is
        sampled with that of the others."""
        length = x_t.shape[1]
        on_cpu = x_t.device.type == "cpu"
        if self.pad_id is not None and self._cuts and not self.training and on_cpu:
            x_t = x_t[:, : pack_columns(x_t != self.pad_id).kept[-1] + 1]
        output = self._output(x_t)
        if self.shift:
            output = torch.cat([output[:, :1], output[:, :-1]], dim=1)
        if not states and self.head is not None:
            output = self.head(output)
        if output.shape[1] < length:
            output = F.pad(output, (0, 0, 0, length - output.shape[1]))
        # no logit for PAD
        if self.pad_id is not None and not states:
            output[..., self.pad_id] = neg_inf(output.dtype)
        return output

    def _output(self, x_t: Tensor) -> Tensor:
        # a sample of nothing but PAD sees all of it: a softmax over no keys is undefined
        real = torch.ones_like(x_t) if self.pad_id is None else (x_t != self.pad_id).to(x_t.dtype)
        real = torch.where(real.any(dim=1, keepdim=True), real, 1)
        # the library counts positions of ids that are not its own PAD, which is an id of the data
        places = torch.arange(self._first, self._first + x_t.shape[1], device=x_t.device)
        own = {"position_ids": places.expand_as(x_t)} if self._first else {}
        output: Tensor = self.network(input_ids=x_t, attention_mask=real, **own).logits
        return output

    def renamed(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights by name, of which those of a network without LoRA get the names of this one."""
        named = dict(weights)
        for name in self.state_dict():
            plain = name.replace(".token_adapter", "").replace(".base_layer", "")
            if plain == name or plain not in weights:
                continue
            named[name] = named.pop(plain)
            # the row of MASK is trained in another tensor
            if ".token_adapter" in name:
                adapter = self.network.get_input_embeddings().token_adapter
                row = name.replace("base_layer.weight", "trainable_tokens_delta.default")
                named[row] = named[name][adapter.token_indices["default"]]
        return named

    @torch.no_grad()
    def _trial(self, *texts: Any) -> Tensor:
        """Output of the network for texts, by default two that differ in the last id."""
        return self.eval()._output(torch.tensor(texts or ([0, 0, 0], [0, 0, 1])))


def _first_position(network: nn.Module) -> int:
    """Row of position 0 in the table of positions; in RoBERTa's family the one behind PAD's."""
    for module in network.modules():
        padding = getattr(module, "padding_idx", None)
        if hasattr(module, "position_embeddings") and isinstance(padding, int):
            return padding + 1
    return 0


class _NoHead(nn.Identity):
    """Output layer of a network whose head is applied elsewhere."""

    weight = bias = None


@contextmanager
def _explained() -> Iterator[None]:
    """Context in which errors of the library about sizes become a ``ValueError``."""
    try:
        yield
    except Exception as error:
        of_sizes = isinstance(error, _OF_SIZES) or "StrictDataclass" in type(error).__name__
        if not of_sizes:
            raise
        reason = str(error).strip().rpartition("\n")[2].strip()
        raise ValueError(
            f"transformers cannot build or call this network: {reason}; change the sizes below "
            "model, such as model.num_attention_heads, or model.model_type"
        ) from error


@_explained()
def build_language_model(
    *,
    layout: TokenLayout,
    model_type: str = "bert",
    hidden_size: int = 128,
    num_hidden_layers: int = 6,
    num_attention_heads: int = 4,
    intermediate_size: int = 512,
    max_position_embeddings: int = 512,
    config: str | None = None,
    path: str | None = None,
    download: bool = False,
    pretrained: bool = True,
    shift: bool | None = None,
    lora_rank: int | None = None,
) -> TransformersBackbone:
    """Build a backbone for the ids of ``layout``: the model in ``path``, or one of random weights.

    ``config``: content of a ``config.json``, which replaces the sizes. ``download``: if true,
    ``path`` may be a name on the Hugging Face hub. ``pretrained``: False takes the sizes in
    ``path`` and random weights. ``shift``: None is True for causal models. ``lora_rank``: rank of
    what is trained, see ``add_lora``; None trains all weights.

    In a pretrained model MASK starts as its own mask token, or else as the mean of all ids.

    Raises ``ValueError`` if ``transformers``, or ``peft`` for ``lora_rank``, is not installed,
    nothing can be read from ``path``, the kind of model is not known, or the data has other ids or
    longer samples than the model.
    """
    library = transformers_library("algo.backbone=transformers is built")
    # the config of the model: of the folder, of a checkpoint, or of the preset
    sizes = {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_hidden_layers,
        "num_attention_heads": num_attention_heads,
        "num_key_value_heads": num_attention_heads,
        "intermediate_size": intermediate_size,
        "max_position_embeddings": max_position_embeddings,
    }
    if path is not None:
        read = _read_config(library, path, download)
    else:
        keys = {"model_type": model_type, **sizes} if config is None else _parsed(config)
        check_name("model.model_type", keys.get("model_type"), library.CONFIG_MAPPING)
        safe = {k: v for k, v in keys.items() if k not in _UNSAFE and not k.startswith("_")}
        read = library.CONFIG_MAPPING[keys["model_type"]].from_dict(safe)
    causal = _is_causal(library, read)
    kind = library.AutoModelForCausalLM if causal else library.AutoModelForMaskedLM
    # weights of the folder; on the meta device only sizes are wanted
    weights = path if pretrained else None
    _check_ids(read, layout, weights)
    if weights is not None and torch.get_default_device().type != "meta":
        network = _read_network(library, kind, weights, layout, download)
    else:
        read.vocab_size, read.is_causal = layout.vocab_size, False
        read.bos_token_id = read.eos_token_id = None
        if (getattr(read, "pad_token_id", None) or 0) >= layout.vocab_size:
            read.pad_token_id = None
        network = kind.from_config(read, dtype=torch.float32, trust_remote_code=False)
    _check_length(network, layout)
    shift = causal if shift is None else shift
    backbone = TransformersBackbone(network, shift=shift, pad_id=layout.pad_id)
    if lora_rank is not None:
        add_lora(backbone, lora_rank, mask_id=layout.mask_id)
    return backbone


def add_lora(backbone: TransformersBackbone, rank: int, *, mask_id: int) -> None:
    """Freeze a backbone, and add matrices of low rank to its linear layers and a new row for MASK.

        W x -> W x + B A x,    A (rank, D_in),    B (D_out, rank), 0 at first

    The output layer stays as it is (arXiv 2106.09685). The library ``peft`` adds the matrices.
    Raises ``ValueError`` if it is not installed.
    """
    try:
        import peft
    except ImportError as error:
        raise ValueError(
            f"model.lora_rank={rank} is trained by peft, which is not installed; "
            f"{install_command('peft')}"
        ) from error
    # frozen weights, the row of MASK, and matrices; the head has left the network
    network = backbone.network
    backbone.requires_grad_(False)
    network.config.tie_word_embeddings = False
    table = network.get_input_embeddings()
    name = next(name for name, module in network.named_modules() if module is table)
    options = peft.LoraConfig(
        r=rank,
        lora_alpha=rank,
        target_modules="all-linear",
        fan_in_fan_out=any(type(each).__name__ == "Conv1D" for each in network.modules()),
        trainable_token_indices={name: [mask_id]},
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        backbone.network = peft.get_peft_model(network, options).get_base_model()
    for name, module in backbone.network.named_modules():
        if name.endswith((".lora_A", ".lora_B")):
            module.zero_initialised = True


def read_network_config(path: str, *, download: bool = False) -> str:
    """Read the ``config.json`` of a model, for the config of a run, whose checkpoints then do not
    need the folder. Errors are those of ``build_language_model``."""
    library = transformers_library(f"model.path={path} is read")
    return json.dumps(json.loads(_read_config(library, path, download).to_json_string()))


def _read(path: str, read: Any, download: bool) -> Any:
    return read_pretrained(
        *("model.path", path, read),
        expected="a folder with config.json and model.safetensors or, with model.download=true, a "
        "name on the Hugging Face hub, which can be reached",
        remedy="give such a folder; checkpoints of runs do not need it",
        download=download,
    )


def _read_config(library: Any, path: str, download: bool) -> Any:
    return _read(path, partial(library.AutoConfig.from_pretrained, path), download)


def _is_causal(library: Any, config: Any) -> bool:
    """True for a causal model, False for a masked one; ``ValueError`` for other models."""
    masked = type(config) in library.MODEL_FOR_MASKED_LM_MAPPING
    causal = type(config) in library.MODEL_FOR_CAUSAL_LM_MAPPING
    whole = config.get_text_config() is config and not getattr(config, "is_encoder_decoder", False)
    if not whole or not (masked or causal):
        raise ValueError(
            f"model_type={config.model_type} is neither a masked nor a causal language model of "
            "text; give model.path=FOLDER of one, such as BERT, GPT-2 or Llama"
        )
    names = " ".join(getattr(config, "architectures", None) or ())
    return not masked or (causal and ("CausalLM" in names or "LMHead" in names))


def _parsed(config: Any) -> dict[str, Any]:
    """Keys of ``model.config``."""
    try:
        keys = json.loads(config)
    except (TypeError, ValueError):
        keys = None
    if not isinstance(keys, dict):
        raise ValueError(
            f"model.config={str(config)[:40]}: expected the content of a config.json, "
            "{...}; for a file, leave model.config out and give model.path=FOLDER, where it is"
        )
    return keys


def _check_length(network: Any, layout: TokenLayout) -> None:
    """Raise ``ValueError`` if the data is too long for the model."""
    rows, first = getattr(network.config, "max_position_embeddings", None), _first_position(network)
    if rows and rows - first < layout.length:
        unused = f", {first} of them reserved" if first else ""
        raise ValueError(
            f"samples of the data have {layout.length} positions, but the model has "
            f"max_position_embeddings={rows}{unused}; set data.length={rows - first} or less"
        )


def _check_ids(config: Any, layout: TokenLayout, path: str | None) -> None:
    """Raise ``ValueError`` if the data cannot be of the tokenizer of the weights in ``path``."""
    held, ours = config.vocab_size, layout.vocab_size - 1 - (layout.pad_id is not None)
    if path is not None and not _LEAST_SHARE * held <= ours <= held:
        raise ValueError(
            f"the data has {ours} ids (data.vocab_size={layout.vocab_size} with MASK and PAD), "
            f"but the model in model.path={path} has {held}; give data.tokenizer={path}, the "
            "tokenizer of that model, or model.pretrained=false"
        )


def _read_network(library: Any, kind: Any, path: str, layout: TokenLayout, download: bool) -> Any:
    """Read a network in float32, with a row for each id of the data; only safetensors are read, so
    that nothing is unpickled."""

    def read(**options: Any) -> Any:
        network, found = kind.from_pretrained(
            path, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **options
        )
        if missing := sorted(found["missing_keys"]):
            raise ValueError(
                f"{len(missing)} weights that the network needs are not there, first {missing[0]}"
            )
        # the model's own MASK, if its tokenizer is there
        files = ("tokenizer.json", "tokenizer_config.json")
        quiet = {"_raise_exceptions_for_missing_entries": False}
        local = {"local_files_only": options["local_files_only"]}
        if any(library.utils.cached_file(path, name, **local, **quiet) for name in files):
            return network, library.AutoTokenizer.from_pretrained(path, **options).mask_token_id
        return network, None

    network, mask_id = _read(path, read, download)
    rows = network.get_input_embeddings().weight.detach()
    usual = rows.mean(dim=0) if mask_id is None else rows[mask_id].clone()
    network.resize_token_embeddings(layout.vocab_size, mean_resizing=False)
    with torch.no_grad():
        network.get_input_embeddings().weight[layout.mask_id] = usual
    return network
