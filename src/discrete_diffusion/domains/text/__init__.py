"""Text as tokens: characters or bytes, in contiguous windows."""

from discrete_diffusion.data.text_files import TextSource, read_text
from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.embedded import embedded_text
from discrete_diffusion.domains.text.vocabulary import TextVocabulary, vocabulary_of
from discrete_diffusion.domains.text.writing import write_texts

__all__ = [
    "TextDataset",
    "TextSource",
    "TextVocabulary",
    "embedded_text",
    "read_text",
    "vocabulary_of",
    "write_texts",
]
