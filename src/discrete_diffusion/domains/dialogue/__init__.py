"""Dialogues with their summaries, of a grammar or from files, as texts and as token ids."""

from discrete_diffusion.domains.dialogue.dataset import DialogueData, DialogueTokens, PairDataset
from discrete_diffusion.domains.dialogue.grammar import SLOTS, DialoguePair, draw_dialogues
from discrete_diffusion.domains.dialogue.reading import read_dialogues
from discrete_diffusion.domains.dialogue.splitting import nearest_other
from discrete_diffusion.domains.dialogue.words import (
    PretrainedTokenizer,
    WordVocabulary,
    tokens_of,
)

__all__ = [
    "SLOTS",
    "DialogueData",
    "DialoguePair",
    "DialogueTokens",
    "PairDataset",
    "PretrainedTokenizer",
    "WordVocabulary",
    "draw_dialogues",
    "nearest_other",
    "read_dialogues",
    "tokens_of",
]
