"""The navigation of the documentation site has every page, and the pages that are made for it are right."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import studies
import typer.main
import yaml
from studies import INSERTED, MARK, SCRIPTS, blocks, inserted, page, read_study

from optinc_pdk.cards import load_process
from optinc_pdk.cli.commands import app
from optinc_pdk.errors import InputError

ROOT = Path(__file__).parent.parent
MADE = {
    *("index.md", "contributing.md", "changelog.md", "benchmarks.md", "reference/command_line.md"),
    *(f"cells/{process}.md" for process in ("soi220", "soi220_flipchip", "cornerstone220")),
    *(f"results/{name}.md" for name in SCRIPTS),
}
"""Pages of the site that are no files of ``docs``."""
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
EXPECTED = {
    "first_chip": "65,536 of 65,536 inputs exact",
    "own_network": "both agree on 150 of 150 flowers",
    "unitary": "pass\nfidelity 0.99999",
    "hand_drawn": "verdict   pass",
    "yield_and_calibration": "after: ",
    "gradients": "mean -0.375 steps, stated -0.375",
}
"""What each tutorial prints."""


def entries(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from entries(part)


def test_every_page_is_in_the_navigation_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = list(entries(yaml.safe_load(text)["nav"]))
    found = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py")]
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in found}
    assert sorted(named) == sorted(pages | MADE)


def site_module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs_site" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def command_line() -> ModuleType:
    return site_module("command_line")


@pytest.fixture
def site_links() -> ModuleType:
    return site_module("site_links")


def search_options() -> Any:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (search,) = [plugin["search"] for plugin in yaml.safe_load(text)["plugins"] if "search" in plugin]
    return search


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".safetensors", ["safetensors"]),
        ("weights (.npz)", ["weights", "npz"]),
        ("--data", ["data"]),
        ("op.Network.from_sklearn", ["op", "Network", "from", "sklearn"]),
        ("own_devices.md", ["own", "devices", "md"]),
        ("0.45 µm", ["0.45", "µm"]),
    ],
)
def test_the_search_finds_the_words_within_names_and_options(text: str, words: list[str]) -> None:
    assert [word for word in re.split(search_options()["separator"], text) if word] == words


def test_links_of_notebooks_lead_to_pages(site_links: ModuleType) -> None:
    html = '<a href="../report.md">1</a> <a class="x" href="own_network.py#here">2</a> <code>href="a.md"</code>'
    assert site_links.links_to_pages(html) == (
        '<a href="../report.html">1</a> <a class="x" href="own_network.html#here">2</a> <code>href="a.md"</code>'
    )
    kept = '<a href="https://example.org/a.py">1</a> <a href="#a.md">2</a> <a href="a.html">3</a>'
    assert site_links.links_to_pages(kept) == kept


def test_pictures_of_notebooks_have_their_descriptions() -> None:
    pictures = site_module("notebook_pictures")
    picture = '<img alt="No description has been provided for this image" class="x" src="a">'
    texts = pictures.descriptions("# picture: A & B\nplot()\n# %%\n# picture: C\n")
    assert pictures.with_descriptions(f"{picture}<p>{picture}", texts) == (
        '<img alt="A &amp; B" class="x" src="a"><p><img alt="C" class="x" src="a">'
    )
    with pytest.raises(ValueError, match="2 pictures and 1 descriptions"):
        pictures.with_descriptions(picture * 2, texts[:1])


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_every_picture_of_a_tutorial_is_described(tutorial: Path) -> None:
    code = tutorial.read_text(encoding="utf-8")
    assert len(site_module("notebook_pictures").descriptions(code)) == code.count("plt.subplots(") > 0


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_link_to_pages_of_the_docs(tutorial: Path) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", tutorial.read_text(encoding="utf-8")) if "://" not in link]
    assert links and [link for link in links if not (tutorial.parent / link).is_file()] == []


def test_broken_links_of_a_built_site_are_found(site_links: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "picture one.png").write_bytes(b"")
    (tmp_path / "folder" / "page.html").write_text(
        """<h1 id="top">T</h1> <a name="old">A</a> <a href="#top">1</a> <a href="../index.html#first">2</a>
        <a href="https://example.org/none">3</a> <a href="mailto:a@example.org">4</a>
        <a href="#none">5</a> <a href="../index.html#none">6</a> <a href="../report.md">7</a> <a href="..">8</a>
        <a href="/index.html">9</a>"""
    )
    (tmp_path / "index.html").write_text(
        """<h2 id="first">F</h2> <a href="folder/page.html#old">1</a> <img src="picture%20one.png">
        <img src="picture two.png">"""
    )
    (tmp_path / "404.html").write_text('<a href="/.">1</a> <a href="/index.html">2</a> <a href="/none.html">3</a>')
    assert list(site_links.broken_links(tmp_path)) == [
        "404.html: /none.html",
        "folder/page.html: #none",
        "folder/page.html: ../index.html#none",
        "folder/page.html: ../report.md",
        "folder/page.html: ..",
        "folder/page.html: /index.html",
        "index.html: picture two.png",
    ]


def test_the_reference_of_the_command_line_has_every_command_and_option(command_line: ModuleType) -> None:
    page = command_line.page()
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    for name, command in group.commands.items():
        section = page.partition(f"\n## optinc {name}\n")[2].partition("\n## ")[0]
        assert section, name
        options = [
            one for parameter in command.params if not getattr(parameter, "hidden", False) for one in parameter.opts
        ]
        assert [one for one in options if one.startswith("--") and one not in section] == []


@pytest.mark.full
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(tutorial: Path, tmp_path: Path) -> None:
    """As `make docs` runs them, without a notebook."""
    pytest.importorskip("torch", reason="gradients need PyTorch: the extra [train] has it")
    environment = {**os.environ, "MPLBACKEND": "Agg", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, tutorial], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert EXPECTED[tutorial.stem] in done.stdout


def test_api_pages_name_packages_that_exist() -> None:
    named = [
        line.removeprefix("::: ")
        for page in (ROOT / "docs" / "reference").rglob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("::: ")
    ]
    assert len(named) > 20 and len(set(named)) == len(named)
    assert [name for name in named if importlib.util.find_spec(name) is None] == []
    assert "mkdocs" not in sys.modules


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_page_of_a_study_states_where_and_with_what_it_was_measured(name: str) -> None:
    study, lines = read_study(name), page(name).splitlines()
    assert study is not None and lines[0].startswith("# ")
    head = "\n".join(lines[2:4])
    assert study.command in head and study.commit in head
    assert head.startswith("!!! warning") == bool(study.changes())
    assert any(line.startswith("| ") for line in lines)


def test_a_changed_card_or_network_is_named() -> None:
    study = read_study("rules")
    assert study is not None
    process = next(iter(study.cards))
    other = study.cards | {process: study.cards[process] | {"rules": "0"}}
    assert f"{process} (rules)" in replace(study, cards=other).changes()
    assert replace(study, networks={"README.md": "0"}).changes()[-1] == "README.md"


def test_every_imperfection_is_listed_with_its_value_and_source() -> None:
    module = site_module("imperfections")
    text, process = module.tables(), load_process("soi220")
    assert process.imperfections is not None
    for kind in type(process.imperfections).model_fields:
        for key, value in getattr(process.imperfections, kind):
            assert f"| {kind} | `{key}` | {float(value):g} | " in text
            assert f"- **{value.source}**: {process.sources[value.source]}" in text
    assert "None" not in text
    assert (ROOT / "docs" / "imperfections.md").read_text(encoding="utf-8").count(module.MARK) == 1


@pytest.mark.parametrize("name", INSERTED)
def test_the_results_of_a_study_are_drawn_into_one_page(name: str) -> None:
    text, study = inserted(name), read_study(name)
    assert study is not None and study.commit in text and any(line.startswith("| ") for line in text.splitlines())
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    assert sum(name in MARK.findall(page) for page in pages) == 1


def test_lines_become_blocks_with_tables() -> None:
    lines = ["above", "", "| a | b |", "|---|--:|", "| 1 | |", "| 2 | x |", "", "below"]
    table = {"columns": ["a", "b"], "rows": [["1", ""], ["2", "x"]]}
    assert blocks(lines) == ["above", "", table, "", "below"]


def test_a_partial_run_keeps_the_earlier_digests_and_adds_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "RESULTS", tmp_path)
    studies.write_study("some", [1], "make some", ["soi220"])
    first = read_study("some")
    assert first is not None
    older = replace(first, commit="older", cards={"soi220": {"rules": "0"}})
    (tmp_path / "some.json").write_text(json.dumps(asdict(older)), encoding="utf-8")
    studies.write_study("some", [1, 2], "make some", ["soi220", "cornerstone220"], whole=False)
    found = read_study("some")
    assert found is not None and found.data == [1, 2] and found.commit == "older"
    assert found.cards["soi220"] == {"rules": "0"} and found.cards["cornerstone220"]


@pytest.mark.parametrize("content", ["", "[]", '{"command": "make some"}'])
def test_a_damaged_file_of_results_is_named(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "RESULTS", tmp_path)
    (tmp_path / "some.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"some\.json: "):
        read_study("some")


def test_the_numbers_of_the_readme_are_those_of_the_results() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = [row[5:8] for table in studies.read_data("rules", []) for row in table["rows"]]
    cases = sum(int(number) for row in cells for number in re.findall(r"\d+", row[0]))
    assert f"{cases:,} cases" in readme
    assert all(row[1:] == ["0", "0"] for row in cells) and "[0 wrong](results/rules.json)" in readme
    data = studies.read_data("mutants", {})
    outcomes = Counter(mutant[5] for mutant in data["mutants"])
    caught, rest = outcomes["caught"], outcomes["equivalent"] + outcomes["same geometry"]
    assert f"{outcomes.total():,} changes of layouts: [{caught:,} faults found, {outcomes['hole']} missed]" in readme
    assert f"{rest:,} change nothing that counts" in readme
    flagged = sum(bool(chip[3] or chip[4]) for chip in data["clean"])
    assert f"{flagged} of {len(data['clean'])} good chips flagged" in readme
