import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  BusyError,
  Client,
  CommandError,
  DeniedError,
  ExecutionError,
  NotFoundError,
  PermissionDeniedError,
  Sandbox,
  SandboxError,
  UnavailableError,
  ValidationError,
} from '@bulkhead/sandbox'
import { client, fails, folder, until } from './rig.js'

const c = await client({ sandbox: { evidence: { commands: true } }, daemon: { create: { env: ['GREETING'] } } })
const sb = await c.open('core')
const url = `unix:${sb.ports.url(1).socketPath}`

test('run', async (t) => {
  await t.test('a string is a line, a list is a program', async () => {
    const line = await sb.run('echo $((6 * 7)); echo no >&2; exit 3')
    assert.deepEqual([line.exitCode, line.stdout, line.stderr, line.ok], [3, '42\n', 'no\n', false])
    const list = await sb.run(['printf', '%s|', '$HOME', '', 'a b', 'é😀'])
    assert.equal(list.stdout, '$HOME||a b|é😀|')
    assert.equal((await sb.run(['no-such-program'])).exitCode, 127)
  })
  await t.test('folder, variables and input', async () => {
    const r = await sb.run('pwd; echo "$A"; cat', { cwd: '/tmp', env: { A: 'ü b' }, stdin: 'in\0put' })
    assert.equal(r.stdout, '/tmp\nü b\nin\0put')
    assert.equal((await sb.run('cat', { stdin: new Uint8Array([0, 255, 10]) })).stdoutBytes.join(), '0,255,10')
    assert.equal((await sb.run('cat', { stdin: (async function* () { yield 'a'; yield Buffer.from('b') })() })).stdout, 'ab')
    assert.equal((await sb.run('cat', { stdin: '' })).stdout, '')
    const most = 'x'.repeat(1 << 20)
    assert.equal((await sb.run('wc -c', { stdin: most })).stdout.trim(), String(1 << 20))
    await fails(sb.run('cat', { stdin: `${most}x` }), ValidationError, { field: 'stdin' })
  })
  await t.test('bytes that are no text', async () => {
    const r = await sb.run("printf 'a\\377'")
    assert.deepEqual([r.stdout, r.stdoutBytes], ['a\ufffd', new Uint8Array([97, 255])])
    assert.deepEqual((await sb.run("printf '\\357\\273\\277é'")).stdoutBytes, new Uint8Array([0xef, 0xbb, 0xbf, 0xc3, 0xa9]))
  })
  await t.test('a time limit', async () => {
    const r = await sb.run('sleep 30', { timeout: 0.3 })
    assert.deepEqual([r.timedOut, r.exitCode === 0], [true, false])
    await fails(sb.run('true', { timeout: -1 }), ValidationError, { field: 'timeout' })
    await fails(sb.run('true', { timeout: NaN }), ValidationError, { field: 'timeout' })
  })
  await t.test('check', async () => {
    await assert.rejects(sb.run('echo out; echo why >&2; exit 4', { check: true }), (error: unknown) => {
      assert.ok(error instanceof CommandError && error instanceof ExecutionError)
      assert.deepEqual([error.code, error.result.exitCode, error.result.stdout], ['TOOL.EXECUTION_FAILED', 4, 'out\n'])
      assert.match(error.message, /status 4: why/)
      return true
    })
    assert.equal((await sb.run('true', { check: true })).exitCode, 0)
  })
  await t.test('what is no command', async () => {
    for (const command of ['', [], undefined, 7]) await fails(sb.run(command as never), ValidationError, { field: 'command' })
    await fails(sb.run('echo \ud800'), ValidationError, { code: 'SCHEMA.VALIDATION_FAILED' })
    await fails(sb.run(['echo', '\udc00x']), ValidationError, { code: 'SCHEMA.VALIDATION_FAILED' })
    assert.equal((await sb.run(['printf', '%s', '\\ud800 \\\\ud800'])).stdout, '\\ud800 \\\\ud800')
    await fails(sb.run(['a\0b']), DeniedError, { status: 403 })
  })
  await t.test('what a rule denies', async () => {
    await fails(sb.run('rm -rf /'), SandboxError, { code: 'POLICY.DENY_TOOL', status: 403, field: 'critical-path' })
  })
})

