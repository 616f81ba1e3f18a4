"""Loaders: a data folder first, the public source second (a local server stands in for it), advice last."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from credalset import Annotations
from credalset.datasets import (
    DataNotFoundError,
    chaosnli,
    cifar10h,
    download,
    encoding,
    load_chaosnli,
    load_cifar10h,
    load_synthetic,
    make_messages,
)
from credalset.exceptions import FileFormatError, MissingExtraError

needs_data = pytest.mark.skipif(not os.environ.get("CREDALSET_DATA"), reason="CREDALSET_DATA is not set")
NOWHERE = "http://127.0.0.1:9/nothing"  # the discard port: nobody answers


class Server(http.server.ThreadingHTTPServer):
    """Serves ``content`` by path; ``claimed`` overrides the length that is announced."""

    content: dict[str, bytes]
    claimed: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        data = self.server.content.get(self.path)
        if data is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data) if self.server.claimed is None else self.server.claimed))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.content = {}
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


# --- ChaosNLI, with files of our own under its name ---


def item(uid: str, **counts: int) -> str:
    texts = {"uid": uid, "premise": f"premise of {uid}", "hypothesis": f"hypothesis of {uid}"}
    return json.dumps({"uid": uid, "label_counter": counts, "example": texts})


FILES = {
    "chaosNLI_snli.jsonl": "\n".join([item("a", n=70, e=30), item("b", c=100)]).encode(),
    "chaosNLI_mnli_m.jsonl": "\n".join([item("x", e=20, n=30, c=50)]).encode(),
}


def archive(files: dict[str, bytes], folder: str = "chaosNLI_v1.0/") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("__MACOSX/._junk", b"junk")
        for name, data in files.items():
            opened.writestr(folder + name, data)
    return buffer.getvalue()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two small files pass for ChaosNLI, and keep away from the internet."""
    monkeypatch.setattr(chaosnli, "SHA256", {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()})
    monkeypatch.setattr(chaosnli, "URL", NOWHERE)
    monkeypatch.delenv("CREDALSET_DATA", raising=False)


def put(folder: Path) -> Path:
    for name, data in FILES.items():
        (folder / "chaosNLI_v1.0").mkdir(parents=True, exist_ok=True)
        (folder / "chaosNLI_v1.0" / name).write_bytes(data)
    return folder


