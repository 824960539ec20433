"""What a generator may not depend on, each with a program that does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clawloop.sandbox import lint
from clawloop.sandbox.bubblewrap import Bubblewrap
from clawloop.types import Candidate
from clawloop.validation.check import deterministic
from clawloop.validation.check.deterministic import Deterministic

Make = Callable[..., Candidate]


def test_a_sound_generator_passes(make: Make, boxes: Bubblewrap) -> None:
    finding = Deterministic(boxes)(make())
    assert finding.passed and finding.reason == "" and finding.check == "deterministic"
    assert Deterministic(boxes)(
        make("task['instruction'] += ' Zähle.'; print(json.dumps(task, ensure_ascii=False)); exit()")
    ).passed


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("task['instruction'] = ' '.join({'ash', 'fir', 'oak', 'elm', 'yew'})", "other bytes under hash seed 1"),
        ("task['files'] = dict.fromkeys({'ash', 'fir', 'oak', 'elm', 'yew'}, 'x')", "other bytes under hash seed"),
        ("import os; task['instruction'] += os.environ['TZ']", "other bytes under hash seed 1, zone Asia/Tokyo"),
        ("import datetime as d; task['instruction'] += str(d.datetime.fromtimestamp(0))", "zone Asia/Tokyo"),
        ("task['instruction'] += open('/proc/sys/kernel/hostname').read()", "host ash"),
        ("task['instruction'] += open('/proc/mounts').read()[:40000]", "other bytes"),
        ("import locale; task['instruction'] += locale.setlocale(locale.LC_CTYPE)", "locale C."),
        ("import os; task['instruction'] += os.environ['LC_ALL']", "locale C"),
        (
            "import os; task['files'] = {'n': os.popen('locale charmap').read() or 'none'}",
            "other bytes under hash seed",
        ),
        ("import os; assert os.environ['TZ'] == 'UTC'", "fails under hash seed 1"),
        ("task['files'] = {'a.csv': 'x'}; task['answer'] = {'total': 12}", "same files and answer for another seed"),
        ("assert sys.argv[1] == '5'", "fails with another seed, 6"),
    ],
)
def test_surroundings_show(make: Make, boxes: Bubblewrap, more: str, says: str) -> None:
    finding = Deterministic(boxes)(make(more))
    assert not finding.passed and says in finding.reason


def test_the_candidate_itself_must_be_made_again(make: Make, boxes: Bubblewrap) -> None:
    sound = make()
    assert sound.task is not None
    for other in (
        replace(sound, answer='{"total": 1}'),
        replace(sound, oracle=("true",)),
        replace(sound, task=replace(sound.task, instruction="Other.")),
    ):
        assert "other bytes" in Deterministic(boxes)(other).reason


@pytest.mark.skipif(
    not list(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), reason="libfaketime is not installed"
)
def test_the_clock_is_moved(make: Make, boxes: Bubblewrap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deterministic, "first_hazard", lambda program: "")
    finding = Deterministic(boxes)(make("import datetime; task['instruction'] += str(datetime.date.today())"))
    assert "other bytes" in finding.reason


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import time\nprint(time.time())", "line 2 calls time.time, which depends on the clock."),
        ("import time as t\nf = t.time_ns", "time.time_ns"),
        ("from datetime import datetime\nprint(datetime.now())", "datetime.datetime.now"),
        ("import datetime\nprint(datetime.date.today())", "datetime.date.today"),
        ("import uuid\nuuid.uuid4()", "uuid.uuid4"),
        ("import os\nos.urandom(3)", "os.urandom"),
        ("import os, random\nrandom.Random(os.urandom(3))", "os.urandom"),
        ("import random\nprint(random.random())", "random.random"),
        ("from random import shuffle\nshuffle([1])", "random.shuffle"),
        ("import random\nr = random.Random()", "random.Random"),
        ("import random\nrandom.seed()\n", "random.seed"),
        ("import os\nfor n in os.listdir('.'): print(n)", "line 2 calls os.listdir"),
        ("from pathlib import Path\nprint(list(Path('.').glob('*')))", "directory order"),
        ("import glob\nprint(glob.glob('*'))", "glob.glob"),
        ("print(hash('a'))", "line 1 calls hash()"),
        ("print(sorted([object()], key=id))", "id()"),
        ("import socket\nsocket.gethostname()", "socket.gethostname"),
        ("import locale\nsorted(['b', 'a'], key=locale.strxfrm)", "locale.strxfrm, which depends on the locale."),
        ("def f(:", "cannot be parsed"),
        ("x = '\0'", "cannot be parsed"),
    ],
)
def test_the_reading_names_call_and_line(program: str, says: str) -> None:
    assert says in lint.first_hazard(program)


@pytest.mark.parametrize(
    "program",
    [
        "import random\nr = random.Random(3)\nprint(r.random(), r.choice([1]))",
        "import random\nrandom.seed(3)\nprint(random.random())",
        "import os, glob\nprint(sorted(os.listdir('.')), sorted(glob.glob('*')), len(os.listdir('.')))",
        "import datetime\nprint(datetime.date(2024, 1, 2) + datetime.timedelta(days=3))",
        "for id in [1]: print(id)",
        "def hash(x): return 1\nprint(hash(2))",
        "row = {'time': 3}\ntime = row['time']\nprint(time)",
        "program = 'import time; time.time()'",
    ],
)
def test_the_reading_lets_sound_programs_be(program: str) -> None:
    assert lint.first_hazard(program) == ""
