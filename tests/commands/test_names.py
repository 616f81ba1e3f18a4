"""Classes and groups are matched by name whatever the table, and messages name the options of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")

from typer.testing import CliRunner, Result  # noqa: E402

import credalset as cs  # noqa: E402
from credalset.commands import app  # noqa: E402
from credalset.commands.wording import for_terminal  # noqa: E402
from tests.commands import vote_rows  # noqa: E402

CLASSES = ["no", "perhaps", "yes"]
N = 240


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions with all sorts of columns, votes, and calibrations of them."""
    folder = tmp_path_factory.mktemp("names")
    data = cs.datasets.make_synthetic(N, n_votes=8, random_state=0)
    frame = pd.DataFrame(0.9 * data.distributions + 0.1 / 3, columns=CLASSES)
    frame.insert(0, "task", [f"t{i}" for i in range(N)])
    frame["part"] = np.where(np.arange(N) % 3 == 0, 7, 12)
    frame["weight"] = 1.0
    frame["page"] = np.arange(N)
    frame.to_csv(folder / "all.csv", index=False)
    frame.to_parquet(folder / "all.parquet")
    frame[["task", *CLASSES]].to_csv(folder / "plain.csv", index=False)
    frame[["task", *CLASSES[::-1]]].to_csv(folder / "turned.csv", index=False)
    rows = vote_rows(frame["task"], data.counts, CLASSES)
    pd.DataFrame(rows, columns=["task", "worker", "label"]).to_csv(folder / "votes.csv", index=False)
    assert run(folder, "calibrate", "plain.csv", "votes.csv", "-o", "plain").exit_code == 0
    for kind in ("csv", "parquet"):
        words = ["calibrate", f"all.{kind}", "votes.csv", "-o", kind, "--groups", "part", "--columns", "no,perhaps,yes"]
        done = run(folder, *words)
        assert done.exit_code == 0, done.output
    return folder


def run(folder: Path, *words: str) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize("table", ["turned.csv", "all.csv", "all.parquet"])
def test_columns_in_another_order_or_beside_others_change_no_verdict(made: Path, table: str) -> None:
    rows = []
    for name in ("plain.csv", table):
        done = run(made, "check", "plain", name, "votes.csv", "--json")
        assert done.exit_code == 0, done.output
        rows.append(json.loads(done.stdout)["rows"])
    assert rows[0] == rows[1]


def test_a_page_of_a_table_with_other_columns(made: Path) -> None:
    pytest.importorskip("jinja2")
    done = run(made, "report", "plain", "all.csv", "votes.csv", "--groups", "part", "-o", "page.html")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("calibrated", ["csv", "parquet"])