test('files', async (t) => {
  const { files } = sb
  await t.test('every content comes back', async () => {
    for (const data of ['', 'text', 'é😀\n', new Uint8Array(0), new Uint8Array([0, 1, 255]), new Uint8Array(300_000).fill(7)]) {
      await files.write('content', data)
      assert.deepEqual(await files.read('content'), typeof data === 'string' ? new TextEncoder().encode(data) : data)
    }
    await files.write('streamed', (async function* () { yield 'a'; yield new Uint8Array([0, 200]) })())
    assert.deepEqual(await files.read('streamed'), new Uint8Array([97, 0, 200]))
    await files.write('web', new Blob(['from ', 'a blob']).stream())
    assert.equal(await files.readText('web'), 'from a blob')
  })
  await t.test('a huge file', async () => {
    const piece = new Uint8Array(1 << 20).map((_, i) => i * 7)
    const size = 24
    const made = await files.write('huge', (async function* () { for (let i = 0; i < size; i++) yield piece })())
    assert.equal(made.size, size << 20)
    let got = 0
    for await (const data of files.readStream('huge')) {
      for (let i = 0; i < data.length; i += 4099) assert.equal(data[i], piece[(got + i) % piece.length])
      got += data.length
    }
    assert.equal(got, size << 20)
    assert.deepEqual(await files.read('huge', { offset: (3 << 20) - 2, length: 5 }), new Uint8Array([...piece.slice(-2), ...piece.slice(0, 3)]))
    await fails(files.read('huge', { offset: size << 20 }), SandboxError, { status: 416 })
    await files.remove('huge')
  })
  await t.test('parts', async () => {
    await files.write('part', '0123456789')
    assert.equal(await files.readText('part', { offset: 3 }), '3456789')
    assert.equal(await files.readText('part', { length: 4 }), '0123')
    assert.equal(await files.readText('part', { offset: 8, length: 100 }), '89')
    assert.equal(await files.readText('part', { length: 0 }), '')
    await fails(files.read('part', { offset: -1 }), ValidationError, { field: 'offset' })
  })
  await t.test('names that mean something in an address', async () => {
    for (const name of ['a?b', 'a#b', '100%', '%2e%2e', 'a b', ' lead', 'a+b', 'a&b=c', 'a;b', 'q"\'`', 'back\\slash', 'tab\tx', 'line\nx', 'é😀', '-x', '*', 'a:b', '...']) {
      const at = `names/${name}`
      await files.write(at, name)
      assert.equal(await files.readText(at), name, name)
      assert.equal((await files.stat(at)).name, name)
      assert.equal(await files.readText(`/workspace/./names//x/../${name}`), name)
    }
    assert.equal((await files.list('names')).length, 18)
    await fails(files.read('half\ud800'), ValidationError, { field: 'path' })
    await fails(files.write('x', '\ud800'), ValidationError, { field: 'body' })
    await fails(files.read('zero\0'), NotFoundError, {})
    await fails(files.read(7 as never), ValidationError, { field: 'path' })
    await fails(files.read('../../etc/passwd'), SandboxError, { status: 403 })
  })
  await t.test('a folder with several pages', async () => {
    await sb.run('mkdir many; cd many; i=0; while [ $i -lt 1234 ]; do : >f$i; i=$((i+1)); done', { check: true })
    const names = (await files.list('many')).map((one) => one.name)
    assert.equal(new Set(names).size, 1234)
    await files.remove('many', { recursive: true })
    assert.equal(await files.exists('many'), false)
  })
  await t.test('what is exclusive, and entity tags', async () => {
    const made = await files.write('once', 'a', { exclusive: true, mode: 0o750 })
    assert.deepEqual([made.created, (await files.stat('once')).mode], [true, '0750'])
    await fails(files.write('once', 'b', { exclusive: true }), BusyError, { status: 412 })
    await files.write('once', 'c', { etag: made.etag })
    await fails(files.write('once', 'd', { etag: made.etag }), BusyError, { status: 412 })
    assert.equal(await files.readText('once'), 'c')
  })
  await t.test('folders, links, moves and searches', async () => {
    await files.mkdir('d/e', { parents: true })
    await fails(files.mkdir('no/such'), NotFoundError, {})
    await files.write('d/e/x.py', '1')
    await files.symlink('d/e/x.py', 'link.py')
    assert.deepEqual([(await files.stat('link.py')).type, (await files.stat('link.py', { follow: true })).type], ['symlink', 'file'])
    assert.equal((await files.stat('link.py')).target, 'd/e/x.py')
    await files.symlink('nowhere', 'dangling')
    assert.equal(await files.exists('dangling'), true)
    await files.move('d/e/x.py', 'd/y.py')
    assert.deepEqual([await files.exists('d/e/x.py'), await files.exists('d/y.py')], [false, true])
    await files.write('d/z.py', '2')
    await fails(files.move('d/y.py', 'd/z.py', { overwrite: false }), BusyError, {})
    assert.deepEqual((await files.glob('d/**/*.py')).paths.sort(), ['/workspace/d/y.py', '/workspace/d/z.py'])
    await fails(files.remove('d'), SandboxError, {})
    await files.remove('d', { recursive: true })
    await fails(files.remove('d'), NotFoundError, { field: 'path', status: 404 })
  })
  await t.test('what is not there', async () => {
    await fails(files.read('missing'), NotFoundError, { code: 'SANDBOX.NOT_FOUND', field: 'path', status: 404 })
    await fails(files.readStream('missing').next(), NotFoundError, {})
    await fails(files.list('missing'), NotFoundError, {})
    assert.equal(await files.exists('missing/below'), false)
  })
  await t.test('a source that fails', async () => {
    await files.write('before', 'old')
    const source = (async function* () { yield 'new'; throw new Error('the source is empty') })()
    await fails(files.write('before', source), ExecutionError, { field: 'body' })
    assert.equal(await files.readText('before'), 'old')
    await fails(files.write('before', [1, 2] as never), ValidationError, { field: 'body' })
    assert.equal(await files.readText('before'), 'old')
  })
})

