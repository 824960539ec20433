"""One GRPO update: ours beside that of TRL's GRPOTrainer, on the same weights, groups and tokens.

Both sides compute the reference's log-probabilities, the clipped loss with its KL, the gradient, its norm, and AdamW's
step, in float32 and without checkpointed layers, each in a process of its own, in turn. TRL comes from PyPI at the
version of the extra `bench`, into a folder of its own below /var/tmp, and sees this environment's torch and
transformers. Its GRPOTrainer has no padding-free mode, and of Liger it takes layer kernels only, which are Triton's and
so need a GPU; its chunked head, which is its default, is on. It holds a second model as the reference, as it does
wherever beta is not 0.

The model is a Qwen3 of 6.8 million parameters. `shared` is one group of 8 rollouts of 128 tokens after a prompt of 512,
`apart` the same sizes with 8 different prompts. Time is of the processor, the median over steps after the
first; memory is the peak of the process, minus what it held before the models were made. The loss and the gradient of the
first step are compared.

    python scripts/bench/grpo_step.py

Goal: `shared` takes at most 0.4 of TRL's time and 0.5 of its memory; `apart` takes at most 1.05 of its time.
"""

import argparse
import hashlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOAL = {"shared_time": 0.4, "shared_memory": 0.5, "apart_time": 1.05}
ROLLOUTS, PROMPT, COMPLETION, VOCABULARY = 8, 512, 128, 8192
BETA, CLIP, RATE = 0.04, 0.2, 1e-5


def trl() -> str:
    """The Python of an environment that has TRL beside what this one has."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"]["bench"]
    outer = sysconfig.get_path("purelib")
    digest = hashlib.sha256(json.dumps([wanted, outer]).encode()).hexdigest()[:12]
    home = Path(f"/var/tmp/clawloop-trl-{os.getuid()}-{digest}")
    python = home / "bin/python"
    if not (home / "whole").exists():
        print(f"installing {' '.join(wanted)} into {home} (0.3 GB)", file=sys.stderr)
        venv.create(home, clear=True, with_pip=True)
        inner = subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        )
        Path(inner.strip(), "outer.pth").write_text(outer)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True, stdout=sys.stderr)
        (home / "whole").touch()
    return str(python)


def prepare(folder: Path) -> None:
    """Write the weights, a tokenizer that nobody asks, and the batches."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=768, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, tie_word_embeddings=True, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"<end>": 0, "<pad>": 1}, unk_token="<pad>"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<pad>").save_pretrained(folder)
    for case, prompts in {"shared": 1, "apart": ROLLOUTS}.items():
        data = {
            "prompt": torch.randint(2, VOCABULARY, (prompts, PROMPT)).expand(ROLLOUTS, -1).tolist(),
            "completion": torch.randint(2, VOCABULARY, (ROLLOUTS, COMPLETION)).tolist(),
            "behaviour": (torch.randn(ROLLOUTS, COMPLETION) * 0.2 - math.log(VOCABULARY)).tolist(),
            "advantage": torch.randn(ROLLOUTS).tolist(),
        }
        (folder / f"{case}.json").write_text(json.dumps(data))


def ours(folder: Path, data: dict[str, Any]) -> tuple[Any, Callable[[], float], Any]:
    """The model, its step up to the gradient, and its optimizer."""
    from dataclasses import replace

    import torch
    from transformers import AutoModelForCausalLM

    from clawloop.training import step
    from clawloop.training.clip import Clip
    from clawloop.training.correction import NoCorrection
    from clawloop.training.kl import K3
    from clawloop.training.loss import Choices
    from clawloop.training.normalisation import PerSequence
    from clawloop.training.ratio import TokenLevel
    from clawloop.training.sequences import Sequence

    model = AutoModelForCausalLM.from_pretrained(folder).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, fused=True)
    choices = Choices(Clip(CLIP, CLIP), TokenLevel(), K3(), NoCorrection(), BETA)
    size: dict[str, Any] = {"temperature": 1.0, "micro_tokens": ROLLOUTS * (PROMPT + COMPLETION)}
    sequences = [
        Sequence(
            str(i), (*data["prompt"][i], *data["completion"][i]), (0,) * PROMPT + (1,) * COMPLETION,
            (0.0,) * PROMPT + tuple(data["behaviour"][i]), data["advantage"][i],
        )
        for i in range(ROLLOUTS)
    ]  # fmt: skip

    def gradient() -> float:
        known = step.logprobs(model, sequences, precision="float32", **size)
        batch = [replace(one, reference=values) for one, values in zip(sequences, known, strict=True)]
        return step.grpo(model, batch, torch.Tensor.backward, choices, PerSequence(), **size)["loss"]

    return model, gradient, optimizer


