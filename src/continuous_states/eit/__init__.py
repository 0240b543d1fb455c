"""Electrical impedance tomography: conductivities of a disc with their Dirichlet-to-Neumann
maps."""
