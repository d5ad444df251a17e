"""Figures for papers: diagrams of meshes and cross-sections of processes, from Python and from the command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cli import main
from optinc_pdk.errors import InputError
from optinc_pdk.factor import MeshKind, MeshShape
from optinc_pdk.matrices import MatrixFactor, MatrixTarget, factor_matrix
from optinc_pdk.report.cross_section import cross_section_picture, films
from optinc_pdk.report.matrix_pictures import MOST_MODES, TEXT_MODES, idle_runs, mesh_picture
from optinc_pdk.report.rendering import FORMATS, figure_format

PROCESS = load_process()
STARTS = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def optinc(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["optinc", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return optinc


def factored(rows: int, columns: int) -> MatrixFactor:
    return factor_matrix(MatrixTarget(np.random.default_rng(0).normal(size=(rows, columns))), PROCESS)


def texts(svg: bytes) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg.decode())


def test_a_mesh_states_its_phases() -> None:
    factor = factored(4, 4)
    assert factor.attenuation is not None
    found = texts(mesh_picture(factor, "m", "svg"))
    for mesh in factor.meshes:
        assert set(found) >= {f"{round(phi, 2) % 2:.2f}" for phi in (mesh.phi / np.pi).tolist()}
    assert set(found) >= {f"{round(phase, 2) % 2:.2f}" for phase in (factor.u.output_phase / np.pi).tolist()}
    assert set(found) >= {f"{value:.3f}" for value in factor.attenuation.tolist()}
    assert found.count("3") == 2
    assert any("MZIs" in text and factor.form in text for text in found)


def test_an_mzi_has_the_colour_of_its_theta() -> None:
    factor = factored(2, 2)
    assert factor.v is not None
    drawn = {
        theta: mesh_picture(replace(factor, v=replace(factor.v, theta=np.array([theta]))), "m", "svg")
        for theta in (0.5, 2.0)
    }
    strokes = {theta: set(re.findall(r"stroke: (#[0-9a-f]{6})", svg.decode())) for theta, svg in drawn.items()}
    assert len(strokes[0.5] - strokes[2.0]) == len(strokes[2.0] - strokes[0.5]) == 1


def test_large_meshes_have_no_text_and_the_largest_are_refused() -> None:
    many = TEXT_MODES + 1
    found = texts(mesh_picture(factored(many, many), "m", "svg"))
    assert "16" not in found and not any("φ" in text for text in found)
    assert any(f"up to {TEXT_MODES} modes" in text for text in found)
    factor = factored(2, 2)
    large = MOST_MODES + 1
    wide = replace(factor.u, modes=large, output_phase=np.zeros(large))
    with pytest.raises(InputError, match=str(large)):
        mesh_picture(replace(factor, u=wide, v=None, attenuation=None), "m", "svg")


def test_a_large_mesh_has_a_path_for_every_colour_and_all_its_mzis() -> None:
    factor = factored(40, 40)
    svg = mesh_picture(factor, "m", "svg").decode()
    mzis = sum(mesh.row.size for mesh in factor.meshes)
    # as many curves as MZIs have guides, in fewer paths than MZIs; letters are texts, and the axes are straight
    paths = re.findall(r'<path[^>]* d="([^"]*)"', svg)
    assert sum(path.count("C") for path in paths) == 2 * mzis
    assert len(paths) + svg.count("<use") < mzis


def test_straight_guides_lie_where_a_mode_has_no_mzi() -> None:
    unitary = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    (mesh,) = factor_matrix(MatrixTarget(unitary), PROCESS, MeshShape("triangle")).meshes
    covered = np.zeros((4, 5), dtype=int)
    for begin, end, mode in idle_runs(mesh, 3.0, 5):
        covered[mode, int(begin) - 3 : int(end) - 3] += 1
    for row, column in zip(mesh.row.tolist(), mesh.column.tolist(), strict=True):
        covered[row : row + 2, column] += 1
    assert covered.tolist() == np.ones((4, 5), dtype=int).tolist()


@pytest.mark.parametrize("ending", FORMATS)
def test_equal_figures_have_equal_bytes(ending: str) -> None:
    kind = figure_format(Path(f"x{ending}"))
    for picture in (
        lambda: mesh_picture(factored(3, 2), "m", kind),
        lambda: cross_section_picture(PROCESS, kind),
    ):
        first = picture()
        assert first.startswith(STARTS[ending])
        assert picture() == first


@pytest.mark.parametrize("ending", FORMATS)
def test_endings_in_capitals_are_the_same_formats(ending: str) -> None:
    assert figure_format(Path(f"X{ending.upper()}")) == figure_format(Path(f"x{ending}"))


def test_another_format_is_refused() -> None:
    with pytest.raises(InputError, match=r"mesh\.jpg.*\.svg, \.pdf, \.png"):
        figure_format(Path("mesh.jpg"))


def test_films_are_those_of_the_card() -> None:
    found = {film.name: film for film in films(PROCESS)}
    stated = {name for name, layer in PROCESS.layers.items() if layer.thickness_um is not None}
    assert set(found) == stated
    assert found["core"].thickness_um == 0.22
    assert found["core"].width_um == float(PROCESS.guide.width_um)
    heights = [film.bottom_um for film in films(PROCESS)]
    assert heights == sorted(heights)


@pytest.mark.parametrize("name", ["soi220", "soi220_two_metal", "soi220_flipchip", "cornerstone220"])
def test_a_cross_section_states_thickness_sources_and_what_is_missing(name: str) -> None:
    process = load_process(name)
    said = " ".join(texts(cross_section_picture(process, "svg")))
    for film in films(process):
        assert f"{film.name}, {film.layer.material}: {film.thickness_um:g} µm at {film.bottom_um:g} µm" in said
        assert film.layer.thickness_um is not None
        assert f"{film.layer.thickness_um.source}:" in said
    assert "not to scale" in said
    assert "slab (" in said


def test_a_process_without_heights_is_refused() -> None:
    bare = {name: layer.model_copy(update={"thickness_um": None}) for name, layer in PROCESS.layers.items()}
    with pytest.raises(InputError, match="bottom_um and thickness_um"):
        cross_section_picture(PROCESS.model_copy(update={"layers": bare}), "svg")


def test_the_commands_write_the_pictures(tmp_path: Path, run: Run) -> None:
    np.save(tmp_path / "u.npy", np.eye(3)[::-1])
    code, out, _ = run("factor", tmp_path / "u.npy", "--picture", tmp_path / "mesh.svg")
    assert code == 0 and str(tmp_path / "mesh.svg") in out
    assert any("MZIs" in text for text in texts((tmp_path / "mesh.svg").read_bytes()))
    code, out, _ = run("process", "stack", "--process", "soi220_two_metal", "-o", tmp_path / "stack.pdf")
    assert (code, out.strip()) == (0, str(tmp_path / "stack.pdf"))
    assert (tmp_path / "stack.pdf").read_bytes().startswith(b"%PDF")


def test_the_command_draws_meshes_of_the_shape_that_is_asked_for(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(1)
    unitary = np.linalg.qr(rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)))[0]
    np.save(tmp_path / "u.npy", unitary)
    shapes: tuple[MeshKind, ...] = ("rectangle", "triangle")
    for shape in shapes:
        picture = tmp_path / f"{shape}.svg"
        assert run("factor", tmp_path / "u.npy", "--mesh", shape, "--picture", picture)[0] == 0
        (mesh,) = factor_matrix(MatrixTarget(unitary), PROCESS, MeshShape(shape)).meshes
        phases = [*mesh.phi.tolist(), *mesh.output_phase.tolist()]
        stated = [text for text in texts(picture.read_bytes()) if re.fullmatch(r"[01]\.\d\d", text)]
        # the ticks of the colours end the texts
        assert stated[: len(phases)] == [f"{round(phase / np.pi, 2) % 2:.2f}" for phase in phases]


def test_wrong_pictures_are_refused_before_any_work(tmp_path: Path, run: Run) -> None:
    np.save(tmp_path / "u.npy", np.eye(3))
    for arguments, words in (
        (("factor", tmp_path / "u.npy", "--picture", tmp_path / "mesh.gif"), "mesh.gif"),
        (("factor", tmp_path / "u.npy", "--picture", tmp_path / "u.npy"), "u.npy"),
        (("process", "stack", "-o", tmp_path / "stack.txt"), "stack.txt"),
        (("process", "stack", "--process", "nowhere"), "nowhere"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert words in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["u.npy"]


def test_the_meshes_of_a_network_have_no_picture(tmp_path: Path, run: Run) -> None:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import carry_chain

    carry_chain(Averaging(2, 4, 1)).save(tmp_path / "net.npz")
    code, _, err = run("factor", tmp_path / "net.npz", "--picture", tmp_path / "mesh.svg")
    assert code == 2 and "--picture" in err
