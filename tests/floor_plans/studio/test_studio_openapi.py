"""/openapi.json: every path has its bodies, answers and errors, and its examples are answered."""

from __future__ import annotations

import json
import re
import time

import openapi_spec_validator
import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel, ValidationError

from discrete_diffusion import load
from floor_plans.studio import bodies
from floor_plans.studio.app import EVENTS, create_app

pytest.importorskip("ortools", reason="OR-Tools finds plans")

PATHS = {
    "/api/complete",
    "/api/sample",
    "/api/brief",
    "/api/check",
    "/api/realise",
    "/api/plan",
    "/api/jobs/{job}",
    "/api/jobs/{job}/events",
    "/api/export",
    "/api/plot",
    "/api/model",
    "/healthz",
}


@pytest.fixture(scope="module")
def client(studio_run):
    with TestClient(
        create_app(load(studio_run), seconds=300, brief_seconds=300), base_url="http://127.0.0.1"
    ) as client:
        yield client


@pytest.fixture(scope="module")
def described(client):
    return client.get("/openapi.json").json()


def operations(described):
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(data):
    if isinstance(data, dict):
        if isinstance(data.get("$ref"), str):
            yield data["$ref"]
        for each in data.values():
            yield from references(each)
    elif isinstance(data, list):
        for each in data:
            yield from references(each)


def test_a_validator_finds_nothing(described):
    openapi_spec_validator.validate(described)


def test_the_file_hangs_together(described):
    assert re.fullmatch(r"3\.1\.\d+", described["openapi"])
    assert described["info"].keys() >= {"title", "version"}
    assert described["paths"].keys() == PATHS
    assert {*references(described)} <= {
        f"#/components/schemas/{name}" for name in described["components"]["schemas"]
    }
    ids = [operation["operationId"] for _, _, operation in operations(described)]
    assert len({*ids}) == len(ids)
    for path, _, operation in operations(described):
        assert operation["summary"]
        named = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert named == {*re.findall(r"{(\w+)}", path)}
        for status, answer in operation["responses"].items():
            assert re.fullmatch(r"[1-5](\d\d|XX)", status)
            assert answer["description"]
    for schema in described["components"]["schemas"].values():
        assert {*schema.get("required", ())} <= schema.get("properties", {}).keys()


def test_every_answer_and_error_has_a_model(described):
    for path, method, operation in operations(described):
        for status, answer in operation["responses"].items():
            assert answer["content"], f"{method} {path} {status}"
            for kind, body in answer["content"].items():
                is_typed = "$ref" in body["schema"] or "anyOf" in body["schema"]
                assert is_typed or kind != "application/json" or path == "/api/export", (path, kind)
        refused = operation["responses"]["400"]["content"]["application/json"]["schema"]
        assert refused == {"$ref": "#/components/schemas/Refusal"}
    events = described["paths"]["/api/jobs/{job}/events"]["get"]["responses"]["200"]
    named = events["content"]["text/event-stream"]["x-events"]
    assert named.keys() == {"progress", "found", "done", "error"}


@pytest.mark.slow
def test_the_examples_are_answered_as_the_models_say(client, described):
    """Models of answers refuse what they do not name, so that none of it is lost in between."""
    models = {
        "CompleteBody": bodies.Drawn,
        "SampleBody": bodies.Drawn,
        "BriefBody": bodies.Drawn,
        "CheckBody": bodies.CheckedDiagram,
        "RealiseBody": bodies.ShownPlan,
        "PlanBody": bodies.Accepted,
        "PlotBody": bodies.PlotAnswer,
        "ExportBody": None,
    }
    tried = set()
    for path, method, operation in operations(described):
        if "requestBody" not in operation:
            continue
        schema = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        name = schema.rpartition("/")[2]
        example = described["components"]["schemas"][name]["example"]
        answer = client.request(method, path, json=example)
        assert answer.status_code in (200, 202), answer.text
        if (model := models[name]) is not None:
            model.model_validate(answer.json())
            assert answer.json().keys() <= model.model_fields.keys()
        tried.add(name)
    assert tried == models.keys()


def test_what_is_asked_with_get_is_as_the_models_say(client):
    for path, model in (("/healthz", bodies.Health), ("/api/model", bodies.ModelFacts)):
        assert client.get(path).json().keys() == model.model_fields.keys()


def events_of(client, job, **headers) -> list[tuple[int, str, dict]]:
    with client.stream("GET", f"/api/jobs/{job}/events", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        text = "".join(answer.iter_text())
    found = []
    for block in text.strip().split("\n\n"):
        if block.startswith(":"):  # a comment, that the connection lives
            continue
        number, name, data = (line.partition(": ")[2] for line in block.split("\n"))
        found.append((int(number), name, json.loads(data)))
    return found


def check(name: str, data: dict) -> BaseModel:
    try:
        return EVENTS[name].model_validate(data)
    except ValidationError as error:
        raise AssertionError(f"{name}: {error}") from error


@pytest.mark.slow
def test_the_events_of_a_job_end_with_its_answer(client):
    body = {"num_rooms": 2, "num": 1, "candidates": 2, "rules": "none", "total_area": 40}
    job = client.post("/api/plan", json=body).json()["job"]
    events = events_of(client, job)
    numbers = [number for number, _, _ in events]
    assert numbers == sorted({*numbers})
    names = [name for _, name, _ in events]
    assert names[0] == "progress"
    assert names[-1] == "done"
    for _, name, data in events:
        check(name, data)
    assert events[-1][2]["answer"] == client.get(f"/api/jobs/{job}").json()["answer"]
    later = events_of(client, job, **{"last-event-id": "0"})
    assert later[-1] == events[-1]
    assert later[0][0] > 0


@pytest.mark.slow
def test_the_events_of_a_job_that_fails_or_is_cancelled_say_so(client):
    wrong = {"brief": {"rooms": {"Kitchen": 3}, "num_rooms": 2}}
    job = client.post("/api/plan", json=wrong).json()["job"]
    *_, (_, name, data) = events_of(client, job)
    assert name == "error"
    assert "itchen" in check(name, data).error
    body = {"num": 6, "candidates": 24, "num_rooms": 6}
    job = client.post("/api/plan", json=body).json()["job"]
    while client.get(f"/api/jobs/{job}").json()["status"] == "waiting":
        time.sleep(0.01)
    assert client.delete(f"/api/jobs/{job}").json()["status"] == "cancelled"
    *_, (_, name, data) = events_of(client, job)
    assert (name, "cancelled" in data["error"]) == ("error", True)
    assert client.get("/api/jobs/nothing/events").status_code == 404


@pytest.mark.slow
def test_a_brief_can_be_a_job(client):
    body = {"brief": {"num_rooms": 4}, "num": 1, "job": True, "positions": True}
    answer = client.post("/api/brief", json=body)
    assert answer.status_code == 202
    *_, (_, name, data) = events_of(client, answer.json()["job"])
    assert name == "done"
    (diagram,) = check(name, data).answer.diagrams
    assert len(diagram.rooms) == len(diagram.positions) == 4
