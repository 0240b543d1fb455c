"""What ``sample`` writes and refuses to write over, and which settings its sampler takes."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
import torch
from omegaconf import open_dict
from PIL import Image

from composed import composed
from discrete_diffusion.cli import compose, main
from discrete_diffusion.cli.sample import choose_devices, opened_model, request_of, run
from discrete_diffusion.composing.parts import check_sampling, sampling_of
from discrete_diffusion.domains import complete_data
from discrete_diffusion.evaluation import EvaluateRequest, SampleRequest
from discrete_diffusion.sampling import Ancestral, FirstHitting
from discrete_diffusion.sampling.registry import SAMPLERS
from floor_plans import read_diagrams
from floor_plans.diagrams.pictures import trajectory as films
from interrupting import stop_at_call, stopped
from made_checkpoints import training_state

SMALL = ["model=bd_tiny", "model.d_model=16", "model.cond_dim=16"]


def opened(config):
    request = request_of(SampleRequest if "picture" in config else EvaluateRequest, config)
    check_sampling(request.sampling)
    return opened_model(config, request, choose_devices(config))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The path of an untrained model of an earlier version, whose sampler had no k per call."""
    path = tmp_path_factory.mktemp("model") / "model.ckpt"
    config = complete_data(compose("train", SMALL))
    with open_dict(config):
        del config.sampling.tokens_per_call
    torch.save(training_state(config), path)
    return path


def sample(model, *words):
    main(["sample", f"checkpoint={model}", "num_samples=3", "num_rooms=3", "threads=1", *words])


@pytest.mark.slow
def test_several_numbers_of_rooms_are_drawn_as_often_as_in_the_data(model, tmp_path, capsys):
    def sizes(num_rooms):
        words = ["num_samples=40", f"num_rooms={num_rooms}", "steps=2", "sampling=ancestral"]
        main(["sample", f"checkpoint={model}", *words, "threads=1", "overwrite=true"])
        return [d.num_rooms for d in read_diagrams(tmp_path / "samples" / "samples.jsonl")]

    both = sizes("[1,2]")  # 3 and 4 of the training data
    assert 8 <= both.count(1) <= 27
    assert both.count(1) + both.count(2) == 40
    assert sizes("null") == both
    assert sizes("[2]") == sizes("2") == [2] * 40


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("9", "train with data.max_nodes=9"),
        ("[2,9]", "num_rooms=9: "),
        ("[2,3]", "num_rooms=3 alone"),
    ],
)
def test_numbers_of_rooms_that_the_model_lacks_are_named(model, failure, asked, named):
    assert named in failure("sample", f"checkpoint={model}", f"num_rooms={asked}")


