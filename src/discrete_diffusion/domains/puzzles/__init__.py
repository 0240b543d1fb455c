"""Puzzles, whose solutions are right or wrong by rules: Sudoku and graph colouring."""
