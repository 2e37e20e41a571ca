import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, readlinkSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { BusyError, Client, NotFoundError, PermissionDeniedError, SandboxError, UnavailableError, ValidationError, type CodeStreamEvent, type WatchEvent } from '@bulkhead/sandbox'
import type { Copied } from '@bulkhead/sandbox'
import { client, fails, folder, own, program, until } from './rig.js'

const inner: string = '../dist/esm/tar.js'
const { unpack } = (await import(inner)) as { unpack(tar: AsyncIterable<Uint8Array>, folder: string): Promise<Copied> }
process.env['SDK_TEST_SECRET'] = 'the secret value'
const c = await client({ daemon: { create: { allowedDomains: ['example.com'] } } })
const sb = await c.open('more', { network: { allowedDomains: ['example.com'] } })

test('a watch reports what changes', async () => {
  await sb.files.mkdir('watched/below', { parents: true })
  const watch = sb.files.watch('watched')
  const next = async (): Promise<WatchEvent> => {
    const { done, value } = await watch.next()
    assert.equal(done, false)
    return value as WatchEvent
  }
  assert.equal((await next()).event, 'ready')
  await sb.run('echo 1 >"é x"; mv "é x" y; rm y; mkdir below/z', { cwd: '/workspace/watched', check: true })
  const seen: string[] = []
  while (!seen.includes('create below/z')) {
    const e = await next()
    if (e.event === 'change') seen.push(`${e.kind} ${e.name}${e.to === undefined ? '' : ` ${e.to}`}`)
  }
  for (const one of ['create é x', 'write é x', 'rename é x y', 'remove y']) assert.ok(seen.includes(one), `${one} in ${seen.join()}`)
  await watch.return()
  await fails(sb.files.watch('missing').next(), NotFoundError)
  const flat = sb.files.watch('watched', { recursive: false })
  assert.equal((await flat.next()).value?.event, 'ready')
  await sb.run('mkdir watched/below/no watched/yes', { check: true })
  const first = (await flat.next()).value
  assert.equal(first?.event === 'change' && first.name, 'yes')
  await flat.return()
})

