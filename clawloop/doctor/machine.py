"""The facts of this machine that a run depends on."""

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version


def facts() -> dict[str, str]:
    """Each fact in a few words, "missing" where there is nothing."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{pages * page / 2**30:.1f} GiB",
        "user": "root" if os.geteuid() == 0 else f"uid {os.geteuid()}",
        "python": platform.python_version(),
        "torch": _version("torch"),
        "bubblewrap": _said("bwrap", "--version"),
        "W&B": f"{_version('wandb')}, mode {os.environ.get('WANDB_MODE', 'as the config says; offline needs no key')}",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _said(program: str, option: str) -> str:
    if shutil.which(program) is None:
        return "missing"
    return subprocess.run([program, option], capture_output=True, text=True, check=False).stdout.strip() or "silent"
