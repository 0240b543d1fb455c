"""What a bubble diagram is: rooms, relations, tokens, files, the generator, metrics, pictures."""
