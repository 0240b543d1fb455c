"""Parts of several networks: ``transformer``, ``attention``, ``packing`` of columns, ``images``."""
