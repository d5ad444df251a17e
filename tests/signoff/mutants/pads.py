"""Faults of pads, bumps and their labels."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, choose, um
from mutants.kinds import kind

Rng = np.random.Generator


def are_alike(one: str, other: str) -> bool:
    """Whether two labels name the same output of two servers, which all receive the same average."""
    return one.startswith("out_") and other.startswith("out_") and one.rpartition("_")[2] == other.rpartition("_")[2]


def swap_labels(name: str, metal: bool) -> None:
    """Register an exchange of two labels, which is equal to swapped wires or fibres."""

    @kind(name)
    def swapped(draft: Draft, rng: Rng) -> Mutation:
        found = [pair for pair in draft.texts(metal) if not pair[0].string.startswith("GND")]
        first = int(rng.integers(len(found)))
        one = found[first]
        others = [
            pair
            for number, pair in enumerate(found)
            if number != first and not are_alike(pair[0].string, one[0].string)
        ]
        other = min(others, key=lambda p: abs(p[0].x - one[0].x) + abs(p[0].y - one[0].y))
        one[1].text, other[1].text = (
            kdb.Text(other[0].string, one[0].trans),
            kdb.Text(one[0].string, other[0].trans),
        )
        return Mutation(f"{one[0].string} and {other[0].string} swapped", (one[0].x / 1000, one[0].y / 1000))


swap_labels("wires swapped at pads", True)
swap_labels("fibre labels swapped", False)


def change_label(name: str, metal: bool, new: str | None, move: int = 0, ground: bool = False) -> None:
    """Register a label that is renamed or moved, or deleted if ``new`` is None."""

    @kind(name)
    def changed(draft: Draft, rng: Rng) -> Mutation:
        found = [pair for pair in draft.texts(metal) if pair[0].string.startswith("GND") == ground]
        text, shape = choose(rng, found)
        if new is None:
            draft.top.shapes(draft.index("label")).erase(shape)
        else:
            to = new.format(text.string)
            shape.text = kdb.Text(to, kdb.Trans(kdb.Vector(text.x + move, text.y + move)))
        return Mutation(f"label {text.string!r} becomes {new!r}, moved by {move} nm", (text.x / 1000, text.y / 1000))


change_label("pad label missing", True, None)
change_label("ground label missing", True, None, ground=True)
change_label("fibre label missing", False, None)
change_label("pad label renamed", True, "{}x")
change_label("fibre label renamed", False, "X{}")
change_label("pad label off its pad", True, "{}", 70_000)
change_label("fibre label off its fibre", False, "{}", 60_000)
change_label("pad labelled as ground", True, "GND77")
change_label("pad label moved on its pad", True, "{}", 2_000)


@kind("pad label twice")
def label_twice(draft: Draft, rng: Rng) -> Mutation:
    found = [pair for pair in draft.texts(True) if not pair[0].string.startswith("GND")]
    one, other = (found[i] for i in rng.choice(len(found), 2, replace=False).tolist())
    other[1].text = kdb.Text(one[0].string, other[0].trans)
    return Mutation(f"label {one[0].string!r} in place of {other[0].string!r}", (other[0].x / 1000, other[0].y / 1000))


def on_pad(name: str, by: str) -> None:
    """Register a fault of a pad."""

    @kind(name)
    def spoilt(draft: Draft, rng: Rng) -> Mutation:
        text, shape = choose(rng, [p for p in draft.texts(True)])
        half = round(float(draft.process.pads.size_um) * 500)
        box = kdb.Box(text.x - half, text.y - half, text.x + half, text.y + half)
        if by == "missing":
            draft.cut(draft.wire, box)
        elif by == "smaller":
            draft.cut(draft.wire, kdb.Box(box.left, box.top - 100, box.right, box.top))
            draft.cut(draft.wire, kdb.Box(box.left, box.bottom, box.right, box.bottom + 100))
        elif by == "smaller by 1 nm":
            draft.cut(draft.wire, kdb.Box(box.left, box.top - 1, box.right, box.top))
        elif by == "with a corner cut by 15 um":
            x, y = (int(rng.choice(sides)) for sides in ((box.left, box.right), (box.bottom, box.top)))
            legs = [kdb.Point(x, y), kdb.Point(x + (15_000 if x == box.left else -15_000), y)]
            legs.append(kdb.Point(x, y + (15_000 if y == box.bottom else -15_000)))
            draft.cut(draft.wire, kdb.Region(kdb.Polygon(legs)))
        elif by == "moved":
            draft.cut(draft.wire, box)
            draft.add(draft.wire, box.moved(5000, 5000))
            shape.text = kdb.Text(text.string, kdb.Trans(kdb.Vector(text.x + 5000, text.y + 5000)))
        else:
            draft.cut(draft.wire, kdb.Box(box.center().x - 100, box.bottom, box.center().x + 100, box.top))
        return Mutation(f"pad {text.string!r} {by}", (text.x / 1000, text.y / 1000))


on_pad("pad missing", "missing")
on_pad("pad smaller by 200 nm", "smaller")
on_pad("pad smaller by 1 nm", "smaller by 1 nm")
on_pad("pad with a corner cut", "with a corner cut by 15 um")
on_pad("pad moved by 5 um", "moved")
on_pad("pad cut in two", "cut in two")


@kind("all ground pads but one unlabelled")
def one_ground(draft: Draft, rng: Rng) -> Mutation:
    grounds = [pair for pair in draft.texts(True) if pair[0].string.startswith("GND")]
    keep = int(rng.integers(len(grounds)))
    for number, (_, shape) in enumerate(grounds):
        if number != keep:
            draft.top.shapes(draft.index("label")).erase(shape)
    text = grounds[keep][0]
    return Mutation("labels of all ground pads but one deleted", (text.x / 1000, text.y / 1000))


def bump(name: str, by: str) -> None:
    """Register a fault of a bump's opening."""

    @kind(name)
    def spoilt(draft: Draft, rng: Rng) -> Mutation | None:
        if not draft.has("bump"):
            return None
        polygon = choose(rng, sorted(draft.base.region("bump").each(), key=str))
        box = polygon.bbox()
        draft.cut("bump", box)
        if by == "moved":
            draft.add("bump", polygon.moved(4000, 0))
        elif by == "square":
            draft.add("bump", box)
        elif by == "smaller":
            draft.add("bump", kdb.Region(polygon).sized(-500))
        elif by == "twice":
            draft.add("bump", polygon)
            draft.add("bump", polygon.moved(300_000, 300_000))
        return Mutation(f"a bump's opening {by}", um(box))