test('life of a sandbox', async (t) => {
  await t.test('a session finds its sandbox again', async () => {
    const again = await c.open('core')
    assert.equal(again.name, sb.name)
    assert.equal((await again.info()).session, 'core')
    await again.close()
    assert.equal((await sb.run('true')).exitCode, 0)
  })
  await t.test('one without a session is removed at the end', async () => {
    let name: string
    {
      await using own = await c.open()
      name = own.name
      assert.notEqual(name, sb.name)
      await own.files.write('x', 'y')
      const other = await c.open()
      assert.notEqual(other.name, name)
      await other.close()
    }
    await fails(c.sandbox(name), NotFoundError, { status: 404 })
  })
  await t.test('keep decides', async () => {
    const gone = await c.open('gone', { keep: false })
    await gone.close()
    await fails(Sandbox.connect(gone.name, { client: c }), NotFoundError, {})
    await gone.remove()
    const kept = await c.open(undefined, { keep: true })
    await kept.close()
    const found = await Sandbox.connect(kept.name, { client: c, keep: false })
    assert.deepEqual([found.session, found.name], [kept.session, kept.name])
    assert.equal((await found.run('echo hi')).stdout, 'hi\n')
    await found.close()
  })
  await t.test('labels, list, usage, end', async () => {
    await using own = await c.open('labelled', { labels: { team: 'réd' }, env: { GREETING: 'hello' }, timeout: 3600, keep: false })
    assert.equal((await own.run('echo $GREETING')).stdout, 'hello\n')
    const found: string[] = []
    for await (const one of c.sandboxes({ labels: { team: 'réd' } })) found.push(one.name)
    assert.deepEqual(found, [own.name])
    for await (const one of c.sandboxes({ labels: { team: 'blue' } })) assert.fail(one.name)
    assert.ok((await own.info()).expiresAt)
    assert.equal((await own.usage()).name, own.name)
    assert.ok((await c.usage()).some((one) => one.name === own.name))
    await own.setTimeout(7200)
    await own.extend(600)
    assert.equal((await own.pause()).status, 'paused')
    assert.equal((await own.resume()).status, 'running')
    await own.files.write('stays', 'x')
    await own.recreate({ force: true })
    assert.equal(await own.files.readText('stays'), 'x')
  })
  await t.test('settings of a call', async () => {
    await using own = await c.open('set', { keep: false, settings: { commands: { block: ['blöcked*'] } } })
    await fails(own.run(['blöcked', 'x']), SandboxError, { code: 'POLICY.DENY_TOOL' })
    await fails(c.open('set2', { settings: { nonsense: 1 } }), ValidationError, {})
    await fails(c.open('set3', { settings: { x: 'y'.repeat(30_000) } }), ValidationError, { field: 'settings' })
  })
})

