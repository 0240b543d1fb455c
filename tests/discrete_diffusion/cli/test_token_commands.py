"""``data tokenize``, and ``data=token_files`` through the commands."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from discrete_diffusion import load
from discrete_diffusion.cli import main
from discrete_diffusion.domains.text import corpus_files
from discrete_diffusion.domains.text.token_files import TokenFiles

DOCUMENTS = [f"{k} little pigs\nand {k % 7} wolves: ½ a straw.\n" for k in range(400)]
TINY = ["debug=smoke", "algo.backbone=dit", "model=dit_tiny", "logger=none", "data=token_files"]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("documents")
    lines = [json.dumps({"text": text, "id": k}) for k, text in enumerate(DOCUMENTS)]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    with gzip.open(folder / "a.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, DOCUMENTS)))
    table = pyarrow.table({"text": DOCUMENTS, "id": list(range(len(DOCUMENTS)))})
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=70)
    (folder / "lines.txt").write_text("\n\n".join(t.replace("\n", " ") for t in DOCUMENTS))
    (folder / "whole.txt").write_text("".join(DOCUMENTS))
    return {file.name: file for file in folder.iterdir()}


@pytest.fixture(scope="module")
def folder(files, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("ids") / "ids"
    words = [str(files["a.jsonl"]), "--tokenizer", "bpe:300", "--out", str(out)]
    main(["data", "tokenize", *words])
    return out


def meta(folder: Path) -> dict:
    return json.loads((folder / "meta.json").read_text())


def documents(folder: Path) -> list[str]:
    """Texts between the ends of documents, decoded by the tokenizer of the folder alone."""
    from tokenizers import Tokenizer

    files = TokenFiles.of(folder)
    ends = files.document_ends(None)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    parts = np.split(files.read(0, len(files)), ends)[: len(ends)]
    assert all(part[-1] == meta(folder)["eos_id"] for part in parts)
    return [tokenizer.decode(part[:-1].tolist(), skip_special_tokens=False) for part in parts]


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        *((name, [], DOCUMENTS) for name in ("a.jsonl", "a.jsonl.gz", "a.parquet")),
        ("whole.txt", [], ["".join(DOCUMENTS)]),
        ("lines.txt", ["documents=line"], [t.replace("\n", " ") for t in DOCUMENTS]),
    ],
    ids=["jsonl", "gz", "parquet", "text", "lines"],
)
def test_documents_come_back_from_every_kind_of_file(name, more, expected, files, folder, tmp_path):
    words = [f"tokenizer={folder}", f"out={tmp_path}/ids", "--shard-tokens", "2000", *more]
    main(["data", "tokenize", str(files[name]), *words])
    assert documents(tmp_path / "ids") == expected
    found = meta(tmp_path / "ids")
    assert found["num_documents"] == len(expected)
    assert found["num_bytes"] == sum(len(text.encode()) for text in expected)
    assert found["num_characters"] == sum(map(len, expected))
    assert (found["exact"], found["unknown"], found["dtype"]) == (True, {}, "<u2")


@pytest.mark.parametrize(
    ("name", "last"),
    [("a.jsonl", False), ("a.jsonl.gz", True), ("a.parquet", False), ("whole.txt", True)],
)
def test_what_was_interrupted_goes_on(name, last, files, folder, tmp_path, monkeypatch, capsys):
    """Behind the second shard, or behind the last, which ends where the file does."""
    monkeypatch.setattr(corpus_files, "_PART", 3000)
    monkeypatch.setattr(corpus_files, "_ROWS", 30)
    size = "1" if last else "900"  # 1: a shard of every part
    words = [str(files[name]), "--tokenizer", str(folder), "--shard-tokens", size]
    main(["data", "tokenize", *words, "--out", str(tmp_path / "whole")])
    write, calls = corpus_files._Work._write, []
    most = len(meta(tmp_path / "whole")["shards"]) if last else 2

    def killed(work, *place):
        if not last and len(calls) == most:
            raise KeyboardInterrupt
        calls.append(place)
        write(work, *place)
        if last and len(calls) == most:
            raise KeyboardInterrupt

    monkeypatch.setattr(corpus_files._Work, "_write", killed)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        main(["data", "tokenize", *words, "--out", str(tmp_path / "ids")])
    assert not (tmp_path / "ids" / "meta.json").exists()
    monkeypatch.undo()
    with pytest.raises(SystemExit):  # which would be another corpus
        main(["data", "tokenize", *words[:2], "bytes", "--out", str(tmp_path / "ids")])
    assert "other files or settings" in capsys.readouterr().err
    monkeypatch.setattr(corpus_files, "_PART", 3000)
    monkeypatch.setattr(corpus_files, "_ROWS", 30)
    main(["data", "tokenize", *words, "--out", str(tmp_path / "ids")])
    assert meta(tmp_path / "ids") == meta(tmp_path / "whole")
    assert documents(tmp_path / "ids") == documents(tmp_path / "whole")
    assert {file.name for file in (tmp_path / "ids").iterdir()} == {
        file.name for file in (tmp_path / "whole").iterdir()
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["characters", "text8"])
def test_tokens_without_a_file_of_a_tokenizer(name, files, tmp_path):
    out = tmp_path / "ids"
    main(["data", "tokenize", str(files["a.jsonl"]), "--tokenizer", name, "--out", str(out)])
    found = meta(out)
    assert (found["token_unit"], found["eos_id"]) == ("characters", None)
    assert found["exact"] == (name == "characters")
    run = tmp_path / "run"
    main(["train", *TINY, f"data.path={out}", "data.length=16", f"hydra.run.dir={run}"])
    (text,) = load(run).sample(1)
    assert len(text) == 16


def test_another_text_takes_the_letters_of_the_first(files, tmp_path):
    for out, tokenizer in (("a", "text8"), ("b", str(tmp_path / "a"))):
        words = [f"tokenizer={tokenizer}", f"out={tmp_path / out}"]
        main(["data", "tokenize", str(files["a.jsonl"]), *words])
    assert meta(tmp_path / "a") == meta(tmp_path / "b")
    assert meta(tmp_path / "b")["unknown"] == {}


@pytest.mark.parametrize(
    ("content", "words", "named"),
    [
        ('{"text": "a"}\n{"body": "b"}\n', [], r'a\.jsonl, line 2.*"text".*body'),
        ('{"text": "a"}\n{"text"\n', [], "a.jsonl, line 2 is not JSON"),
        ('"a"\n', ["--tokenizer", "byte"], "did you mean 'bytes'"),
        ("\n\n", [], "no text"),
        ('"a"\n', ["--shard-tokens", "0"], "--shard-tokens 0"),
        ('"a"\n', ["--documents", "page"], "page"),
        (None, ["--field", "body"], "no column 'body'; it has text, id"),
        (None, ["--out=FOLDER"], "give another folder"),
    ],
)
def test_what_is_wrong_is_named(content, words, named, files, folder, failure):
    before = (folder / "meta.json").read_bytes()
    file = files["a.parquet"] if content is None else Path("a.jsonl")
    if content is not None:
        file.write_text(content)
    tokenizer = [] if "--tokenizer" in words else ["--tokenizer", "bytes"]
    words = [word.replace("FOLDER", str(folder)) for word in words]
    error = failure("data", "tokenize", str(file), *tokenizer, "--out=ids", *words)
    assert re.search(named, error), error
    assert (folder / "meta.json").read_bytes() == before


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("tokens") / "run"
    words = [f"data.path={folder}", "data.length=16", "trainer.max_steps=4", "data.batch_size=8"]
    main(["train", *TINY, *words, f"hydra.run.dir={run}"])
    return run


@pytest.mark.slow
def test_a_run_on_tokens_needs_its_checkpoint_alone(run):
    Path("alone.ckpt").write_bytes((run / "checkpoints" / "best.ckpt").read_bytes())
    model = load("alone.ckpt")
    (text,) = model.sample(prompt="7 little [MASK][MASK]", num=1)
    assert text.startswith("7 little ")
    metrics = json.loads((run / "metrics.json").read_text())
    assert {"bits_per_character", "bits_per_byte"} <= set(metrics)


@pytest.mark.slow
def test_a_model_of_tokens_is_measured_on_text_and_on_ids(run, files, folder, tmp_path):
    found = {}
    for name, path in (("text", files["whole.txt"]), ("ids", folder)):
        out = tmp_path / name
        words = [f"data.path={path}", "quick=true", f"out={out}"]
        main(["evaluate", f"checkpoint={run}", *words])
        found[name] = json.loads((out / "metrics.json").read_text())
    assert found["text"]["bits_per_byte"] > 0
    assert abs(found["text"]["bits_per_byte"] / found["ids"]["bits_per_byte"] - 1) < 0.1


@pytest.mark.slow
def test_a_run_goes_on_where_it_ended(folder, tmp_path):
    def weights(run):
        return torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]

    words = [*TINY, f"data.path={folder}", "data.length=16", "data.batch_size=8"]
    words.append("trainer.max_epochs=-1")
    main(["train", *words, "trainer.max_steps=6", f"hydra.run.dir={tmp_path}/whole"])
    main(["train", *words, "trainer.max_steps=3", f"hydra.run.dir={tmp_path}/half"])
    more = ["trainer.max_steps=6", f"resume={tmp_path}/half/checkpoints/last.ckpt"]
    main(["train", *words, *more, f"hydra.run.dir={tmp_path}/rest"])
    whole, rest = weights(tmp_path / "whole"), weights(tmp_path / "rest")
    assert all(torch.equal(whole[name], rest[name]) for name in whole)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["mdlm", "ar", "bd3lm"])
def test_documents_in_one_row_train_without_seeing_each_other(algo, folder, tmp_path):
    words = [f"data.path={folder}", "data.length=16", "data.document_mask=true", f"algo={algo}"]
    words += ["data.pack=wrap_bos_eos"] if algo == "mdlm" else []
    words += ["algo.block_size=4"] if algo == "bd3lm" else []
    main(["train", *TINY, *words, f"hydra.run.dir={tmp_path}/run"])
    assert load(tmp_path / "run").sample(1)


def test_a_backbone_that_sees_all_is_refused_with_documents(folder, failure):
    words = ["data=token_files", f"data.path={folder}", "data.document_mask=true"]
    error = failure("train", *words, "algo.backbone=my-transformer", "hydra.run.dir=run")
    assert "data.document_mask=true" in error
    assert "algo.backbone=dit" in error


@pytest.mark.slow
def test_another_tokenizer_is_refused(run, files, failure):
    main(["data", "tokenize", str(files["a.jsonl"]), "--tokenizer", "characters", "--out=ids"])
    error = failure("evaluate", f"checkpoint={run}", "data.path=ids", "out=e")
    assert "another tokenizer (characters)" in error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "tokenizer"), [("text8", "text8"), ("lm1b", "bpe:300"), ("owt", "bpe:300")]
)
def test_published_settings_train_on_a_made_corpus(recipe, tokenizer, files, tmp_path):
    out, run = tmp_path / "ids", tmp_path / "run"
    main(["data", "tokenize", str(files["a.jsonl"]), f"tokenizer={tokenizer}", f"out={out}"])
    small = ["model.hidden_size=16", "model.n_blocks=1", "model.n_heads=2", "data.batch_size=2"]
    small += ["trainer.max_steps=2", "trainer.precision=32-true", "eval.num_samples=1"]
    small += ["callbacks.num_samples=0", "logger=none", "trainer.val_check_interval=2"]
    split = ["data.split=[0.6,0.4,0]"] if recipe == "owt" else []  # its rows are long
    words = [f"experiment={recipe}", f"data.path={out}", *small, *split, f"hydra.run.dir={run}"]
    main(["train", *words])
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["steps"] == 2
    if recipe != "lm1b":  # whose rows have PAD, which their networks do not
        main(["export", f"checkpoint={run}", "format=mdlm", f"out={tmp_path}/theirs.ckpt"])
