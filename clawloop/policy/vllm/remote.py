"""vLLM as a server of its own on this machine, with tokens in and out and the weights handed over in a folder.

Started so, with clawloop importable there:

    VLLM_SERVER_DEV_MODE=1 python -m vllm.entrypoints.openai.api_server --model FOLDER --port 8000 \
        --worker-extension-cls clawloop.policy.vllm.worker.Weights --logprobs-mode processed_logprobs \
        --generation-config vllm --max-model-len 1024 --enable-sleep-mode

The last option is for a GPU only.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from clawloop.policy.server import Server
from clawloop.policy.vllm.engine import Ask, Sampled, check_dtype
from clawloop.policy.vllm.sampler import SampledPolicy
from clawloop.protocols import InfrastructureError, RequestError, Tracker

_ADAPTER = "clawloop-adapter"


class RemoteEngine:
    """A vLLM server in development mode, which lets its weights be replaced.

    Args:
        server: its address, without /v1.
        model: the model's name there; None for the one that it lists.
    """

    def __init__(self, server: Server, model: str | None) -> None:
        self._server = server
        self._model = model or str(server.call("GET", "/v1/models")["data"][0]["id"])
        self._adapter: str | None = None

    def version(self) -> str:
        """Its version."""
        return str(self._server.call("GET", "/version")["version"])

    def sample(self, ask: Ask) -> Sampled:
        """Wait for a reply."""
        choice = self._completion(
            ask.prompt_ids,
            temperature=ask.temperature,
            seed=ask.seed % 2**63,
            max_tokens=ask.max_tokens,
            stop=list(ask.stop) or None,
            stop_token_ids=[ask.end],
            ignore_eos=True,
            logprobs=0,
        )
        ids, logprobs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
        if ids is None or logprobs is None or len(ids) != len(logprobs):
            raise InfrastructureError(f"{self._server.url} gives no token ids or no log-probabilities; is it vLLM?")
        ended = choice["finish_reason"] == "stop"
        return Sampled(tuple(ids), tuple(map(float, logprobs)), str(choice["text"]), ended)

    def score(self, ids: tuple[int, ...]) -> list[float]:
        """The log-probabilities of a text; a request for those reads no cache."""
        found = self._completion(ids, temperature=1.0, max_tokens=1, prompt_logprobs=0)["prompt_logprobs"]
        return [float(one[str(token)]["logprob"]) for one, token in zip(found[1:], ids[1:], strict=True)]

    def update(self, folder: Path) -> None:
        """Take the weights of a folder, which the server must be able to read."""
        if self._adapter is not None:
            with suppress(RequestError):  # a server that was started anew does not have it
                self._server.send("POST", "/v1/unload_lora_adapter", {"lora_name": self._adapter})
            self._adapter = None
        self._server.send("POST", "/collective_rpc", {"method": "take_weights", "args": [str(folder)]})
        if not (self._server.call("POST", "/reset_prefix_cache") or {}).get("success"):
            raise InfrastructureError(f"{self._server.url}: keys and values of the old weights could not be dropped.")

    def adapt(self, folder: Path) -> None:
        """Load an adapter (the server needs --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True)."""
        body = {"lora_name": _ADAPTER, "lora_path": str(folder), "load_inplace": self._adapter is not None}
        self._server.send("POST", "/v1/load_lora_adapter", body)
        self._adapter = _ADAPTER

    def interruptions(self) -> int:
        """How often it was not to be reached, or not heard of for so long that it may have been started anew."""
        return self._server.interruptions()

    def remember(self, name: str) -> None:
        """Keep a name, in each worker."""
        self._server.send("POST", "/collective_rpc", {"method": "remember", "args": [name]})

    def recall(self, name: str) -> bool:
        """Whether each worker has it."""
        found: Any = (self._server.call("POST", "/collective_rpc", {"method": "recall"}) or {}).get("results")
        return bool(found) and all(one == name for one in found)

    def sleep(self) -> None:
        """Give memory back (the server needs --enable-sleep-mode for it)."""
        self._server.send("POST", "/sleep", level=1)

    def wake(self) -> None:
        """Come back."""
        self._server.send("POST", "/wake_up")

    def _completion(self, ids: tuple[int, ...], **options: Any) -> Any:
        body = {"model": self._adapter or self._model, "prompt": list(ids), "return_token_ids": True, **options}
        try:
            return self._server.call("POST", "/v1/completions", body)["choices"][0]
        except (IndexError, KeyError, TypeError) as error:
            raise InfrastructureError(f"{self._server.url}: this is no completion; is it a vLLM server?") from error


class VllmServerPolicy(SampledPolicy):
    """pi_theta trained in this process and sampled by a vLLM server on this machine.

    Args:
        weights: folder of the model and its tokenizer, with which the server was started.
        url: the server's address, without /v1.
        model: the model's name there; None for the one that it lists.
        version: the name of theta.
        temperature: softmax temperature of sampling.
        context: tokens that one conversation may have, prompt and replies together.
        dtype: the server's arithmetic: float32, bfloat16 or float16.
        tolerance: of the check after each update, in nats a token; None for that of the arithmetic.
        timeout_s: seconds that one try may take.
        retries: further tries where the server is busy, broken, silent or not to be reached.
        wait_s: seconds before the second try; each later pause is twice as long.
        threads: torch threads of the network; None leaves them as they are.
        tracker: told each update.
        scratch: where weights lie on their way to the engine; None for the temporary folder.
    """

    def __init__(
        self,
        weights: str | Path,
        url: str,
        model: str | None = None,
        version: str = "theta_0",
        temperature: float = 1.0,
        context: int = 1024,
        dtype: str = "bfloat16",
        tolerance: float | None = None,
        timeout_s: float = 600.0,
        retries: int = 5,
        wait_s: float = 1.0,
        threads: int | None = None,
        tracker: Tracker | None = None,
        scratch: Path | None = None,
    ) -> None:
        check_dtype(dtype)
        engine = RemoteEngine(Server(url, None, timeout_s, retries, wait_s), model)
        super().__init__(engine, weights, version, temperature, context, dtype, tolerance, threads, tracker, scratch)
