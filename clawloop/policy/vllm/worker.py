"""What runs inside a vLLM worker (its option `worker_extension_cls`)."""

from typing import Any


class Weights:
    """A worker that can be given other weights; `reload_weights` and `model_runner` are the worker's own.

    It may have no attribute that the worker has, so these are declared and not set.
    """

    reload_weights: Any
    model_runner: Any
    remembered: Any

    def remember(self, name: str) -> None:
        """Keep a name for as long as this process lives."""
        self.remembered = name

    def recall(self) -> str | None:
        """The name, if there is one."""
        return getattr(self, "remembered", None)

    def take_weights(self, folder: str) -> None:
        """Load the weights of a folder, in place.

        On a CPU a linear layer keeps a packed copy of its weights. `reload_weights` packs all of them again but an
        output head that is tied to the embeddings, which would go on with the old ones.
        """
        self.reload_weights(weights_path=folder)
        model = self.model_runner.get_model()
        head = getattr(model, "lm_head", None)
        if head is not None and hasattr(head, "cpu_linear"):
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(head, remove_weight=False)
