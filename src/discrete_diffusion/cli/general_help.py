"""What ``discrete-diffusion --help`` prints."""

from __future__ import annotations

from discrete_diffusion.domains.registry import DEFAULT, available_domains, get_domain

_HELP = """\
discrete-diffusion: train and sample discrete diffusion models.

  discrete-diffusion train   [key=value ...]   train a model; no arguments: the defaults
  discrete-diffusion sample  checkpoint=RUN    draw samples from a run folder, or a .ckpt file;
                                               without checkpoint from the model in the box
  discrete-diffusion sample  checkpoint=RUN given=FILE   complete what is given in part
  discrete-diffusion evaluate checkpoint=RUN | samples=FILE   measure samples and model
  discrete-diffusion compare algos=[mdlm,udlm] seeds=[0,1]   train and measure them side by side
  discrete-diffusion export  checkpoint=RUN format=onnx | mdlm   the network, for other code
  discrete-diffusion data    describe | check | convert | tokenize | ...   plans, text, the cache
{commands}\
  discrete-diffusion new     NAME              a package of your own, with a backbone and its tests
  discrete-diffusion list                      backbones, algorithms, samplers, data; what fits what

Train a denoiser with MDLM, then sample it:

  discrete-diffusion train {data}hydra.run.dir=runs/first trainer.max_steps=3000
  discrete-diffusion sample checkpoint=runs/first num_samples=64 out=samples

Every setting is a config value; key=value on the command line overrides it:

  algo.backbone=dit        another backbone        model=bd_base          a larger preset
  noise=cosine             another schedule        sampling=ancestral     another sampler
  optim=muon               another optimiser       logger=[csv,wandb]     several loggers
{settings}\
  init.checkpoint=RUN      weights to start from; init.parts=[encoder] takes parts of them
  trainer.max_steps=5000   optim.lr=5e-4           hydra.run.dir=runs/a   where the run is written
  plugins=[my_module]      your own modules, imported first, with backbones, algorithms, ...

  discrete-diffusion train --help              every group and key of a command, and the defaults
  discrete-diffusion train --cfg job           the composed config, without running it
  HYDRA_FULL_ERROR=1                           before a command: the whole trace of an error
"""


def general_help() -> str:
    """The general help, with what the installed kinds of data add to it."""
    domains = [get_domain(name) for name in available_domains()]
    commands = [f"  discrete-diffusion {line}\n" for each in domains for line in each.command_help]
    settings = [f"  {line}\n" for each in domains for line in each.setting_help]
    return _HELP.format(
        commands="".join(commands),
        settings="".join(settings),
        data=""
        if any(each.name == DEFAULT for each in domains)
        else "data=text data.path=FILE algo.backbone=dit ",
    )
