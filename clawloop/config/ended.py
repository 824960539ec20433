"""How a command that a person typed ends: an exit code, and one sentence where something is wrong."""

import os
import sys
from collections.abc import Callable

from clawloop.config.errors import AskError, ConfigError
from clawloop.protocols import InfrastructureError


def ended(
    do: Callable[[], int],
    wrong: tuple[type[Exception], ...] = (AskError, ConfigError),
    broken: tuple[type[Exception], ...] = (InfrastructureError,),
) -> tuple[int, str]:
    """Do something.

    Args:
        do: prints what it has to say, and returns its exit code.
        wrong: errors about what the person named.
        broken: errors for which the person can do nothing.

    Returns:
        The exit code and what is to be said on stderr: that of `do`; 2 with a sentence where the words or what they
        name are wrong; 1 with one where something broke.
    """
    try:
        exit_code = do()
        sys.stdout.flush()
        return exit_code, ""
    except wrong as error:
        return 2, str(error)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # whoever read has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0, ""
        return 2, f"{error.filename or 'a file'}: {(error.strerror or str(error)).lower()}; name another place."
    except broken as error:
        return 1, str(error)
