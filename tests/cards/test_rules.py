"""Rule files: what is read, and errors with place and remedy for every kind of invalid file."""

import re
from pathlib import Path

import pytest

from optinc_pdk.cards import CardError, load_process
from optinc_pdk.cards.loader import process_names
from optinc_pdk.cards.rules import DieSizeRule, LineRule, Rule, load_rules

LAYERS = {"core": (3, 0), "metal": (41, 0)}
RULE = (
    "{id: core.width, kind: width, layers: [core], value_um: 0.35, ignore_angle_deg: 80, "
    "angled_tolerance_um: 0.002, text: t, source: book, severity: error}"
)
FILE = f"schema: 1\nprocess: p\nsources: {{book: a book}}\nrules:\n  - {RULE}\n"


def load(folder: Path, text: str) -> tuple[Rule, ...]:
    path = folder / "rules.yml"
    path.write_text(text)
    return load_rules(path, LAYERS)


def test_a_rule_is_read(tmp_path: Path) -> None:
    (rule,) = load(tmp_path, FILE)
    assert isinstance(rule, LineRule)
    assert (rule.id, rule.kind, rule.layers, rule.value_um) == ("core.width", "width", ("core",), 0.35)
    assert (rule.source, rule.severity, rule.limit) == ("book", "error", "0.35 um")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("value_um: 0.35", "value_um: .nan", "'core.width', key value_um .*correct the value"),
        ("value_um: 0.35", "value_um: .inf", "'core.width', key value_um .*correct the value"),
        ("value_um: 0.35", "value_um: 0", "'core.width', key value_um .*greater than or equal to 0.001"),
        ("value_um: 0.35", "value_um: -1", "'core.width', key value_um .*greater than or equal to 0.001"),
        ("value_um: 0.35", "value_um: 0.0004", "'core.width', key value_um .*greater than or equal to 0.001"),
        ("value_um: 0.35", "value_um: 1.0e+300", "'core.width', key value_um .*less than or equal to 1000000"),
        ("text: t", 'text: "a\\eb"', r"'core.width', key text: text 'a\\x1bb' of 3 characters .*printable"),
        ("text: t", f"text: {'x' * 10_000}", "key text: text 'x+...x+' of 10000 characters must be at most 1000"),
        ("schema: 1", "schema: true", "key schema must be 1"),
        ("value_um: 0.35", "value_um: '0.35'", "'core.width', key value_um .*correct the value"),
        ("value_um: 0.35", "value_um: true", "'core.width', key value_um .*correct the value"),
        ("value_um: 0.35", "value_um: 0.35, value_um: 0.3", "duplicate key 'value_um'"),
        ("value_um: 0.35", "value: 0.35", "'core.width', key value_um is missing; add"),
        ("value_um: 0.35", "value_um: 0.35, colour: red", "unknown key colour; remove"),
        ("ignore_angle_deg: 80", "ignore_angle_deg: 91", "key ignore_angle_deg"),
        ("angled_tolerance_um: 0.002", "angled_tolerance_um: -0.002", "key angled_tolerance_um"),
        ("kind: width", "kind: breadth", "'core.width', key kind: .*'breadth'; .* angle, area, .*, width$"),
        ("kind: width", "kind: widths", "'core.width', key kind: .*'widths'; .* width\\?$"),
        ("kind: width, ", "", "'core.width', key kind is missing; add"),
        ("[core]", "[glass]", "'core.width', key layers: no layer 'glass'; .* core, metal"),
        ("[core]", "[core, metal]", "'core.width', key layers"),
        ("[core]", "[]", "'core.width', key layers"),
        ("source: book", "source: rumour", "'core.width', key source: no source 'rumour'; .* book"),
        ("severity: error", "severity: fatal", "'core.width', key severity"),
        ("text: t", "text: ''", "'core.width', key text"),
        ("id: core.width", "id: Core Width", "key id"),
        ("id: core.width, ", "", "rule number 1, key id is missing; add"),
        ("schema: 1", "schema: 2", "key schema"),
        ("process: p\n", "", "key process is missing; add"),
        (f"  - {RULE}", f"  - {RULE}\n  - {RULE}", "rule id 'core.width'"),
        (f"\n  - {RULE}", " []", "key rules"),
        (f"\n  - {RULE}", "\n  - 7", "rule number 1"),
        ("rules:", "rulez:", "key rules is missing; add"),
        ("schema: 1", "schema: 1\nextra: 1", "unknown key extra; remove"),
        ("schema: 1", "schema: [", "not valid YAML"),
    ],
)
def test_invalid_rules_are_refused_with_their_place(old: str, new: str, reason: str, tmp_path: Path) -> None:
    assert old in FILE
    with pytest.raises(CardError, match=reason) as caught:
        load(tmp_path, FILE.replace(old, new, 1))
    assert "rules.yml" in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CardError, match=r"nothing\.yml: cannot be read"):
        load_rules(tmp_path / "nothing.yml", LAYERS)


def test_rules_are_immutable() -> None:
    first = load_process().rules[0]
    with pytest.raises(ValueError, match="frozen"):
        first.text = "other"  # type: ignore[misc]


def test_the_process_has_its_rules_and_marks_defaults() -> None:
    rules = load_process().rules
    assert len(rules) >= 25
    assert {rule.source for rule in rules} == {"cornerstone", "default"}
    # rules of the process's document, and rules of this project
    assert next(rule for rule in rules if rule.id == "core.width").source == "cornerstone"
    assert next(rule for rule in rules if rule.id == "heater.foreign_guide").source == "default"


def test_every_die_of_the_process_is_a_legal_outline() -> None:
    process = load_process()
    (outline,) = (rule for rule in process.rules if isinstance(rule, DieSizeRule))
    sizes = {die.fit: (float(die.width_um), float(die.height_um)) for die in process.dies}
    assert sizes["fits one die"] in outline.dies_um
    assert sizes["fits one reticle"] == outline.reticle_um


@pytest.mark.parametrize("process", process_names())
def test_texts_state_the_limit_in_micrometres(process: str) -> None:
    rules = [rule for rule in load_process(process).rules if hasattr(rule, "value_um") and rule.kind != "grid"]
    assert len(rules) > 20
    for rule in rules:
        lengths = {float(number) for number in re.findall(r"([\d.]+)(?: by [\d.]+)? µm\b", rule.text)}
        assert rule.value_um in lengths, (rule.id, rule.text)
        for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?= (?:wide|apart|beyond|away|of)\b)", rule.text):
            raise AssertionError(f"{rule.id}: {number} has no unit in {rule.text!r}")
