"""Text as tokens: characters or bytes, in contiguous windows."""
