"""What the site has beside ``docs/``: root pages, report, notebook, Python reference, sources.

Links of pages to files of the repository lead to copies of them, so that the site needs no other
host.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(\]\()(\.\./[^)#\s]+)")
"""Of a page to what lies above its folder."""

ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/REPORT.md": "report.md",
}

REFERENCE = {
    "Load, sample, share": (
        "discrete_diffusion.api.loading.load",
        "discrete_diffusion.api.loading.SampleFunction",
        "discrete_diffusion.api.loading.evaluate",
        "discrete_diffusion.api.loading.log_prob",
        "discrete_diffusion.runs.train",
        "discrete_diffusion.runs.compare",
        "discrete_diffusion.checkpoints.sharing.save_pretrained",
        "discrete_diffusion.checkpoints.sharing.push_to_hub",
    ),
    "Plug in": (
        "discrete_diffusion.models.registry.register_backbone",
        "discrete_diffusion.models.registry.build_backbone",
        "discrete_diffusion.algorithms.registry.register_algorithm",
        "discrete_diffusion.sampling.registry.register_sampler",
        "discrete_diffusion.noise_schedules.registry.register_noise_schedule",
        "discrete_diffusion.domains.registry.register_domain",
    ),
    "Contracts": (
        "discrete_diffusion.algorithms.base.Algorithm",
        "discrete_diffusion.algorithms.token_algorithm.TokenAlgorithm",
        "discrete_diffusion.algorithms.token_algorithm.SamplingOptions",
        "discrete_diffusion.sampling.tokens.TokenSampler",
        "discrete_diffusion.forward_process.base.ForwardProcess",
        "discrete_diffusion.noise_schedules.base.Schedule",
        "discrete_diffusion.domains.domain.Domain",
        "discrete_diffusion.layout.token_layout.TokenLayout",
        "discrete_diffusion.layout.vocab_config.VocabConfig",
        "discrete_diffusion.contracts",
    ),
    "MDLM and its sampler": (
        "discrete_diffusion.algorithms.mdlm.MDLM",
        "discrete_diffusion.sampling.first_hitting.FirstHitting",
    ),
    "The flagship": (
        "discrete_diffusion.models.bd_denoiser_pair.BDDenoiserPair",
        "discrete_diffusion.models.bd_denoiser.BDDenoiser",
        "floor_plans.BubbleDiagram",
        "floor_plans.Diagrams",
        "floor_plans.PlanRequest",
        "floor_plans.briefs.Brief",
    ),
}


def on_files(files: Files, config: Any) -> Files:
    def add(path: str, content: str | bytes) -> None:
        files.append(File.generated(config, path, content=content))

    for name, page in ROOT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        add(page, _as_of_docs(text, Path(name).parent))
    add("api.md", _reference())
    notebook, pictures = MarkdownExporter().from_filename(ROOT / "examples" / "plans.ipynb")
    for name, picture in pictures.get("outputs", {}).items():
        add(name, picture)
    add("notebook.md", notebook.replace("](../docs/", "]("))
    pages = [file for file in files if file.is_documentation_page()]
    linked = {
        _linked(page.src_uri, link)
        for page in pages
        for _, link in _LINK.findall(page.content_string)
    }
    for name in sorted(linked - {*ROOT_PAGES}):
        source = ROOT / name
        if name.startswith("docs/"):  # stays where it is
            continue
        if source.is_dir():
            add(_place(name), "\n".join(sorted(file.name for file in source.iterdir())) + "\n")
        elif source.is_file():  # others are left as they are, and end the build
            add(_place(name), source.read_bytes())
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    def link(match: re.Match[str]) -> str:
        name = _linked(page.file.src_uri, match[2])
        if name.startswith("docs/"):
            return match[0]
        return match[1] + os.path.relpath(_place(name), os.path.dirname(page.file.src_uri) or ".")

    return _LINK.sub(link, markdown)


def _linked(page: str, link: str) -> str:
    """The path in the repository that ``link`` of a page of ``docs/`` leads to."""
    return os.path.normpath(os.path.join("docs", os.path.dirname(page), link))


def _place(name: str) -> str:
    """Its page, or where the copy of a file lies; browsers show text, not code."""
    if name in ROOT_PAGES:
        return ROOT_PAGES[name]
    path = f"source/{name}"
    return path if path.endswith((".ipynb", ".png", ".svg", ".jsonl")) else f"{path}.txt"


def _as_of_docs(page: str, folder: Path) -> str:
    """A page of ``folder`` with the links that it would have in ``docs/``."""

    def link(match: re.Match[str]) -> str:
        path = os.path.normpath(folder / match[1])
        return f"]({os.path.relpath(path, 'docs')}"

    return re.sub(r"\]\((?!#|\w+:)([^)#\s]+)", link, page)


def _reference() -> str:
    parts = ["# Python"]
    for title, names in REFERENCE.items():
        parts += [f"## {title}", *(f"::: {name}" for name in names)]
    return "\n\n".join(parts) + "\n"
