"""Shared fixtures: the command line in this process, and a small random model with a real tokenizer."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., object]:
    """Runs `clawloop` with these words in this process: (exit code, stdout, stderr)."""
    from hydra.core.global_hydra import GlobalHydra

    from clawloop.cli import main

    def run(*words: object) -> tuple[int, str, str]:
        GlobalHydra.instance().clear()
        monkeypatch.setattr(sys, "argv", ["clawloop", *map(str, words)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="session", params=["Qwen3", "Llama"])
def small_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network of two layers (random weights) and the nano tokenizer."""
    import torch
    import transformers

    from clawloop.store.weights import find

    folder = tmp_path_factory.mktemp("small_model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(find("nano", folder))
    torch.manual_seed(0)
    config = getattr(transformers, f"{request.param}Config")(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        initializer_range=0.2,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    getattr(transformers, f"{request.param}ForCausalLM")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