def theirs(folder: Path, data: dict[str, Any]) -> tuple[Any, Callable[[], float], Any]:
    """The same of GRPOTrainer, as its own loop calls them."""
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        output_dir=str(folder / "trl"), use_cpu=True, bf16=False, report_to=[], per_device_train_batch_size=ROLLOUTS,
        num_generations=ROLLOUTS, max_completion_length=COMPLETION, beta=BETA, epsilon=CLIP, loss_type="grpo",
        learning_rate=RATE, weight_decay=0.0, gradient_checkpointing=False, temperature=1.0,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=str(folder), reward_funcs=lambda completions, **_: [0.0] * len(completions), args=config,
        train_dataset=Dataset.from_list([{"prompt": "x"}]), processing_class=AutoTokenizer.from_pretrained(folder),
    )  # fmt: skip
    trainer.current_gradient_accumulation_steps = 1
    model = trainer.model.train()
    prompt, completion = torch.tensor(data["prompt"]), torch.tensor(data["completion"])
    batch = {
        "prompt_ids": prompt, "prompt_mask": torch.ones_like(prompt), "completion_ids": completion,
        "completion_mask": torch.ones_like(completion), "advantages": torch.tensor(data["advantage"]),
        "old_per_token_logps": torch.tensor(data["behaviour"]), "num_items_in_batch": torch.tensor(completion.numel()),
    }  # fmt: skip

    def gradient() -> float:
        ids = torch.cat([prompt, completion], 1)
        with torch.no_grad():
            known = trainer._get_per_token_logps_and_entropies(
                trainer.ref_model, ids, torch.ones_like(ids), COMPLETION, batch_size=ROLLOUTS
            )
        loss = trainer.compute_loss(model, batch | {"ref_per_token_logps": known[0]})
        trainer.accelerator.backward(loss)
        return float(loss.detach())

    return model, gradient, trainer.create_optimizer()


def side(name: str, case: str, folder: Path, steps: int) -> None:
    """Run one side, print its figures, and leave its first gradient in the folder."""
    import torch

    torch.set_num_threads(1)
    if name == "trl":
        import datasets  # noqa: F401
        import trl  # noqa: F401
    else:
        import clawloop.training.step  # noqa: F401
    data = json.loads((folder / f"{case}.json").read_text())
    page = resource.getpagesize()
    before = int(Path("/proc/self/statm").read_text().split()[1]) * page
    model, gradient, optimizer = (ours if name == "ours" else theirs)(folder, data)
    seconds, first = [], 0.0
    for number in range(steps + 1):
        started = time.process_time()
        loss = gradient()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf if number == 0 else 1.0)
        if number == 0:
            first = loss
            torch.save({key: p.grad for key, p in model.named_parameters()}, folder / f"{name}-{case}.pt")
        else:
            optimizer.step()
            seconds.append(time.process_time() - started)
        assert torch.isfinite(norm)
        optimizer.zero_grad()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"loss": first, "seconds": seconds, "memory": peak - before}))


def main() -> None:
    """Measure both sides in turn and print one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3, help="of each process")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each side and case")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        side(given.side, given.case, given.folder, given.steps)
        return
    import torch

    pythons = {"ours": sys.executable, "trl": trl()}
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for case in ("shared", "apart"):
            found: dict[str, list[dict[str, Any]]] = {"ours": [], "trl": []}
            for _ in range(given.rounds):
                for who, python in pythons.items():
                    told = ["--side", who, "--case", case, "--folder", name, "--steps", str(given.steps)]
                    out = subprocess.run([python, __file__, *told], check=True, capture_output=True, text=True).stdout
                    found[who].append(json.loads(out.splitlines()[-1]))
            cpu = {who: statistics.median(s for one in runs for s in one["seconds"]) for who, runs in found.items()}
            top = {who: statistics.median(one["memory"] for one in runs) for who, runs in found.items()}
            mine, other = (torch.load(folder / f"{who}-{case}.pt") for who in pythons)
            apart = sum(float((mine[key] - other[key]).square().sum()) for key in other)
            size = sum(float(other[key].square().sum()) for key in other)
            for who in pythons:
                figures[f"{case}_{who}_s"] = round(cpu[who], 3)
                figures[f"{case}_{who}_mb"] = round(top[who] / 2**20, 1)
            figures[f"{case}_time"] = round(cpu["ours"] / cpu["trl"], 3)
            figures[f"{case}_memory"] = round(top["ours"] / top["trl"], 3)
            figures[f"{case}_loss_difference"] = abs(found["ours"][0]["loss"] - found["trl"][0]["loss"])
            figures[f"{case}_gradient_difference"] = math.sqrt(apart / size)
    met = all(figures[key] <= bound for key, bound in GOAL.items())
    same = all(figures[f"{case}_gradient_difference"] < 1e-3 for case in ("shared", "apart"))
    print(json.dumps({"bench": "grpo_step", "figures": figures, "goal": GOAL, "same": same, "met": met and same}))


if __name__ == "__main__":
    main()
