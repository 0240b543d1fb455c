"""``discrete-diffusion studio``: a local page to draw, complete and realise diagrams."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
import webbrowser
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

from discrete_diffusion.domains import SubCommand
from discrete_diffusion.runtime import install_command
from floor_plans.box import MODEL
from floor_plans.studio import LOCAL
from floor_plans.typed_options import add_options, option

_MOST_CONNECTIONS = 256
_STOP_SECONDS = 10  # seconds in which requests have to end when the studio is stopped


class _Options:
    checkpoint: str = option(
        "RUN: what sample takes: a run folder, a file of weights, a name", MODEL
    )
    plugins: str = option(
        "NAMES: your own modules that the model needs, imported first: [my_module]", ""
    )
    port: int = option("PORT: to answer at", 8765)
    host: str = option(
        "HOST: to answer at; another than the default, which this machine alone reaches, needs "
        "--token",
        LOCAL[0],
    )
    token: str | None = option("WORD: that every request has to send")
    open: str = option("open the page in a browser", "true", choices=("true", "false"))
    threads: int | None = option("P: that the network uses (default: one per core)")
    workers: int | None = option(
        "P: processes that find plans, of some 300 MB each (default: one per core)"
    )


def _run(options: argparse.Namespace) -> None:
    """Serve a page to draw diagrams, complete them by a model and realise them as floor plans, and
    a JSON API for these tasks; see docs/floor_plans/studio.md. Ctrl-C ends it."""
    _check(options)
    import torch
    import uvicorn

    from floor_plans.studio.app import create_app
    from floor_plans.studio.guards import JsonLines, PromptProtocol, PromptServer

    # load the model, and start the processes that share it
    workers = options.workers or torch.get_num_threads()  # one per core
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    plugins = [name for name in options.plugins.strip("[]").replace(" ", "").split(",") if name]
    model = options.load(options.checkpoint, plugins=plugins)
    app = create_app(model, token=options.token, workers=workers)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)
    host = f"[{options.host}]" if ":" in options.host else options.host  # IPv6
    address = f"http://{host}:{options.port}/"
    print(f"the studio is at {address}; Ctrl-C ends it", flush=True)
    if options.open == "true":
        threading.Timer(1.0, webbrowser.open, [address]).start()
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again when it has stopped; the log has JSON lines alone
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        http=PromptProtocol,
        log_config=None,
        access_log=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=30,  # PromptProtocol closes before
        timeout_graceful_shutdown=_STOP_SECONDS,
        server_header=False,
    )
    with suppress(KeyboardInterrupt):  # raised again when the server has ended
        PromptServer(config).run()


def _check(options: argparse.Namespace) -> None:
    """Raise ``ValueError`` for wrong options, before anything is loaded."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise ValueError(f"the studio takes FastAPI: {install_command('studio')}")
    if not 0 < options.port < 2**16:
        raise ValueError(f"port={options.port}: expected a number from 1 to 65535")
    for name, number in (("threads", options.threads), ("workers", options.workers)):
        if number is not None and number < 1:
            raise ValueError(f"{name}={number}: expected at least 1")
    token = options.token or ""
    if not token.isprintable() or token != token.strip():
        raise ValueError(
            f"token={token!a}: expected a word of letters, digits and signs, which a header "
            "can hold; take out line ends and blanks around it"
        )
    if options.host not in LOCAL and not options.token:
        raise ValueError(
            f"host={options.host} can be reached by other machines, so it needs token=WORD, which "
            "every request then has to say; leave host out to serve this machine alone"
        )


STUDIO = SubCommand(
    "[checkpoint=RUN] [port=8765] [open=false]   draw, complete and realise on a local page",
    partial(add_options, options=_Options),
    _run,
)
