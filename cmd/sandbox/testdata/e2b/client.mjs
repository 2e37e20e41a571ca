// Drives a daemon with the client of E2B for JavaScript: E2B_SDK names the package.
// Each step prints a line; the exit status is 1 when one has failed.
import { createRequire } from 'module'
import http from 'http'
const { Sandbox } = createRequire(process.env.E2B_CLIENTS + '/x.js')(process.env.E2B_SDK)
const sleep = ms => new Promise(r => setTimeout(r, ms))
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
function must(c, m) { if (!c) throw new Error('not as it has to be: ' + m) }
async function refused(fn) { try { await fn() } catch (e) { return e } throw new Error('it was not refused') }
let s

await step('create', async () => { s = await Sandbox.create({ timeoutMs: 120_000 }); return s.sandboxId })
if (!s) process.exit(1)
await step('create for a time', async () => {
  const x = await Sandbox.create({ timeoutMs: 30_000 })
  must((await x.getInfo()).endAt - Date.now() < 31_000, 'end')
  must(await x.kill(), 'kill')
})
await step('connect', async () => { const c = await Sandbox.connect(s.sandboxId); must((await c.commands.run('echo hi')).stdout == 'hi\n', 'output') })
await step('isRunning', async () => must(await s.isRunning(), 'running'))
await step('getInfo', async () => must((await s.getInfo()).state == 'running', 'state'))
await step('list', async () => {
  const all = await Sandbox.list({ query: { state: ['running'] } }).nextItems()
  must(all.some(x => x.sandboxId == s.sandboxId), 'listed')
  must(!(await Sandbox.list({ query: { state: ['paused'] } }).nextItems()).some(x => x.sandboxId == s.sandboxId), 'filter by state')
  must((await Sandbox.list({ query: { metadata: { no: 'such' } } }).nextItems()).length == 0, 'filter by metadata')
  const x = await Sandbox.create(); const p = Sandbox.list({ limit: 1 }); const seen = []
  while (p.hasNext) seen.push(...await p.nextItems())
  must(seen.length == 2, 'pages ' + seen.length)
  await x.kill()
})
await step('setTimeout', () => s.setTimeout(120_000))
await step('run', async () => { const r = await s.commands.run('echo out; echo err >&2; pwd'); must(r.stdout == 'out\n/workspace\n' && r.stderr == 'err\n', JSON.stringify(r)) })
await step('run that fails', async () => must((await refused(() => s.commands.run('exit 3'))).exitCode == 3, 'status'))
await step('run with output as it comes', async () => { let o = ''; await s.commands.run('for i in 1 2 3; do echo $i; sleep 0.1; done', { onStdout: d => { o += d } }); must(o == '1\n2\n3\n', o) })
await step('run with variables and a folder', async () => must((await s.commands.run('echo $A; pwd', { envs: { A: 'ä b' }, cwd: '/tmp' })).stdout == 'ä b\n/tmp\n', 'output'))
await step('run as root', async () => { const e = await refused(() => s.commands.run('id', { user: 'root' })); must(/permission_denied/.test(e.message), e.message) })
await step('run as a user', async () => must((await s.commands.run('id -un', { user: 'user' })).stdout == 'sandbox\n', 'user'))
await step('run for a time', async () => must((await refused(() => s.commands.run('sleep 30', { timeoutMs: 700 }))).name == 'TimeoutError', 'error'))
await step('background', async () => {
  const h = await s.commands.run('sleep 30', { background: true })
  must((await s.commands.list()).some(p => p.pid == h.pid), 'listed')
  must(await h.kill(), 'kill'); await refused(() => h.wait())
  must(!(await s.commands.list()).some(p => p.pid == h.pid), 'listed after its end')
  must(await s.commands.kill(999999) === false, 'kill of none')
})
await step('stdin', async () => { const h = await s.commands.run('cat', { background: true, stdin: true }); await s.commands.sendStdin(h.pid, 'hello\n'); await s.commands.closeStdin(h.pid); must((await h.wait()).stdout == 'hello\n', 'output') })
await step('reconnect', async () => { const h = await s.commands.run('echo a; sleep 1; echo b', { background: true }); await h.disconnect(); const r = await (await s.commands.connect(h.pid)).wait(); must(r.stdout == 'a\nb\n', r.stdout) })
await step('write and read', async () => {
  must((await s.files.write('a.txt', 'text')).path == '/workspace/a.txt', 'path'); must(await s.files.read('a.txt') == 'text', 'text')
  await s.files.write('b.bin', new Uint8Array([0, 255, 1]).buffer); must((await s.files.read('b.bin', { format: 'bytes' }))[1] == 255, 'bytes')
  await s.files.write('/workspace/dir/s.txt', new Blob(['streamed']).stream()); let t = ''
  for await (const c of await s.files.read('/workspace/dir/s.txt', { format: 'stream' })) t += Buffer.from(c).toString()
  must(t == 'streamed', t)
  await s.files.write([{ path: 'm/1', data: '1' }, { path: 'm/ü 2', data: '2' }]); must(await s.files.read('m/ü 2') == '2', 'many')
  await s.files.write('g.txt', 'zip'.repeat(1000), { gzip: true }); must((await s.files.read('g.txt')).length == 3000, 'gzip')
})
await step('list of files', async () => {
  must((await s.files.list('.')).some(e => e.name == 'm' && e.type == 'dir'), 'folder')
  must((await s.files.list('/workspace', { depth: 2 })).some(e => e.path == '/workspace/m/1'), 'depth')
})
await step('stat and exists', async () => { const i = await s.files.getInfo('a.txt'); must(i.size == 4 && i.permissions == '-rw-r--r--' && i.path == '/workspace/a.txt', JSON.stringify(i)); must(await s.files.exists('a.txt') && !await s.files.exists('no'), 'exists') })
await step('makeDir', async () => { must(await s.files.makeDir('d1/d2/d3') === true, 'new'); must(await s.files.makeDir('d1/d2/d3') === false, 'old') })
await step('rename and remove', async () => { await s.files.rename('a.txt', 'x/y/c.txt'); must(await s.files.exists('x/y/c.txt') && !await s.files.exists('a.txt'), 'moved'); await s.files.remove('x'); must(!await s.files.exists('x'), 'removed') })
await step('files that are missing', async () => { for (const fn of [() => s.files.read('no'), () => s.files.list('no'), () => s.files.rename('no', 'b'), () => s.files.watchDir('no', () => 0)]) { const e = await refused(fn); must(/not_found|NotFound/i.test(e.name + e.message), e.name + e.message) } })
await step('files outside', async () => { for (const fn of [() => s.files.write('/etc/passwd', 'x'), () => s.files.read('../../etc/shadow'), () => s.files.list('/root'), () => s.files.read('a', { user: 'root' })]) { const e = await refused(fn); must(/403|permission_denied/.test(e.message), e.message) } })
await step('watch', async () => {
  await s.files.makeDir('w'); const seen = []
  const w = await s.files.watchDir('w', e => seen.push(e), { recursive: true })
  await s.files.write('w/sub/f.txt', '1')
  const has = async (name, type) => { for (let i = 0; i < 300 && !seen.some(e => e.name == name && e.type == type); i++) await sleep(100); must(seen.some(e => e.name == name && e.type == type), type + ' ' + name + ' ' + JSON.stringify(seen)) }
  await has('sub/f.txt', 'create'); must(!seen.some(e => /\.tmp$/.test(e.name)), JSON.stringify(seen))
  await s.commands.run('cd w/sub; echo 2 >> f.txt; chmod 600 f.txt; mv f.txt g.txt; rm g.txt')
  for (const [name, type] of [['sub/f.txt', 'write'], ['sub/f.txt', 'chmod'], ['sub/f.txt', 'rename'], ['sub/g.txt', 'create'], ['sub/g.txt', 'remove']]) await has(name, type)
  await w.stop()
})
if (process.env.E2B_SDK == 'e2b') await step('100 MB', async () => { await s.files.write('big', new Blob([Buffer.alloc(100 << 20, 7)])); const b = await s.files.read('big', { format: 'bytes' }); must(b.length == 100 << 20 && b[b.length - 1] == 7, 'content'); await s.files.remove('big') })
await step('signed addresses', async () => {
  await s.files.write('u.txt', 'signed'); const u = await s.downloadUrl('u.txt', { useSignatureExpiration: 60 })
  must(await (await fetch(u)).text() == 'signed', 'read'); must((await fetch(u.replace('u.txt', 'g.txt'))).status == 401, 'another file')
  const f = new FormData(); f.append('file', new Blob(['up']), 'up.txt')
  must((await fetch(await s.uploadUrl('up.txt'), { method: 'POST', body: f })).status == 200 && await s.files.read('up.txt') == 'up', 'write')
})
await step('pty', async () => {
  let o = ''; const seen = async text => { for (let i = 0; i < 300 && !o.includes(text); i++) await sleep(50); must(o.includes(text), o) }
  const h = await s.pty.create({ cols: 80, rows: 24, onData: d => { o += Buffer.from(d).toString() }, timeoutMs: 0 })
  await s.pty.sendInput(h.pid, Buffer.from('stty size\n')); await seen('24 80')
  await s.pty.resize(h.pid, { cols: 100, rows: 30 }); await s.pty.sendInput(h.pid, Buffer.from('stty size\n')); await seen('30 100')
  must(await s.pty.kill(h.pid), 'kill')
})
// Not every system resolves names below localhost, so the address is written out.
const get = (host, headers = {}) => new Promise((resolve, reject) => {
  const { port } = new URL('http://' + host)
  http.get({ host: '127.0.0.1', port, path: '/', headers: { host, ...headers } }, r => { let body = ''; r.on('data', d => { body += d }); r.on('end', () => resolve({ status: r.statusCode, body })) }).on('error', reject)
})
async function serve(box, text) {
  await box.files.write('srv/index.html', text)
  await box.commands.run('python3 -m http.server 8000 --bind 127.0.0.1 --directory srv', { background: true, timeoutMs: 0 })
  const headers = box.trafficAccessToken ? { 'e2b-traffic-access-token': box.trafficAccessToken } : {}
  let r; for (let i = 0; i < 300; i++) { r = await get(box.getHost(8000), headers); if (r.status == 200) break; await sleep(100) }
  must(r.status == 200 && r.body == text, JSON.stringify(r))
}
await step('getHost', async () => {
  await serve(s, 'from inside'); must((await get(s.getHost(8000))).body == 'from inside', 'without the token')
  must((await get(s.getHost(8001))).status == 503, 'no server'); must((await get(s.getHost(8000).replace('-sbx', '-sbx-x'))).status == 401, 'no sandbox')
  const x = await Sandbox.create({ network: { allowPublicTraffic: false } }); must(x.trafficAccessToken, 'no token'); await serve(x, 'closed')
  for (const token of [undefined, '', 'x', x.trafficAccessToken + 'x', x.envdAccessToken]) must((await get(x.getHost(8000), token === undefined ? {} : { 'e2b-traffic-access-token': token })).status == 401, 'reached with ' + token)
  must((await get(s.getHost(8000), { 'e2b-traffic-access-token': x.trafficAccessToken })).body == 'from inside', 'a token that is not needed')
  must((await Sandbox.connect(x.sandboxId)).trafficAccessToken == x.trafficAccessToken, 'token of connect')
  const headers = { 'e2b-traffic-access-token': x.trafficAccessToken }; await x.kill(); must((await get(x.getHost(8000), headers)).status >= 400, 'after its end')
})
await step('metrics', async () => { const m = await s.getMetrics(); must(m.length == 1 && m[0].memUsed > 0 && m[0].memTotal > m[0].memUsed, JSON.stringify(m)) })
await step('pause and resume', async () => { must(await s.pause(), 'pause'); must((await s.getInfo()).state == 'paused', 'state'); must(!await s.isRunning(), 'running'); must(await s.pause() === false, 'again'); const c = await s.connect(); must((await c.getInfo()).state == 'running' && await c.files.read('u.txt') == 'signed', 'resumed') })
await step('snapshots', async () => {
  await s.files.write('s.txt', 'snapshot')
  const a = await s.createSnapshot({ name: 'built' }), b = await s.createSnapshot()
  must(a.snapshotId && b.snapshotId && a.snapshotId != b.snapshotId, JSON.stringify([a, b]))
  await s.files.write('s.txt', 'later')
  const list = []; for (const p = s.listSnapshots({ limit: 1 }); p.hasNext;) list.push(...await p.nextItems())
  must(list.map(x => x.snapshotId).join() == [a.snapshotId, b.snapshotId].join(), JSON.stringify(list))
  must((await Sandbox.listSnapshots().nextItems()).length == 2, 'all')
  for (const template of [a.snapshotId, 'built']) {
    const x = await Sandbox.create(template); must(await x.files.read('s.txt') == 'snapshot', 'content of ' + template); await x.files.write('s.txt', 'other'); await x.kill()
  }
  must(await s.files.read('s.txt') == 'later', 'of the sandbox itself')
  must(/40[09]/.test((await refused(() => s.createSnapshot({ name: 'built' }))).message), 'a name that is taken')
  must(await Sandbox.deleteSnapshot(a.snapshotId) && await Sandbox.deleteSnapshot(b.snapshotId) && !await Sandbox.deleteSnapshot(a.snapshotId), 'delete')
  must((await Sandbox.listSnapshots().nextItems()).length == 0, 'left')
})
if (s.fork) await step('fork', async () => {
  await s.files.write('f.txt', 'parent')
  const h = await s.commands.run('sleep 60', { background: true })
  const forks = await s.fork({ count: 2, timeoutMs: 60_000 })
  must(forks.length == 2 && forks.every(f => f instanceof Sandbox && f.sandboxId != s.sandboxId), JSON.stringify(forks))
  for (const f of forks) {
    must(await f.files.read('f.txt') == 'parent', 'content'); await f.files.write('f.txt', f.sandboxId)
    must((await f.getInfo()).endAt - Date.now() < 61_000, 'end'); must(!(await f.commands.list()).length, 'programs')
  }
  must(await forks[0].files.read('f.txt') == forks[0].sandboxId && await s.files.read('f.txt') == 'parent', 'apart')
  must((await s.commands.list()).some(p => p.pid == h.pid), 'the program of the parent'); await h.kill()
  must((await Sandbox.listSnapshots().nextItems()).length == 0, 'a snapshot is left')
  for (const f of forks) must(await f.kill(), 'kill')
})
await step('what is not supported', async () => { for (const fn of [() => Sandbox.create({ mcp: { a: {} } })]) { const e = await refused(fn); must(/501|not supported/.test(e.message), e.message) } })
await step('another tenant', async () => {
  const o = { apiKey: process.env.OTHER_KEY }
  must((await Sandbox.list(o).nextItems()).length == 0, 'listed'); must(await Sandbox.kill(s.sandboxId, o) === false, 'kill'); await refused(() => Sandbox.connect(s.sandboxId, o)); must(await s.isRunning(), 'running')
  const kept = await s.createSnapshot()
  must((await Sandbox.listSnapshots(o).nextItems()).length == 0 && !await Sandbox.deleteSnapshot(kept.snapshotId, o), 'snapshots'); await refused(() => Sandbox.createSnapshot(s.sandboxId, o)); await refused(() => Sandbox.create(kept.snapshotId, o))
  must(await Sandbox.deleteSnapshot(kept.snapshotId), 'the own one')
  const x = await Sandbox.create(o); must((await x.commands.run('ls /workspace')).stdout == '', 'workspace')
  const r = await fetch(process.env.E2B_SANDBOX_URL + '/files?path=u.txt', { headers: { 'E2b-Sandbox-Id': s.sandboxId, 'X-Access-Token': x.envdAccessToken } }); must(r.status == 401, 'access ' + r.status)
  await x.kill()
})
await step('a wrong key', async () => must((await refused(() => Sandbox.create({ apiKey: 'e2b_' + '00'.repeat(20) }))).name == 'AuthenticationError', 'error'))
await step('kill', async () => { must(await s.kill(), 'kill'); must(await Sandbox.kill(s.sandboxId) === false, 'again'); must(!await s.isRunning(), 'running'); await refused(() => s.commands.run('true')); must((await refused(() => s.files.exists('a'))).name != 'AssertionError', 'exists') })
process.exit(failed ? 1 : 0)
