// Drives a daemon with the sandbox client of @openai/agents-extensions that takes a URL:
// SANDBOX_URL is its address, CLOUDFLARE_SANDBOX_API_KEY the key, OTHER_KEY that of another
// tenant. Each step prints a line; the exit status is 1 when one has failed. No model is
// called.
import { createRequire } from 'module'
const require = createRequire(process.env.AGENTS_CLIENTS + '/x.js')
const { run } = require('@openai/agents')
const { SandboxAgent } = require('@openai/agents/sandbox')
const { ScriptedModel, assistantMessage, functionCall } = require('@openai/agents/testing')
const { CloudflareSandboxClient } = require('@openai/agents-extensions/sandbox/cloudflare')
const { Manifest, file } = createRequire(require.resolve('@openai/agents-extensions/sandbox/cloudflare'))('@openai/agents-core/sandbox')
const WebSocket = require('ws')

const url = process.env.SANDBOX_URL
const sleep = ms => new Promise(r => setTimeout(r, ms))
let failed = 0
async function step(name, fn) {
  try {
    const v = await fn()
    console.log('ok', name, v === undefined ? '' : JSON.stringify(v)?.slice(0, 300))
  } catch (e) {
    failed++
    console.log('FAIL', name, e?.name, e?.message, JSON.stringify(e?.details ?? e?.context ?? {}))
  }
}
function must(c, m) { if (!c) throw new Error('not as it has to be: ' + m) }
async function refused(fn) { try { await fn() } catch (e) { return e } throw new Error('it was not refused') }
const text = bytes => new TextDecoder().decode(bytes)
const of = (s, rest) => `${url}/v1/sandbox/${s.state.sandboxId}${rest}`
const key = { Authorization: 'Bearer ' + process.env.CLOUDFLARE_SANDBOX_API_KEY }
async function until(what, fn) { for (let i = 0; i < 100; i++) { if (await fn()) return; await sleep(100) } throw new Error(what) }