bump("bump missing", "missing")
bump("bump moved by 4 um", "moved")
bump("bump square", "square")
bump("bump smaller", "smaller")
bump("bump on no landing", "twice")


def label_again(name: str, metal: bool, to: str, ground: bool = False) -> None:
    """Register a label that is drawn a second time: at its place, beside it, or on another pad or fibre."""

    @kind(name)
    def again(draft: Draft, rng: Rng) -> Mutation:
        found = [p[0] for p in draft.texts(metal) if p[0].string.startswith("GND") == ground]
        text = choose(rng, found)
        place = text.trans.disp
        if to == "beside":
            place += kdb.Vector(1500, -1500)
        elif to == "other":
            others = [one for one in found if one.string != text.string]
            other = min(others, key=lambda t: abs(t.x - text.x) + abs(t.y - text.y))
            place = other.trans.disp
        elif to == "nothing":
            box = draft.clear_spot(rng, 4000)
            place = box.center() - kdb.Point()
        draft.top.shapes(draft.index("label")).insert(kdb.Text(text.string, kdb.Trans(place)))
        return Mutation(f"label {text.string!r} a second time, {to}", (text.x / 1000, text.y / 1000))


label_again("pad label drawn twice in place", True, "in place")
label_again("pad label drawn twice on its pad", True, "beside")
label_again("pad label also on the next pad", True, "other")
label_again("pad label also on nothing", True, "nothing")
label_again("ground label also on the next ground pad", True, "other", ground=True)
label_again("fibre label drawn twice in place", False, "in place")
label_again("fibre label drawn twice on its fibre", False, "beside")
label_again("fibre label also on the next fibre", False, "other")
label_again("fibre label also on nothing", False, "nothing")


@kind("second label on a pad")
def second_label(draft: Draft, rng: Rng) -> Mutation:
    text = choose(rng, [p[0] for p in draft.texts(True)])
    draft.top.shapes(draft.index("label")).insert(kdb.Text("also", text.trans))
    return Mutation(f"a second label on the pad {text.string!r}", (text.x / 1000, text.y / 1000))


@kind("second label on a fibre")
def second_fibre_label(draft: Draft, rng: Rng) -> Mutation:
    text = choose(rng, [p[0] for p in draft.texts(False)])
    draft.top.shapes(draft.index("label")).insert(kdb.Text("also", text.trans))
    return Mutation(f"a second label on the fibre {text.string!r}", (text.x / 1000, text.y / 1000))