@pytest.mark.parametrize("asked", ["csv", "parquet"])
def test_groups_with_numbers_for_names_are_the_same_in_every_format(made: Path, calibrated: str, asked: str) -> None:
    """CSV has the text 7 where Parquet has the number."""
    out = f"{calibrated}-{asked}.parquet"
    done = run(made, "predict", calibrated, f"all.{asked}", "-o", out, "--groups", "part", "--keep", "page")
    assert done.exit_code == 0, done.output
    calibration = cs.load(made / calibrated)
    table = pd.read_parquet(made / "all.parquet")
    keys = {str(key): key for key in calibration.groups}
    assert set(keys) == {"7", "12"}
    expected = calibration.thresholds(table[CLASSES], 0.1, groups=[keys[str(part)] for part in table["part"]])
    assert len(np.unique(expected)) == 2
    np.testing.assert_array_equal(pd.read_parquet(made / out)["threshold"], expected)
    done = run(made, "check", calibrated, f"all.{asked}", "votes.csv", "--groups", "part", "--json")
    sets = calibration.predict_set(table[CLASSES], 0.1, groups=[keys[str(part)] for part in table["part"]])
    found = json.loads(done.stdout)["rows"][0]
    assert found["width"] == pytest.approx(np.subtract(*sets.envelope()[::-1]).sum(axis=1).mean() / 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["import", "votes.csv", "-o", "x.csv", "--kind", "spreadsheet"], "--kind must be one of"),
        (["import", "plain.csv", "-o", "x.csv"], "Name the kind, --kind (label-studio"),
        (["import", "votes.csv", "-o", "x.xlsx"], "say which it is: --out-format (csv"),
        (["import", "latin.csv", "-o", "x.csv"], "Name the right one: --encoding"),
        (["import", "gaps.csv", "-o", "x.csv"], "Pass --missing drop to leave it out."),
        (["agree", "votes.csv", "--missing", "drp"], "--missing must be one of"),
        (["agree", "votes.csv", "--level", "2"], "--level must lie strictly between 0 and 1"),
        (["calibrate", "plain.csv", "votes.csv", "-o", "-"], "-o - is not possible: the result is a folder."),
        (["calibrate", "all.csv", "votes.csv", "-o", "x", "--id", "item"], "names the items (--id) and which"),
        (["calibrate", "twice.csv", "votes.csv", "-o", "x"], "twice.csv has 2 columns 'no'"),
        (["calibrate", "latin-groups.csv", "votes.csv", "-o", "x", "--groups", "part"], "UTF-8. Name its encoding"),
        (["predict", "plain", "plain.csv", "-o", "x.csv", "--id", "item"], "or that there is none (--id '')."),
        (["predict", "plain", "plain.csv", "-o", "x.csv", "--alpha", "2"], "--alpha must lie strictly between"),
        (["predict", "plain", "logits.csv", "-o", "x.csv"], "say --logits if these are logits"),
        (
            ["predict", "plain", "latin-groups.csv", "-o", "x.csv", "--keep", "part"],
            "'part' does not hold text in UTF-8",
        ),
        (["predict", "plain", "all.csv", "-o", "x.csv", "--groups", "part"], "--groups was given, but the calibration"),
        (["predict", "csv", "all.csv", "-o", "x.csv"], "--groups is missing"),
        (["check", "nowhere", "plain.csv", "votes.csv"], "Give the folder that calibrate or fit wrote."),
        (["report", "plain", "plain.csv", "votes.csv", "-o", "plain"], "plain is a folder. Name a file."),
        (["report", "plain", "plain.csv", "votes.csv", "-o", "-"], "-o - is not possible"),
    ],
)
def test_messages_name_options(made: Path, words: list[str], sentence: str) -> None:
    votes = (made / "votes.csv").read_text()
    (made / "gaps.csv").write_text(votes.replace(",yes\n", ",\n", 1))
    (made / "latin.csv").write_bytes(votes.replace("perhaps", "peut-être").encode("latin-1"))
    (made / "twice.csv").write_text((made / "plain.csv").read_text().replace("perhaps", "no", 1))
    (made / "latin-groups.csv").write_bytes("task,no,perhaps,yes,part\nt0,1,0,0,côté\n".encode("latin-1"))
    (made / "logits.csv").write_text("task,no,perhaps,yes\nt0,-1,0,2\n")
    before = set(made.iterdir())
    done = run(made, *words)
    assert done.exit_code == 2, done.output
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert sentence in said[0]
    assert set(made.iterdir()) == before


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("data/task=3/x.csv has no rows.", "data/task=3/x.csv has no rows."),  # a folder, not an argument
        ("weights is missing. Pass one.", "--weights is missing. Pass one."),
        ("Two kinds. Say which: kind=...", "Two kinds. Say which: --kind"),
        ("It is 'kind=long'.", "It is 'kind=long'."),
        ("task must be text.", "--task must be text."),
        ("tasks must be text.", "tasks must be text."),
        ("Odd. Allow it with load(path, trusted=['a.B', 'c.D']).", "Odd. Allow it with --trust a.B,c.D."),
        ("Odd. Pass kind='a b'.", "Odd. Pass --kind 'a b'."),
        ("Odd. Pass n_votes=3. Or not.", "Odd. Or not."),
    ],
)
def test_arguments_become_options(message: str, said: str) -> None:
    assert for_terminal(message, ["kind", "task", "weights"]) == said