test('a client', async (t) => {
  await t.test('health, readiness, raw requests', async () => {
    assert.equal((await c.health()).status, 'ok')
    assert.equal((await c.ready()).ready, true)
    assert.ok((await c.request<{ openapi?: string }>({ method: 'GET', path: '/openapi.json' })).openapi)
    await fails(c.request({ method: 'GET', path: '/v1/nothing' }), SandboxError, { code: 'SANDBOX.NOT_FOUND', status: 404 })
    await fails(c.request({ method: 'GET', path: '/v1 x' }), ValidationError, { field: 'path' })
  })
  await t.test('tokens, and those they are made for', async () => {
    const made = await c.tokens.create({ role: 'tenant', tenant: 'acme', ttlSeconds: 600 })
    assert.ok((await c.tokens.list()).some((one) => one.id === made.id))
    assert.equal((await c.tokens.get(made.id)).tenant, 'acme')
    await using other = await Client.open({ url, token: made.secret })
    await fails(other.sandbox(sb.name), NotFoundError, {})
    await using theirs = await other.open()
    assert.equal((await theirs.run('echo hi')).stdout, 'hi\n')
    assert.equal((await theirs.info()).tenant, 'acme')
    await fails(other.for({ tenant: 'globex' }).open('x'), PermissionDeniedError, { status: 403 })
    await theirs.close()
    assert.deepEqual([...(await c.tokens.revoke(made.id))], [made.id])
    await fails(other.sandbox(sb.name), PermissionDeniedError, { status: 401 })
  })
  await t.test('wrong addresses and tokens are refused before anything is sent', async () => {
    for (const url of ['', 'box.sock', 'unix:box.sock', 'ftp://x', 'tcp:localhost', 'http://u:p@h', 'http://h/x', 'https://', 'unix:']) {
      await fails(Client.open({ url }), ValidationError, { field: 'url' })
    }
    for (const token of ['a\nb', 'a b', 'a\r\nX: y', 'é', '']) await fails(Client.open({ url: 'http://127.0.0.1:1', token }), ValidationError, { field: 'token' })
    await fails(Client.open({ url: 'http://192.0.2.1:8421', token: 'x' }), ValidationError, { field: 'url' })
    await fails(Client.open({ url: 'http://127.0.0.1:1' }), UnavailableError, { retryable: true })
    await fails(Client.open({ url: `unix:${join(folder(), 'none')}` }), UnavailableError, {})
    assert.throws(() => c.for({ tenant: 'a\nb' }), ValidationError)
  })
  await t.test('without a daemon', async () => {
    const { SANDBOX_BINARY, SANDBOX_SERVER, PATH } = process.env
    try {
      delete process.env.SANDBOX_SERVER
      delete process.env.SANDBOX_BINARY
      process.env.PATH = '/nowhere'
      await fails(Sandbox.open(), UnavailableError, { field: 'url' })
      process.env.SANDBOX_BINARY = '/nowhere/sandbox'
      await fails(Sandbox.open(), UnavailableError, { field: 'SANDBOX_BINARY' })
      const bad = join(folder(), 'bad.json')
      writeFileSync(bad, '{"nonsense": 1}')
      await fails(Client.open({ binary: SANDBOX_BINARY as string, config: bad, stateDir: folder() }), UnavailableError, { resource: SANDBOX_BINARY })
    } finally {
      Object.assign(process.env, { SANDBOX_BINARY, PATH }, SANDBOX_SERVER === undefined ? {} : { SANDBOX_SERVER })
    }
  })
  await t.test('a closed client', async () => {
    const other = await Client.open({ url })
    const box = await other.open('core')
    await other.close()
    await other.close()
    await fails(box.run('true'), UnavailableError, {})
  })
})

test('the sandbox of an embedded daemon is there for the next program', async () => {
  assert.equal(await sb.files.exists('streamed'), true)
})

test('records', async () => {
  await until(async () => {
    for await (const one of c.violations({ sandbox: sb.name })) if (one.rule !== undefined) return true
    return false
  }, 'a violation')
  let n = 0
  for await (const one of c.evidence({ limit: 5 })) {
    assert.ok(one.type)
    n++
  }
  assert.ok(n > 0 && n <= 5)
})

test('the version is that of all clients', () => {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
  assert.equal(version, readFileSync(new URL('../../VERSION', import.meta.url), 'utf8').trim())
})
