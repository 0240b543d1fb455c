"""The text that comes with Python."""

from __future__ import annotations

from discrete_diffusion.data.text_files import TextSource


def embedded_text() -> TextSource:
    """The help pages of Python's language reference, which every CPython carries for ``help()``.

    About 0.5 MB of English, the same for one version of Python; for smoke tests. Raises
    ``ValueError`` if the installation was stripped of them.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise ValueError(
            "this Python has no pydoc_data.topics to take text from; give data.path=FILE"
        ) from error
    pages = (topics[name].strip() for name in sorted(topics))
    return TextSource("the help pages of Python (pydoc_data.topics)", "\n\n".join(pages) + "\n")
