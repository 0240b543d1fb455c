"""Plans drawn from a grammar of floor plans: rooms, dissections, sites."""
