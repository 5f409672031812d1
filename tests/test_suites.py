"""Suites: right answers pass, wrong and hostile ones do not, and bad files are said in one line."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import http.server
import json
import math
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from real_loop import sandbox, suites
from real_loop.sandbox import Sandbox
from real_loop.suites import CodeSuite, Grade, code_of, data, split
from real_loop.suites.compare import agree
from real_loop.suites.wire import Opaque, WireError, decode
from sim.errors import InputError, RunError

FOUND: dict[str, Path | None] = {}  # where this machine has the released files


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    FOUND.update({name: data.found(release) for name, release in data.RELEASES.items()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(suites, "_LEAST", 0.5)
        for name in ("HALFBLIND_DATA", "MBPP_OVERRIDE_PATH", "HUMANEVAL_OVERRIDE_PATH"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="module")
def box() -> Sandbox:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return sandbox.find()


@pytest.fixture(scope="module")
def demo(box: Sandbox) -> CodeSuite:
    return suites.load("demo24", box)


def released(name: str, box: Sandbox) -> CodeSuite:
    path = FOUND[name]
    if path is None:
        pytest.skip(f"{data.RELEASES[name].file} is not on this machine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HALFBLIND_DATA", str(path.parent))
        return suites.load(name, box)


def grade(suite: CodeSuite, code: str, task: int = 0) -> Grade:
    return suite.grade(suite.tasks[task], f"```python\n{code}\n```")


def test_demo_tasks_are_right(demo: CodeSuite) -> None:
    assert [task.id for task in demo.tasks] == [f"demo/{i}" for i in range(1, 25)]
    for task in demo.tasks:
        space: dict[str, Any] = {}
        exec(task.canonical + "\n" + task.prompt[task.prompt.index("assert ") :], space)
        result = demo.grade(task, task.canonical)
        assert (result.passed, result.reason) == (True, "passed"), result
    nothing = demo.grade(demo.tasks[5], "def second_largest(numbers): return None")
    assert nothing.trace == "second_largest([4, 9, 9, 2]) returned None, expected 4 (test 1 of 7)"


# Finds the word that lines begin with, and the pipe: but not what to write.
FIND = "import os, sys\nf = sys._getframe()\nwhile 'word' not in f.f_locals: f = f.f_back\nw, out = f.f_locals['word'], f.f_locals['out']\n"
HOSTILE = {
    "endless": "def total(n):\n    while True: pass",
    "endless at load": "while True: pass\ndef total(n): return 0",
    "fork bomb": "import os\ndef total(n):\n    while True: os.fork()",
    "memory bomb": "def total(n):\n    x = []\n    while True: x.append(bytes(1 << 24))",
    "prints": "def total(n):\n    while True: print('x' * 10**6)",
    "prints errors": "import sys\ndef total(n):\n    while True: sys.stderr.write('x' * 10**6)",
    "exits": "import sys\ndef total(n): sys.exit(0)",
    "exits at load": "import sys\ndef total(n): return 0\nsys.exit(0)",
    "leaves": "import os\ndef total(n): os._exit(0)",
    "leaves at load": "import os\nos._exit(0)",
    "interrupts": "def total(n): raise KeyboardInterrupt",
    "kills": "import os, signal\ndef total(n): os.kill(os.getppid(), 9); os.kill(-1, 9)",
    "kills itself": "import os, signal\ndef total(n): os.kill(os.getpid(), 9)",
    "equals all": "class A:\n    def __eq__(self, o): return True\n    def __hash__(self): return 0\ndef total(n): return A()",
    "equals all, a number": "class A(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef total(n): return A(-1)",
    "patches builtins": (
        "import builtins\nfor n in ('len', 'isinstance', 'type', 'hash', 'all', 'any', 'bool', 'repr'):\n"
        "    setattr(builtins, n, lambda *a: True)\ndef total(n): return None"
    ),
    "patches modules": (
        "import json, marshal, os, pickle, sys\njson.loads = json.dumps = marshal.loads = marshal.dumps = lambda *a: 6\n"
        "sys.modules['real_loop'] = sys.modules['numpy'] = sys\ndef total(n): return None"
    ),
    "writes everywhere": (
        "import os\ndef total(n):\n    for fd in range(64):\n"
        "        try: os.write(fd, b'0 r 6\\n0 z [0,0]\\n')\n        except OSError: pass\n"
        "    os._exit(0)"
    ),
    "forges": (FIND + "os.write(out, (f'{w} r 0\\n' * 6 + f'{w} z [0,0]\\n').encode())\nos._exit(0)"),
    "forges too many": (FIND + "os.write(out, (f'{w} r 6\\n' * 60).encode())\ndef total(n): return sum(n)"),
    "forges depth": (FIND + "os.write(out, (w + ' r ' + '[' * 100_000 + '\\n').encode())\nos._exit(0)"),
    "closes": "import os\nos.closerange(0, 100)\ndef total(n): return sum(n)",
    "recurses": "def total(n): return total(n)",
    "recurses deep": "import sys\nsys.setrecursionlimit(10**9)\ndef total(n): return [total(n)]",
    "yields": "def total(n):\n    while True: yield 6",
    "threads": (
        "import threading, time\ndef spin():\n    while True: time.sleep(1)\ndef total(n):\n"
        "    threading.Thread(target=spin).start()\n    return -1"
    ),
    "atexit": "import atexit, os\n@atexit.register\ndef f():\n    while True: pass\ndef total(n): return -1",
    "empties inputs": "def total(n):\n    n.clear()\n    return sum(n)",
    "huge": "def total(n): return [0] * 10**7",
    "nested": "def total(n):\n    a = []\n    for _ in range(60): a = [a, a]\n    return a",
    "circular": "def total(n):\n    a = []\n    a.append(a)\n    return a",
    "collides": "def total(n): return {i * (2**61 - 1) for i in range(1, 1500)}",
    "long number": "def total(n): return 1 << 200_000",
    "lies as it fails": "class E(Exception):\n    def __str__(self): raise self\ndef total(n): raise E",
    "a class": "class total: pass",
    "a number too large to read": (
        "import sys\ndef total(n):\n    frame = sys._getframe()\n    while frame:\n"
        "        for value in list(frame.f_locals.values()):\n            if isinstance(value, str) and len(value) > 15:\n"
        "                sys.__stdout__.buffer.write((value + ' z [\"l\",[\"i\",\"' + 'f' * 400 + '\"],0]\\n').encode())\n"
        "        frame = frame.f_back\n    sys.__stdout__.flush()\n    return -1"
    ),
    "surrogates": "def total(n): raise ValueError('\\ud800')",
    "nothing": "",
    "another": "def sum_up(n): return sum(n)",
    "not Python": "def total(n: return 6",
}


def test_a_fence_of_any_length_is_read_at_once() -> None:
    began = time.process_time()
    for text in ("```" + " " * 200_000 + "`", "`" * 200_000, "~~~\n" * 20_000, "```python\n" + " " * 200_000):
        code_of(text, "f")
    assert time.process_time() - began < 2


SECONDS_LONG = ("endless at load", "prints", "prints errors", "recurses deep")
GRADED: dict[str, Grade] = {}


def hostile(suite: CodeSuite, name: str) -> Grade:
    if name not in GRADED:
        GRADED[name] = grade(suite, HOSTILE[name])
    return GRADED[name]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SECONDS_LONG else []) for n in HOSTILE])
def test_hostile_answers_do_not_pass(demo: CodeSuite, name: str) -> None:
    result = hostile(demo, name)
    assert not result.passed, result
    assert result.reason in suites.REASONS
    assert 0 < len(result.trace) <= 600
    assert result.seconds < 20


@pytest.mark.parametrize(
    ("name", "reason", "trace"),
    [
        ("endless", "timeout", r"not done in time \(\d+ s of CPU\) in total\(\[1, 2, 3\]\)"),
        ("memory bomb", "memory", "MemoryError"),
        ("exits", "error", r"SystemExit: 0 \(line 2: def total\(n\): sys.exit\(0\)\) in total\(\[1, 2, 3\]\) \(test 1 of 6\)"),
        ("exits at load", "error", r"SystemExit: 0 \(line 3: sys.exit\(0\)\)$"),
        ("fork bomb", "error", "PermissionError"),
        ("huge", "output", "far more returned than expected"),
        ("recurses", "error", "RecursionError.*line 1: def total"),
        ("empties inputs", "wrong", r"total\(\[1, 2, 3\]\) returned 0, expected 6 \(test 1 of 6\)"),
        ("another", "no_entry", "the code does not define total"),
        ("nothing", "no_code", "the answer has no code in it"),
        ("not Python", "syntax", r"SyntaxError: .*\(line 1: def total\(n: return 6\)"),
    ],
)
def test_traces_say_what_failed(demo: CodeSuite, name: str, reason: str, trace: str) -> None:
    result = hostile(demo, name)
    assert result.reason == reason
    assert re.match(trace, result.trace), result.trace


def test_what_is_odd_but_right_passes(demo: CodeSuite) -> None:
    """The rules judge values: a subclass, noise on standard output, a thread left behind, a changed input do not matter."""
    odd = """
