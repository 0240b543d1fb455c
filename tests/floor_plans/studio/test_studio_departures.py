"""Clients that leave before their answer, break off, or send nothing: none keeps a place."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from discrete_diffusion import load
from floor_plans.studio import answering, guards
from floor_plans.studio.app import create_app

DRAW = ("complete", {"given": {"rooms": ["LivingRoom", None], "relations": []}})
BRIEF = ("brief", {"brief": {"num_rooms": 2}})
CLOSING = "Connection: close\r\n"


@asynccontextmanager
async def serving(app: Any, **settings: Any) -> AsyncIterator[Callable]:
    """What opens a connection, closed at the end, to an application that is served."""
    config = uvicorn.Config(
        app,
        port=0,
        log_config=None,
        http=guards.PromptProtocol,
        ws="none",
        timeout_graceful_shutdown=5,
        **settings,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    writers = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        await close(*writers)
        server.should_exit = True
        await task


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def header(path: str, length: int, more: str = "") -> bytes:
    kind = "Content-Type: application/json\r\n"
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}{more}Content-Length: {length}\r\n\r\n"
    ).encode()


async def sent(connect: Callable, path: str, body: dict, more: str = "") -> tuple:
    """A connection to which a whole request was sent."""
    reader, writer = await connect()
    content = json.dumps(body).encode()
    writer.write(header(f"/api/{path}", len(content), more) + content)
    await writer.drain()
    return reader, writer


async def answer_to(connect: Callable, path: str, body: dict) -> bytes:
    reader, _ = await sent(connect, path, body, CLOSING)
    async with asyncio.timeout(60):
        return await reader.read()


async def close(*writers: asyncio.StreamWriter) -> None:
    for each in writers:
        each.close()
        await each.wait_closed()


def test_a_body_that_breaks_off_is_not_worked_on():
    bodies, ended = [], []

    async def work(scope, receive, send):
        bodies.append((await receive())["body"])
        await guards.refusal(200, "none")(scope, receive, send)

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await guards.BodyLimit(work)(scope, receive, send)
            ended.append(scope["path"])

    async def run():
        async with serving(app, lifespan="off") as connect:
            _, writer = await connect()
            writer.write(header("/broken", 1000) + b"x" * 500)
            await writer.drain()
            await close(writer)
            await until(lambda: ended)
            assert b" 200 OK" in await answer_to(connect, "whole", {"x": 1})

    asyncio.run(run())
    assert ended == ["/broken", "/api/whole"]
    assert bodies == [b'{"x": 1}']


def test_work_ends_when_its_client_leaves_and_an_answer_is_whole_if_it_stays():
    begun, ended = [], []

    async def work(scope, receive, send):
        begun.append(scope["path"])
        try:
            await asyncio.sleep(3600 if scope["path"] == "/api/long" else 0.1)
            await guards.refusal(200, "x" * 300_000)(scope, receive, send)
        finally:
            ended.append(scope["path"])

    async def run():
        async with serving(guards.BodyLimit(work), lifespan="off") as connect:
            _, writer = await sent(connect, "long", {})
            await until(lambda: begun)
            assert not ended
            await close(writer)
            await until(lambda: ended == ["/api/long"])
            assert (await answer_to(connect, "short", {})).endswith(b'xxx"}')

    asyncio.run(run())


@pytest.mark.slow
def test_briefs_of_clients_that_left_keep_nobody_waiting(studio_run, monkeypatch):
    app, begun, stopped = create_app(load(studio_run)), [], []

    async def held(workers, function, ask, model):
        """The first is worked on until nobody wants it; the seven behind it wait."""
        begun.append(ask)
        if len(begun) == 1:
            try:
                await asyncio.sleep(3600)
            finally:
                stopped.append(ask)
        return {"diagrams": [], "seconds": 0.0}

    monkeypatch.setattr(answering, "run_sampling", held)

    async def run():
        async with serving(app) as connect:
            _, first = await sent(connect, *BRIEF)
            await until(lambda: begun)
            others = [(await sent(connect, *BRIEF))[1] for _ in range(7)]
            await until(lambda: app.state.studio.briefs.num == 8)
            assert b" 429 " in await answer_to(connect, *BRIEF)
            await close(*others)
            await until(lambda: app.state.studio.briefs.num == 1)
            assert not stopped
            await close(first)
            await until(lambda: stopped)
            assert b" 200 OK" in await answer_to(connect, *BRIEF)

    asyncio.run(run())
    assert len(begun) == 2  # none of the seven


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_diagrams_of_clients_that_left_keep_no_place_in_the_queue(studio_run, stream):
    app, begun, go = create_app(load(studio_run), most_waiting=2), [], threading.Event()
    batcher, draw = app.state.studio.batcher, app.state.studio.model.draw

    def held(asks):
        begun.extend(asks)
        assert go.wait(120)
        return draw(asks)

    app.state.studio.model.draw = held
    path, body = DRAW[0], DRAW[1] | {"stream": stream}

    async def run():
        async with serving(app) as connect:
            try:
                first, _ = await sent(connect, path, body | {"seed": 1}, CLOSING)
                await until(lambda: begun)
                leaving = [(await sent(connect, path, body | {"seed": 2}))[1] for _ in range(2)]
                await until(lambda: len(batcher) == 2)
                assert b" 429 " in await answer_to(connect, path, body)
                await close(*leaving)
                await until(lambda: all(future.cancelled() for _, future in batcher._waiting))
                last, _ = await sent(connect, path, body | {"seed": 3}, CLOSING)
                await until(lambda: [ask.seed for ask, _ in batcher._waiting] == [3])
            finally:
                go.set()
            answers = [await reader.read() for reader in (first, last)]
            assert all(b" 200 OK" in each for each in answers)
            assert all((b"event: done" in each) == stream for each in answers)
            assert all((b"event: revealed" in each) == stream for each in answers)

    asyncio.run(run())
    assert [ask.seed for ask in begun] == [1, 3]


def test_connections_without_a_request_are_closed_and_no_others(monkeypatch):
    monkeypatch.setattr(guards, "IDLE_SECONDS", 0.2)

    async def run():
        over = asyncio.Event()

        async def app(scope, receive, send):
            if scope["path"] == "/api/long":
                await over.wait()
            await guards.refusal(200, "none")(scope, receive, send)

        async with serving(app, lifespan="off") as connect, asyncio.timeout(60):
            try:
                long, _ = await sent(connect, "long", {}, CLOSING)
                silent, _ = await connect()
                half, writer = await connect()
                writer.write(header("/half", 0)[:-2])
                again, writer = await sent(connect, "short", {})
                assert (await again.readuntil(b"}")).endswith(b'{"error":"none"}')
                writer.write(header("/half", 0)[:-2])
                assert [await each.read() for each in (silent, half, again)] == [b""] * 3
            finally:
                over.set()
            assert b" 200 OK" in await long.read()  # it took longer than a connection may be idle

    asyncio.run(run())