def test_votes_in_another_encoding(made: Path) -> None:
    text = "item;rater;rating\n" + "".join(f"i{k};{who};{word}\n" for k in range(4) for who, word in ("aé", "bö"))
    (made / "old.csv").write_bytes(text.encode("latin-1"))
    done = run(made, "import", "old.csv", "-o", "new.csv", "--encoding", "latin-1", "--delimiter", ";")
    assert done.exit_code == 0, done.output
    assert set(pd.read_csv(made / "new.csv")["label"]) == {"é", "ö"}


def test_what_does_not_count_is_said(made: Path) -> None:
    """One who votes twice on an item has one vote, and rows without a label none: neither is a secret."""
    rows = [f"i{k},{who},{word}" for k in range(3) for who, word in (("a", "x"), ("a", "y"), ("b", "y"))]
    (made / "often.csv").write_text("\n".join(["task,worker,label", *rows, "i0,c,"]))
    done = run(made, "agree", "often.csv", "--resamples", "0", "--missing", "drop")
    assert done.exit_code == 0, done.output
    assert "left out: 3 earlier in the file by the same worker, 1 without task, worker or label." in done.stderr
    done = run(made, "import", "often.csv", "-o", "seldom.csv", "--missing", "drop")
    assert "left out: 1 without task, worker or label" in done.stderr


