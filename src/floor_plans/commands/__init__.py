"""``discrete-diffusion data``: check, describe, convert."""
