"""The import of optinc_pdk.factor loads numpy only."""

import subprocess
import sys
import textwrap


def run(code: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_heavy() -> None:
    code = """
        import sys
        import optinc_pdk.factor
        print(*{name.partition(".")[0] for name in sys.modules})
    """
    assert not {"scipy", "numba", "gdsfactory", "klayout", "torch", "sax", "jax"} & set(run(code).split())