def test_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDALSET_DATA", "from-environment")
    assert download.data_folder() == Path("from-environment")
    assert download.data_folder("argument") == Path("argument")
    monkeypatch.delenv("CREDALSET_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert download.data_folder() == Path("cache/credalset")


@pytest.mark.usefixtures("tiny")
def test_chaosnli_from_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDALSET_DATA", str(put(tmp_path)))
    data = load_chaosnli()
    assert data.counts.tolist() == [[30, 70, 0], [0, 0, 100], [20, 30, 50]]
    assert data.distributions[0].tolist() == [0.3, 0.7, 0.0]
    assert (data.uid.tolist(), data.source.tolist()) == (["a", "b", "x"], ["snli", "snli", "mnli_m"])
    assert (data.premises[2], data.hypotheses[0]) == ("premise of x", "hypothesis of a")
    assert data.classes == ("entailment", "neutral", "contradiction")
    assert data.features is None
    assert repr(data) == "ChaosNLI: 3 pairs, no features, 3 classes, 100 votes each"


@pytest.mark.usefixtures("tiny")
def test_chaosnli_is_fetched_once(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.content["/data.zip"] = archive(FILES)
    monkeypatch.setattr(chaosnli, "URL", f"{server.url}/data.zip")
    first = load_chaosnli(data_dir=tmp_path)
    server.content.clear()
    again = load_chaosnli(data_dir=tmp_path, download=False)
    assert (first.counts == again.counts).all()
    kept = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert kept == sorted(FILES), "nothing but the two files is kept"


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, DataNotFoundError, r"fetching it failed \(HTTP Error 404"),
        (b"<html>moved</html>", DataNotFoundError, "is not ChaosNLI 1.0: chaosNLI_snli.jsonl cannot be read"),
        (archive({}), DataNotFoundError, r"cannot be read \(it is missing\)"),
        (archive(dict.fromkeys(FILES, b"{}")), ValueError, "its SHA-256 is 44136fa.*Delete it and fetch it again"),
        (archive(dict.fromkeys(FILES, b" " * 2000001)), DataNotFoundError, r"cannot be read \(too large\)"),
        (b" " * 50_000_001, DataNotFoundError, "has 50000001 bytes or more, and 50000000 were expected"),
    ],
    ids=["missing", "html", "empty", "other contents", "bomb", "huge"],
)
def test_chaosnli_bad_answers(
    content: bytes | None,
    error: type[Exception],
    message: str,
    tmp_path: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if content is not None:
        server.content["/data.zip"] = content
    monkeypatch.setattr(chaosnli, "URL", f"{server.url}/data.zip")
    with pytest.raises(error, match=message):
        load_chaosnli(data_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_broken_connections(server: Server) -> None:
    server.content["/file"] = b"short"
    server.claimed = 10
    with pytest.raises(OSError, match=r"the connection broke"):
        download.download(f"{server.url}/file", largest=100)
    server.claimed = 0  # a length that says nothing: what arrives is counted
    assert download.download(f"{server.url}/file", largest=100) in (b"", b"short")


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("may_download", [True, False])
def test_chaosnli_advice(may_download: bool, tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError) as caught:
        load_chaosnli(data_dir=tmp_path, download=may_download)
    message = str(caught.value)
    assert ("fetching it failed" in message) == may_download
    for needed in (NOWHERE, "chaosNLI_snli.jsonl and chaosNLI_mnli_m.jsonl", str(tmp_path / "chaosNLI_v1.0")):
        assert needed in message
    assert "data_dir or the environment variable CREDALSET_DATA" in message


@pytest.mark.usefixtures("tiny")
def test_chaosnli_damaged_file(tmp_path: Path) -> None:
    path = put(tmp_path) / "chaosNLI_v1.0" / "chaosNLI_snli.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"chaosNLI_snli.jsonl is not the file of ChaosNLI 1.0: its SHA-256 is"):
        load_chaosnli(data_dir=tmp_path)


@pytest.mark.usefixtures("tiny")
def test_features_are_joined_by_name(tmp_path: Path) -> None:
    put(tmp_path)
    path = tmp_path / "own.npz"
    np.savez(path, features=np.array([[7.0, 8.0], [1.0, 2.0], [np.nan, 0.0]]), uid=np.array(["x", "a", "b"]))
    data = load_chaosnli(path, tmp_path)
    assert data.features is not None
    assert (data.uid.tolist(), data.features.tolist()) == (["a", "x"], [[1.0, 2.0], [7.0, 8.0]])
    assert data.counts.tolist() == [[30, 70, 0], [20, 30, 50]]
    np.save(tmp_path / "plain.npy", np.arange(6.0).reshape(3, 2))
    assert len(load_chaosnli(str(tmp_path / "plain.npy"), tmp_path)) == 3


@pytest.mark.usefixtures("tiny")
def test_named_features(tmp_path: Path) -> None:
    put(tmp_path)
    logits = np.arange(27.0).reshape(3, 3, 3)
    logits[1] = np.nan
    np.savez(tmp_path / "chaosnli_snli_mnli_roberta.npz", roberta_logits=logits, uid=np.array(["a", "b", "x"]))
    data = load_chaosnli("roberta", tmp_path)
    assert data.features is not None
    assert (data.features.shape, data.uid.tolist()) == ((2, 9), ["a", "x"])
    with pytest.raises(DataNotFoundError, match=r"'minilm': there is no file .*chaosnli_snli_mnli.npz.*Put it"):
        load_chaosnli("minilm", tmp_path)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": np.zeros((2, 4))}, "features has 2 rows, but there are 3 pairs"),
        ({"features": np.zeros((3, 4)), "uid": np.array(["p", "q", "r"])}, "belongs to none of the pairs"),
        ({"other": np.zeros((3, 4))}, "cannot be read: .*It needs the arrays features and uid"),
        ({"features": np.full((3, 4), np.nan), "uid": np.array(["a", "b", "x"])}, "own.npz holds no finite feature"),
        (
            {"features": np.array([[1.0, np.nan]] * 3), "uid": np.array(["a", "b", "x"])},
            "features has no row of finite numbers",
        ),
        ({"features": np.zeros((3, 4)), "uid": np.array(["a", "b"])}, r"3 rows, but uid has shape \(2,\)"),
        ({"features": np.zeros(3), "uid": np.array(["a", "b", "x"])}, r"one row per pair, but has shape \(3,\)"),
        ({"features": np.array([object()] * 3)}, "cannot be read: Object arrays cannot be loaded"),
    ],
)
def test_bad_features(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = put(tmp_path) / "own.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        load_chaosnli(path, tmp_path)


@pytest.mark.usefixtures("tiny")
def test_features_that_are_not_there(tmp_path: Path) -> None:
    put(tmp_path)
    with pytest.raises(DataNotFoundError, match=r"Pass 'roberta', 'minilm', or the path of an .npz or .npy file"):
        load_chaosnli("robrta", tmp_path)
    with pytest.raises(ValueError, match=r"features \('roberta'\) and encoder \('e'\) were both given"):
        load_chaosnli("roberta", tmp_path, encoder="e")


@pytest.mark.usefixtures("tiny")
def test_a_folder_is_no_features(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"features must be a name or a file, but .* is a folder. .* as data_dir="):
        load_chaosnli(str(put(tmp_path)))


def damage(path: Path, kind: str) -> None:
    data = path.read_bytes()
    middle = len(data) // 2
    contents = {
        "empty": b"",
        "cut": data[:middle],
        "overwritten": data[:middle] + bytes(300) + data[middle + 300 :],
        "foreign": b"<html>not found</html>",
    }
    path.write_bytes(contents[kind])


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kind", ["empty", "cut", "overwritten", "foreign"])
@pytest.mark.parametrize("name", ["chaosnli_snli_mnli_roberta.npz", "cifar10h_model_a.npz", "cifar10h-counts.npy"])
def test_damaged_arrays_name_the_file(name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10h, "URL", NOWHERE)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(10_000, 10))
    arrays = {"counts": counts(), "logits": logits, "features": logits, "labels": np.zeros(10_000, dtype=int)}
    path = put(tmp_path) / name
    if name.startswith("chaosnli"):
        np.savez_compressed(path, roberta_logits=rng.normal(size=(3, 3, 3000)), uid=np.array(["a", "b", "x"]))
        load_chaosnli("roberta", tmp_path)
    elif name.endswith(".npz"):
        np.savez_compressed(path, **arrays)
    else:
        np.save(path, counts())
    if name.startswith("cifar10h"):
        load_cifar10h(tmp_path)
    damage(path, kind)
    with pytest.raises(FileFormatError, match=rf"{name} .*(put an intact copy there|[Ff]etch it again)"):
        load_chaosnli("roberta", tmp_path) if name.startswith("chaosnli") else load_cifar10h(tmp_path)


