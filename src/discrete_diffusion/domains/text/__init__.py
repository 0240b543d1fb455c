"""Text as tokens: characters or bytes, in contiguous windows."""

from discrete_diffusion.domains.text.dataset import TextDataset
from discrete_diffusion.domains.text.vocabulary import TextVocabulary

__all__ = ["TextDataset", "TextVocabulary"]