def test_labels_are_tidied_when_asked(made: Path, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("task;worker;label\na;1;Yes\na;2; yes \nb;1;NO\nb;2;no\n")
    noted = run(tmp_path, "agree", "v.csv", "--resamples", "0", "--json")
    assert "--tidy" in noted.stderr
    assert "rename" not in noted.stderr
    tidy = run(tmp_path, "agree", "v.csv", "--resamples", "0", "--json", "--tidy")
    assert [one["class"] for one in json.loads(tidy.stdout)["classes"]] == ["no", "yes"], tidy.stdout
    assert run(tmp_path, "import", "v.csv", "-o", "long.csv", "--tidy").exit_code == 0
    assert sorted(pd.read_csv(tmp_path / "long.csv")["label"]) == ["no", "no", "yes", "yes"]
    assert cs.Annotations.read(tmp_path / "v.csv", sep=";", tidy=True).classes == ("no", "yes")


def test_predictions_split_by_semicolons(made: Path, tmp_path: Path) -> None:
    plain = (made / "plain.csv").read_text()  # by hand, as not every pandas reads numbers to the last bit
    (tmp_path / "half.csv").write_text(plain.replace(",", ";").replace(".", ","))
    for name, out in ((str(made / "plain.csv"), "a.csv"), ("half.csv", "b.csv")):
        assert run(tmp_path, "predict", str(made / "plain"), name, "-o", out).exit_code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


ID_TABLES = {
    "message_id": ("message_id", "perhaps"),
    "uid": ("uid", "question"),  # a class whose name could be that of an item
}


@pytest.mark.parametrize("id", ID_TABLES)
def test_the_column_that_names_the_items_is_found_as_in_votes(made: Path, tmp_path: Path, id: str) -> None:
    name, middle = ID_TABLES[id]
    plain = pd.read_csv(made / "plain.csv").rename(columns={"task": name, "perhaps": middle})
    plain.to_csv(tmp_path / "predictions.csv", index=False)
    votes = pd.read_csv(made / "votes.csv").replace("perhaps", middle)
    votes.to_csv(tmp_path / "votes.csv", index=False)
    votes.rename(columns={"task": name}).to_csv(tmp_path / "alike.csv", index=False)
    for file in ("votes.csv", "alike.csv"):
        done = run(tmp_path, "calibrate", "predictions.csv", file, "-o", f"made-{file}")
        assert done.exit_code == 0, done.output
        assert f"note: items are named by the column {name!r}" in done.stderr
    for words in (["check", "predictions.csv", "votes.csv"], ["plan", "predictions.csv", "votes.csv", "--budget", "9"]):
        done = run(tmp_path, words[0], "made-votes.csv", *words[1:])
        assert done.exit_code == 0, done.output
        assert f"note: items are named by the column {name!r}" in done.stderr
    done = run(tmp_path, "predict", "made-votes.csv", "predictions.csv", "-o", "sets.csv")
    assert (done.exit_code, f"named by the column {name!r}" in done.stderr) == (0, True), done.output
    assert list(pd.read_csv(tmp_path / "sets.csv")[name]) == list(plain[name])


def test_what_the_votes_call_the_items_comes_first_and_what_is_not_clear_is_asked_for(
    made: Path, tmp_path: Path
) -> None:
    plain, votes = pd.read_csv(made / "plain.csv"), pd.read_csv(made / "votes.csv")
    votes.rename(columns={"task": "message_id"}).to_csv(tmp_path / "votes.csv", index=False)
    both = plain.rename(columns={"task": "message_id"}).assign(id=range(N))
    both.to_csv(tmp_path / "both.csv", index=False)
    words = ("calibrate", "both.csv", "votes.csv", "--columns", "no,perhaps,yes")
    done = run(tmp_path, *words, "-o", "one")
    assert "note: items are named by the column 'message_id'" in done.stderr
    both.rename(columns={"id": "thread_id"}).to_csv(tmp_path / "both.csv", index=False)
    votes.to_csv(tmp_path / "votes.csv", index=False)
    done = run(tmp_path, *words, "-o", "two")
    assert done.exit_code == 2
    assert "both.csv has no column 'task'" in done.stderr
    shown = run(tmp_path, *words, "-o", "two", "--id", "message_id", "--show-python").stdout
    assert "id='message_id'" in shown


def test_the_later_vote_counts_by_the_column_of_times(tmp_path: Path) -> None:
    rows = ["image,reader,diagnosis,when", "a,r1,nevus,2024-02-01", "a,r1,other,2024-01-01", "b,r2,other,2024-01-01"]
    (tmp_path / "reads.csv").write_text("\n".join(rows))
    words = ("import", "reads.csv", "--task", "image", "--worker", "reader", "--label", "diagnosis", "-o", "v.csv")
    assert run(tmp_path, *words, "--time", "when").exit_code == 0
    votes = cs.Annotations.read(tmp_path / "v.csv")
    assert votes.counts.tolist() == [[1, 0], [0, 1]]
    done = run(tmp_path, "agree", "reads.csv", *words[2:8], "--resamples", "0", "--time", "when")
    assert "1 earlier by the same worker" in done.stderr
    done = run(tmp_path, "agree", "reads.csv", *words[2:8], "--resamples", "0")
    assert "1 earlier in the file by the same worker" in done.stderr


def test_texts_among_features_are_left_out_with_a_word(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"]).assign(
        task=[f"t{i}" for i in range(60)], hospital="Turin"
    )
    frame.to_csv(tmp_path / "features.csv", index=False)
    votes = pd.DataFrame({"task": frame["task"], "worker": "w", "label": np.where(frame["x"] > 0, "yes", "no")})
    votes.to_csv(tmp_path / "votes.csv", index=False)
    done = run(tmp_path, "fit", "features.csv", "votes.csv", "-o", "model")
    assert done.exit_code == 0, done.output
    assert "'hospital' of features.csv hold words, not numbers, and are not read" in done.stderr.replace("\n", " ")


def test_the_only_column_of_texts_names_the_items(made: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(made / "plain.csv").rename(columns={"task": "ticket"})
    frame.to_csv(tmp_path / "tickets.csv", index=False)
    done = run(tmp_path, "predict", str(made / "plain"), "tickets.csv", "-o", "sets.csv")
    assert done.exit_code == 0, done.output
    assert list(pd.read_csv(tmp_path / "sets.csv")["ticket"]) == list(frame["ticket"])