import threading, time, sys
class N(int): pass
def total(numbers):
    print("noise", file=sys.stdout)
    threading.Thread(target=lambda: time.sleep(100)).start()
    value = N(sum(numbers))
    numbers.clear()
    return value
"""
    assert grade(demo, odd).passed


def test_inputs_are_fresh_and_expected_values_stay_here(demo: CodeSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    run = Sandbox.run

    def spy(self: Sandbox, program: Any, stdin: bytes = b"", **limits: Any) -> Any:
        sent.append(stdin)
        return run(self, program, stdin, **limits)

    task = demo.tasks[13]
    assert demo.grade(task, task.canonical).passed
    monkeypatch.setattr(Sandbox, "run", spy)
    assert not demo.grade(task, "def to_roman(n): return 'X'").passed
    assert sent
    assert not any(b"MMMDCCCLXXXVIII" in order for order in sent)


def test_expected_values_are_kept(demo: CodeSuite, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    task = demo.tasks[0]
    demo.grade(task, task.canonical)
    (file,) = data.cache().glob("expected/demo24-*/demo-1.json")
    kept = json.loads(file.read_bytes())
    assert kept["values"] == ["6", "5", "0", "0", '["i","56bc75e2d63100001"]', "-7"]
    file.write_text("{damaged")
    assert suites.load("demo24", box).grade(task, task.canonical).passed
    assert json.loads(file.read_bytes())["values"] == kept["values"]
    blocked = file.parents[3] / "a file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert suites.load("demo24", box).grade(task, task.canonical).passed


def test_a_canonical_solution_that_fails_is_no_verdict(demo: CodeSuite) -> None:
    broken = dataclasses.replace(demo.tasks[0], id="demo/0", canonical="def total(n): return 1 / 0")
    with pytest.raises(RunError, match=r"demo24 demo/0: got a canonical solution that fails here .ZeroDivisionError: division by zero"):
        demo.grade(broken, "def total(n): return 0")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("def f(): return 1\n", "def f(): return 1\n"),
        ("Sure:\n```python\ndef f(): return 1\n```\nIt works.", "def f(): return 1\n"),
        ("```\nx\n```\n```py\ndef f(): return 1\n```\n```python\nprint(f())\n```", "def f(): return 1\n"),
        ("```\ndef f(): return 1\n```\nBetter:\n```\nf = lambda: 2\n```", "f = lambda: 2\n"),
        ("```python\ndef f():\n    return 1", "def f():\n    return 1"),
        ("~~~python\ndef f(): return 1\n~~~", "def f(): return 1\n"),
        ("- so\n  ```python\n  def f(): return 1\n  ```", "def f(): return 1\n"),
        ("<think>```\ndef f(): return 0\n```</think>def f(): return 1", "def f(): return 1"),
        ("Here it is.\n\nimport math\n\ndef f():\n    return 1\n\nThis function returns one.", "import math\n\ndef f():\n    return 1\n\n"),
        (
            'M = 1\nS = """\nThis is a text.\n"""\ndef f(): return M\n\n**Note** this',
            'M = 1\nS = """\nThis is a text.\n"""\ndef f(): return M\n\n',
        ),
        ("I cannot do that.", ""),
        ("", ""),
        ("```\n\n```", ""),
        ("    return 1\n", "    return 1\n"),
    ],
)
def test_code_is_found_in_answers(answer: str, code: str) -> None:
    assert code_of(answer, "f") == code


class TestCompare:
    @pytest.mark.parametrize(
        ("got", "want", "atol", "right"),
        [
            (1, 1.0, 0, True),
            (True, 1, 0, True),
            ((1, 2), [1, 2], 0, False),
            (0.1 + 0.2, 0.3, 0, True),
            (0.3000001, 0.3, 0, True),
            (0.30001, 0.3, 0, False),
            ([0.3000001], [0.3], 0, True),
            ((0.3000001,), [0.3], 0, False),
            ([0.3000001, 1], [0.3, 1], 0, False),  # not floats only: exact
            ([0.3000001, 1], [0.3, 1], 1e-6, True),
            (1, 1.00000001, 0, False),  # another type
            (math.inf, math.inf, 0, True),
            (math.nan, math.nan, 0, False),
            ("a", "b", 1e-4, False),
            ([[1.0], [1.0]], [1.0, 1.0], 1e-4, False),
            ({"a": 1.0}, {"a": 1.00001}, 1e-4, False),
            (None, 1.0, 0, False),
            (10**400, 1.0, 0, False),
        ],
    )
    def test_values(self, got: object, want: object, atol: float, right: bool) -> None:
        assert agree("", (), got, want, atol, True) is right

    def test_rules(self) -> None:
        assert agree("set", (), [2, 1, 1], (1, 2), 0, True)
        assert not agree("set", (), None, (1, 2), 0, True)
        assert agree("not_none", (), Opaque("Match"), Opaque("Match"), 0, True)
        assert agree("not_none", (), True, Opaque("Match"), 0, True)
        assert not agree("not_none", (), None, Opaque("Match"), 0, True)
        assert agree("any", (), 1, 2, 0, True)
        assert agree("or_zero", (), 0, 7, 0, True)
        assert agree("pyramid", (3, 4), 35, 33, 0, True)
        assert agree("digits", (100, 2), 3, 1, 0, True)
        assert agree("root", ([1, 2],), -0.5, None, 1e-4, True)
        assert not agree("root", ([1, 2],), 0.5, None, 1e-4, True)
        assert not agree("", (), 0.3000001, 0.3, 0, False)


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '["x"]', '["?",1]', "[[]]", '["i","z"]', '["D","x"]', '["F",1,0]', '["R",0,1000000000000]', "[" * 9999]
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(WireError):
        decode(text)


def test_all_kinds_of_values_cross(demo: CodeSuite) -> None:
    code = """
