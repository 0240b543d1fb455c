"""Signatures say what a config may set: the same read off the source as off the class, and held to
where an object is made."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import pytest

from discrete_diffusion.composing.parts import PART_GROUPS, registry_of
from discrete_diffusion.config.constructors import signature_of
from discrete_diffusion.config.signatures import Checked, Limit, check_value
from discrete_diffusion.config.values import Bounds, Count, OneOf
from discrete_diffusion.sampling import Ancestral


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


class Part(Checked):
    section = "algo"

    def __init__(self, given: object, *, count: Count = 1) -> None:
        self.count = count


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: Part(1, count=0), r"algo\.count=0: expected a whole number, at least 1"),
        (lambda: Ancestral(grid="unifrm"), r"sampling\.grid 'unifrm'; did you mean 'uniform'"),
    ],
)
def test_constructors_refuse_what_their_signature_rules_out(build, named):
    with pytest.raises(ValueError, match=named):
        build()
    assert [*signature_of(Part)] == ["given", "count"]
    assert Part(1, count=3).count == 3
