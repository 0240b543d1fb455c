"""While a command runs: progress, files, stopping, sharing of work."""
