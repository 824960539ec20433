"""The cold start: a small model learns the harness from demonstrations, before the loop begins.

It is not in the paper, whose loop model is strong enough to start from nothing. Demonstrations are oracle solutions of
level-0 tasks, played through the real harness and sandbox, so that their tokens are those of a real episode.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.thread import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from clawloop.policy.chat import Chat
from clawloop.policy.network import Network
from clawloop.protocols import Agent, Demonstrable, Harness, InfrastructureError, Policy, Tracker
from clawloop.store.recorded import save_whole
from clawloop.store.weights import digest
from clawloop.training.schedule import Cosine
from clawloop.training.sequences import sequences
from clawloop.training.sft import Sft
from clawloop.types import Candidate, Completion, DiagnosisReport, Outcome, Request, Rollout, Task


@dataclass(slots=True)
class Demonstrator:
    """An agent that replays an oracle in the form of a harness: one command a turn, then it hands in."""

    chat: Chat
    oracle: Sequence[str]
    write: Callable[[str | None], str]
    version: str = "oracle"

    def complete(self, request: Request) -> Completion:
        """The next command; its log-probabilities are 0, for it was not sampled."""
        turn = sum(message.role == "assistant" for message in request.messages)
        text = self.write(self.oracle[turn] if turn < len(self.oracle) else None)
        ids = (*self.chat.tokenizer(text, add_special_tokens=False)["input_ids"], self.chat.end)
        return Completion(text, self.chat.prompt_ids(request.messages), ids, (0.0,) * len(ids), "stop")


class Plays(Protocol):
    """Plays one trial (`rollout.episode.Episode`)."""

    def __call__(self, policy: Agent, task: Task, index: int, seed: int) -> Rollout:
        """Trial `index` of a task."""
        ...


def demonstrate(
    candidates: Sequence[Candidate],
    chat: Chat,
    play: Plays,
    harness_of: Callable[[str], Harness],
    progress: Callable[[str, int, int], None],
) -> tuple[Rollout, ...]:
    """Play the oracles of the candidates that have a task; only rewarded trials are demonstrations.

    Raises:
        InfrastructureError: one broke on the machine; a start without it would be kept and used again.
        ValueError: nobody can write an action of a task's harness down.
    """
    played: list[Rollout] = []
    ready = [(c.task, Demonstrator(chat, c.oracle, _writer(harness_of(c.task.id)))) for c in candidates if c.task]
    with ThreadPoolExecutor(4, thread_name_prefix="demonstration") as pool:
        for rollout in pool.map(lambda pair: play(pair[1], pair[0], 0, 0), ready):
            if rollout.outcome is Outcome.INFRASTRUCTURE_FAILED:
                raise InfrastructureError(f"cold start: a demonstration broke on this machine: {rollout.error}")
            played.append(rollout)
            progress("cold start", len(played), len(ready))
    return tuple(rollout for rollout in played if rollout.reward == 1.0)


def _writer(harness: Harness) -> Callable[[str | None], str]:
    if not isinstance(harness, Demonstrable):
        raise ValueError(
            f"cold_start: no demonstration can be written for {harness.name}; set cold_start.demonstrations=0."
        )
    return harness.reply


class ColdStart:
    """Gives theta_0: the base model after SFT on demonstrations, from the cache where the same start was made before.

    Args:
        settings: demonstrations, epochs, lr and batch_size.
        synthesize: makes level-0 candidates, with a seed of its own.
        play: plays one trial.
        harness_of: the harness of a task, by its id.
        tracker: told the progress and the loss (axis cold_start).
        cache: starts are kept in cold_start/ there, by a hash of all that they depend on.
        weights: the folder of the base model.
        depends: what a start depends on besides the settings, the weights and the code of the tasks.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        synthesize: Callable[[Policy, DiagnosisReport, int], tuple[Candidate, ...]],
        play: Plays,
        harness_of: Callable[[str], Harness],
        tracker: Tracker,
        cache: Path,
        weights: Path,
        depends: Mapping[str, Any],
    ) -> None:
        self._settings, self._synthesize, self._tracker = settings, synthesize, tracker
        self._play, self._harness_of = play, harness_of
        self._cache, self._weights, self._depends = cache, weights, depends

    def folder(self) -> Path:
        """Where theta_0 lies: the base model, or this start. Then weights and sources are read, to name it by them."""
        if not self._settings["demonstrations"]:
            return self._weights
        depends = {**self._depends, "weights": digest(self._weights)}
        package = Path(__file__).parents[1]
        found = (p for room in ("synthesis", "harness") for p in (package / room).rglob("*"))
        sources = sorted(p for p in found if p.is_file() and p.suffix != ".pyc")
        key = hashlib.sha256(json.dumps([dict(self._settings), depends], sort_keys=True, default=str).encode())
        for path in sources:
            key.update(path.read_bytes())
        return self._cache / "cold_start" / key.hexdigest()[:24]

    def __call__(self, policy: Policy) -> Policy:
        """Theta_0, trained in place or loaded."""
        if not self._settings["demonstrations"]:
            return policy
        folder = self.folder()
        cached = folder.is_dir()
        if not cached:
            self._make(policy, folder)
        self._tracker.event("cold_start", {"cached": cached})
        return policy.load(folder, "theta_0")

    def _make(self, policy: Policy, folder: Path) -> None:
        if not isinstance(policy, Network):
            raise TypeError(f"cold_start: {type(policy).__name__} cannot be trained; set cold_start.demonstrations=0.")
        candidates = self._synthesize(policy, DiagnosisReport.empty(), 0)
        rollouts = demonstrate(candidates, policy.chat, self._play, self._harness_of, self._tracker.progress)
        trained = [sequence for rollout in rollouts for sequence in sequences(rollout)]
        stage = Sft(
            lr=float(self._settings["lr"]),
            epochs=int(self._settings["epochs"]),
            batch_size=int(self._settings["batch_size"]),
            micro_tokens=4_096,
            warmup=0.03,
            weight_decay=0.1,
            schedule=Cosine(),
            tracker=self._tracker,
            axis="cold_start",
        )
        stage.fit(policy, trained, 0)
        save_whole(policy, folder)
