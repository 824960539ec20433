"""training/cold_start: a real oracle through the real harness, made once and then read from the cache."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clawloop.harness.by_task import ByTask
from clawloop.harness.react.react import React
from clawloop.harness.shell.shell import Shell
from clawloop.harness.tools.tools import Tools
from clawloop.harness.xml.xml import Xml
from clawloop.policy.hf import HfPolicy
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.protocols import InfrastructureError
from clawloop.rollout.episode import Episode
from clawloop.rollout.grade import SandboxGrader
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.store.weights import digest
from clawloop.synthesis.author.library.library import Library
from clawloop.synthesis.difficulty.none import NoGrowth
from clawloop.synthesis.routine.capability import Capability
from clawloop.synthesis.synthesize import Synthesize
from clawloop.tracking.fanout import Fanout
from clawloop.training.cold_start import ColdStart, demonstrate
from clawloop.types import Candidate, DiagnosisReport

SETTINGS = {"demonstrations": 4, "epochs": 1, "lr": 1e-3, "batch_size": 4}
BOXES = Bubblewrap()


def start(base: Path, cache: Path, calls: list[int], **other: Any) -> ColdStart:
    synthesize = Synthesize([Capability()], Library(), [], NoGrowth(0), BOXES, 4, 0)

    def counted(policy: Any, report: DiagnosisReport, k: int) -> tuple[Candidate, ...]:
        calls.append(k)
        return synthesize(policy, report, k)

    shell = Shell(max_turns=4, system="brief.md")
    play = Episode(shell, BOXES, SandboxGrader(BOXES))
    harness_of = lambda _: shell  # noqa: E731
    return ColdStart({**SETTINGS, **other}, counted, play, harness_of, Fanout([]), cache, base, {"harness": "shell"})


def test_a_start_trains_once_and_is_then_read_from_the_cache(small_model: Path, tmp_path: Path) -> None:
    calls: list[int] = []
    first = start(small_model, tmp_path, calls)(HfPolicy(small_model, context=512))
    again = start(small_model, tmp_path, calls)(HfPolicy(small_model, context=512))
    for name, policy in (("first", first), ("again", again)):
        assert policy.version == "theta_0"
        policy.save(tmp_path / name)
    assert calls == [0]
    assert digest(tmp_path / "first") == digest(tmp_path / "again")
    assert digest(tmp_path / "first") != digest(small_model)
    start(small_model, tmp_path, calls, epochs=2)(HfPolicy(small_model, context=512))
    assert calls == [0, 0]


def test_without_demonstrations_nothing_is_read_or_made(tmp_path: Path) -> None:
    calls: list[int] = []
    policy = ScriptedPolicy()
    assert start(tmp_path / "no such weights", tmp_path, calls, demonstrations=0)(policy) is policy
    assert (calls, list(tmp_path.iterdir())) == ([], [])


def test_a_policy_without_weights_is_refused_in_words(small_model: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"ScriptedPolicy cannot be trained; set cold_start\.demonstrations=0"):
        start(small_model, tmp_path, [])(ScriptedPolicy())


def test_an_oracle_is_shown_in_the_form_of_its_task_s_harness(small_model: Path) -> None:
    chat = HfPolicy(small_model, context=512).chat
    kinds = {kind.name: kind(max_turns=4, system="brief.md") for kind in (Shell, Tools, Xml, React)}
    candidates = Synthesize([Capability()], Library(), [], NoGrowth(0), BOXES, 12, 0)(None, DiagnosisReport.empty(), 0)  # type: ignore[arg-type]
    shared = ByTask(kinds)
    play = Episode(shared, BOXES, SandboxGrader(BOXES))
    shown = demonstrate(candidates, chat, play, shared.of, lambda *_: None)
    assert len(shown) == len(candidates)
    forms = {"shell": "```bash", "tools": '{"name": "bash"', "xml": "<function=run>", "react": "Action: Shell"}
    seen = {one.trajectory.harness: one.trajectory.turns[0].action for one in shown if one.trajectory}
    assert set(seen) == set(kinds) and all(forms[name] in action for name, action in seen.items())


def test_a_harness_in_whose_form_nothing_can_be_written_is_refused_in_words() -> None:
    class Foreign:
        name = "foreign"

    candidates = Synthesize([Capability()], Library(), [], NoGrowth(0), BOXES, 1, 0)(None, DiagnosisReport.empty(), 0)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"no demonstration can be written for foreign; set cold_start\.demonstrations=0"
    ):
        demonstrate(candidates, None, None, lambda _: Foreign(), lambda *_: None)  # type: ignore[arg-type,return-value]


def test_a_start_with_a_demonstration_that_broke_is_not_kept(small_model: Path, tmp_path: Path) -> None:
    class Full:
        @contextmanager
        def open(self, *workspace: Any, **options: Any) -> Iterator[Any]:
            raise InfrastructureError("no room")
            yield

    synthesize = Synthesize([Capability()], Library(), [], NoGrowth(0), BOXES, 1, 0)
    shell = Shell(max_turns=4, system="brief.md")
    play = Episode(shell, Full(), SandboxGrader(BOXES), retries=0)
    cold = ColdStart(SETTINGS, synthesize, play, lambda _: shell, Fanout([]), tmp_path, small_model, {})
    with pytest.raises(InfrastructureError, match="cold start: a demonstration broke on this machine: no room"):
        cold(HfPolicy(small_model, context=512))
    assert not list(tmp_path.rglob("*.safetensors"))
