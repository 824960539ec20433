"""Where conf/ and sweeps/ lie."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def data_dir(name: str) -> Path:
    """The folder conf or sweeps: inside the package where that was installed, else beside it in the checkout.

    Raises:
        FileNotFoundError: neither is there.
    """
    for folder in (_PACKAGE / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{name}/ is neither in {_PACKAGE} nor beside it; install clawloop again.")


def options(group: str) -> list[str]:
    """The names that conf/ offers in a group."""
    return sorted(path.stem for path in (data_dir("conf") / group).glob("*.yaml"))


def groups() -> list[str]:
    """The groups of conf/, and that of the sweeps."""
    return sorted([*(path.name for path in data_dir("conf").iterdir() if path.is_dir()), "sweep"])