test('folders go in and come out', async (t) => {
  const from = folder()
  const long = 'long-'.repeat(40)
  const files: Record<string, Uint8Array | string> = {
    'a.txt': 'a', 'empty': '', 'é/😀.txt': 'unicode', [`deep/${long}/${long}`]: 'long', 'bin': new Uint8Array(1_000_001).fill(9), ' lead': 'x', 'a?b#c%': 'y', ['x'.repeat(100)]: 'hundred', ['x'.repeat(101)]: 'more',
  }
  for (const [name, data] of Object.entries(files)) {
    mkdirSync(dirname(join(from, name)), { recursive: true })
    writeFileSync(join(from, name), data)
  }
  mkdirSync(join(from, 'nothing'))
  chmodSync(join(from, 'a.txt'), 0o750)
  symlinkSync('a.txt', join(from, 'link'))
  symlinkSync('../a.txt', join(from, 'é', 'up'))
  symlinkSync('/etc/passwd', join(from, 'out'))
  spawnSync('mkfifo', [join(from, 'pipe')])
  await t.test('there and back', async () => {
    const up = await sb.files.upload(from, 'tree')
    assert.deepEqual([up.files, up.links, up.left.map((one) => one.path).sort()], [Object.keys(files).length, 2, ['out', 'pipe']])
    assert.equal(await sb.files.readText('tree/é/😀.txt'), 'unicode')
    assert.equal((await sb.files.stat('tree/a.txt')).mode, '0750')
    const to = join(folder(), 'new', 'place')
    const down = await sb.files.download('tree', to)
    assert.deepEqual([down.files, down.links, down.left.length], [up.files, 2, 0])
    for (const [name, data] of Object.entries(files)) assert.deepEqual(readFileSync(join(to, name)), Buffer.from(data as string), name)
    assert.deepEqual([readlinkSync(join(to, 'link')), readlinkSync(join(to, 'é', 'up'))], ['a.txt', '../a.txt'])
    assert.ok(statSync(join(to, 'nothing')).isDirectory())
    assert.equal(statSync(join(to, 'a.txt')).mode & 0o777, 0o750)
    await sb.files.download('tree', to)
    assert.equal(readFileSync(join(to, 'a.txt'), 'utf8'), 'a')
  })
  await t.test('one file', async () => {
    const up = await sb.files.upload(join(from, 'bin'), 'one/bin')
    assert.deepEqual([up.files, up.bytes], [1, 1_000_001])
    const to = join(folder(), 'bin')
    await sb.files.download('one/bin', to)
    assert.equal(readFileSync(to).length, 1_000_001)
    await fails(sb.files.download('one/bin', dirname(to)), ValidationError, { field: 'local' })
    await fails(sb.files.download('missing', to), NotFoundError)
    await fails(sb.files.upload(join(from, 'missing'), 'x'), NotFoundError, { field: 'local', reason: 'ENOENT' })
    await fails(sb.files.download('one/bin', '/no/such/folder/x'), NotFoundError, { field: 'local' })
    await fails(sb.files.upload(join(from, 'pipe'), 'x'), ValidationError, { field: 'local' })
  })
  await t.test('a hostile tree stays in its folder', async () => {
    await sb.run('mkdir -p evil/d; cd evil; ln -s d one; ln -s /etc abs; ln -s ../../../../../../tmp up; echo x >d/f; ln -s one/../.. chain', { check: true })
    const to = folder()
    mkdirSync(join(to, 'in'))
    symlinkSync(to, join(to, 'in', 'd'))
    const down = await sb.files.download('evil', join(to, 'in'))
    assert.ok(down.left.some((one) => one.path === 'd/f'), JSON.stringify(down.left))
    assert.equal(existsSync(join(to, 'f')), false)
    for (const name of ['abs', 'up', 'chain']) assert.equal(lstatSync(join(to, 'in', name), { throwIfNoEntry: false }), undefined, name)
  })
  await t.test('archives that no daemon sends', async () => {
    const tar = (name: string, type: string, link = '', body = ''): Buffer => {
      const b = Buffer.alloc(512 + Math.ceil(body.length / 512) * 512)
      b.write(name, 0)
      b.write('0000644\0', 100)
      b.write(`${body.length.toString(8).padStart(11, '0')}\0`, 124)
      b.write('00000000000\0', 136)
      b.write('        ', 148)
      b.write(type, 156)
      b.write(link, 157)
      b.write('ustar\x0000', 257)
      let sum = 0
      for (const byte of b.subarray(0, 512)) sum += byte
      b.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
      b.write(body, 512)
      return b
    }
    const end = Buffer.alloc(1024)
    const to = join(folder(), 'root')
    const done = await unpack((async function* () {
      yield Buffer.concat([tar('../out', '0', '', 'x'), tar('/abs', '0', '', 'x'), tar('a/../../out', '0', '', 'x'), tar('s', '2', '..'), tar('l', '2', '.'), tar('l/x', '0', '', 'x'), tar('h', '1', '/etc/passwd'), tar('dev', '3'), tar('good', '0', '', 'good'), end])
    })(), to)
    assert.deepEqual([done.files, done.links, done.left.map((one) => one.path)], [1, 1, ['../out', '/abs', 'a/../../out', 's', 'l/x', 'h', 'dev']])
    assert.deepEqual([readFileSync(join(to, 'good'), 'utf8'), existsSync(join(to, '..', 'out'))], ['good', false])
    for (const [why, data] of Object.entries({ cut: tar('x', '0', '', 'y').subarray(0, 600), 'no end': tar('x', '0', '', 'y'), sum: Buffer.alloc(512, 1), nothing: Buffer.alloc(0) })) {
      await fails(unpack((async function* () { yield data })(), join(to, why)), UnavailableError)
    }
  })
})

