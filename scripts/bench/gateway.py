"""Latency that the gateway adds to a call, at 1, 32 and 256 streams, against the engine called directly.

A stream is an episode that asks, waits and asks again, as Chat Completions, streamed. Its request is as large as the
first of a small command line agent (a system prompt, tools, results of tools: 32 kB of JSON). The engine is the
scripted policy behind a pause: 1 to 3 s a call at 1 and 32 streams and 2 to 6 s at 256, drawn for each call; it is the
same in both ways, so that what a call takes longer by the gateway is what was added. Clients run in a process of
their own, over plain sockets, and their cost counts as the gateway's. Every answer is looked at: a call is lost where
it is not the one that belongs to its question.

    python scripts/bench/gateway.py                   # 1, 32 and 256 streams
    python scripts/bench/gateway.py --streams 8 --pause 0.1

Goal: under 5 ms at the median, no call lost at 256.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from clawloop.gateway.formats import Hermes
from clawloop.gateway.server import Gateway
from clawloop.gateway.sessions import Budget
from clawloop.policy.scripted import ScriptedPolicy
from clawloop.types import Completion, Message, Request

GOAL_MS, TURNS, BYTES = 5.0, 4, 32_000


class Paused(ScriptedPolicy):
    """The scripted policy after a pause in seconds that the question names; it says the question's number."""

    def __init__(self) -> None:
        super().__init__([{"when": r"Call (?P<n>\d+) pauses", "say": "This is the answer to {n}."}], slip=0.0)

    def complete(self, request: Request) -> Completion:
        """Wait, and answer."""
        time.sleep(float(request.messages[-1].content.split()[-1]))
        return super().complete(request)


def question(number: int, pause: float) -> str:
    """What a call asks."""
    return f"Call {number} pauses for {random.Random(number).uniform(pause, 3 * pause):.4f}"


def direct(streams: int, pause: float) -> list[float]:
    """Seconds of every call to the engine itself, one thread a stream."""
    policy = Paused()

    def stream(at: int) -> list[float]:
        took = []
        for number in range(at * TURNS, (at + 1) * TURNS):
            request = Request((Message("user", question(number, pause)),), str(at), number, 64)
            started = time.perf_counter()
            policy.complete(request)
            took.append(time.perf_counter() - started)
        return took

    with ThreadPoolExecutor(streams) as pool:
        return [seconds for took in pool.map(stream, range(streams)) for seconds in took]


def through(streams: int, pause: float) -> list[float | None]:
    """Seconds of every call through the gateway, None where it was lost."""
    policy = Paused()
    with Gateway(Hermes()) as gateway:
        sessions = [gateway.open(policy, Budget(TURNS, 10_000, 64, 600.0), at) for at in range(streams)]
        asked = {"port": int(gateway.url.rpartition(":")[2]), "keys": [s.key for s in sessions], "pause": pause}
        child = [sys.executable, __file__, "--clients"]
        done = subprocess.run(child, input=json.dumps(asked), capture_output=True, text=True, check=True)
        records = [gateway.close(session) for session in sessions]
    assert all(record.stop is None and record.error is None for record in records)
    assert sum(call.delivered for record in records for call in record.calls) == streams * TURNS
    took: list[float | None] = json.loads(done.stdout)
    return took


async def clients(port: int, keys: list[str], pause: float) -> list[float | None]:
    """All streams at once."""

    async def stream(at: int) -> list[float | None]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        took: list[float | None] = []
        for number in range(at * TURNS, (at + 1) * TURNS):
            system = {"role": "system", "content": "s" * BYTES}
            messages = [system, {"role": "user", "content": question(number, pause)}]
            body = json.dumps({"model": "m", "stream": True, "messages": messages}).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {keys[at]}\r\n"
            started = time.perf_counter()
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"0\r\n\r\n")
            seconds = time.perf_counter() - started
            took.append(seconds if f"This is the answer to {number}.".encode() in answer else None)
        writer.close()
        return took

    return [seconds for took in await asyncio.gather(*map(stream, range(len(keys)))) for seconds in took]


def main() -> None:
    """Measure and print, with a JSON line at the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, nargs="*", default=[1, 32, 256])
    parser.add_argument(
        "--pause", type=float, help="least seconds of a call of the engine; the most are three times that"
    )
    parser.add_argument("--clients", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.clients:
        asked = json.load(sys.stdin)
        print(json.dumps(asyncio.run(clients(asked["port"], asked["keys"], asked["pause"]))))
        return
    figures, reached = {}, True
    for streams in given.streams:
        pause = given.pause if given.pause is not None else 2.0 if streams >= 256 else 1.0
        alone, behind = direct(streams, pause), through(streams, pause)
        added = [1000 * (b - a) for a, b in zip(alone, behind, strict=True) if b is not None]
        lost = len(behind) - len(added)
        median, worst = statistics.median(added), max(added)
        reached &= median < GOAL_MS and lost == 0
        print(f"{streams:4d} streams: {median:.2f} ms added at the median, {worst:.1f} at most, {lost} calls lost")
        figures[str(streams)] = {"median_ms": round(median, 2), "max_ms": round(worst, 1), "lost": lost}
    goal = f"under {GOAL_MS:g} ms at the median, no call lost"
    print(json.dumps({"bench": "gateway", "figures": figures, "goal": goal, "met": reached}))


if __name__ == "__main__":
    main()
