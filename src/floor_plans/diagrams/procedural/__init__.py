"""Plans sampled from a grammar of floor plans: rooms, dissections, sites."""
