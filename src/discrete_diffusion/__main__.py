"""``python -m discrete_diffusion`` is the command ``discrete-diffusion``."""

from discrete_diffusion.cli import main

if __name__ == "__main__":
    main()
