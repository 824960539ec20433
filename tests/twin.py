"""An engine that stands in for vLLM."""

from pathlib import Path

from safetensors.torch import load_file

from clawloop.policy.network import Network
from clawloop.policy.vllm.engine import Ask, Sampled
from clawloop.policy.vllm.sampler import token_logprobs


class Twin:
    """An engine in plain PyTorch, with weights of its own; `keeps` are parts that its updates leave as they were."""

    def __init__(self, weights: Path, keeps: str = "nothing", version: str = "0.32.0") -> None:
        self.network = Network(weights, "twin", 1.0, 512, None, device="cpu")
        self.keeps, self._version = keeps, version
        self.heard: list[str] = []
        self.doubts, self.name = 0, ""

    def interruptions(self) -> int:
        return self.doubts

    def remember(self, name: str) -> None:
        self.name = name

    def recall(self, name: str) -> bool:
        return self.name == name

    def version(self) -> str:
        return self._version

    def sample(self, ask: Ask) -> Sampled:
        self.heard.append("sample")
        return Sampled((ask.end,), (-0.5,), "", True)

    def score(self, ids: tuple[int, ...]) -> list[float]:
        return token_logprobs(self.network.model, ids)

    def update(self, folder: Path) -> None:
        self.heard.append("update")
        self._plain()
        state = {k: v for part in folder.glob("*.safetensors") for k, v in load_file(part).items()}
        kept = {k: v for k, v in state.items() if self.keeps not in k}
        self.network.model.load_state_dict({k: v.float() for k, v in kept.items()}, strict=False)

    def adapt(self, folder: Path) -> None:
        from peft import PeftModel

        self.heard.append("adapt")
        self._plain()
        self.network.model = PeftModel.from_pretrained(self.network.model, folder)

    def _plain(self) -> None:
        if hasattr(self.network.model, "unload"):
            self.network.model = self.network.model.unload()

    def sleep(self) -> None:
        self.heard.append("sleep")

    def wake(self) -> None:
        self.heard.append("wake")