test('ports', async (t) => {
  await sb.start(['python3', '-u', '-c', 'import socket\ns=socket.create_server(("127.0.0.1",8731))\nwhile True:\n c,_=s.accept()\n n=0\n while (d:=c.recv(65536)): n+=len(d); c.sendall(d)\n c.sendall(b"|%d"%n); c.close()'])
  await sb.start(['python3', '-m', 'http.server', '--bind', '127.0.0.1', '8732'])
  await until(async () => (await sb.ports.list()).filter((one) => one.port === 8731 || one.port === 8732).length === 2, 'the servers')
  await t.test('a connection goes both ways, and ends in each', async () => {
    const connection = await sb.ports.connect(8731)
    const sent = Buffer.alloc(3_000_000, 'é')
    connection.end(sent)
    const parts: Buffer[] = []
    for await (const data of connection) {
      parts.push(data as Buffer)
      if (parts.length < 4) await new Promise((resolve) => setTimeout(resolve, 50))
    }
    assert.ok(Buffer.concat(parts).equals(Buffer.concat([sent, Buffer.from('|3000000')])))
    const left = await sb.ports.connect(8731)
    left.destroy()
    await new Promise((resolve) => left.once('close', resolve))
  })
  await t.test('an agent of HTTP takes it', async () => {
    const socket = await sb.ports.connect(8732)
    const status = await new Promise((resolve, reject) => http.get({ createConnection: () => socket as never, path: '/' }, (answer) => resolve(answer.resume().statusCode)).on('error', reject))
    assert.equal(status, 200)
  })
  await t.test('by path', async () => {
    const { url, headers, socketPath } = sb.ports.url(8732)
    assert.match(url, new RegExp(`/v1/sandboxes/${sb.name}/ports/8732/$`))
    const status = await new Promise((resolve, reject) => http.get(url, { headers: { ...headers }, ...(socketPath === undefined ? {} : { socketPath }) }, (answer) => resolve(answer.resume().statusCode)).on('error', reject))
    assert.equal(status, 200)
  })
  await t.test('links', async () => {
    const share = await sb.ports.share(8732, { ttl: 60 })
    assert.match(share.url, /8732-/)
    assert.ok(share.secret)
    assert.deepEqual((await sb.ports.shares()).map((one) => [one.id, 'secret' in one]), [[share.id, false]])
    await sb.ports.revoke(share.id)
    assert.deepEqual(await sb.ports.shares(), [])
    await fails(sb.ports.revoke(share.id), NotFoundError)
  })
  await t.test('what is no port, or not there', async () => {
    await fails(sb.ports.connect(9), UnavailableError)
    for (const port of [0, 65536, 1.5, NaN]) await fails(sb.ports.connect(port), ValidationError, { field: 'port' })
  })
})

test('rules for the network', async () => {
  assert.equal((await sb.network.set({ allowedDomains: [] })).name, sb.name)
  await fails(sb.network.set({ allowedDomains: ['more.example'] }), SandboxError, { code: 'SANDBOX.CAPABILITY_BLOCKED' })
})

test('secrets', async () => {
  const own = await c.open('secrets', { keep: false, secrets: { SDK_TEST_SECRET: ['api.example.com'] }, settings: { network: { allowedDomains: ['api.example.com'] } } })
  const { stdout } = await own.run('printf %s "$SDK_TEST_SECRET"')
  assert.ok(stdout !== '' && stdout !== 'the secret value', stdout)
  await own.close()
  await fails(c.open('secrets2', { secrets: { NOPE: ['http://'] } }), ValidationError)
})

test('tools', async () => {
  const exec = (await sb.tools.list()).find((one) => one.name === 'exec')
  assert.equal((exec?.inputSchema as { type?: string } | undefined)?.type, 'object')
  const answer = await sb.tools.call('exec', { command: 'echo hi; exit 3' })
  assert.equal(answer.failed, true)
  assert.match(answer.text, /hi/)
  let lines = 0
  const same = await sb.tools.call('exec', { command: 'for i in 1 2 3; do echo $i; sleep 0.7; done' }, { onProgress: (p) => void (lines = p.lines) })
  assert.match(same.text, /1\n2\n3/)
  assert.ok(lines > 0)
  await fails(sb.tools.call('exec', { nonsense: true }), ValidationError)
})

test('code without a kernel is reported', async () => {
  await fails(sb.runCode('1 + 1'), SandboxError, { code: 'SANDBOX.UNSUPPORTED' })
  await fails(sb.runCode('1 + 1', { onEvent: () => undefined }), SandboxError, { code: 'SANDBOX.UNSUPPORTED' })
  await fails(sb.contexts.list(), SandboxError)
})

