"""What ``eit.py`` found, as sentences and tables of ``docs/results_other_data.md``."""

from __future__ import annotations

from typing import Any

from record import Record, Sections, percent

BASELINES = {"mean_image": "mean image", "ridge": "ridge regression"}
SCORES = "| relative L2 | of one draw | gap |"


def sections(record: Record) -> Sections:
    """What is there of the simulator's time, the two recipes and the variants."""
    results, texts = record.results, dict[str, str]()
    if "simulator" in results:
        texts["eit simulator"] = _simulator(results["simulator"], record.hardware)
    if "recipes" in results:
        texts["eit recipes"] = _recipes(results)
        texts["eit shifts"] = _shifts(results["recipes"])
    if "arms" in results:
        texts["eit arms"] = _arms(results)
    return {("results_other_data.md", name): text for name, text in texts.items()}


def _simulator(found: dict[str, float], hardware: str) -> str:
    return (
        f"{found['samples']:,} phantoms and their maps: {found['cpu_seconds']:.2f} CPU-seconds of "
        f"one thread ({hardware})."
    )


def _recipes(results: dict[str, Any]) -> str:
    first = next(iter(results["recipes"].values()))["test"]
    lines = [f"| {SCORES} spread | pixel accuracy | CPU-minutes | parameters |"]
    lines.append("|---|" + "---:|" * 7)
    for key, name in BASELINES.items():
        accuracy = percent(first[f"{key}_pixel_accuracy"])
        lines.append(f"| {name} | {first[f'{key}_relative_l2']:.3f} | | | | {accuracy} | | |")
    for name, found in results["recipes"].items():
        cells = [
            *_scores(found["test"]),
            f"{found['test']['spread_ratio']:.2f}",
            percent(found["test"]["pixel_accuracy"]),
            f"{found['cpu_seconds'] / 60:.1f}",
            f"{found['parameters']:,}",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shifts(recipes: dict[str, Any]) -> str:
    """Relative L2 of everybody, a shift per line."""
    whose = [*BASELINES.values(), *recipes]
    lines = [f"| relative L2 | {' | '.join(whose)} |", "|---|" + "---:|" * len(whose)]
    for what in next(iter(recipes.values()))["shifts"]:
        found = [recipe["shifts"][what] for recipe in recipes.values()]
        cells = [f"{found[0][f'{key}_relative_l2']:.3f}" for key in BASELINES]
        cells += [f"{each['relative_l2']:.3f}" for each in found]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _arms(results: dict[str, Any]) -> str:
    lines = [f"| {SCORES} steps | CPU-minutes |", "|---|" + "---:|" * 5]
    for name, found in results["arms"].items():
        cells = [
            *_scores(found["test"]),
            f"{found['steps']:,}",
            f"{found['cpu_seconds'] / 60:.1f}",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _scores(test: dict[str, float]) -> list[str]:
    """The columns of ``SCORES``."""
    return [
        f"{test['relative_l2']:.3f} ± {test['relative_l2_standard_error']:.3f}",
        f"{test['relative_l2_single']:.3f}",
        f"{test['condition_gap']:.3f} ± {test['condition_gap_standard_error']:.3f}",
    ]