# --- encoders ---


@pytest.mark.usefixtures("tiny")
def test_encoded_pairs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def load_encoder(name: str) -> encoding.Encoder:
        def encode(premises: Sequence[str], hypotheses: Sequence[str]) -> Any:
            calls.extend(premises)
            return np.array([[len(p), len(h)] for p, h in zip(premises, hypotheses, strict=True)], dtype=float)

        return encode

    monkeypatch.setattr(encoding, "load_encoder", load_encoder)
    monkeypatch.setattr(encoding, "BATCH_SIZE", 2)
    put(tmp_path)
    data = load_chaosnli(data_dir=tmp_path, encoder="some/model")
    assert data.features is not None
    assert data.features.tolist() == [[12.0, 15.0]] * 3
    assert len(calls) == 3
    load_chaosnli(data_dir=tmp_path, encoder="some/model")
    assert len(calls) == 3, "read from the disk"
    load_chaosnli(data_dir=tmp_path, encoder="other/model")
    assert len(calls) == 6, "another encoder, another file"
    next((tmp_path / "encoded").iterdir()).write_bytes(b"damaged")
    for name in ("some/model", "other/model"):
        load_chaosnli(data_dir=tmp_path, encoder=name)
    assert len(calls) == 9, "a damaged file is computed again"