const client = new CloudflareSandboxClient({ workerUrl: url, timeoutMs: 60_000, createTimeoutMs: 120_000, exposedPorts: [8080] })
let s
await step('create with a manifest', async () => {
  s = await client.create({ manifest: new Manifest({ entries: { 'dir/in.txt': { type: 'file', content: 'given ä' } }, environment: { GREETING: "it's" } }) })
  must(text(await s.readFile({ path: 'dir/in.txt' })) == 'given ä', 'content')
  return s.state.sandboxId
})
if (!s) process.exit(1)
await step('running', async () => must(await s.running(), 'running'))
await step('execCommand', async () => {
  const out = await s.execCommand({ cmd: 'echo "$GREETING"; echo err >&2; pwd; exit 3' })
  must(out.includes("it's\n/workspace\nerr") && out.includes('exited with code 3'), out)
  must((await s.execCommand({ cmd: 'pwd', workdir: 'dir' })).includes('/workspace/dir'), 'workdir')
  // Characters are not cut at the edges of events.
  must((await s.execCommand({ cmd: "yes äöü€🙂 | head -c 2000000 | tr -d '\\n' | head -c 1500000 | tail -c 100000" })).match(/�/g)?.length <= 2, 'characters')
})
await step('a command whose time is over', async () => {
  const slow = Object.assign(Object.create(Object.getPrototypeOf(s)), s, { state: { ...s.state, timeouts: { execTimeoutMs: 500 } } })
  const e = await refused(() => slow.execCommand({ cmd: 'sleep 20' }))
  must(JSON.stringify(e.details ?? e).includes('time'), JSON.stringify(e.details))
})
await step('files', async () => {
  const data = new Uint8Array(300_000).map((_, i) => i * 7)
  await s.materializeEntry({ path: 'made/ü?#%41.bin', entry: { type: 'file', content: data } })
  must(Buffer.compare(await s.readFile({ path: 'made/ü?#%41.bin' }), data) == 0, 'bytes')
  must((await s.readFile({ path: 'made/ü?#%41.bin', maxBytes: 5 })).length == 5, 'part')
  must(await s.pathExists('made') && await s.directoryExists('made') && !await s.pathExists('no'), 'exists')
  const e = await refused(() => s.readFile({ path: 'no' }))
  must(e.name == 'SandboxWorkspaceReadNotFoundError' || /not found/.test(e.message), e.name)
  const editor = s.createEditor()
  await editor.createFile({ type: 'create_file', path: 'code.py', diff: '+print(1)' })
  await editor.updateFile({ type: 'update_file', path: 'code.py', diff: '-print(1)\n+print(2)' })
  must(text(await s.readFile({ path: 'code.py' })).trim() == 'print(2)', 'edited')
  await editor.deleteFile({ type: 'delete_file', path: 'code.py' })
  must(!await s.pathExists('code.py'), 'deleted')
  await refused(() => s.readFile({ path: '/etc/passwd' }))
})
await step('events and lines in files', async () => {
  for (const content of ['data: {"type":"x"}\n\n', 'event: stdout\ndata: 1\n\n', '']) {
    await s.materializeEntry({ path: 'sse.txt', entry: { type: 'file', content } })
    must(text(await s.readFile({ path: 'sse.txt' })) == content, content)
  }
})
await step('viewImage', async () => {
  await s.materializeEntry({ path: 'p.png', entry: { type: 'file', content: Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64') } })
  must((await s.viewImage({ path: 'p.png' })).type == 'image', 'type')
})
await step('persist and hydrate', async () => {
  await s.execCommand({ cmd: 'mkdir -p keep && echo 1 > keep/a && ln -s a keep/l' })
  const tar = await s.persistWorkspace()
  await s.execCommand({ cmd: 'rm -rf keep made' })
  await s.hydrateWorkspace(tar)
  must((await s.execCommand({ cmd: 'cat keep/l' })).includes('1') && await s.pathExists('made/ü?#%41.bin'), 'content')
})
const session = out => Number(/session ID (\d+)/.exec(out)?.[1])
await step('a terminal', async () => {
  let out = await s.execCommand({ cmd: 'stty size; read x; echo got:$x; exit 5', tty: true, yieldTimeMs: 1000 })
  const id = session(out)
  must(id > 0, out)
  for (let i = 0; i < 20 && !out.includes('24 80'); i++) out += await s.writeStdin({ sessionId: id, chars: '', yieldTimeMs: 250 })
  out = await s.writeStdin({ sessionId: id, chars: 'hällo\n', yieldTimeMs: 500 })
  for (let i = 0; i < 20 && !out.includes('got:hällo'); i++) out += await s.writeStdin({ sessionId: id, chars: '', yieldTimeMs: 250 })
  must(out.includes('got:hällo'), out)
  out = await s.writeStdin({ sessionId: id, chars: `printf '{"type":"exit","code":9}'; sleep 1; echo on\n`, yieldTimeMs: 3000 })
  must(out.includes('on\r\n'), 'a program makes the client believe that the shell has ended: ' + out)
  out = await s.writeStdin({ sessionId: id, chars: 'exit 7\n', yieldTimeMs: 3000 })
  must(out.includes('exited with code 7'), out)
})
await step('a terminal that is closed', async () => {
  const x = await client.create({})
  await x.execCommand({ cmd: 'sleep 985', tty: true, yieldTimeMs: 500 })
  await x.delete()
  must(!await x.running(), 'gone')
})
await step('resize', () => new Promise((resolve, reject) => {
  const ws = new WebSocket(of(s, '/pty?cols=100&rows=30').replace('http', 'ws'), { headers: key })
  let out = '', at = 0
  ws.on('error', reject)
  ws.on('close', () => at == 3 ? resolve() : reject(new Error('closed: ' + out)))
  ws.on('message', (data, binary) => {
    if (!binary) {
      const m = JSON.parse(data)
      if (m.type == 'ready') ws.send(Buffer.from('stty size\n'))
      else if (m.type == 'exit' && m.code == 0) at++
      else reject(new Error(String(data)))
      return
    }
    out += data
    if (at == 0 && out.includes('30 100')) { at++; ws.send('{"type":"resize","cols":132,"rows":50}'); ws.send(Buffer.from('stty size\n')) }
    if (at == 1 && out.includes('50 132')) { at++; ws.send(Buffer.from('exit\n')) }
  })
}))
await step('resume', async () => {
  const again = await new CloudflareSandboxClient().resume(s.state)
  must((await again.execCommand({ cmd: 'cat dir/in.txt' })).includes('given ä'), 'content')
  await client.serializeSessionState(s.state)
})
await step('ports', async () => (await refused(() => s.resolveExposedPort(8080))).name) // the client has none
await step('unsupported', async () => {
  const e = await refused(() => s.mountBucket({ bucket: 'b', mountPath: '/workspace/data', options: {} }))
  must(JSON.stringify(e.details).includes('not supported'), JSON.stringify(e.details))
  await refused(() => s.unmountBucket('/workspace/data'))
  const created = await fetch(url + '/v1/sandbox', { method: 'POST', headers: key, body: '{"mounts":[{}]}' })
  must(created.status == 501 && (await created.json()).code == 'not_supported', 'mounts ' + created.status)
  for (const body of ['{"x":1}', '[]', '{"exposedPorts":[0]}', '{"timeoutMs":-1}']) {
    const r = await fetch(url + '/v1/sandbox', { method: 'POST', headers: key, body })
    must(r.status == 400 && (await r.json()).code == 'invalid_request', body + r.status)
  }
})
await step('two tenants', async () => {
  const theirs = new CloudflareSandboxClient({ workerUrl: url, apiKey: process.env.OTHER_KEY })
  const o = await theirs.create({})
  const mine = Object.assign(Object.create(Object.getPrototypeOf(o)), o, { state: { ...o.state, sandboxId: s.state.sandboxId } })
  must(!await mine.running(), 'running')
  await refused(() => mine.execCommand({ cmd: 'true' }))
  await refused(() => mine.readFile({ path: 'dir/in.txt' }))
  await refused(() => mine.persistWorkspace())
  await mine.delete() // what is not there needs none
  must(await s.running() && text(await s.readFile({ path: 'dir/in.txt' })) == 'given ä', 'mine')
  const e = await refused(() => new CloudflareSandboxClient({ workerUrl: url, apiKey: 'sbx_no' }).create({}))
  must(e.message.includes('unauthorized'), e.message)
  await o.delete()
})
await step('a run with a model of the test', async () => {
  const model = new ScriptedModel([
    [functionCall('exec_command', { cmd: 'echo $((6*7)) > answer.txt; cat answer.txt' }, { callId: 'c1' })],
    [assistantMessage('done')],
  ])
  const agent = new SandboxAgent({ name: 'worker', model })
  const result = await run(agent, 'go', { sandbox: { client }, tracingDisabled: true })
  must(result.finalOutput == 'done' && JSON.stringify(result.newItems).includes('42'), JSON.stringify(result.newItems))
})
await step('delete', async () => {
  await s.delete()
  must(!await s.running(), 'gone')
  await refused(() => s.execCommand({ cmd: 'true' }))
  await s.delete()
})
process.exit(failed ? 1 : 0)
