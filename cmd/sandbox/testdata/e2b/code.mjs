// Drives a daemon with E2B's client of the code interpreter for JavaScript. Each step
// prints a line; the exit status is 1 when one has failed.
import { createRequire } from 'module'
const { Sandbox } = createRequire(process.env.E2B_CLIENTS + '/x.js')('@e2b/code-interpreter')
let failed = 0
async function step(name, fn) {
  try {
    const v = await fn()
    console.log('ok', name, v === undefined ? '' : JSON.stringify(v)?.slice(0, 300))
  } catch (e) {
    failed++
    console.log('FAIL', name, e?.name, e?.message)
  }
}
function must(c, m) { if (!c) throw new Error('not as it has to be: ' + (typeof m == 'string' ? m : JSON.stringify(m))) }
async function refused(fn) { try { await fn() } catch (e) { return e } throw new Error('it was not refused') }
let s

await step('create', async () => { s = await Sandbox.create({ timeoutMs: 300_000, metadata: { purpose: 'code' } }) })
if (!s) process.exit(1)
await step('template', async () => {
  must((await s.getInfo()).templateId == 'code-interpreter-v1', 'name of the template')
  const of = async template => (await Sandbox.list({ query: { template } }).nextItems()).map(x => x.sandboxId)
  must((await of('code-interpreter-v1')).includes(s.sandboxId), 'filter by template')
  must((await of('sandbox-code:bookworm-slim')).includes(s.sandboxId), 'filter by image')
  must(!(await of('base')).includes(s.sandboxId), 'filter by another template')
})
await step('text', async () => {
  const r = await s.runCode('x = 6\nprint("hello")\nx * 7')
  must(r.text == '42' && r.logs.stdout.join('') == 'hello\n' && !r.error && r.results[0].isMainResult, r)
  must((await s.runCode('x')).executionCount == r.executionCount + 1, 'state and count')
})
await step('callbacks', async () => {
  const got = []
  await s.runCode('import sys, time\nprint("a", flush=True)\ntime.sleep(0.3)\nprint("b", file=sys.stderr, flush=True)\ndisplay("c")\n1/0', {
    onStdout: m => { // the kernel may send a line in pieces
      if (got.at(-1)?.[0] == 'out') got.at(-1)[1] += m.line
      else got.push(['out', m.line, m.error, Date.now() - m.timestamp / 1000 < 60_000])
    },
    onStderr: m => { got.push(['err', m.line, m.error]) },
    onResult: r => { got.push(['result', r.text]) },
    onError: e => { got.push(['error', e.name]) },
  })
  must(JSON.stringify(got) == JSON.stringify([['out', 'a\n', false, true], ['err', 'b\n', true], ['result', "'c'"], ['error', 'ZeroDivisionError']]), got)
})
await step('error', async () => {
  const { error } = await s.runCode('def f():\n    raise ValueError("nö")\nf()')
  must(error.name == 'ValueError' && error.value == 'nö' && /line 3[^]*in f\(\)[^]*ValueError: nö/.test(error.traceback.replace(/\x1b\[[\d;]*m/g, '')), error)
})
await step('lines that are none', async () => must((await s.runCode('print("a\\u0085b\\u2028c\\rd")')).logs.stdout.join('') == 'a\u0085b\u2028c\rd\n', 'text'))
await step('chart', async () => {
  const r = await s.runCode('import matplotlib.pyplot as plt\nplt.bar(["u", "v"], [5, 6])\nplt.title("T")\nplt.ylabel("size (kB)")\nplt.show()')
  must(r.results.length == 1, r)
  const { png, chart } = r.results[0]
  must(Buffer.from(png, 'base64').subarray(1, 4).toString() == 'PNG', 'picture')
  must(chart.type == 'bar' && chart.title == 'T' && chart.y_unit == 'kB' && chart.elements[1].label == 'v' && chart.elements[1].value == 6, chart)
})
await step('table', async () => {
  const [r] = (await s.runCode('import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", None]})')).results
  must(/<table/.test(r.html) && r.data.a[1] == 2 && r.data.b[1] === null, r)
})
await step('forms', async () => {
  const r = await s.runCode('from IPython.display import *\ndisplay(Markdown("*m*"), Latex("$l$"), SVG("<svg xmlns=\\"http://www.w3.org/2000/svg\\"/>"), JSON({"j": 1}), HTML("<b>h</b>"), Javascript("1"))\ndisplay({"a/b": "other", "text/plain": "p"}, raw=True)')
  const all = Object.assign({}, ...r.results.map(x => Object.fromEntries(Object.entries(x.raw))))
  for (const [form, want] of Object.entries({ markdown: '*m*', latex: '$l$', html: '<b>h</b>', javascript: '1' })) must(all[form] == want, form + ' ' + all[form])
  must(/<svg/.test(all.svg) && all.json.j == 1, all)
  must(r.results.at(-1).extra['a/b'] == 'other', r.results.at(-1).extra)
})
await step('languages', async () => {
  must((await s.runCode('const y = await Promise.resolve(20); y + 1', { language: 'javascript' })).text == '21', 'javascript')
  must((await s.runCode('y + 2', { language: 'js' })).text == '22', 'its state, by a short name')
  await s.runCode('z=5', { language: 'bash' })
  must((await s.runCode('echo $((z + 1)); pwd', { language: 'bash' })).logs.stdout.join('') == '6\n/workspace\n', 'bash')
  must(/^400/.test((await refused(() => s.runCode('1', { language: 'java' }))).message), 'no such language')
})
await step('variables', async () => {
  must((await s.runCode('import os; os.environ.get("V")', { envs: { V: 'ä b' } })).text == "'ä b'", 'of one run')
  must((await s.runCode('os.environ.get("V")')).text === undefined, 'none after it')
})
await step('contexts', async () => {
  const one = await s.createCodeContext({ cwd: '/tmp' }), two = await s.createCodeContext({ language: 'javascript' })
  must(one.language == 'python' && one.cwd == '/tmp' && two.language == 'javascript', [one, two])
  await s.runCode('x = "one"', { context: one })
  must((await s.runCode('x', { context: one })).text == "'one'" && (await s.runCode('x')).text == '6', 'variables of its own')
  must((await s.runCode('import os; os.getcwd()', { context: one })).text == "'/tmp'", 'folder')
  must((await s.runCode('1 + 1', { context: two })).text == '2', 'language of the context')
  const ids = (await s.listCodeContexts()).map(c => c.id)
  must(ids.includes(one.id) && ids.includes(two.id), ids)
  await s.restartCodeContext(one)
  must((await s.runCode('x', { context: one })).error.name == 'NameError', 'restart')
  await s.removeCodeContext(one)
  must(!(await s.listCodeContexts()).some(c => c.id == one.id), 'removed')
  for (const fn of [() => s.runCode('1', { context: one }), () => s.restartCodeContext(one.id), () => s.removeCodeContext(one.id)]) must((await refused(fn)).name == 'NotFoundError', 'not found')
})
await step('time limit', async () => {
  must((await refused(() => s.runCode('kept = 1\nimport time\ntime.sleep(60)', { timeoutMs: 1500 }))).name == 'TimeoutError', 'error')
  must((await s.runCode('kept')).text == '1', 'the code was interrupted and its variables stay')
})
await step('two runs at once', async () => {
  const both = await Promise.all([s.runCode('import time; time.sleep(0.5); "a"'), s.runCode('"b"')])
  must(both[0].text == "'a'" && both[1].text == "'b'", both)
})
await step('kernel that dies', async () => {
  must((await s.runCode('import os; os._exit(3)')).error.name == 'KernelDied', 'error')
  must((await s.runCode('2 + 2')).text == '4', 'the next run')
})
await step('files and commands', async () => {
  await s.files.write('d.csv', 'a\n1\n2\n')
  must((await s.runCode('import pandas as pd; int(pd.read_csv("d.csv").a.sum())')).text == '3', 'file')
  await s.runCode('open("out.txt", "w").write("o")'); must((await s.commands.run('cat out.txt')).stdout == 'o', 'command')
})
await step('pause', async () => {
  await s.runCode('kept = 7'); await s.pause()
  must((await (await Sandbox.connect(s.sandboxId)).runCode('kept')).text == '7', 'variables stay')
})
await step('another tenant', async () => {
  const other = { apiKey: process.env.OTHER_KEY }
  must(!(await Sandbox.list(other).nextItems()).some(x => x.sandboxId == s.sandboxId), 'listed')
  must((await refused(() => Sandbox.connect(s.sandboxId, other))).name == 'SandboxNotFoundError', 'connect')
  const o = await Sandbox.create({ ...other, timeoutMs: 300_000 })
  must((await o.runCode('x')).error.name == 'NameError', 'variables of another')
  // Its tokens with the name of the other's sandbox.
  for (const [method, path, body] of [['POST', '/execute', '{"code":"1"}'], ['GET', '/contexts'], ['POST', '/contexts', '{}']]) {
    const r = await fetch(process.env.E2B_SANDBOX_URL + path, { method, body, headers: { 'E2b-Sandbox-Id': s.sandboxId, 'E2b-Sandbox-Port': '49999', 'X-Access-Token': o.envdAccessToken, 'E2B-Traffic-Access-Token': o.trafficAccessToken } })
    must(r.status == 401, method + ' ' + path + ' ' + r.status)
  }
  await o.kill()
  must(/sandbox/i.test((await refused(() => o.runCode('1'))).message), 'a sandbox that is no more')
})
await step('image without a kernel host', async () => {
  const b = await Sandbox.create('base')
  must(/^501/.test((await refused(() => b.runCode('1'))).message), 'error'); await b.kill()
})
await step('image that is not allowed', async () => must(/daemon.create.images/.test((await refused(() => Sandbox.create('debian:bookworm'))).message), 'error'))
await step('presets', async () => {
  const x = await Sandbox.create('strict', { metadata: { of: 'a preset' } })
  const info = await x.getInfo()
  must(info.templateId == 'strict' && info.memoryMB == 512, info)
  const found = await Sandbox.list({ query: { template: 'strict', metadata: { of: 'a preset' } } }).nextItems()
  must(found.length == 1 && found[0].sandboxId == x.sandboxId && found[0].metadata.of == 'a preset', found)
  must((await x.commands.run('echo on')).stdout == 'on\n', 'command'); await x.kill()
  must(/daemon.create.presets/.test((await refused(() => Sandbox.create('permissive'))).message), 'a preset that is not allowed')
})
await step('kill', async () => must(await s.kill(), 'kill'))
process.exit(failed ? 1 : 0)
