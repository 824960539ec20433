"""Weights in this process: what the policies that can be trained share."""

from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from clawloop.policy.adapter import files
from clawloop.policy.chat import Chat
from clawloop.protocols import RequestError
from clawloop.types import Request

_WHOLE = StateDictOptions(full_state_dict=True, strict=False)


class Network:
    """A transformers model in fp32 with its tokenizer and chat template; training changes it in place.

    `adapter` holds the files of the LoRA adapter whose merging gave these weights, where one did.

    Args:
        weights: folder of the model and its tokenizer.
        version: the name of theta.
        temperature: softmax temperature of sampling.
        context: tokens that one conversation may have, prompt and replies together.
        threads: torch threads; None leaves them as they are.
        device: where the model is; None for a GPU where there is one.
    """

    def __init__(
        self,
        weights: str | Path,
        version: str,
        temperature: float,
        context: int,
        threads: int | None,
        device: str | None = None,
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        disable_progress_bar()  # type: ignore[no-untyped-call]
        self.tokenizer: Any = AutoTokenizer.from_pretrained(str(weights))
        network: Any = AutoModelForCausalLM.from_pretrained(str(weights), dtype=torch.float32)
        self.model: Any = network.to(device or ("cuda" if torch.cuda.is_available() else "cpu")).eval()
        self.chat = Chat(self.tokenizer)
        self.temperature = temperature
        self.context = min(context, int(self.model.config.max_position_embeddings))
        self._version = version
        self.adapter: dict[str, bytes] = {}

    @property
    def version(self) -> str:
        """The name of theta."""
        return self._version

    def renamed(self, version: str) -> Self:
        """The same model after its weights have changed in place."""
        self._version = version
        self.model.eval()
        return self

    def save(self, folder: Path) -> None:
        """Write weights (as trained, fp32) and tokenizer, and the adapter into a folder beside them."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        for name, content in self.adapter.items():
            (folder / "adapter").mkdir(exist_ok=True)
            (folder / "adapter" / name).write_bytes(content)

    def load(self, folder: Path, version: str) -> Self:
        """Put saved weights into this model, in place."""
        put_weights(self.model, folder)
        self.adapter = files(folder / "adapter")
        return self.renamed(version)

    def count(self, request: Request) -> int:
        """The tokens of a request's prompt."""
        return len(self.chat.prompt_ids(request.messages, request.tools))

    def refuse_sampling(self, request: Request) -> None:
        """Refuse another distribution than the one that training compares with.

        Raises:
            RequestError: in one sentence.
        """
        if request.temperature not in (None, self.temperature):
            raise RequestError(f"temperature: this policy samples at {self.temperature:g}; leave it out.")
        if request.top_p not in (None, 1.0):
            raise RequestError("top_p: this policy samples from the whole distribution; leave it out.")


def put_weights(model: Any, folder: Path) -> None:
    """Put saved weights into a model, in place; into one that is sharded, at each rank.

    Raises:
        ValueError: they are not those of such a model.
    """
    state: dict[str, Tensor] = {}
    for part in sorted(folder.glob("*.safetensors")):
        state |= load_file(part)
    missing, unexpected = set_model_state_dict(model, {k: v.float() for k, v in state.items()}, options=_WHOLE)
    if unexpected or set(missing) - set(model._tied_weights_keys or ()):
        raise ValueError(
            f"{folder}: these weights do not fit {model.config.model_type}: {[*missing, *unexpected][:3]}."
        )
    model.tie_weights()
