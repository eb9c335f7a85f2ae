"""Picbreeder's files, and CPPN-X's: a zip with one XML file inside, or the XML itself. Read with care, written back.

Nothing is unpacked to disk; size is bounded before it is read; entities and document types are refused (defusedxml).
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from monoseme.composition.genome import Genome, Link, Node
from monoseme.core.errors import refuse
from monoseme.core.files import atomic_path

__all__ = ["load_genome", "read_genome", "save_genome"]

LARGEST = 16 << 20  # bytes of XML; the largest public genome has 0.1 MB
ZIP = b"PK\x03\x04"


def load_genome(path: Path | str) -> Genome:
    """Read a genome from a file: Picbreeder's zip or XML, or CPPN-X's XML.

    Raises
    ------
    UserError
        No such file; more than one file in the zip, or one that is too large; entities; what is no genome.
    """
    path = Path(path)
    if not path.is_file():
        raise refuse("path", "be a file", path, "Give a zip or XML file.")
    with path.open("rb") as file:
        zipped = file.read(4) == ZIP
    return read_genome(_unzipped(path) if zipped else _bounded(path), str(path))


def _bounded(path: Path) -> bytes:
    if path.stat().st_size > LARGEST:
        raise refuse("path", f"hold at most {LARGEST:,} bytes", f"{path.stat().st_size:,}", "That is no genome.")
    return path.read_bytes()


def _unzipped(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if len(members) != 1:
                raise refuse("path", "hold one file", f"{len(members)} in {path.name}", "Unpack the right one.")
            if members[0].file_size > LARGEST:
                got = f"{members[0].file_size:,}"
                raise refuse("path", f"hold at most {LARGEST:,} bytes unpacked", got, "That is no genome.")
            with archive.open(members[0]) as file:
                found = file.read(LARGEST + 1)  # what the directory says may be a lie
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        if isinstance(error, ValueError) and str(error).startswith("path must"):
            raise
        raise refuse("path", "be a zip file that can be read", f"{path.name} ({error})", "Get it again.") from None
    if len(found) > LARGEST:
        raise refuse("path", f"hold at most {LARGEST:,} bytes unpacked", "more", "That is no genome.")
    return found


def read_genome(xml: bytes | str, name: str = "xml") -> Genome:
    """Read a genome from XML. CPPN-X puts two roots into a file, so roots are wrapped first."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        text = xml if isinstance(xml, str) else xml.decode("utf-8-sig")
        text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
        if "<!" in re.sub(r"<!--.*?-->", "", text, flags=re.S):
            raise refuse("path", "hold XML without a document type or entities", name, "That is no genome.")
        root = fromstring(f"<roots>{text}</roots>")
    except (ParseError, UnicodeDecodeError, DefusedXmlException) as error:
        raise refuse("path", "hold a genome as XML", f"{name} ({error})", "Get the file again.") from None
    found = root.findall(".//genome")
    if len(found) != 1:
        raise refuse("path", "hold one genome", f"{len(found)} in {name}", "Give a Picbreeder or CPPN-X file.")
    try:
        return Genome(
            tuple(_node(each) for each in found[0].findall("nodes/node")),
            tuple(_link(each) for each in found[0].findall("links/link")),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise refuse("path", "hold complete nodes and links", f"{name} ({error})", "The file is damaged.") from None


def _id(element: object) -> str:
    """Picbreeder's identity is the pair of branch and id; a node of our own has only an id."""
    attributes = element.attrib  # pyright: ignore[reportAttributeAccessIssue]
    return f"{attributes['branch']}_{attributes['id']}" if "branch" in attributes else attributes["id"]


def _node(each: object) -> Node:
    find = each.find  # pyright: ignore[reportAttributeAccessIssue]
    attributes = each.attrib  # pyright: ignore[reportAttributeAccessIssue]
    activation = (find("activation").text or "").strip().removesuffix("(x)")
    return Node(_id(find("marking")), attributes["type"], activation, attributes.get("label", ""))


def _link(each: object) -> Link:
    find = each.find  # pyright: ignore[reportAttributeAccessIssue]
    attributes, ends = each.attrib, find("bookends")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        weight = float(find("weight").text)
        sweep = None if ends is None else (float(ends.attrib["start"]), float(ends.attrib["end"]))
    except ValueError as error:
        raise refuse("weight", "be a number", str(error), "The file is damaged.") from None
    label = attributes.get("label", attributes.get("color-label", ""))
    return Link(_id(find("marking")), _id(find("source")), _id(find("target")), weight, label, sweep)


def save_genome(genome: Genome, path: Path | str) -> Path:
    """Write Picbreeder's XML, with labels and sweep ranges as attributes; `load_genome` reads it back equal."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<data version="1.0">', '<genome age="0">']
    lines.append(f'<nodes count="{len(genome.nodes)}">')
    for node in genome.nodes:
        label = f" label={quoteattr(node.label)}" if node.label else ""
        lines.append(f"<node{label} type={quoteattr(node.kind)}>{_mark('marking', node.id)}"
                     f"<activation>{escape(node.activation)}(x)</activation></node>")  # fmt: skip
    lines += ["</nodes>", f'<links count="{len(genome.links)}">']
    for link in genome.links:
        label = f" label={quoteattr(link.label)}" if link.label else ""
        ends = "" if link.sweep is None else f'<bookends start="{link.sweep[0]!r}" end="{link.sweep[1]!r}"/>'
        lines.append(f"<link{label}>{_mark('marking', link.id)}{_mark('source', link.source)}"
                     f"{_mark('target', link.target)}<weight>{link.weight!r}</weight>{ends}</link>")  # fmt: skip
    lines += ["</links>", "</genome>", "</data>", ""]
    path = Path(path)
    with atomic_path(path) as fresh:
        fresh.write_text("\n".join(lines), encoding="utf-8")
    return path


def _mark(tag: str, id: str) -> str:
    branch, underscore, rest = id.partition("_")
    if not underscore:
        return f"<{tag} id={quoteattr(id)}/>"
    return f"<{tag} branch={quoteattr(branch)} id={quoteattr(rest)}/>"
