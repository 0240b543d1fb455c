"""Rewards of bubble diagrams: properties, floor plans, briefs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discrete_diffusion.runtime import Shard
from floor_plans.briefs.brief_request import BriefPredicate, check_brief
from floor_plans.briefs.reading import read_brief
from floor_plans.diagrams.diagram import BubbleDiagram
from floor_plans.diagrams.metrics.diagram_set import DiagramSet
from floor_plans.diagrams.metrics.structure import property_flags
from floor_plans.diagrams.vocabulary import vocabulary_of_graph
from floor_plans.plans.buildable import EFFORT, Buildable

if TYPE_CHECKING:
    from discrete_diffusion.domains import SampleScore
    from discrete_diffusion.layout import VocabConfig


def diagram_rewards(vocab: VocabConfig, file: str | None = None) -> dict[str, SampleScore]:
    """Return reward functions by name; each gives 1 or 0 for every diagram.

    They are the properties of ``property_flags``, and ``buildable`` if relations have directions.
    ``file``: a brief in YAML or JSON, which adds a reward for diagrams that meet the brief. Raises
    ``ValueError`` for a brief that no diagram meets.
    """
    words = vocabulary_of_graph(vocab)

    def property_score(name: str) -> SampleScore:
        return lambda diagrams: property_flags(DiagramSet(diagrams, words))[name].tolist()

    example = DiagramSet([BubbleDiagram((0,), ())], words)
    found = {name: property_score(name) for name in property_flags(example)}
    if words.has_directions:
        found["buildable"] = Buildable(EFFORT, Shard())
    if file is not None and file.endswith((".yaml", ".yml", ".json")):
        brief = check_brief(read_brief(file), vocab, f"reward={file}")
        found[file] = BriefPredicate(brief, Shard())
    return found
