"""The page of imperfections agrees with the card."""

from pathlib import Path

import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.tolerance.variation.docs_page import imperfections_page

PAGE = Path(__file__).parents[3] / "docs" / "imperfections.md"


def test_the_page_is_up_to_date(process):
    assert PAGE.read_text() == imperfections_page(process), "run make imperfections"


def test_every_parameter_is_on_the_page_with_its_source(process):
    text = imperfections_page(process)
    for kind in type(process.imperfections).model_fields:
        for key, value in getattr(process.imperfections, kind):
            assert f"| {kind} | `{key}` | {float(value):g} | " in text
            assert f"- **{value.source}**: {process.sources[value.source]}" in text
    assert "None" not in text


def test_a_process_without_imperfections_has_no_page(process):
    with pytest.raises(InputError, match=r"'soi220' .*'imperfections'"):
        imperfections_page(process.model_copy(update={"imperfections": None}))
