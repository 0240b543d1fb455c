"""The JSON API of the studio, in this process."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from discrete_diffusion import load
from floor_plans import BubbleDiagram, PartialDiagram
from floor_plans.diagrams.files.graph_formats import from_graphml
from floor_plans.studio.app import create_app
from floor_plans.studio.sampling import Ask, Batcher
from plan_examples import agrees

GIVEN = {
    "rooms": ["LivingRoom", "Kitchen", None, "Bathroom", None],
    "relations": [[1, 0, "left-of"], [3, 1, "no-edge"]],
}
CIRCLE = {
    "rooms": ["LivingRoom", "Kitchen", None],
    "relations": [[0, 1, "left-of"], [1, 2, "left-of"], [2, 0, "left-of"]],
}
PLAN = {
    "rooms": ["LivingRoom", "Kitchen", "MasterRoom"],
    "relations": [[1, 0, "left-of"], [2, 0, "above"]],
}
FLAT = {
    "rooms": ["LivingRoom", "Kitchen"],
    "relations": [],
    "boxes": [[0, 0, 5, 4], [1, 1, 3, 1]],
    "unit": "metres",
    "doors": [{"rooms": [0, 1], "from": [1, 1], "to": [2, 1]}],
}
LOCAL = "http://127.0.0.1"


class Held:
    """Makes a model wait before it draws, until ``go``; ``sizes``: requests of each batch."""

    def __init__(self, model) -> None:
        self.begun, self.go, self.sizes = threading.Event(), threading.Event(), []
        self._draw, model.draw = model.draw, self

    def __call__(self, asks):
        self.sizes.append(len(asks))
        self.begun.set()
        assert self.go.wait(120)
        return self._draw(asks)


@pytest.fixture(scope="module")
def app(studio_run):
    return create_app(load(studio_run))


@pytest.fixture(scope="module")
def client(app):
    with TestClient(app, base_url=LOCAL) as client:
        yield client


def asked(client, path, status=200, **body):
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(client, path, **body):
    return asked(client, path, 400, **body)["error"]


@pytest.mark.slow
def test_completions_keep_all_that_is_given(client):
    found = asked(client, "complete", given=GIVEN, completions=3, seed=5)
    assert len(found["diagrams"]) == 3
    partial = PartialDiagram.from_json(GIVEN)
    assert all(agrees(partial, BubbleDiagram.from_json(each)) for each in found["diagrams"])
    assert found["approximate"] == []
    again = asked(client, "complete", given=GIVEN, completions=3, seed=5)
    assert again["diagrams"] == found["diagrams"]
    other = asked(client, "complete", given=GIVEN, completions=3, seed=6)
    assert other["diagrams"] != found["diagrams"]


def test_a_model_of_nan_is_told(studio_run):
    trained = load(studio_run)
    for weight in trained.backbone.parameters():
        weight.data.fill_(math.nan)
    with TestClient(create_app(trained), base_url=LOCAL) as client:
        error = refused(client, "complete", given=GIVEN)
    assert "NaN or infinite logits" in error
    assert "take an earlier checkpoint" in error


def test_the_events_reveal_every_token_of_the_answer(client):
    body = {"given": GIVEN, "completions": 2, "stream": True, "positions": True}
    events = []
    with client.stream("POST", "/api/complete", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for block in "".join(answer.iter_text()).strip().split("\n\n"):
            name, data = block.split("\n")
            events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert [name for name, _ in events] == ["revealed"] * (len(events) - 1) + ["done"]
    diagrams = events[-1][1]["diagrams"]
    assert all(len(each["positions"]) == 5 for each in diagrams)
    rooms = [[*GIVEN["rooms"]] for _ in diagrams]
    relations = [{(0, 1): "right-of", (1, 3): "no-edge"} for _ in diagrams]
    for _, step in events[:-1]:
        for each in step:
            if "room" in each:
                assert rooms[each["completion"]][each["room"]] is None
                rooms[each["completion"]][each["room"]] = each["type"]
            else:
                relations[each["completion"]][tuple(each["pair"])] = each["relation"]
    for diagram, types, pairs in zip(diagrams, rooms, relations, strict=True):
        assert diagram["rooms"] == types
        assert len(pairs) == 10
        listed = {(i, j): name for i, j, name in diagram["relations"]}
        assert listed == {pair: name for pair, name in pairs.items() if name != "no-edge"}


def test_samples_have_the_asked_number_of_rooms(client):
    found = asked(client, "sample", num=3, num_rooms=6, seed=1)
    assert [len(each["rooms"]) for each in found["diagrams"]] == [6, 6, 6]
    assert len(asked(client, "sample", num=2)["diagrams"]) == 2


@pytest.mark.slow
def test_an_answer_does_not_depend_on_what_is_drawn_beside_it(app):
    model = app.state.studio.model
    asks = [
        Ask([PartialDiagram.from_json(GIVEN)], 3, 7),
        Ask(model.fresh(4, None, 1), 1, 1),
        Ask([PartialDiagram.from_json({"rooms": [None] * 7})], 2, 7),
    ]
    together = model.draw(asks)
    for ask, answer in zip(asks, together, strict=True):
        assert model.draw([ask])[0].diagrams == answer.diagrams


@pytest.mark.slow
def test_requests_that_wait_are_answered_together(app, client, monkeypatch):
    studio = app.state.studio
    alone = {seed: asked(client, "complete", given=GIVEN, seed=seed) for seed in range(5)}
    monkeypatch.setattr(studio.model, "draw", studio.model.draw)  # to be taken back
    held = Held(studio.model)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(asked, client, "complete", given=GIVEN, seed=0)
        assert held.begun.wait(120)
        rest = [pool.submit(asked, client, "complete", given=GIVEN, seed=k) for k in range(1, 5)]
        while client.get("/healthz").json()["waiting"] < 4:
            pass
        held.go.set()
        found = [each.result()["diagrams"] for each in (first, *rest)]
    assert held.sizes == [1, 4]
    assert found == [alone[seed]["diagrams"] for seed in range(5)]


def test_a_full_queue_sends_away(studio_run):
    app = create_app(load(studio_run), most_waiting=1)
    held = Held(app.state.studio.model)
    with TestClient(app, base_url=LOCAL) as client, ThreadPoolExecutor(2) as pool:
        first = pool.submit(asked, client, "complete", given=GIVEN)
        assert held.begun.wait(120)
        second = pool.submit(asked, client, "complete", given=GIVEN)
        while client.get("/healthz").json()["waiting"] < 1:
            pass
        answer = client.post("/api/complete", json={"given": GIVEN})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "2"
        assert answer.json() == {"error": "too many requests are waiting; try again in 2 s"}
        held.go.set()
        assert first.result()["diagrams"] == second.result()["diagrams"]


@pytest.mark.slow
def test_what_takes_too_long_is_given_up(studio_run):
    app = create_app(load(studio_run), seconds=0.3)
    held = Held(app.state.studio.model)
    with TestClient(app, base_url=LOCAL) as client:
        answer = client.post("/api/complete", json={"given": GIVEN})
        assert answer.status_code == 504
        assert answer.json()["error"].startswith("this took too long")
        body = {"given": GIVEN, "stream": True}
        assert client.post("/api/complete", json=body).text.startswith("event: error")
        assert held.begun.is_set()
        held.go.set()


def test_one_request_that_cannot_be_answered_takes_no_other_with_it(app, client, monkeypatch):
    model = app.state.studio.model
    draw = model.draw

    def failing(asks):
        if any(ask.seed == 13 for ask in asks):
            raise ValueError("thirteen")
        return draw(asks)

    monkeypatch.setattr(model, "draw", failing)
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(
            lambda seed: client.post("/api/complete", json={"given": GIVEN, "seed": seed}),
            (12, 13, 14, 13),
        )
    assert [answer.status_code for answer in answers] == [200, 400, 200, 400]


def test_a_batch_that_failed_is_heard_once(app):
    """Of two requests together one fails at the end: the other, drawn anew, is not told again."""
    model = app.state.studio.model
    heard = []
    ask = Ask([PartialDiagram.from_json(GIVEN)], 2, 5, heard.append)
    draw = model.draw

    def failing(asks):
        answers = draw(asks)
        if len(asks) > 1:
            raise ValueError("together they fail")
        return answers

    batcher = Batcher(SimpleNamespace(draw=failing))

    async def both():
        return await asyncio.gather(*map(batcher.submit, (ask, replace(ask, on_revealed=None))))

    first, second = asyncio.run(both())
    assert batcher.last_batch == 2
    assert first.diagrams == second.diagrams == draw([replace(ask, on_revealed=None)])[0].diagrams
    places = [
        (each["completion"], each.get("room"), tuple(each.get("pair", ())))
        for step in heard
        for each in step
    ]
    assert len(places) == len(set(places)) == 2 * (2 + 8)


def test_an_unexpected_error_is_the_last_event_of_a_stream(app, client, monkeypatch, caplog):
    draw = app.state.studio.model.draw

    def failing(asks):
        draw(asks)
        raise KeyError("nobody expects it")

    monkeypatch.setattr(app.state.studio.model, "draw", failing)
    for path, body in (("complete", {"given": GIVEN}), ("sample", {"num": 2})):
        answer = client.post(f"/api/{path}", json={**body, "stream": True})
        *before, (name, data) = (block.split("\n") for block in answer.text.strip().split("\n\n"))
        assert all(name == "event: revealed" for name, _ in before)
        assert name == "event: error"
        assert "log says why" in json.loads(data.removeprefix("data: "))["error"]
        assert "nobody" not in answer.text
    assert any(record.exc_info for record in caplog.records)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("complete", {}, "given: field required"),
        ("complete", {"given": GIVEN, "completions": 900}, "completions: input should be less"),
        ("complete", {"given": GIVEN, "completion": 3}, "completion: extra inputs are not"),
        ("complete", {"given": {"rooms": []}}, "given.rooms: list should have at least 1 item"),
        ("complete", {"given": {"rooms": ["Kichen"]}}, "did you mean 'Kitchen'"),
        ("complete", {"given": {"rooms": [None] * 9}}, "rooms: 9 of them, but the model was"),
        ("complete", {"given": {"rooms": ["Garage"]}}, "rooms[0]: the model does not know"),
        ("complete", {"given": CIRCLE}, "room 2 would be left of itself"),
        ("sample", {"num_rooms": 9}, "rooms: 9 of them, but the model was"),
        ("brief", {"brief": {"rooms": {"Bathrom": 1}}}, "did you mean 'Bathroom'"),
        ("brief", {"brief": {"num_rooms": 3, "rooms": {"Kitchen": 4}}}, "meets these together"),
        ("check", {}, "body: give a diagram or a brief, one of them"),
        ("realise", {"diagram": PLAN, "ratio": 20}, "ratio: input should be less than or equal"),
        ("realise", {"diagram": GIVEN}, "rooms[2]"),
        ("export", {"diagram": PLAN, "format": "doc"}, "format: input should be 'json', 'svg'"),
        ("export", {"diagram": PLAN, "format": "dxf"}, "realise the diagram first"),
        ("export", {"diagram": GIVEN, "format": "svg"}, "complete it first"),
        ("export", {"plan": FLAT, "format": "svg"}, "kitchen has no area (2 x 0 m)"),
    ],
)
def test_a_bad_request_gets_a_sentence(client, path, body, sentence):
    found = refused(client, path, **body)
    assert sentence in found
    assert "Traceback" not in found


def test_what_is_no_request_gets_a_sentence_too(client):
    answer = client.post("/api/complete", content="{", headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"][:22]) == (400, "the body is not valid ")
    text = client.post("/api/complete", content=json.dumps({"given": GIVEN}))
    assert text.status_code == 400  # a form of another site could send it, without asking first
    assert "application/json" in text.json()["error"]
    assert client.get("/api/nothing").json() == {"error": "/api/nothing: Not Found"}
    large = client.post("/api/complete", content=b" " * 300_000)
    assert large.status_code == 413
    assert large.json()["error"] == "the body is larger than 256 KiB; send a smaller one"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:8765"}, 200),
        ({"host": "LOCALHOST"}, 200),
        ({"host": "[::1]:8765", "origin": "http://[::1]:8765"}, 200),
        ({"host": "localhost:8765", "origin": "http://localhost:8765"}, 200),
        ({"host": "elsewhere.example"}, 403),
        ({"host": "127.0.0.1.elsewhere.example"}, 403),
        ({"host": ""}, 403),
        ({"host": "elsewhere.example", "origin": "http://elsewhere.example"}, 403),
        ({"host": "localhost:8765", "origin": "http://localhost:9999"}, 403),
        ({"host": "localhost:8765", "origin": "https://elsewhere.example"}, 403),
        ({"host": "localhost:8765", "origin": "null"}, 403),
    ],
)
def test_a_page_of_another_site_is_not_answered(client, headers, status):
    answer = client.get("/healthz", headers=headers)
    assert answer.status_code == status
    if status == 403:
        wrong = "Origin" if headers["host"] == "localhost:8765" else "Host"
        assert answer.json()["error"].startswith(f"{wrong}: ")


def test_a_socket_of_another_site_is_not_answered(client):
    with (
        pytest.raises(WebSocketDisconnect) as found,
        client.websocket_connect("/api/jobs", headers={"origin": "https://elsewhere.example"}),
    ):
        pass
    assert found.value.code == 1008


@pytest.mark.parametrize("token", ["schlüssel", "секрет", "鍵🔑"])
def test_a_token_has_any_letters(studio_run, token):
    with TestClient(create_app(load(studio_run), token=token)) as client:
        for encoding in ("utf-8", "latin-1"):
            with suppress(UnicodeEncodeError):
                right = {"authorization": f"Bearer {token}".encode(encoding)}
                assert client.get("/api/model", headers=right).status_code == 200
                wrong = {"authorization": f"Bearer {token}ü".encode(encoding)}
                assert client.get("/api/model", headers=wrong).status_code == 401
        other = {"authorization": b"Bearer \xff\xfe", "origin": "https://elsewhere.example"}
        assert client.get("/api/model", headers=other).status_code == 403


def test_the_token_is_asked(studio_run):
    with TestClient(create_app(load(studio_run), token="secret")) as client:
        assert client.get("/api/model").status_code == 401
        assert "token" in client.get("/api/model").json()["error"]
        wrong = {"authorization": "Bearer secreT"}
        assert client.get("/api/model", headers=wrong).status_code == 401
        right = {"authorization": "Bearer secret"}
        assert client.get("/api/model", headers=right).status_code == 200
        assert client.get("/healthz").status_code == 200
        assert client.get("/openapi.json").status_code == 401
        assert client.get("/openapi.json", headers=wrong).status_code == 401
        assert "/api/check" in client.get("/openapi.json", headers=right).json()["paths"]


@pytest.mark.slow
def test_contradictions_are_named(client):
    found = asked(client, "check", diagram=CIRCLE)
    assert found["ok"] is False
    assert sorted(found["contradiction"]["pairs"]) == [[0, 1], [0, 2], [1, 2]]
    sentence = found["contradiction"]["sentence"]
    assert "living room left-of kitchen" in sentence
    assert sentence.endswith("these contradict each other, even if rooms may overlap")
    assert found["can_be_built"] is False
    partial = asked(client, "check", diagram=GIVEN)
    assert (partial["ok"], partial["can_be_built"]) == (True, None)
    whole = asked(client, "check", diagram=PLAN, complete=True)
    assert (whole["ok"], whole["can_be_built"]) == (True, True)
    twice = asked(client, "check", diagram={"rooms": ["LivingRoom", "LivingRoom"]})
    assert twice["warning"].startswith("living room 1, living room 2 are each a LivingRoom")


@pytest.mark.slow
def test_briefs_are_checked_and_answered(client):
    brief = {"num_rooms": "5-7", "rooms": {"Bathroom": "at least 1"}}
    checked = asked(client, "check", brief=brief)
    assert checked["ok"] is True
    assert len(checked["rules"]) >= 2
    found = asked(client, "brief", brief=brief, num=2, positions=True)
    assert [each["rooms"].count("Bathroom") >= 1 for each in found["diagrams"]] == [True, True]
    impossible = asked(client, "check", brief={"num_rooms": 3, "rooms": {"Kitchen": 4}})
    assert impossible["ok"] is False
    assert "rooms.Kitchen" in impossible["keys"]
    assert "Kitchen: 4" in impossible["because"]


@pytest.mark.slow
def test_a_plan_is_realised_and_exported(client):
    found = asked(client, "realise", diagram=PLAN, total_area=60)
    assert found["plan"]["rooms"] == PLAN["rooms"]
    assert sum(found["plan"]["areas"]) == pytest.approx(60, rel=0.15)
    assert found["svg"].lstrip().startswith("<?xml")
    for format, begins in (("dxf", "  0"), ("svg", "<?xml"), ("json", "{"), ("geojson", "{")):
        answer = client.post("/api/export", json={"plan": found["plan"], "format": format})
        assert answer.status_code == 200, answer.text
        assert answer.text.startswith(begins)
        assert answer.headers["content-disposition"] == f'attachment; filename="plan.{format}"'


@pytest.mark.slow
def test_a_plan_is_exported_as_pdf_and_ifc_in_german(client):
    pytest.importorskip("ifcopenshell")
    plan = asked(client, "realise", diagram=PLAN)["plan"]
    body = {"plan": plan, "language": "de"}
    answer = client.post("/api/export", json={**body, "format": "pdf"})
    assert answer.status_code == 200, answer.text
    assert answer.content.startswith(b"%PDF")
    assert answer.headers["content-type"] == "application/pdf"
    answer = client.post("/api/export", json={**body, "format": "ifc"})
    assert answer.status_code == 200, answer.text
    assert answer.text.startswith("ISO-10303-21")
    assert "Wohnzimmer" in answer.text


def test_a_diagram_is_exported(client):
    complete = asked(client, "complete", given=PLAN, completions=1)["diagrams"][0]
    said = {(i, j) for i, j, _ in complete["relations"]}
    pairs = [(i, j) for i in range(3) for j in range(i + 1, 3)]
    whole = [*complete["relations"], *([i, j, "no-edge"] for i, j in pairs if (i, j) not in said)]
    diagram = {"rooms": complete["rooms"], "relations": whole}
    answer = client.post("/api/export", json={"diagram": diagram, "format": "graphml"})
    assert from_graphml(answer.text) == BubbleDiagram.from_json(complete)
    answer = client.post("/api/export", json={"diagram": diagram, "format": "json"})
    assert PartialDiagram.from_json(answer.json()) == PartialDiagram.from_json(diagram)


@pytest.mark.slow
def test_a_line_of_the_log_is_an_object(client, caplog):
    from floor_plans.studio.guards import JsonLines

    with caplog.at_level("INFO"):
        client.get("/healthz")
    records = [each for each in caplog.records if each.getMessage() == "request"]
    line = json.loads(JsonLines().format(records[-1]))
    assert (line["method"], line["path"], line["status"]) == ("GET", "/healthz", 200)
    assert line["milliseconds"] > 0
