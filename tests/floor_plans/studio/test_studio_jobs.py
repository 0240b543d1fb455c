"""Jobs of the studio: turns, cancelling, answers that are kept; and plans as a job."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
import weakref
from functools import partial, wraps

import pytest
import uvicorn
from fastapi.testclient import TestClient

from discrete_diffusion import load
from floor_plans import BubbleDiagram
from floor_plans.plans.floor_plan import FloorPlan
from floor_plans.solver.realised import Job
from floor_plans.solver.spec import PlanSpec
from floor_plans.studio.answering import shown_plans_of_job
from floor_plans.studio.app import create_app
from floor_plans.studio.bodies import ShownPlan
from floor_plans.studio.guards import PromptServer
from floor_plans.studio.jobs import FAILED, KEPT_SECONDS, Errands, Jobs, Stopped, TooBusy
from plan_examples import diagram_of, only

pytest.importorskip("ortools", reason="OR-Tools finds plans")

PLAN = {
    "rooms": ["LivingRoom", "Kitchen", "MasterRoom"],
    "relations": [[1, 0, "left-of"], [2, 0, "above"]],
}


def in_loop(test):
    """Run a coroutine function as a test."""
    return wraps(test)(lambda *args, **given: asyncio.run(test(*args, **given)))


async def ended(jobs, name):
    for _ in range(500):
        state = jobs.state(name)
        if state["status"] not in ("waiting", "working"):
            return state
        await asyncio.sleep(0.01)
    raise AssertionError(state)


async def nothing(report):
    return {}


@in_loop
async def test_a_job_whose_search_is_stopped_ends():
    async def work(report):
        raise Stopped

    jobs = Jobs()
    assert (await ended(jobs, jobs.submit("ann", work)))["status"] == "cancelled"


def test_a_signal_ends_searches_before_the_requests_that_wait_for_them(studio_run):
    app = create_app(load(studio_run))
    PromptServer(uvicorn.Config(app)).handle_exit(signal.SIGINT, None)
    with pytest.raises(Stopped):
        asyncio.run(app.state.studio.workers.run(len, ""))
    asyncio.run(app.state.studio.close())


@in_loop
async def test_clients_take_turns():
    jobs, order, gate = Jobs(), [], asyncio.Event()

    def work(name):
        async def run(report):
            await gate.wait()
            order.append(name)
            return {"name": name}

        return run

    submitted = [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    first, *names = [jobs.submit(client, work(f"{client}{k}")) for client, k in submitted]
    assert jobs.state(first)["status"] == "working"
    assert jobs.state(names[1]) == {"job": names[1], "status": "waiting", "place": 1}
    gate.set()
    found = [(await ended(jobs, name))["answer"]["name"] for name in names]
    assert found == ["a1", "a2", "b0"]
    assert order == ["a0", "a1", "b0", "a2"]


@in_loop
async def test_one_too_many_is_sent_away_and_a_cancelled_one_makes_room():
    jobs, gate = Jobs(most_waiting=4), asyncio.Event()

    async def work(report):
        return {"waited": await gate.wait()}

    working = jobs.submit("a", work)
    waiting = [jobs.submit("a", nothing) for _ in range(4)]
    with pytest.raises(TooBusy):
        jobs.submit("b", nothing)
    assert jobs.cancel(waiting[0])
    assert jobs.state(waiting[0])["status"] == "cancelled"
    last = jobs.submit("b", nothing)
    gate.set()
    assert (await ended(jobs, working))["answer"] == {"waited": True}
    assert (await ended(jobs, last))["status"] == "done"


@in_loop
async def test_what_is_cancelled_ends_and_the_next_one_begins():
    jobs, reached, after = Jobs(), asyncio.Event(), []

    async def run(report):
        report(1, 3)
        reached.set()
        await asyncio.sleep(3600)
        after.append("went on")
        return {}

    name = jobs.submit("a", run)
    await asyncio.wait_for(reached.wait(), 10)
    assert jobs.state(name) | {"job": ""} == {
        **{"job": "", "status": "working", "done": 1, "total": 3}
    }
    assert jobs.cancel(name)
    assert (await ended(jobs, jobs.submit("a", nothing)))["answer"] == {}
    assert jobs.state(name)["status"] == "cancelled"
    assert not after
    assert not jobs.cancel("no such job")
    # cancelled before it has begun to run
    assert jobs.cancel(jobs.submit("a", nothing))
    assert (await ended(jobs, jobs.submit("a", nothing)))["status"] == "done"


class Request:
    """What a job is asked for."""


@pytest.mark.parametrize("end", ["done", "failed", "cancelled at work", "cancelled in the queue"])
@in_loop
async def test_a_job_that_has_ended_keeps_nothing_of_its_request(end):
    jobs, begun, gate, request = Jobs(), asyncio.Event(), asyncio.Event(), Request()

    async def work(request, report):
        begun.set()
        await gate.wait()
        report(1, 2)
        if end == "failed":
            raise ValueError("total_area: too small")
        return {}

    if end == "cancelled in the queue":
        jobs.submit("b", lambda report: gate.wait())
    name, kept = jobs.submit("a", partial(work, request)), weakref.ref(request)
    del request
    assert kept() is not None
    if end != "cancelled in the queue":
        await asyncio.wait_for(begun.wait(), 10)
    if end.startswith("cancelled"):
        assert jobs.cancel(name)
    else:
        gate.set()
    assert (await ended(jobs, name))["status"] == end.partition(" ")[0]
    await asyncio.sleep(0.1)
    gc.collect()
    assert kept() is None
    assert jobs.state(name) is not None
    gate.set()


@in_loop
async def test_requests_that_are_given_up_in_the_queue_leave_it():
    errands, gate = Errands(most=2), asyncio.Event()

    async def done():
        return "done"

    first = asyncio.ensure_future(errands.result(gate.wait, 60))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await errands.result(done, 0.01)
    waiting = asyncio.ensure_future(errands.result(done, 60))
    await asyncio.sleep(0)
    with pytest.raises(TooBusy):
        await errands.result(done, 60)
    waiting.cancel()
    await asyncio.sleep(0)
    last = asyncio.ensure_future(errands.result(done, 60))
    await asyncio.sleep(0)
    assert not last.done()
    gate.set()
    assert await asyncio.wait_for(asyncio.gather(first, last), 10) == [True, "done"]


@in_loop
async def test_errors_are_told_and_other_jobs_go_on():
    def failing(error):
        async def work(report):
            raise error

        return work

    jobs = Jobs()
    for error, told in (
        (ValueError("total_area: too small"), "total_area: too small"),
        (TimeoutError("this took longer than 900 s"), "this took longer than 900 s"),
        (RuntimeError("a secret"), FAILED),
    ):
        assert (await ended(jobs, jobs.submit("a", failing(error))))["error"] == told
    assert (await ended(jobs, jobs.submit("a", nothing)))["status"] == "done"


@in_loop
async def test_an_answer_is_kept_for_an_hour():
    now = [1.0]
    jobs = Jobs(now=lambda: now[0])
    name = jobs.submit("a", nothing)
    assert (await ended(jobs, name))["answer"] == {}
    now[0] += KEPT_SECONDS - 1
    assert jobs.state(name)["status"] == "done"
    now[0] += 2
    assert jobs.state(name) is None


@pytest.fixture(scope="module")
def client(studio_run):
    app = create_app(load(studio_run), seconds=300)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


def made(client, **body):
    answer = client.post("/api/plan", json=body)
    assert answer.status_code == 202, answer.text
    where = f"/api/jobs/{answer.json()['job']}"
    for _ in range(1200):
        state = client.get(where).json()
        if state["status"] not in ("waiting", "working"):
            return state
        time.sleep(0.05)
    raise AssertionError(state)


@pytest.mark.slow
def test_plans_of_a_diagram_on_a_plot(client):
    corners = [[0, 0], [8, 0], [8, 6], [0, 6]]
    state = made(client, diagram=PLAN, boundary=corners, rules="none", num=2)
    assert state["status"] == "done"
    assert (state["done"], state["total"]) == (0, 1)
    first, second = state["answer"]["plans"]
    for each in (first, second):
        plan = FloorPlan.of(BubbleDiagram.from_json(each["plan"]))
        assert plan.diagram.rooms == BubbleDiagram.from_json(PLAN).rooms
        assert plan.honours_diagram
        assert each["plan"]["boundary"] == [[float(x), float(y)] for x, y in corners]
        assert each["svg"].lstrip().startswith("<?xml")
        broken = [name for name, kept in each["rules"].items() if kept is False]
        assert len(broken) == each["scores"]["num_broken"]
    assert first["scores"]["total"] >= second["scores"]["total"] or first["given_up"] == []
    assert first["plan"]["boxes"] != second["plan"]["boxes"]


@pytest.mark.slow
def test_plans_that_break_a_rule_are_left_out_where_it_is_asked_for(client):
    tiny = {"diagram": PLAN, "boundary": [[0, 0], [8, 0], [8, 3.1], [0, 3.1]], "num": 1}
    (shown,) = made(client, **tiny)["answer"]["plans"]
    assert shown["broken"]
    answer = made(client, **tiny, livable=True)["answer"]
    assert answer["plans"] == []
    assert all(f"{rule} by 1" in answer["reason"] for rule in shown["broken"])
    whole = {"diagram": PLAN, "num": 1, "rules": "irc", "livable": True}
    (shown,) = made(client, **whole)["answer"]["plans"]
    assert shown["broken"] == []
    answer = client.post("/api/plan", json={**tiny, "rules": "none", "livable": True})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("livable: ")


def near(**change) -> dict:
    """Body of a changed plan."""
    rooms, boxes = ["LivingRoom", "Kitchen"], [[3, 0, 9, 5], [0, 0, 3, 2.4]]
    plan = {"rooms": rooms, "relations": [[0, 1, "right-of"]], "boxes": boxes}
    return {"near": {"plan": plan, **change}}


def plan_of(answer: dict) -> FloorPlan:
    return FloorPlan.of(BubbleDiagram.from_json(answer["plan"]))


@pytest.mark.slow
def test_a_plan_is_changed_and_keeps_what_is_locked(client):
    corners = [[0, 0], [8, 0], [8, 6], [0, 6]]
    answer = client.post("/api/realise", json={"diagram": PLAN, "boundary": corners})
    assert answer.status_code == 200, answer.text
    before = plan_of(answer.json())
    near = {
        "plan": answer.json()["plan"],
        "locked": [{"room": 1, "keep": "place"}],
        "areas": {"0": round(0.9 * before.areas[0], 2)},
    }
    after = plan_of(client.post("/api/realise", json={"near": near}).json())
    assert after.diagram.boxes[1] == before.diagram.boxes[1]
    assert after.areas[0] == pytest.approx(0.9 * before.areas[0], rel=0.1)
    assert after.boundary == before.boundary
    assert after.honours_diagram
    x1 = round(before.diagram.boxes[2][2] - 0.2, 2)
    near = {"plan": near["plan"], "moved": [{"room": 2, "side": "right", "to": x1}]}
    state = made(client, near=near, rules="none", num=1)
    (shown,) = state["answer"]["plans"]
    assert plan_of(shown).diagram.boxes[2][2] == pytest.approx(x1)


@pytest.mark.parametrize(
    ("paths", "body", "named"),
    [
        ("plan realise", near(locked=[{"room": 5, "keep": "place"}]), "room 5"),
        ("plan realise", near(locked=[{"room": 1, "keep": "colour"}]), "near.locked.keep[0]"),
        (
            "plan realise",
            near(locked=[{"room": 1, "keep": "size"}], areas={"1": 5}),
            "areas: room 1",
        ),
        ("plan realise", near(areas={"1": -5}), "near.areas"),
        ("plan", near(moved=[{"room": 1, "side": "north", "to": 3}]), "near.moved.side[0]"),
        ("plan", {"diagram": PLAN, "num_rooms": 3}, "num_rooms"),
        ("plan", {"num": 3, "candidates": 2}, "candidates"),
        ("plan", {"brief": {"rooms": {"Kitchen": 1}, "area": 40}, "total_area": 50}, "total_area"),
        ("plan", {"brief": {"rooms": {"Kitchen": 1}, "north": 40}, "north": 50}, "north"),
        ("plan", {"total_area": 90, "boundary": [[0, 0], [2, 0], [2, 2]]}, "total_area"),
        ("plan", {"rules": "mine"}, "rules"),
    ],
)
def test_a_wrong_request_for_plans_is_refused_at_once(client, paths, body, named):
    for path in paths.split():
        answer = client.post(f"/api/{path}", json=body)
        assert answer.status_code == 400
        assert named in answer.json()["error"]


def test_a_wish_that_cannot_be_met_fails_with_the_reason(client):
    state = made(client, brief={"rooms": {"Kitchen": 3}, "num_rooms": 2})
    assert state["status"] == "failed"
    assert "Kitchen" in state["error"] or "kitchen" in state["error"]


@pytest.mark.slow
def test_other_jobs_are_not_there(client):
    answer = client.get("/api/jobs/nothing")
    assert answer.status_code == 404
    assert "no job has this id" in answer.json()["error"]
    assert client.delete("/api/jobs/nothing").status_code == 404


def test_a_plan_that_breaks_a_rule_comes_with_why_and_what_would_do():
    """A bedroom behind a bathroom, .7 m or more from the living room, without a hall."""
    behind = diagram_of("LivingRoom Bathroom MasterRoom", "0 left-of 1", "1 left-of 2")
    job = Job(behind, PlanSpec((20.0, 5.0, 12.0), rules=only("access")))
    ((_, shown),) = shown_plans_of_job(job).plans
    checked = ShownPlan.model_validate(shown)
    assert checked.broken == ["access"]
    assert checked.why[0] == "ruled out: master room is reached through common rooms"
    assert checked.instead is not None
    assert (checked.instead.rooms, checked.instead.now) == ([0, 2], "no-edge")
