"""How a backbone is called, read off the signature of its ``forward`` when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

CONTRACT = (
    "a backbone is called as forward(x_t, sigma, **conditions): the noisy sample first, whatever "
    "it is called there; the noise level by the name sigma, or else second; conditions by name"
)
OWN_CONDITIONS = frozenset(
    {"group_idxs", "context", "cache", "masked", "noisy", "real", "keep", "encoded", "packing"}
)
"""What algorithms, samplers and training give a backbone that takes it; others are the data's."""

_WRAPPED = ("_orig_mod", "module")
"""Where ``torch.compile``, and DDP, FSDP and averages, keep the network that they call."""


@dataclass(frozen=True)
class BackboneCall:
    """The call of a backbone: x_t first, sigma by its name or else second, conditions by name.

    The second argument is sigma's where none has that name, unless it is one of ``OWN_CONDITIONS``,
    or has a default and not the name of a time or noise level: ``timesteps=None`` is sigma's,
    ``mask=None`` may be about anything.

    ``sigma``: what it is called there, None if it has no place; ``second``: it goes in by its place
    and not by its name. ``conditions``: names of the other arguments; ``required``: those without a
    default; ``takes_any``: conditions of any name.
    """

    sigma: str | None = None
    second: bool = False
    conditions: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()
    takes_any: bool = False

    @classmethod
    def of(cls, backbone: nn.Module) -> BackboneCall:
        """That of a backbone, or of what wraps one.

        Raises ``ValueError``, with the contract, if x_t cannot go in first.
        """
        first, rest = None, [*_signature(backbone).parameters.values()]
        if rest and rest[0].kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
            first, *rest = rest
        if first is None or first.name == "sigma" or any(p.name == "x_t" for p in rest):
            raise ValueError(f"{described(backbone)} does not take x_t first; {CONTRACT}")
        takes_any = any(p.kind is p.VAR_KEYWORD for p in rest)
        rest = [p for p in rest if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        named = {p.name: p for p in rest if p.kind is not p.POSITIONAL_ONLY}
        second = "sigma" not in named and bool(rest) and _may_be_sigma(rest[0])
        sigma = rest[0].name if second else "sigma" if "sigma" in named or takes_any else None
        return cls(
            sigma=sigma,
            second=second,
            conditions=frozenset(name for name in named if name != sigma),
            required=tuple(p.name for p in rest if p.name != sigma and p.default is p.empty),
            takes_any=takes_any,
        )

    def takes(self, condition: str) -> bool:
        """Whether a condition of that name can be given."""
        return self.takes_any or condition in self.conditions

    def __call__(
        self, backbone: nn.Module, x_t: Tensor, sigma: Tensor | None, conditions: Mapping[str, Any]
    ) -> Tensor:
        """What the backbone says of x_t at noise levels sigma Float[B], None if it is not told
        them, under ``conditions`` that it takes."""
        output: Tensor
        if self.second:
            output = backbone(x_t, sigma, **conditions)
        elif self.sigma is not None:
            output = backbone(x_t, sigma=sigma, **conditions)
        else:
            output = backbone(x_t, **conditions)
        return output


def described(backbone: nn.Module) -> str:
    """``TheirNet.forward(x, mask=None)``."""
    parameters = _signature(backbone).parameters.values()
    plain = Signature([p.replace(annotation=p.empty) for p in parameters])
    return f"{type(_written(backbone)).__name__}.forward{plain}"


def _may_be_sigma(second: Parameter) -> bool:
    if second.kind is second.KEYWORD_ONLY or second.name in OWN_CONDITIONS:
        return False
    is_time = second.name in ("t", "ts") or second.name.startswith(("time", "noise", "sigma"))
    return is_time or second.default is second.empty


def _written(backbone: nn.Module) -> nn.Module:
    """The network inside of those that hand everything on."""
    while True:
        inner = [m for name in _WRAPPED if (m := getattr(backbone, name, None)) is not None]
        kinds = {p.kind for p in _read(backbone).parameters.values()}
        if not inner or kinds != {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
            return backbone
        backbone = inner[0]


def _signature(backbone: nn.Module) -> Signature:
    return _read(_written(backbone))


def _read(backbone: nn.Module) -> Signature:
    try:
        return signature(backbone.forward)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"the arguments of {type(backbone).__name__}.forward cannot be read ({error}); call it "
            f"from the forward of an nn.Module; {CONTRACT}"
        ) from error
