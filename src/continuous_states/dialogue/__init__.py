"""Dialogues with their summaries, of a grammar or from files, as texts and as token ids."""
