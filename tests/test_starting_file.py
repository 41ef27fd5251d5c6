"""`dmalab init`: every first file is sound, says what was wished, and nothing that is there is lost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from runner import cli, cli_start
from runner.editor_schema import schema_file
from runner.errors import UsageError
from runner.spec.load import load_experiment
from runner.starting_file import STARTS, About, Wishes, name_of, starting_text, wishes_by_asking


def init(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["init", *map(str, arguments)])


@pytest.mark.parametrize("about", About)
def test_every_first_file_runs_and_explains_itself(tmp_path: Path, about: About) -> None:
    path = tmp_path / "my Question.yaml"
    result = init(path, "--about", about)
    assert result.exit_code == 0, result.stderr
    experiment = load_experiment(path).experiment
    assert (experiment.name, experiment.question) == ("my-question", STARTS[about].question)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# yaml-language-server: $schema={schema_file().as_uri()}"
    comments = [line.index(" # ") + 1 for line in lines if " # " in line.lstrip("# ")]
    assert len(comments) >= 3
    assert set(comments) == {34}, "they stand in one column"
    assert len(lines) < 35
    run = CliRunner().invoke(cli.app, ["run", str(path), "--device", "simulated", "--no-report", "--out", str(tmp_path / "out")])
    assert run.exit_code == 0, run.output


def test_wishes_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    wished = [
        "--size",
        "2MiB",
        "--size",
        "3MiB",
        "--buffer",
        "mapped",
        "--device",
        "simulated:rtx-4090",
        "--question",
        'Is "it"?',
    ]
    assert init(path, *wished).exit_code == 0
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert (content["question"], content["device"]) == ('Is "it"?', "simulated:rtx-4090")
    scenario = content["scenarios"]["copies"]
    assert (scenario["size"], scenario["buffer"]) == (["2MiB", "3MiB"], "mapped")
    assert "expect" not in content, "one kind of memory is compared with no other"


def test_a_comment_comes_right_behind_a_long_value_and_a_sign_in_a_question_is_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    buffers = [f"--buffer={each}" for each in ("pinned", "registered", "mapped")]
    assert init(path, *buffers, "--question", "is # it?").exit_code == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "    buffer: [pinned, registered, mapped] # a list is an axis: every combination of the lists is a case" in lines
    assert yaml.safe_load("\n".join(lines))["question"] == "is # it?"
    assert 'question: "is # it?"' in lines


def test_what_is_there_stays_unless_it_is_forced(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    result = init(path)
    assert (result.exit_code, path.read_text()) == (2, "mine")
    assert "is there already" in result.stderr
    assert init(path, "--force", "--size", "2MiBit").exit_code == 2
    assert path.read_text() == "mine", "a file that could not be made costs nothing"
    assert init(path, "--force").exit_code == 0
    assert load_experiment(path).experiment.name == "mine"


def test_a_wish_that_cannot_be_met_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    for wish, words in (
        (["--buffer", "pined"], "is no kind of buffer"),
        (["--size", "2 lots"], "--size: '2 lots' has the unknown unit"),
        (["--device", "gpu"], "--device: 'gpu' is not a device"),
        (["--about", "pinning", "--buffer", "pageable"], "only page-locked memory"),
    ):
        result = init(tmp_path / "mine.yaml", *wish)
        assert (result.exit_code, words in result.stderr) == (2, True), result.stderr
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="begin it with a letter"):
        name_of(Path("42.yaml"))


def test_a_folder_that_is_not_there_is_named_with_what_makes_it(tmp_path: Path) -> None:
    result = init(tmp_path / "my files" / "mine.yaml")
    folder = tmp_path / "my files"
    assert result.exit_code == 3
    assert result.stderr == f"{folder}/mine.yaml cannot be written: there is no folder {folder}; type: mkdir -p '{folder}'\n"


def test_a_folder_is_no_file_and_what_is_to_be_typed_next_can_be(tmp_path: Path) -> None:
    for force in ([], ["--force"]):
        refused = init(tmp_path, *force)
        assert refused.exit_code == 2
        assert refused.stderr == f"{tmp_path} is a folder; name a file, such as {tmp_path}/question.yaml\n"
    path = tmp_path / "my question.yaml"
    assert init(path).stdout.endswith(f" is written. Next: dmalab plan '{path}', then: dmalab run '{path}'\n")


def test_a_file_in_the_checkout_finds_its_schema_by_a_short_way() -> None:
    root = schema_file().parents[1]
    assert cli_start._way_to_schema(root / "experiments" / "claims" / "new.yaml") == "../../schema/experiment.schema.json"


def test_questions_are_asked_on_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["overlap", "How fast?", "64MiB, 128MiB", "simulated"])
    assert wishes_by_asking(lambda text, empty, check: check(next(answers))) == Wishes(
        About.overlap, "How fast?", ["64MiB", "128MiB"], (), "simulated"
    )
    asked: list[str] = []
    monkeypatch.setattr(cli_start.typer, "prompt", lambda text, default, value_proc: asked.append(text) or value_proc(default))
    monkeypatch.setattr(
        cli_start, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True), stdout=SimpleNamespace(isatty=lambda: True))
    )
    assert init(tmp_path / "asked.yaml").exit_code == 0
    assert len(asked) == 4
    assert init(tmp_path / "told.yaml", "--about", "calls").exit_code == 0
    assert len(asked) == 4, "who says what it shall be about is asked nothing"
    monkeypatch.setattr(cli_start, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: False), stdout=None))
    assert init(tmp_path / "piped.yaml").exit_code == 0
    assert len(asked) == 4


def test_each_answer_is_checked_at_once_and_asked_for_again() -> None:
    asking = typer.Typer()

    @asking.command()
    def ask() -> None:
        typer.echo(wishes_by_asking(cli_start._asked))

    answers = ["speed", "overlap", "How fast?", "64 lots", "64MiB, 128MiB", "gpu", "simulated:none", "simulated"]
    said = CliRunner().invoke(asking, input="\n".join([*answers, ""]))
    assert said.exit_code == 0, said.output
    refused = [line.partition("Error: ")[2] for line in said.output.splitlines() if "Error: " in line]
    assert [line.partition(";")[0] for line in refused] == [
        "'speed' is nothing that a first file is about",
        "'64' is not a size",
        "'gpu' is not a device",
        "'simulated:none' is not a device that can be simulated",
    ]
    assert str(Wishes(About.overlap, "How fast?", ["64MiB", "128MiB"], (), "simulated")) in said.output


def test_a_question_of_two_lines_is_refused() -> None:
    with pytest.raises(UsageError, match="one line"):
        starting_text(Wishes(About.link, "one\ntwo"), Path("x.yaml"), "schema.json")
