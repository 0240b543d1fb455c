"""Names of files as people have them: blanks, brackets, ``=``, quotes, umlauts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from discrete_diffusion import load
from discrete_diffusion.cli import compose, config_dir, main
from discrete_diffusion.composing.search_path import path_keys, paths_as_typed, quoted, text_of
from discrete_diffusion.config.files import config_dirs

NUMBERS = ["12.jsonl", "3", "007", "1e3"]
NAMES = [
    *("epoch=3-step=6", "plans (1)", "Grundriss_ä", "my runs (2)", "it's", 'the "best"'),
    *("[draft] a", "{a}", "a,b", "a#b", "a:b", "100%", "a\\b", "-a", "$HOME", "計画"),
    *(*NUMBERS, "-1", "+5", "1_000", "0.50", ".5", "nan", "-inf", "true", "[1]"),
]


def value(word: str):
    return OverridesParser.create().parse_override(word).value()


def test_a_path_is_what_is_typed():
    cases = [(key, name) for key in path_keys() for name in (NAMES if key == "given" else NUMBERS)]
    for key, name in [*cases, *(("samples", name) for name in NAMES)]:
        Path(name).touch()
        (word,) = paths_as_typed([f"{key}={name}"])
        assert value(word) == name
        assert type(value(word)) is str
        assert paths_as_typed([word]) == [word]
        assert text_of(word.partition("=")[2]) in (name, word.partition("=")[2])
        (word,) = paths_as_typed([f"++{key}={name}.x"])
        assert value(word) == f"{name}.x" or ("," in name and key == "samples")


@pytest.mark.parametrize("word", ["checkpoint=", "out=", "+hydra.run.dir=", "resume=", "given=''"])
def test_an_empty_path_is_refused(word):
    with pytest.raises(ValueError, match=re.escape(f"{word} is empty")):
        paths_as_typed([word])


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("samples=null", None),
        ("samples='a b'", "a b"),
        ('samples="it\'s"', "it's"),
        ("samples=[A,B]", ["A", "B"]),
        ("samples=[plans (1).jsonl, b=2.jsonl,'c,d']", ["plans (1).jsonl", "b=2.jsonl", "c,d"]),
        ("samples=[]", []),
        ("out=${oc.env:HOME}/a", "${oc.env:HOME}/a"),
        ("hydra.run.dir=my runs (2)/${now:%H}", "my runs (2)/${now:%H}"),
        ("seed=1", 1),
        ("data.split=[0.8,0.1,0.1]", [0.8, 0.1, 0.1]),
        ("data.characters='ab'", "ab"),
        ("data.max_nodes=8", 8),
        ("resume=NULL", None),
    ],
)
def test_what_is_no_name_stays_what_it_is(word, meant):
    assert value(*paths_as_typed([word])) == meant


def test_commas_part_the_values_of_a_sweep(tmp_path):
    def swept(word: str) -> list[str]:
        (word,) = paths_as_typed([word], sweeps=True)
        return [*OverridesParser.create().parse_override(word).sweep_string_iterator()]

    assert swept("checkpoint=a=1.ckpt,b (2).ckpt") == ["'a=1.ckpt'", "'b (2).ckpt'"]
    assert swept("checkpoint=choice(a,b)") == ["a", "b"]
    assert swept("data.path=a.jsonl,b.jsonl") == ["'a.jsonl'", "'b.jsonl'"]
    Path("a,b.ckpt").touch()
    (word,) = paths_as_typed(["checkpoint=a,b.ckpt"], sweeps=True)
    assert value(word) == "a,b.ckpt"
    assert paths_as_typed(["seed=1,2", "model=a,b"], sweeps=True) == ["seed=1,2", "model=a,b"]


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_a_quoted_text_says_the_text(text):
    assert text_of(quoted(text)) == text
    if "${" not in text:
        assert value(f"checkpoint={quoted(text)}") == text


def test_every_key_of_a_path_in_the_configs_is_known():
    """Those whose line says that the value is a file or a folder."""
    says = re.compile(r"^( *)(\w+): \S+ +# .*(FILE|DIR\b|\b[Ff]older\b|\bfile\b)")
    no_paths = {"overwrite", "plugins", "domain", "atoms"}
    known, found = path_keys(), set()
    for path in (path for folder in config_dirs() for path in folder.rglob("*.yaml")):
        section = "" if path.parent == config_dir() else f"{path.parent.name}."
        for line in path.read_text().splitlines():
            match = says.match(line)
            if match is None or match[2] in no_paths:
                continue
            key = "init.checkpoint" if match[2] == "checkpoint" and match[1] else section + match[2]
            found.add(key)
            assert key in known or key.endswith("path"), f"{path.name}: {line}"
    assert {"checkpoint", "out", "samples", "resume", "data.path", "init.checkpoint"} <= found
    assert {"given", "reference", "picture"} <= known


@pytest.mark.slow
def test_sample_takes_such_names(untrained, capsys):
    nasty = "it's ä=1 (2), [3]"
    model, out = f"{nasty}.ckpt", f"out {nasty}"
    shutil.copy(untrained, model)
    main(["sample", f"checkpoint={model}", "num_samples=2", f"out={out}", f"picture={nasty}.png"])
    assert len(Path(out, "samples.jsonl").read_text().splitlines()) == 2
    assert Path(out, f"{nasty}.png").exists()
    assert len(load(model).sample(1)) == 1
    assert compose("sample", ["checkpoint=epoch=3.ckpt", "out=a (1)"]).out == "a (1)"


@pytest.mark.slow
def test_a_sweep_passes_them_on(untrained, tmp_path):
    names = ["a=1 (x).ckpt", "ä.ckpt"]
    for name in names:
        shutil.copy(untrained, name)
    words = [f"checkpoint={','.join(names)}", "num_samples=1", "out=to ${hydra:job.num}"]
    words.append("picture=a b.png")
    main(["sample", "--multirun", *words])
    assert Path("to 0", "samples.jsonl").exists()
    assert Path("to 1", "samples.jsonl").exists()


def test_a_sentence_names_what_is_missing(failure):
    assert "checkpoint=epoch=3 (x).ckpt: " in failure("sample", "checkpoint=epoch=3 (x).ckpt")
    assert "samples=[a,b]" in failure("evaluate", "samples=a,b")
