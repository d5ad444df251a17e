"""The room starts at once."""

import subprocess
import sys
import textwrap


def run(code: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_import_takes_less_than_half_a_second() -> None:
    """Best of three: the claim is about the code, not about a busy machine."""
    code = """
        import time
        start = time.perf_counter()
        import optinc_pdk.factor
        print(time.perf_counter() - start)
    """
    assert min(float(run(code)) for _ in range(3)) < 0.5


def test_import_loads_nothing_heavy() -> None:
    code = """
        import sys
        import optinc_pdk.factor
        print(*{name.partition(".")[0] for name in sys.modules})
    """
    assert not {"scipy", "numba", "gdsfactory", "klayout", "torch", "sax", "jax"} & set(run(code).split())