const images = (process.env['SANDBOX_TEST_IMAGES'] ?? '').split(',')

test('code in a kernel', { skip: !images.includes('code') && 'SANDBOX_TEST_IMAGES does not name code' }, async () => {
  const d = await client({ sandbox: { provider: 'docker', docker: { image: 'sandbox-code:bookworm-slim' } } })
  const box = await d.open('code', { keep: false })
  try {
    const run = await box.runCode('x = 6; print("out"); x * 7')
    assert.deepEqual([run.stdout, run.results[0]?.text, run.error], ['out\n', '42', undefined])
    const events: CodeStreamEvent[] = []
    const same = await box.runCode('print("é"); x', { onEvent: (e) => void events.push(e) })
    assert.deepEqual([same.stdout, same.results[0]?.text, events.at(-1)?.type], ['é\n', '6', 'done'])
    assert.equal((await box.runCode('1/0', { onEvent: () => undefined })).error?.name, 'ZeroDivisionError')
    const context = await box.contexts.create({ language: 'python' })
    assert.equal((await box.runCode('x', { context })).error?.name, 'NameError')
    assert.ok((await box.contexts.list()).some((one) => one.id === context.id))
    await box.contexts.restart(context.id)
    await box.contexts.delete(context.id)
    await fails(box.runCode('1', { context }), NotFoundError)
    assert.equal((await box.runCode('import time; time.sleep(60)', { timeout: 1 })).timedOut, true)
    for await (const e of box.streamCode('print("a", flush=True); time.sleep(60)')) if (e.type === 'stdout') break
    assert.equal((await box.runCode('"free"')).results[0]?.text, "'free'")
  } finally {
    await box.close()
  }
})

test('a browser', { skip: !images.includes('browser') && 'SANDBOX_TEST_IMAGES does not name browser' }, async () => {
  const d = await client({ sandbox: { provider: 'docker', browser: { enabled: true, allowDataUrls: true } } })
  const box = await d.open('browser', { keep: false })
  try {
    const started = await box.browser.start()
    assert.ok((await box.browser.list()).some((one) => one.name === started.name))
    await box.browser.navigate('data:text/html,<title>hi</title><input id=i><a id=a href="%23x">link</a>')
    await box.browser.wait('#a')
    await box.browser.type('#i', 'text')
    await box.browser.click('#a')
    assert.match((await box.browser.extract({ parts: ['text', 'links'] })).content?.title ?? '', /hi/)
    assert.deepEqual([...(await box.browser.screenshot()).bytes.slice(0, 4)], [0x89, 0x50, 0x4e, 0x47])
    assert.equal(Buffer.from((await box.browser.pdf()).bytes.slice(0, 4)).toString(), '%PDF')
    await box.browser.close()
    await box.browser.stop({ force: true })
  } finally {
    await box.close()
  }
})

test('approvals', async () => {
  const d = await client({ sandbox: { approvals: { mode: 'ask' }, commands: { block: ['forbidden*'] } } }).catch(() => undefined)
  assert.deepEqual(await (d ?? c).approvals.list(), [])
  await fails((d ?? c).approvals.answer('none', 'deny'), NotFoundError)
})