import collections, decimal, fractions
def kinds():
    P = collections.namedtuple("P", "x")
    return [None, True, 2**80, -0.5, float("inf"), 1j, "ä\\ud800", b"a", bytearray(b"b"), (1,), {1}, frozenset({2}), {"k": [1]}, range(3),
            collections.Counter("aa"), collections.deque([1]), collections.OrderedDict(a=1), collections.defaultdict(list, a=[1]),
            decimal.Decimal("1.5"), fractions.Fraction(1, 3), {1: 2}.keys(), P(1)]
"""
    task = dataclasses.replace(demo.tasks[0], id="demo/kinds", entry_point="kinds", canonical=code, base=((),), plus=())
    assert demo.grade(task, code).passed
    assert not demo.grade(task, code.replace("P(1)]", "[1]]")).passed


def test_suites_are_named(box: Sandbox) -> None:
    with pytest.raises(InputError, match="suite: got mbpp, expected mbppplus or humanevalplus or demo24"):
        suites.load("mbpp", box)


@pytest.mark.parametrize("name", ["mbppplus", "humanevalplus"])
def test_some_released_tasks(box: Sandbox, name: str) -> None:
    suite = released(name, box)
    assert len(suite.tasks) == {"mbppplus": 378, "humanevalplus": 164}[name]
    ids = {
        "mbppplus": ("Mbpp/2", "Mbpp/124", "Mbpp/252", "Mbpp/278", "Mbpp/722", "Mbpp/787"),
        "humanevalplus": ("HumanEval/32", "HumanEval/38"),
    }
    for task in map(suite.task, ids[name]):
        assert suite.grade(task, task.canonical).passed, task.id
        assert not suite.grade(task, f"def {task.entry_point}(*a): return None").passed, task.id


def test_base_and_plus_both_count(box: Sandbox) -> None:
    """The plus tests of two tasks of MBPP+ alone would pass a function that does nothing."""
    suite = released("mbppplus", box)
    for name in ("Mbpp/787", "Mbpp/793"):
        task = suite.task(name)
        assert not suite.grade(task, f"def {task.entry_point}(*a): return None").passed


def test_the_body_alone_is_an_answer(box: Sandbox) -> None:
    suite = released("humanevalplus", box)
    task = suite.task("HumanEval/1")
    assert suite.grade(task, task.canonical.removeprefix(task.prompt).lstrip("\n")).passed
    assert suite.grade(task, "```\nfrom __future__ import annotations\nx = 1\n```").reason == "no_entry"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mbppplus", "humanevalplus"])
def test_every_canonical_solution_passes(box: Sandbox, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "_LEAST", 8.0)
    suite = released(name, box)
    assert [task.id for task in suite.tasks if code_of(task.canonical, task.entry_point) != task.canonical.lstrip("\n")] == []
    failed = [task.id for task in suite.tasks if not suite.grade(task, task.canonical).passed]
    assert failed == []


class TestFiles:
    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("HALFBLIND_DATA", str(tmp_path))
        return tmp_path / "MbppPlus.jsonl.gz"

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "neither gzip nor JSON lines"),
            (b"<html>", "neither gzip nor JSON lines"),
            (gzip.compress(b"{}\n" * 1000)[:-20], "damaged or cut off"),
            (gzip.compress(b"{}\n"), "tasks with SHA-256 ca3d163bab05, expected those of the release, b54e76275524"),
        ],
        ids=["empty", "a page", "cut off", "another file"],  # gzip's bytes have the time in them
    )
    def test_damage_is_one_line(self, place: Path, box: Sandbox, content: bytes, said: str) -> None:
        place.write_bytes(content)
        with pytest.raises(InputError, match=said) as error:
            suites.load("mbppplus", box)
        assert str(error.value).startswith(str(place))

    def test_an_override_is_taken_as_it_is(self, tmp_path: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        row = {
            "task_id": "Mbpp/2",
            "prompt": '"""\nAdd.\n"""',
            "entry_point": "f",
            "canonical_solution": "def f(a, b): return a + b",
            "atol": 0,
        }
        row |= {"base_input": [[[1], [2]]], "plus_input": {}}
        own = tmp_path / "own.jsonl"
        own.write_text(json.dumps(row) + "\n")
        monkeypatch.setenv("MBPP_OVERRIDE_PATH", str(own))
        suite = suites.load("mbppplus", box)
        assert (suite.tasks[0].prompt, suite.tasks[0].base, suite.tasks[0].plus) == ("Add.", (((1,), (2,)),), ())
        assert suite.grade(suite.tasks[0], "def f(a, b): return (*a, *b)").passed
        for text, said in (
            (json.dumps(row) * 2, "line 1 that is no task"),
            (f"{json.dumps(row)}\n{json.dumps(row)}\n", "Mbpp/2 twice"),
            (json.dumps({"task_id": "Mbpp/2"}), "line 1 without 'prompt'"),
            ('{"task_id', "line 1 that is no task"),
        ):
            own.write_text(text)
            with pytest.raises(InputError, match=said):
                suites.load("mbppplus", box)
        own.unlink()
        with pytest.raises(InputError, match=r"no such file.*correct MBPP_OVERRIDE_PATH"):
            suites.load("mbppplus", box)

    def test_download(self, tmp_path: Path) -> None:
        lines = b'{"a": 1}\n'
        packed = gzip.compress(lines)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path == "/x.gz" else 404)
                self.end_headers()
                self.wfile.write(packed)

            def log_message(self, *_: object) -> None: ...

        with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/x.gz"
            release = data.Release("mbppplus", "x.gz", url, len(packed), hashlib.sha256(lines).hexdigest(), "MBPP_OVERRIDE_PATH")
            assert data.fetch(release, tmp_path / "new").read_bytes() == packed
            assert [file.name for file in (tmp_path / "new").iterdir()] == ["x.gz"]
            for wrong, said in (
                ({"size": 5}, "expected 5"),
                ({"digest": "0" * 64}, "tasks with SHA-256"),
                ({"url": url + "x"}, "no download .*try again, or put x.gz"),
            ):
                with pytest.raises(InputError, match=said):
                    data.fetch(dataclasses.replace(release, **wrong), tmp_path / "other")
            server.shutdown()
        with pytest.raises(RunError, match=r"no download .*refused.*or name it in MBPP_OVERRIDE_PATH"):
            data.fetch(release, tmp_path / "other")
        assert not (tmp_path / "other").exists()


class TestSplit:
    PASSES: Mapping[str, int] = {f"demo/{i}": i % 4 for i in range(1, 25)}

    def made(self, demo: CodeSuite) -> split.Split:
        train, evaluate = split.choose(self.PASSES, 3, "mixed", 5, 4, 7)
        return split.Split("demo24", demo.digest, "m", 7, 3, 0.7, "mixed", dict(self.PASSES), train, evaluate)

    def test_a_choice_is_the_same_everywhere(self) -> None:
        train, evaluate = split.choose(self.PASSES, 3, "mixed", 3, 2, 7)
        assert (train, evaluate) == split.choose(dict(reversed(self.PASSES.items())), 3, "mixed", 3, 2, 7)
        assert (train, evaluate) == (("demo/1", "demo/10", "demo/6"), ("demo/18", "demo/5"))
        assert {self.PASSES[name] for name in (*train, *evaluate)} <= {1, 2}
        assert split.choose(self.PASSES, 3, "mixed", 3, 2, 8) != (train, evaluate)

    def test_rules(self) -> None:
        assert {self.PASSES[n] for half in split.choose(self.PASSES, 3, "any_fail", 10, 8, 0) for n in half} == {0, 1, 2}
        assert {n for half in split.choose(self.PASSES, 3, "all", 12, 12, 0) for n in half} == set(self.PASSES)
        with pytest.raises(InputError, match="split: got 12 tasks that passed and failed among 3 probes, expected 10 to train on and 3"):
            split.choose(self.PASSES, 3, "mixed", 10, 3, 0)
        with pytest.raises(InputError, match="keep: got some"):
            split.choose(self.PASSES, 3, "some", 1, 1, 0)
        with pytest.raises(InputError, match="passes of demo/3: got 3, expected 0 to 2"):
            split.choose(self.PASSES, 2, "all", 1, 1, 0)

    def test_it_is_read_as_written(self, demo: CodeSuite, tmp_path: Path) -> None:
        split.write(tmp_path / "s.json", self.made(demo))
        assert split.read(tmp_path / "s.json", demo, "m") == self.made(demo)
        assert split.read(tmp_path / "s.json", demo) == self.made(demo)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"suite": "mbppplus"}, "got a split of mbppplus, expected one of demo24; say suite=mbppplus, or choose"),
            ({"digest": "0" * 64}, "got a split of demo24 000000000000, expected one of"),
            ({"model": "other"}, "got a split probed with other, expected one probed with m; use that model"),
            ({"train": ["demo/99", "demo/98"]}, "got the task 'demo/99' and 1 more, expected tasks of demo24"),
            ({"train": ["demo/1"], "eval": ["demo/1"]}, "got demo/1 in both halves"),
            ({"train": ["demo/1", "demo/1"], "eval": []}, "got demo/1 twice"),
            ({"train": "demo/1"}, "got train of another kind"),
            ({"probes": True}, "got probes of another kind"),
            ({"halfblind_split": 2}, "got something else"),
        ],
    )
    def test_bad_ones_are_one_line(self, demo: CodeSuite, tmp_path: Path, change: dict[str, Any], said: str) -> None:
        path = tmp_path / "s.json"
        split.write(path, self.made(demo))
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        with pytest.raises(InputError, match=said):
            split.read(path, demo, "m")

    def test_no_split_at_all(self, demo: CodeSuite, tmp_path: Path) -> None:
        path = tmp_path / "s.json"
        for content, said in ((b"{", "not JSON"), (b"[]", "something else"), (b"\xff", "not text")):
            path.write_bytes(content)
            with pytest.raises(InputError, match=said):
                split.read(path, demo, "m")
        with pytest.raises(InputError, match="no such file"):
            split.read(tmp_path / "none.json", demo, "m")
        with pytest.raises(InputError, match="to write there"):
            split.write(path / "below.json", self.made(demo))

    def test_ids_by_hand(self, demo: CodeSuite, tmp_path: Path) -> None:
        path = tmp_path / "ids.txt"
        path.write_text("# mine\ndemo/1\n\ndemo/2\n demo/3\n")
        made = split.from_ids(path, demo, 2, 1, 0)
        assert sorted((*made.train, *made.eval)) == ["demo/1", "demo/2", "demo/3"]
        split.write(tmp_path / "s.json", made)
        assert split.read(tmp_path / "s.json", demo, "any model") == made
        with pytest.raises(InputError, match="got 3 tasks named in"):
            split.from_ids(path, demo, 2, 2, 0)
        path.write_text("demo/1\ndemo/77\n")
        with pytest.raises(InputError, match="demo/77"):
            split.from_ids(path, demo, 1, 1, 0)
