"""Function check of an extracted chip: every word, or sampled words and a certificate, against the ideal average."""

from optinc_pdk.signoff.function._certificate import Certificate
from optinc_pdk.signoff.function._check import check_board, check_function, check_scattering
from optinc_pdk.signoff.function._optical_response import (
    ChipLight,
    chip_light,
    hop_losses_db,
    oscillator_powers,
    path_loss_db,
    server_errors,
    symbol_assignments,
)
from optinc_pdk.signoff.function._result import FunctionResult, write_function
from optinc_pdk.signoff.function._word_inputs import FunctionInputs, function_inputs
from optinc_pdk.validation import validate_api

__all__ = [
    "Certificate",
    "ChipLight",
    "FunctionInputs",
    "FunctionResult",
    "check_board",
    "check_function",
    "check_scattering",
    "chip_light",
    "function_inputs",
    "hop_losses_db",
    "oscillator_powers",
    "path_loss_db",
    "server_errors",
    "symbol_assignments",
    "write_function",
]

validate_api(__name__)
