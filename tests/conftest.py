"""Shared fixtures: a small random model with a real tokenizer."""

from pathlib import Path

import pytest


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
