"""Options and signatures: what a config may set, refused by the user's key."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Annotated, Literal, TypedDict, Unpack

import pytest

from composed import composed
from discrete_diffusion.algorithms import build_algorithm
from discrete_diffusion.composing.parts import PART_GROUPS, registry_of
from discrete_diffusion.config.constructors import check_options, signature_of
from discrete_diffusion.config.values import (
    Bounds,
    Checked,
    Count,
    Limit,
    OneOf,
    are_whole_numbers,
    check_value,
    check_whole_number,
)
from discrete_diffusion.sampling import Ancestral, build_sampler


class Part:
    def __init__(
        self,
        given: object,
        *,
        count: int,
        size: int | None = None,
        share: float = 1,
        on: bool = True,
        kind: str = "a",
    ) -> None: ...


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"count": 0, "size": None, "share": 2, "on": False, "kind": 7}, None),
        ({"count": -1, "size": 4, "share": 0.5}, None),
        ({"count": 1, "sise": 2}, "part has no setting 'sise'; it has count, kind, on, share, si"),
        ({"count": 1, "given": 2}, "part has no setting 'given'"),
        ({"size": 2}, r"part needs algo\.count="),
        ({"count": 1.0}, r"algo\.count=1\.0: expected a whole number$"),
        ({"count": True}, r"algo\.count=True: expected a whole number"),
        ({"count": None}, r"algo\.count=null: expected a whole number"),
        ({"count": 1, "size": "abc"}, r"algo\.size=abc: expected a whole number or null"),
        ({"count": 1, "share": "1"}, r"algo\.share=1: expected a number"),
        ({"count": 1, "share": False}, r"algo\.share=False: expected a number"),
        ({"count": 1, "on": 1}, r"algo\.on=1: expected true or false"),
    ],
)
def test_options_fit_a_signature(options, sentence):
    with nullcontext() if sentence is None else pytest.raises(ValueError, match=sentence):
        check_options("algo", "part", Part, options, given=1)


class Shared(TypedDict, total=False):
    share: float


class Derived(Part):
    def __init__(self, given: object, *, on: bool = True, **options: Unpack[Shared]) -> None: ...


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"count": 1}, "part has no setting 'count'; it has on, share"),
        ({"on": 1}, r"algo\.on=1: expected true or false"),
        ({"share": "1"}, r"algo\.share=1: expected a number"),
    ],
)
def test_options_handed_to_the_base_are_those_of_their_dictionary(options, sentence):
    check_options("algo", "part", Derived, {"on": False, "share": 2}, given=1)
    with pytest.raises(ValueError, match=sentence):
        check_options("algo", "part", Derived, options, given=1)


def test_types_count_as_their_names():
    """Annotations of a module without postponed evaluation."""

    def build(count):
        pass

    for annotation in (int, int | None):
        build.__annotations__["count"] = annotation
        with pytest.raises(ValueError, match="expected a whole number"):
            check_options("algo", "part", build, {"count": 0.5})


def test_a_builder_of_any_keyword_checks_itself():
    check_options("algo", "part", lambda backbone, **options: None, {"anything": 1}, given=1)


def test_whole_numbers():
    check_whole_number("n", 2, least=2)
    for value in (1, 2.0, "2", None, True):
        with pytest.raises(ValueError, match="expected a whole number, at least 2"):
            check_whole_number("n", value, least=2)
    assert are_whole_numbers([1, 2])
    for values in (1, "12", [1.0], [True], None, {1: 2}):
        assert not are_whole_numbers(values)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["+algo.block_size=2"], "mdlm has no setting 'block_size'; it has condition_dropout, ti"),
        (
            ["++schedule.exponent_per=token"],
            "log_linear has no setting 'exponent_per'; it has none",
        ),
        (["+forward_process.gamma=1"], "absorbing has no setting 'gamma'; it has none"),
        (["+sampling.steps=2"], "first-hitting has no setting 'steps'; it has guidance, refres"),
    ],
)
def test_every_builder_names_the_setting(overrides, sentence):
    config = composed("train", ["model=bd_tiny", *overrides])
    with pytest.raises(ValueError, match=sentence):
        build_sampler(config) if "sampling" in overrides[0] else build_algorithm(config)


def test_options_typed_for_a_type_checker_alone_go_unchecked():
    def build(given: object, **options: Unpack[Unknown]) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    check_options("algo", "mine", build, {"count": 3}, given=1)


@pytest.mark.parametrize("group", PART_GROUPS)
def test_the_source_says_what_the_class_says(group):
    registry = registry_of(group)
    for name in registry.names():
        read, imported = signature_of(registry.entry(name)), signature_of(registry.find(name))
        assert read.keys() == imported.keys()
        for key, parameter in read.items():
            same = imported[key]
            assert Limit.of(parameter.annotation) == Limit.of(same.annotation), (name, key)
            assert parameter.default == same.default, (name, key)


ORDERS = {"first": min, "last": max}


@pytest.mark.parametrize(
    ("annotation", "good", "bad", "text"),
    [
        (Count, (1, 7), (0, -1, 1.0, True, "1", None), "a whole number, at least 1"),
        (Count | None, (None, 2), (0, "x"), "a whole number, at least 1, or null"),
        (float, (1, 0.5, -2.0), (math.inf, math.nan, "1", True), "a number"),
        (Annotated[float, Bounds(above=0)], (0.1, 3), (0, -1, math.inf), "a number above 0"),
        (Annotated[float, Bounds(above=0, most=1)], (1, 0.5), (0, 1.5), r"a number in \(0, 1\]"),
        (Annotated[float, Bounds(least=0, below=1)], (0, 0.5), (1,), r"a number in \[0, 1\)"),
        (bool, (True, False), (0, 1, "true"), "true or false"),
        (Literal["a", "b"], ("a",), ("c", 1, None), "Available: a, b"),
        (Annotated[str, OneOf(ORDERS)] | list[int], ("last", [1]), ("lst",), "mean 'last'"),
        (str | int, ("x", None, []), (), ""),
    ],
)
def test_values(annotation, good, bad, text):
    for value in good:
        check_value("key", value, annotation)
    for value in bad:
        with pytest.raises(ValueError, match=f"key.*{text}"):
            check_value("key", value, annotation)


class CheckedPart(Checked):
    section = "algo"

    def __init__(self, given: object, *, count: Count = 1) -> None:
        self.count = count


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: CheckedPart(1, count=0), r"algo\.count=0: expected a whole number, at least 1"),
        (lambda: Ancestral(grid="unifrm"), r"sampling\.grid 'unifrm'; did you mean 'uniform'"),
    ],
)
def test_constructors_refuse_what_their_signature_rules_out(build, named):
    with pytest.raises(ValueError, match=named):
        build()
    assert [*signature_of(CheckedPart)] == ["given", "count"]
    assert CheckedPart(1, count=3).count == 3