test('an embedded daemon', async (t) => {
  const options = own()
  const sdk = new URL('../dist/esm/index.js', import.meta.url).href
  const start = `import { Sandbox } from '${sdk}'; const sb = await Sandbox.open('e', ${JSON.stringify(options)}); console.log((await sb.run('echo up')).stdout.trim())`
  const daemons = (): string[] => spawnSync('pgrep', ['-f', `state-dir ${options.stateDir} serve`], { encoding: 'utf8' }).stdout.split('\n').filter((line) => line !== '')
  const up = (p: ReturnType<typeof program>): Promise<void> => until(() => p.out().includes('up'), 'the sandbox')
  const none = (): Promise<void> => until(() => daemons().length === 0, 'the end of the daemon')
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGINT'] as const) {
    await t.test(`ends with its program by ${signal}`, async () => {
      const p = program(`${start}; setInterval(() => {}, 1000)`)
      await up(p)
      assert.ok(daemons().length > 0)
      p.child.kill(signal)
      await p.ended
      await none()
    })
  }
  await t.test('ends with its program that does not close it, and with one that fails', async () => {
    assert.deepEqual((await program(start).ended).code, 0)
    await none()
    assert.equal((await program(`${start}; throw new Error('x')`).ended).code, 1)
    await none()
    assert.equal((await program(`${start}; process.exit(3)`).ended).code, 3)
    await none()
  })
  await t.test('is shared by clients and programs, and keeps the session', async () => {
    const [one, two] = await Promise.all([Client.open(options), Client.open(options)])
    const box = await (one as Client).open('e')
    await box.files.write('kept', 'x')
    const p = program(`${start}; console.log(await sb.files.readText('kept'))`)
    assert.equal((await p.ended).out, 'up\nx\n')
    await (one as Client).close()
    assert.equal((await (two as Client).health()).status, 'ok')
    await fails((one as Client).health(), UnavailableError)
    await (two as Client).close()
    await none()
    const again = await Client.open(options)
    assert.equal(await (await again.open('e')).files.readText('kept'), 'x')
    await again.close()
  })
  await t.test('that is killed in a call is an error, and another one takes its place', async () => {
    const d = await Client.open(options)
    const box = await d.open('e')
    const run = box.run('sleep 60')
    setTimeout(() => daemons().forEach((pid) => process.kill(Number(pid), 'SIGKILL')), 300)
    await fails(run, UnavailableError)
    await until(() => daemons().length === 0, 'its end')
    const again = await Client.open(options)
    assert.equal((await (await again.open('e')).run('echo back')).stdout, 'back\n')
    await again.close()
    await d.close()
    await none()
  })
  await t.test('a signal ends the wait for it', async () => {
    await assert.rejects(Client.open({ ...options, signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' })
    await none()
  })
})

test('classes of errors are the same in both builds', async () => {
  const { createRequire } = await import('node:module')
  const cjs = createRequire(import.meta.url)('@bulkhead/sandbox') as typeof import('@bulkhead/sandbox')
  const error = await sb.files.read('missing').catch((e: unknown) => e)
  assert.notEqual(cjs.NotFoundError, NotFoundError)
  assert.ok(error instanceof cjs.NotFoundError && error instanceof cjs.SandboxError && !(error instanceof cjs.BusyError))
  assert.ok(!(new Error('x') instanceof SandboxError) && !((undefined as unknown) instanceof BusyError) && !(error instanceof PermissionDeniedError))
  class Mine extends NotFoundError {}
  assert.ok(!(error instanceof Mine) && new Mine('SANDBOX.NOT_FOUND', 'x') instanceof Mine)
})

test('changes of a private workspace are shown, applied, undone and discarded', async () => {
  const project = folder()
  writeFileSync(join(project, 'a.txt'), 'one\n')
  const one = await c.open('private', { workspace: project, settings: { workspaceAccess: 'private' } })
  try {
    await one.run('echo two >a.txt; echo new >c.txt; mkdir .vscode; echo {} >.vscode/tasks.json', { check: true })
    assert.deepEqual((await one.changes({ paths: ['a.txt'] })).items.map((change) => change.path), ['a.txt'])
    assert.match(Buffer.from(await one.diff({ paths: ['a.txt'] })).toString(), /-one\n\+two\n/)
    const since = await one.checkpoint()
    await one.run('echo three >c.txt', { check: true })
    assert.deepEqual((await one.changes({ since })).items.map((change) => change.path), ['c.txt'])
    assert.equal((await one.apply({ dryRun: true })).applied, false)
    assert.equal((await one.apply()).problem?.code, 'SANDBOX.CAPABILITY_BLOCKED')
    assert.deepEqual((await one.discard({ paths: ['c.txt'] })).map((change) => change.path), ['c.txt'])
    const done = await one.apply({ allowRisks: ['editor'] })
    assert.ok(done.applied && existsSync(join(project, '.vscode/tasks.json')) && !existsSync(join(project, 'c.txt')))
    assert.equal(readFileSync(join(project, 'a.txt'), 'utf8'), 'two\n')
    assert.equal((await one.undo({ id: done.id })).problem, undefined)
    assert.equal(readFileSync(join(project, 'a.txt'), 'utf8'), 'one\n')
  } finally {
    await one.remove()
  }
})
