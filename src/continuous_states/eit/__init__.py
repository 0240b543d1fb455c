"""Electrical impedance tomography: conductivities of a disc with their boundary maps."""
