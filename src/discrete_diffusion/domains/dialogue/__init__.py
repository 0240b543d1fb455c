"""Dialogues with their summaries, of a grammar or from files, as texts and as token ids."""

from discrete_diffusion.domains.dialogue.dataset import DialogueData, DialogueTokens, PairDataset
from discrete_diffusion.domains.dialogue.grammar import SLOTS, DialoguePair, draw_dialogues
from discrete_diffusion.domains.dialogue.reading import (
    GivenDialogue,
    read_dialogues,
    read_given_dialogues,
)
from discrete_diffusion.domains.dialogue.splitting import nearest_other
from discrete_diffusion.domains.dialogue.words import (
    PretrainedTokenizer,
    Tokenizer,
    WordVocabulary,
    tokens_of,
)

__all__ = [
    "SLOTS",
    "DialogueData",
    "DialoguePair",
    "DialogueTokens",
    "GivenDialogue",
    "PairDataset",
    "PretrainedTokenizer",
    "Tokenizer",
    "WordVocabulary",
    "draw_dialogues",
    "nearest_other",
    "read_dialogues",
    "read_given_dialogues",
    "tokens_of",
]
