"""A scripted agent with a real, tiny network over bytes: its trials are scripted and its training is not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import load_model, save_model
from transformers import LlamaConfig, LlamaForCausalLM

from clawloop.policy.scripted import ScriptedPolicy
from clawloop.types import Completion, Request


class Student(ScriptedPolicy):
    """Answers by rules; `model` reads and learns the bytes that were said."""

    def __init__(self, rules: Sequence[Mapping[str, str]] = (), slip: float = 0.5, temperature: float = 1.0) -> None:
        super().__init__(rules, slip)
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.temperature = temperature
        self.model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=257,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=2,
                max_position_embeddings=4096,
                tie_word_embeddings=True,
            )
        )

    def save(self, folder: Path) -> None:
        """Keep the weights."""
        folder.mkdir(parents=True)
        save_model(self.model, str(folder / "model.safetensors"))

    def load(self, folder: Path, version: str) -> Self:
        """Put kept weights back."""
        load_model(self.model, str(folder / "model.safetensors"))
        return self.renamed(version)


class Blind(Student):
    """One whose engine does not say how likely its tokens were."""

    def complete(self, request: Request) -> Completion:
        """A reply without log-probabilities."""
        return replace(super().complete(request), logprobs=None)
