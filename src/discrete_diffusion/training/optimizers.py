"""Optimisers that a config can choose: AdamW, Muon with AdamW, or another class."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from discrete_diffusion.config.constructors import check_options
from discrete_diffusion.config.plugins import imported_object

logger = logging.getLogger(__name__)

_KEY = "optim._target_"


class MuonAdamW(Optimizer):
    """Muon for the matrices of hidden layers, AdamW for all other parameters.

    Muon (Jordan et al. 2024) updates a matrix by the orthogonalised average of its gradients. It
    trains the weights of linear layers, including the joint weights of ``nn.MultiheadAttention``;
    AdamW trains embeddings, heads, convolutions, tables and vectors. A step of Muon is as long as
    a step of AdamW (arXiv:2502.16982, section 2.2), so both share ``lr``.

    ``betas``: coefficients of AdamW. ``momentum``: momentum of Muon. ``weight_decay``: decoupled
    weight decay of the matrices alone. ``heads``: suffixes of the names of modules whose matrices
    AdamW trains.

    Raises ``ValueError`` for a module without such matrices, and if torch has no Muon.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        lr: float,
        betas: Sequence[float] = (0.9, 0.999),
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        heads: Sequence[str] = ("head",),
    ) -> None:
        if not hasattr(torch.optim, "Muon"):
            raise ValueError(f"Muon takes torch 2.9 or later, this is {torch.__version__}")
        # Muon for matrices, AdamW for the rest, as one optimiser
        matrices, others = _hidden_matrices(module, tuple(heads))
        if not matrices:
            raise ValueError(
                "Muon takes matrices of linear layers between embeddings and heads, of which this "
                "network has none to train; take optim=adamw"
            )
        options: Any = {"weight_decay": weight_decay, "momentum": momentum}
        muon = torch.optim.Muon(matrices, lr=lr, adjust_lr_fn="match_rms_adamw", **options)
        self._parts: list[Optimizer] = [muon]
        if others:
            first, second = betas
            self._parts.append(AdamW(others, lr=lr, betas=(first, second), weight_decay=0.0))
        super().__init__([group for part in self._parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Let the two optimisers share parameter groups and state with this one."""
        for part, group in zip(self._parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for part in self._parts:
            part.step()
        return loss


def _hidden_matrices(
    module: nn.Module, heads: tuple[str, ...]
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Divide the trained parameters into matrices of hidden layers and all others."""
    hidden: set[Tensor] = set()
    elsewhere: set[Tensor] = set()
    # linear layers that are not heads, and all other weights
    for name, layer in module.named_modules():
        weight = getattr(layer, "weight", None)
        if isinstance(layer, nn.MultiheadAttention) and layer.in_proj_weight is not None:
            hidden.add(layer.in_proj_weight)
        if isinstance(layer, nn.Linear) and not any(n.endswith(heads) for n in name.split(".")):
            hidden.add(layer.weight)
        elif isinstance(weight, nn.Parameter):
            elsewhere.add(weight)  # of an embedding or a head, shared with a hidden layer or not
    # a matrix shared with a head or an embedding is not one of a hidden layer
    trained = [p for p in module.parameters() if p.requires_grad]
    matrices = [p for p in trained if p in hidden - elsewhere]
    return matrices, [p for p in trained if p not in hidden - elsewhere]


def build_optimizer(
    module: nn.Module, options: Mapping[str, Any], *, fused: bool = False
) -> Optimizer:
    """Build the optimiser of the trained parameters of a module.

    A class whose first parameter is called ``module`` gets the whole module, any other class the
    parameters. Raises the errors of ``check_optimizer``."""
    # a fused step for the default class
    build, keywords = _class_and_arguments(options)
    if "_target_" not in options:
        keywords = {"fused": fused, **keywords}
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer: Optimizer = build(module if _takes_module(build) else trained, **keywords)
    if isinstance(optimizer, MuonAdamW):
        sizes = [sum(p.numel() for p in group["params"]) for group in optimizer.param_groups]
        logger.info("Muon trains %s parameters, AdamW %s", *(f"{n:,}" for n in (*sizes, 0)[:2]))
    return optimizer


def check_optimizer(options: Mapping[str, Any]) -> None:
    """Build the optimiser of a small layer; ``ValueError`` for a missing class or argument."""
    # a trial on a small layer
    build, keywords = _class_and_arguments(options)
    name, trial = options.get("_target_", "torch.optim.AdamW"), nn.Linear(2, 2)
    if _takes_module(build) and build is not MuonAdamW:
        return  # it may need parts of the real module
    try:
        optimizer = build(trial if build is MuonAdamW else list(trial.parameters()), **keywords)
    except Exception as error:  # a user's class may raise anything
        raise ValueError(f"{_KEY}={name} refuses its settings: {error}") from error
    if not isinstance(optimizer, Optimizer):
        raise ValueError(f"{_KEY}={name}: expected an optimiser, got {type(optimizer).__name__}")


def _takes_module(build: Callable[..., Any]) -> bool:
    return next(iter(inspect.signature(build).parameters), None) == "module"


def _class_and_arguments(options: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the class or function of an optimiser, and its arguments."""
    keywords = {key: value for key, value in options.items() if key != "_target_"}
    build: Callable[..., Any]
    if "_target_" not in options:
        build, keywords = AdamW, {"weight_decay": 0.0, **keywords}
    else:
        build = imported_object(_KEY, options["_target_"])
    check_options("optim", build.__name__, build, keywords, given=1)
    return build, keywords