@pytest.mark.usefixtures("tiny")
def test_encoder_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"transformers.*pip install 'credalset\[nli\]'"):
        load_chaosnli(data_dir=put(tmp_path), encoder="some/model")
    with pytest.raises(ValueError, match="there are 1 premises, but 2 hypotheses"):
        encoding.encode_pairs(["a"], ["b", "c"])


# --- CIFAR-10H ---


def counts(seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    votes = np.full(10_000, 51)
    votes[:1_100] += 1
    return rng.multinomial(votes, np.full(10, 0.1))


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10h, "URL", NOWHERE)
    monkeypatch.delenv("CREDALSET_DATA", raising=False)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_cifar10h_is_fetched_once(dtype: Any, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.content["/counts.npy"] = npy(counts().astype(dtype))
    monkeypatch.setattr(cifar10h, "URL", f"{server.url}/counts.npy")
    data = load_cifar10h(tmp_path)
    assert data.counts.dtype == np.int64
    assert (data.counts == counts()).all()
    assert (data.logits, data.probabilities, len(data)) == (None, None, 10_000)
    assert repr(data) == "CIFAR10H: 10000 images, 10 classes, votes only"
    server.content.clear()
    assert (load_cifar10h(tmp_path, download=False).counts == data.counts).all()


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>", "is not a NumPy array"),
        (npy(np.zeros((10, 10))), r"it holds float64 of shape \(10, 10\) instead of 10000 rows of 10 counts"),
        (npy(counts() + 0.5), "some counts are not whole numbers of votes"),
        (npy(counts() * 2), "rows hold 102 to 104 votes and 1022200 in all"),
        (npy(np.array([object()])), "Object arrays cannot be loaded"),
    ],
    ids=["html", "shape", "halves", "votes", "pickle"],
)
def test_cifar10h_contents_are_checked(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "cifar10h-counts.npy").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_cifar10h(tmp_path)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("may_download", [True, False])
def test_cifar10h_advice(may_download: bool, tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError) as caught:
        load_cifar10h(tmp_path, download=may_download)
    assert f"Fetch {NOWHERE} and put it into {tmp_path} as cifar10h-counts.npy" in str(caught.value)
    assert ("fetching it failed" in str(caught.value)) == may_download


@pytest.mark.usefixtures("offline")
def test_cifar10h_with_a_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"counts": counts(), "logits": rng.normal(size=(10_000, 10)), "features": rng.normal(size=(10_000, 4))}
    path = tmp_path / "cifar10h_model_a.npz"
    np.savez(path, **arrays, labels=np.zeros(10_000, dtype=int))
    data = load_cifar10h(tmp_path)
    assert data.probabilities is not None
    assert data.probabilities.sum(axis=1) == pytest.approx(1.0)
    np.savez(path, **{**arrays, "logits": np.full((10_000, 10), np.nan)}, labels=np.zeros(10_000, dtype=int))
    with pytest.raises(FileFormatError, match="logits that are not finite numbers"):
        load_cifar10h(tmp_path)
    np.savez(path, **arrays, labels=np.zeros(9, dtype=int))
    with pytest.raises(ValueError, match="one row of logits, features and labels per image"):
        load_cifar10h(tmp_path)
    np.savez(path, counts=counts())
    with pytest.raises(ValueError, match="It needs the arrays counts, logits, features and labels"):
        load_cifar10h(tmp_path)


# --- the authors' synthetic points ---


