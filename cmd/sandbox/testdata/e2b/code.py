"""Drives a daemon with E2B's client of the code interpreter for Python. Each step
prints a line; the exit status is 1 when one has failed."""
import base64
import os
import sys
import time

import httpx
from e2b import NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import Sandbox
from e2b_code_interpreter.charts import BarChart, LineChart, SuperChart

failed = False


def step(fn):
    global failed
    try:
        fn()
        print("ok", fn.__name__)
    except BaseException as e:
        failed = True
        print("FAIL", fn.__name__, type(e).__name__, e)


def must(ok, *why):
    if not ok:
        raise AssertionError("not as it has to be: %r" % (why,))


def refused(fn, kind=SandboxException):
    try:
        fn()
    except kind as e:
        return e
    raise AssertionError("it was not refused")


s = Sandbox.create(timeout=300, metadata={"purpose": "code"})


@step
def text():
    r = s.run_code("x = 6\nprint('hello')\nx * 7")
    must(r.text == "42" and "".join(r.logs.stdout) == "hello\n" and r.error is None and r.results[0].is_main_result, r)
    must(s.run_code("x").execution_count == r.execution_count + 1, "state and count")


@step
def callbacks():
    got = []
    s.run_code(
        "import sys\nprint('a', flush=True)\nprint('b', file=sys.stderr, flush=True)\ndisplay('c')\n1/0",
        on_stdout=lambda m: got.append(("out", m.line, m.error, abs(m.timestamp / 1e9 - time.time()) < 60)),
        on_stderr=lambda m: got.append(("err", m.line, m.error)),
        on_result=lambda r: got.append(("result", r.text)),
        on_error=lambda e: got.append(("error", e.name)),
    )
    must(got == [("out", "a\n", False, True), ("err", "b\n", True), ("result", "'c'"), ("error", "ZeroDivisionError")], got)


@step
def error():
    e = s.run_code("def f():\n    raise ValueError('nö')\nf()").error
    must(e.name == "ValueError" and e.value == "nö" and "ValueError" in e.traceback, e)


@step
def lines_that_are_none():
    must("".join(s.run_code("print('a\\u0085b\\u2028c\\x0bd')").logs.stdout) == "a\u0085b\u2028c\x0bd\n", "text")


@step
def charts():
    plot = "import matplotlib.pyplot as plt\n%s\nplt.show()"
    [r] = s.run_code(plot % "plt.bar(['u', 'v'], [5, 6]); plt.title('T')").results
    must(base64.b64decode(r.png).startswith(b"\x89PNG"), "picture")
    must(isinstance(r.chart, BarChart) and r.chart.title == "T" and r.chart.elements[1].label == "v", r.chart)
    [r] = s.run_code(plot % "plt.plot([1, 2, 3], [2, 4, 8], label='p')").results
    must(isinstance(r.chart, LineChart) and r.chart.elements[0].points == [(1, 2), (2, 4), (3, 8)], r.chart)
    [r] = s.run_code(plot % "f, (p, q) = plt.subplots(1, 2); p.plot([1]); q.bar(['u'], [2])").results
    must(isinstance(r.chart, SuperChart) and len(r.chart.elements) == 2, r.chart)


@step
def table():
    [r] = s.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})").results
    must("<table" in r.html and r.data == {"a": [1, 2], "b": ["x", None]}, r.data)


@step
def forms():
    r = s.run_code(
        "from IPython.display import *\n"
        "display(Markdown('*m*'), Latex('$l$'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'), JSON({'j': 1}), HTML('<b>h</b>'), Javascript('1'))\n"
        "display({'a/b': 'other', 'text/plain': 'p'}, raw=True)"
    )
    have = {f: v[f] for v in r.results for f in v.formats() if f in ("markdown", "latex", "svg", "json", "html", "javascript")}
    must(have["markdown"] == "*m*" and have["latex"] == "$l$" and "<svg" in have["svg"] and have["json"] == {"j": 1} and have["html"] == "<b>h</b>" and have["javascript"] == "1", have)
    must(r.results[-1].extra == {"a/b": "other"}, r.results[-1].extra)


@step
def languages():
    must(s.run_code("const y = await Promise.resolve(20); y + 1", language="javascript").text == "21", "javascript")
    must(s.run_code("y + 2", language="js").text == "22", "its state, by a short name")
    s.run_code("z=5", language="bash")
    must("".join(s.run_code("echo $((z + 1))", language="bash").logs.stdout) == "6\n", "bash")
    must("python, javascript" in str(refused(lambda: s.run_code("1", language="java"))), "no such language")


@step
def variables():
    must(s.run_code("import os; os.environ.get('V')", envs={"V": "ä b"}).text == "'ä b'", "of one run")
    must(s.run_code("os.environ.get('V') is None").text == "True", "none after it")


@step
def contexts():
    one, two = s.create_code_context(cwd="/tmp"), s.create_code_context(language="javascript")
    must(one.language == "python" and one.cwd == "/tmp" and two.language == "javascript", one, two)
    s.run_code("x = 'one'", context=one)
    must(s.run_code("x", context=one).text == "'one'" and s.run_code("x").text == "6", "variables of its own")
    must(s.run_code("1 + 1", context=two).text == "2", "language of the context")
    must({one.id, two.id} <= {c.id for c in s.list_code_contexts()}, "listed")
    s.restart_code_context(one)
    must(s.run_code("x", context=one).error.name == "NameError", "restart")
    s.remove_code_context(one)
    must(one.id not in {c.id for c in s.list_code_contexts()}, "removed")
    for fn in (lambda: s.run_code("1", context=one), lambda: s.restart_code_context(one.id), lambda: s.remove_code_context(one.id)):
        refused(fn, NotFoundException)


@step
def time_limit():
    refused(lambda: s.run_code("kept = 1\nimport time\ntime.sleep(60)", timeout=2), TimeoutException)
    must(s.run_code("kept").text == "1", "the code was interrupted and its variables stay")


@step
def kernel_that_dies():
    must(s.run_code("import os; os._exit(3)").error.name == "KernelDied", "error")
    must(s.run_code("2 + 2").text == "4", "the next run")


@step
def connect():
    must(Sandbox.connect(s.sandbox_id).run_code("7").text == "7", "run")
    must(len(Sandbox.connect(s.sandbox_id).list_code_contexts()) > 0, "contexts")


@step
def another_tenant():
    other = os.environ["OTHER_KEY"]
    refused(lambda: Sandbox.connect(s.sandbox_id, api_key=other))
    o = Sandbox.create(api_key=other, timeout=300)
    must(o.run_code("x").error.name == "NameError", "variables of another")
    headers = {"E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": "49999", "E2B-Traffic-Access-Token": o.traffic_access_token}
    must(httpx.get(os.environ["E2B_SANDBOX_URL"] + "/contexts", headers=headers).status_code == 401, "its token for the other's sandbox")
    o.kill()
    refused(lambda: o.run_code("1"), TimeoutException)


@step
def kill():
    must(s.kill(), "kill")


sys.exit(1 if failed else 0)
