"""Numbers of graphs: valid, unique, novel, and distances from other graphs."""