def test_authors_points(tmp_path: Path) -> None:
    shares = np.array([[0.2, 0.8, 0.0], [0.6, 0.2, 0.2]], dtype=np.float32)
    path = tmp_path / "synthetic_1500_points_3_classes.npz"
    np.savez(path, X=np.zeros((2, 10), dtype=np.float32), W=np.full((2, 3), 1 / 3), W_m5=shares)
    data = load_synthetic(3, 5, tmp_path)
    assert data.counts.tolist() == [[1, 4, 0], [3, 1, 1]]
    with pytest.raises(ValueError, match="n_votes must be one of 5, but is 7"):
        load_synthetic(3, 7, tmp_path)
    with pytest.raises(ValueError, match="n_classes must be one of 3, 4, 6, 8, 10, but is 5"):
        load_synthetic(5, 5, tmp_path)
    with pytest.raises(DataNotFoundError, match="draw points with make_synthetic"):
        load_synthetic(4, 5, tmp_path)
    intact = path.read_bytes()
    for damaged in (b"", intact[: len(intact) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"3_classes.npz cannot be read: .*put an intact copy there"):
            load_synthetic(3, 5, tmp_path)
    np.savez(path, X=np.zeros((2, 10)), W_m5=shares)
    with pytest.raises(ValueError, match="It needs the arrays X, W and W_m5"):
        load_synthetic(3, 5, tmp_path)


# --- the real thing ---


@pytest.mark.data
@needs_data
def test_real_chaosnli() -> None:
    data = load_chaosnli("roberta", download=False)
    assert data.features is not None
    assert data.features.shape == (3083, 9)
    assert (data.counts.sum(axis=1) == 100).all()
    every = load_chaosnli(download=False)
    assert [int((every.source == s).sum()) for s in ("snli", "mnli_m")] == [1514, 1599]
    assert every.counts[0].tolist() == [30, 70, 0]


@pytest.mark.data
@needs_data
def test_real_cifar10h() -> None:
    data = load_cifar10h(download=False)
    assert data.labels is not None
    assert data.counts.sum() == 511_000
    assert (data.counts.argmax(axis=1) == data.labels).mean() == pytest.approx(0.9921, abs=5e-4)


@pytest.mark.data
@needs_data
def test_real_points_of_the_authors() -> None:
    data = load_synthetic(10, 100)
    assert data.counts.shape == (1500, 10)
    assert (data.counts.sum(axis=1) == 100).all()
    assert np.abs(data.counts / 100 - data.distributions).mean() < 0.03


def test_messages_have_votes_of_different_people_that_follow_the_truth() -> None:
    data = make_messages(4000, n_votes=20, random_state=0)
    assert len(data) == 4000
    assert len(set(data.items)) == 4000
    assert np.array_equal(data.counts.sum(axis=1), np.full(4000, 20))
    assert all(len(set(row)) == 20 for row in data.workers[:50].tolist())
    assert np.allclose(data.distributions.sum(axis=1), 1.0)
    squares = (data.counts - 20 * data.distributions) ** 2 / (20 * data.distributions)
    # Pearson's statistic has expectation K - 1 = 2 for multinomial votes, whatever the truth
    assert abs(squares.sum(axis=1).mean() - 2.0) < 4 * squares.sum(axis=1).std() / 4000**0.5
    pandas = pytest.importorskip("pandas")
    votes = Annotations.from_table(pandas.DataFrame(data.votes()), classes=data.classes)
    assert votes.items == data.items
    assert np.array_equal(votes.counts, data.counts)
    same = make_messages(4000, n_votes=20, random_state=0)
    assert same.texts == data.texts
    assert np.array_equal(same.labels, data.labels)


def test_words_tell_most_but_not_all_about_messages() -> None:
    """Messages of the same phrases differ in truth by their tone, more so in chats."""
    data = make_messages(20000, n_votes=1, random_state=1)
    groups: dict[tuple[str, frozenset[str]], list[int]] = {}
    for i, (channel, text) in enumerate(zip(data.channels, data.texts, strict=True)):
        groups.setdefault((channel, frozenset(text.replace("?", ".").split(". "))), []).append(i)
    spread = {"mail": [], "chat": []}
    for (channel, _), rows in groups.items():
        if len(rows) > 4:
            spread[channel].append(data.distributions[rows].std(axis=0).mean())
    assert 0.0 < np.mean(spread["mail"]) < 0.5 * np.mean(spread["chat"])
