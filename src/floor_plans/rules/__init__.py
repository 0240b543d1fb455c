"""Rules of floor plans that people can live in: what each demands, and which plans keep them."""
