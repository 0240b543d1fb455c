"""Dialogues with their summaries, from a grammar or from files, as texts and as token ids."""