def test_the_file_that_is_completed_is_not_written_over(model, tmp_path, failure):
    folder = tmp_path / "a"
    folder.mkdir()
    line = '{"rooms": [null, 1]}\n'
    for name in ("samples.jsonl", "metrics.json"):
        (folder / name).write_text(line)
        error = failure("sample", "checkpoint=nowhere", "out=a", f"given=a/{name}")
        assert f"given=a/{name}: a/{name} would be overwritten" in error
        assert (folder / name).read_text() == line
    (tmp_path / "link.jsonl").symlink_to(folder / "samples.jsonl")
    assert "link.jsonl: a/samples.jsonl would be" in failure(
        "sample", f"checkpoint={model}", "out=a", "given=link.jsonl"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["out=file"], "out=file: "),
        (["out=file/a"], "out=file/a: "),
        (["picture=trajectory.png"], "picture=trajectory.png: "),
        (["picture=./trajectory.png"], "trajectory.png: "),
        (["picture=samples.jsonl"], "picture=samples.jsonl: "),
        (["trajectory=37"], "trajectory=37: "),
        (["num_rooms=0"], "num_rooms=0: "),
        (["num_rooms=[2,x]"], "num_rooms="),
        (["num_rooms=[]"], "num_rooms=[]: "),
        (["steps=0"], "steps=0"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_checkpoint_is_read(tmp_path, words, message):
    (tmp_path / "file").write_text("mine")
    config = composed("sample", ["checkpoint=nowhere.ckpt", *words])
    with pytest.raises(ValueError, match=f"{re.escape(message)}[^\n]*$"):
        run(config)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_an_earlier_trajectory_does_not_stay_beside_other_samples(model, tmp_path, capsys):
    sample(model, "trajectory=2")
    said = capsys.readouterr().out
    assert "drawing 7 frames of 2 diagrams" in said
    assert "on the way out of the noise: samples/trajectory.gif, samples/trajectory.png" in said
    names = {"trajectory.gif", "trajectory.png"}
    with_trajectory = read_diagrams("samples/samples.jsonl")
    (tmp_path / "samples" / "notes.txt").write_text("mine")
    sample(model, "overwrite=true")
    said = capsys.readouterr().out
    assert said.count("removed, as they show earlier samples: samples/trajectory.gif, sam") == 1
    assert not names & {path.name for path in (tmp_path / "samples").iterdir()}
    assert (tmp_path / "samples" / "notes.txt").exists()
    assert read_diagrams("samples/samples.jsonl") == with_trajectory
    sample(model, "overwrite=true")
    assert "removed" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_film_shows_the_states_of_its_own_sample(model, tmp_path, monkeypatch, capsys):
    """Rooms of 2 and 4: 3 and 10 tokens, drawn side by side in 10 rounds; of the first, 3 count."""
    strips = []
    draw = films.plot_film_strip
    monkeypatch.setattr(
        films, "plot_film_strip", lambda states, path: (strips.append(states), draw(states, path))
    )
    lines = [{"rooms": [None] * 2}, {"rooms": [None] * 4}]
    (tmp_path / "p.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    words = [
        f"checkpoint={model}",
        "given=p.jsonl",
        "num_completions=1",
        "trajectory=2",
        "threads=1",
    ]
    main(["sample", *words])
    assert [len(states) for states in strips] == [4]
    assert "drawing 11 frames of 2 diagrams" in capsys.readouterr().out
    with Image.open("samples/trajectory.gif") as film:
        assert film.n_frames == 11


@pytest.mark.slow
def test_an_earlier_model_has_the_settings_that_its_sampler_got_since(model, failure):
    config = compose("sample", [f"checkpoint={model}", "sampling.tokens_per_call=3"])
    source = opened(config)
    assert isinstance(source.sampler, FirstHitting)
    assert source.sampler.tokens_per_call == 3
    words = ["sample", f"checkpoint={model}"]
    error = failure(*words, "+sampling.entropy_budget=2")
    settings = ("tokens_per_call", "temperature", "top_p", "guidance")
    assert all(name in error for name in settings)
    error = failure(*words, "sampling.entropy_budget=2")
    assert "sampling.entropy_budget: " in error
    assert "sampling=first-hitting" in error
    error = failure(*words, "sampling.tokens_per_call=null")
    assert "sampling.tokens_per_call=null: " in error
    error = failure(*words, "sampling.tokens_per_call=few")
    assert "sampling.tokens_per_call=few: " in error


def test_what_the_model_was_trained_with_goes_before_the_defaults(model):
    trained = compose("train", ["sampling.temperature=0.7", "sampling.tokens_per_call=2"])
    config = compose("sample", ["+sampling.tokens_per_call=4"])
    merged = sampling_of(config.sampling, trained)
    assert merged == {
        "name": "first-hitting",
        "tokens_per_call": 4,
        "temperature": 0.7,
        "top_p": 1.0,
        "guidance": 1.0,
        "refresh": 1,
    }


@pytest.mark.parametrize(
    ("words", "message", "unsaid"),
    [
        (
            ["sampling=first-hitting", "sampling.tokens_per_cal=3"],
            "'tokens_per_cal'; did you mean 'tokens_p",
            "+sampling",
        ),
        (
            ["sampling=ancestral", "sampling.entropy_budget=3"],
            "unknown setting of sampling=ancestral 'entropy_budget'. Available: grid, guidance, "
            "refresh, steps, temperature, top_p; entropy-bounded has it",
            "+sampling",
        ),
        (["sampling.entropy_buget=3"], "unknown setting of a sampler 'entropy_buget'", "+sampl"),
        (["sampling=null"], "sampling=null: leave it out for the default, or choose: anc", "None"),
    ],
)
def test_settings_that_no_sampler_was_named_for(failure, words, message, unsaid):
    for command in ("sample", "evaluate"):
        error = failure(command, "checkpoint=nowhere.ckpt", *words)
        assert message in error
        assert unsaid not in error


def test_steps_are_refused_when_the_source_is_opened(model):
    config = compose("evaluate", [f"checkpoint={model}", "sampling=entropy-bounded", "steps=3"])
    with pytest.raises(ValueError, match="entropy-bounded"):
        opened(config)


def test_a_setting_of_a_plug_in_is_left_to_the_sampler_of_the_model(model, monkeypatch):
    """It is known, and refused only because this model has another sampler."""
    config = compose("sample", [f"checkpoint={model}", "sampling.width=3"])
    with pytest.raises(ValueError, match="unknown setting of a sampler 'width'"):
        opened(config)
    monkeypatch.setitem(SAMPLERS.builders, "mine", lambda width=1: FirstHitting())
    with pytest.raises(ValueError, match=r"sampling\.width: .*sampling=first-hitting"):
        opened(config)


CUT = ["num_samples=90", "num_rooms=null", "batch_size=30", "sampling=ancestral", "steps=4"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_samples_that_are_finished(model, number, monkeypatch, capsys):
    sample(model, *CUT, "out=whole")
    stop_at_call(monkeypatch, Ancestral, 3, number)
    words = ["sample", f"checkpoint={model}", "threads=1", *CUT, "out=cut"]
    error = stopped(capsys, *words, status=128 + number)
    found = json.loads(Path("cut/metrics.json").read_text())
    assert 0 < found["num_samples"] < 90
    assert number.name in found["stopped_by"]
    assert number.name in error
    assert f"at sampling, {found['num_samples']} of 90 samples" in error
    assert f"{found['num_samples']} finished samples are in cut/samples.jsonl" in error
    kept = Path("cut/samples.jsonl").read_text().splitlines()
    assert len(kept) == found["num_samples"]
    lines = iter(Path("whole/samples.jsonl").read_text().splitlines())
    assert all(line in lines for line in kept)  # the same ones, in their order
    assert {path.name for path in Path("cut").iterdir()} == {
        *("samples.jsonl", "samples.png", "metrics.json")
    }


def test_a_signal_before_the_first_sample_leaves_nothing(model, monkeypatch, capsys):
    whole = Ancestral.log_d0

    def stop(self, samples, *arguments, **options):
        if samples.calls.begun == 1:
            signal.raise_signal(signal.SIGINT)
        return whole(self, samples, *arguments, **options)

    monkeypatch.setattr(Ancestral, "log_d0", stop)
    error = stopped(capsys, "sample", f"checkpoint={model}", *CUT, "out=cut")
    assert "stopped by SIGINT at sampling, 0 of 90 samples, call 1 of at most 4; " in error
    assert "no sample was finished" in error
    assert not Path("cut").exists()


def test_samples_stand_in_a_file_of_their_own_while_others_are_drawn(model, monkeypatch):
    whole, seen = Ancestral.sample, []

    def looking(self, *arguments, **options):
        path = Path("out/samples.partial.jsonl")
        seen.append(len(read_diagrams(path)) if path.exists() else 0)
        return whole(self, *arguments, **options)

    monkeypatch.setattr(Ancestral, "sample", looking)
    sample(model, *CUT, "out=out")
    assert seen[0] == 0
    assert sorted(set(seen)) == seen
    assert len(seen) > 2
    assert not Path("out/samples.partial.jsonl").exists()


@pytest.mark.slow
def test_completions_that_are_finished_are_kept(model, monkeypatch, capsys):
    lines = ['{"rooms": [null, "Kitchen"]}', '{"rooms": ["LivingRoom", null, null]}']
    Path("two.jsonl").write_text("\n".join(lines))
    words = [
        "given=two.jsonl",
        "num_completions=40",
        "batch_size=40",
        "sampling=ancestral",
        "steps=3",
    ]
    sample_given = ["sample", f"checkpoint={model}", "threads=1", *words]
    main([*sample_given, "out=whole"])
    stop_at_call(monkeypatch, Ancestral, 3)
    stopped(capsys, *sample_given, "out=cut")
    whole, cut = (read_diagrams(f"{name}/samples.jsonl") for name in ("whole", "cut"))
    assert len(cut) == 40
    assert cut == [diagram for diagram in whole if diagram.num_rooms == 3]  # large ones first
    assert Path("cut/samples.png").stat().st_size > 0
