"""Plans and partial diagrams in files of several formats."""
