import assert from 'node:assert/strict'
import { createServer, connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { Client, CommandError, NotFoundError, Sandbox, SandboxError, UnavailableError, ValidationError, type StreamEvent } from '@bulkhead/sandbox'
import { client, fails, program, until } from './rig.js'

const c = await client()
const sb = await c.open('streams')
const socketPath = sb.ports.url(1).socketPath as string

/** What came of a stream, with adjacent pieces joined. */
async function all(events: AsyncIterable<StreamEvent>): Promise<string[]> {
  const out: string[] = []
  let last = ''
  for await (const e of events) {
    const text = e.type === 'stdout' || e.type === 'stderr' ? e.text : e.type === 'exit' ? String(e.exitCode) : ''
    if (e.type === last) out.push(out.pop() + text)
    else out.push(`${e.type} ${text}`)
    last = e.type
  }
  return out
}

/** A connection to the daemon through another address, that can be cut. */
async function relay(): Promise<{ client: Client; cut(): void; open(): number; cutAfter(bytes: number): void; refuse(on: boolean): void }> {
  const live = new Set<Socket>()
  let left = Infinity
  let refused = false
  const server = createServer((near) => {
    if (refused) {
      near.destroy()
      return
    }
    const far = connect(socketPath)
    for (const s of [near, far]) {
      live.add(s)
      s.on('error', () => undefined)
      s.on('close', () => {
        live.delete(s)
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far)
    far.on('data', (data: Buffer) => {
      left -= data.length
      if (left < 0) {
        left = Infinity
        near.write(data.subarray(0, data.length >> 1), () => near.destroy())
      } else if (!near.write(data)) {
        far.pause()
        near.once('drain', () => far.resume())
      }
    })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  after(() => server.close())
  const { port } = server.address() as { port: number }
  const token = await c.tokens.create({ role: 'admin', ttlSeconds: 600 })
  const made = await Client.open({ url: `http://127.0.0.1:${port}`, token: token.secret })
  after(() => made.close())
  return {
    client: made,
    cut: () => live.forEach((s) => s.destroy()),
    open: () => live.size / 2,
    cutAfter: (bytes) => (left = bytes),
    refuse: (on) => (refused = on),
  }
}

test('events come in order', async () => {
  assert.deepEqual(await all(sb.stream('echo a; sleep 0.2; echo b >&2; sleep 0.2; echo c; exit 3')), ['stdout a\n', 'stderr b\n', 'stdout c\n', 'exit 3'])
  assert.deepEqual(await all(sb.stream(['true'])), ['exit 0'])
  assert.deepEqual(await all(sb.stream('cat', { stdin: 'é😀' })), ['stdout é😀', 'exit 0'])
})

test('a character that is cut comes as a whole', async () => {
  const got = []
  for await (const e of sb.stream("printf '\\360\\237'; sleep 0.3; printf '\\230\\200'; printf 'x' >&2")) if (e.type === 'stdout') got.push([e.text, e.data.length])
  assert.deepEqual(got, [['', 2], ['😀', 2]])
})

test('output is passed on as it comes, and kept', async () => {
  const seen: string[] = []
  const r = await sb.run('echo a; sleep 0.2; echo b >&2; sleep 0.2; echo c; exit 2', { onStdout: (text) => void seen.push(`1${text}`), onStderr: (text, data) => void seen.push(`2${text}${data.length}`) })
  assert.deepEqual(seen, ['1a\n', '2b\n2', '1c\n'])
  assert.deepEqual([r.exitCode, r.stdout, r.stderr, r.stdoutSize], [2, 'a\nc\n', 'b\n', 4])
  await assert.rejects(sb.run('exit 5', { check: true, onStdout: () => undefined }), CommandError)
  await fails(sb.run('rm -rf /', { onStdout: () => undefined }), SandboxError, { code: 'POLICY.DENY_TOOL' })
  await assert.rejects(sb.run('echo x; sleep 60', { onStdout: () => Promise.reject(new Error('mine')) }), /mine/)
})

test('nothing is lost while the reader is slow', async () => {
  let bytes = 0
  let slow = 3
  for await (const e of sb.stream('head -c 20000000 /dev/zero')) {
    assert.notEqual(e.type, 'dropped')
    if (e.type !== 'stdout') continue
    bytes += e.data.length
    if (slow-- > 0) await new Promise((resolve) => setTimeout(resolve, 300))
  }
  assert.equal(bytes, 20_000_000)
})

test('a reader that leaves ends the command', async (t) => {
  const gone = (tag: string): Promise<void> => until(async () => !(await sb.run(['pgrep', '-f', `sleep ${tag}`])).ok, `the end of ${tag}`)
  await t.test('by break', async () => {
    for await (const e of sb.stream('echo a; sleep 7001')) if (e.type === 'stdout') break
    await gone('7001')
  })
  await t.test('by an error of its own', async () => {
    await assert.rejects(async () => {
      for await (const e of sb.stream('echo a; sleep 7002')) throw new Error(e.type)
    }, /stdout/)
    await gone('7002')
  })
  await t.test('by a signal, at once', async () => {
    const stop = new AbortController()
    const began = Date.now()
    await assert.rejects(async () => {
      for await (const _ of sb.stream('echo a; sleep 7003', { signal: stop.signal })) setTimeout(() => stop.abort(new Error('enough')), 50)
    }, /enough/)
    assert.ok(Date.now() - began < 30_000)
    await gone('7003')
  })
  await t.test('by return while more is awaited', async () => {
    const it = sb.stream('echo a; sleep 7004')
    await it.next()
    const more = it.next()
    await it.return()
    assert.deepEqual([await more, await it.next()], [{ done: true, value: undefined }, { done: true, value: undefined }])
    await gone('7004')
  })
  await t.test('one that was never read has not begun', async () => {
    const it = sb.stream('sleep 7005')
    await it.return()
    assert.equal((await sb.run(['pgrep', '-f', 'sleep 7005'])).ok, false)
  })
})

test('a signal ends a call', async (t) => {
  await t.test('before it', async () => {
    const reason = new Error('no')
    const signal = AbortSignal.abort(reason)
    for (const call of [
      () => sb.run('true', { signal }),
      () => sb.run('true', { signal, onStdout: () => undefined }),
      () => sb.stream('true', { signal }).next(),
      () => sb.files.read('x', { signal }),
      () => sb.files.write('x', 'y', { signal }),
      () => sb.files.write('x', (async function* () { yield 'y' })(), { signal }),
      () => sb.files.readStream('x', { signal }).next(),
      () => sb.files.watch('', { signal }).next(),
      () => sb.files.list('', { signal }),
      () => sb.start('true', { signal }),
      () => sb.shell({ signal }),
      () => sb.terminal({ signal }),
      () => sb.ports.connect(1, { signal }),
      () => sb.info({ signal }),
      () => sb.usage({ signal }),
      () => sb.tools.call('exec', { command: 'true' }, { signal }),
      () => c.health({ signal }),
      () => c.sandboxes({ signal }).next(),
      () => c.violations({ signal }).next(),
      () => c.open('aborted', { signal }),
      () => Sandbox.open('aborted', { client: c, signal }),
    ]) {
      await assert.rejects(call() as Promise<unknown>, (error) => error === reason, String(call))
    }
  })
  await t.test('during it, with what runs', async () => {
    const began = Date.now()
    await assert.rejects(sb.run('sleep 7010', { signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' })
    assert.ok(Date.now() - began < 30_000)
    await until(async () => !(await sb.run(['pgrep', '-f', 'sleep 7010'])).ok, 'the end')
    const stop = new AbortController()
    setTimeout(() => stop.abort(), 100)
    await assert.rejects(sb.files.write('half', (async function* () { yield 'a'; await new Promise((resolve) => setTimeout(resolve, 60_000).unref()); yield 'b' })(), { signal: stop.signal }), { name: 'AbortError' })
    assert.equal(await sb.files.exists('half'), false)
  })
  await t.test('leaves no listeners behind', async () => {
    const { signal } = new AbortController()
    let listeners = 0
    const { addEventListener, removeEventListener } = signal
    signal.addEventListener = (...args: [never, never]) => (listeners++, addEventListener.apply(signal, args))
    signal.removeEventListener = (...args: [never, never]) => (listeners--, removeEventListener.apply(signal, args))
    await sb.run('true', { signal })
    await sb.files.write('s', 'x', { signal })
    await sb.files.read('s', { signal })
    await sb.files.read('no such', { signal }).catch(() => undefined)
    for await (const _ of sb.stream('echo x', { signal }));
    for await (const _ of sb.stream('echo x; sleep 60', { signal })) break
    await until(() => listeners === 0, `no listeners, but ${listeners}`)
  })
})

test('two hundred calls at once', async () => {
  const r = await Promise.all(Array.from({ length: 200 }, (_, i) => (i % 2 === 0 ? sb.files.write(`at-once/${i}`, String(i)).then(() => sb.files.readText(`at-once/${i}`)) : sb.run(['echo', '-n', String(i)]).then((one) => one.stdout))))
  assert.deepEqual(r, Array.from({ length: 200 }, (_, i) => String(i)))
})

test('a connection that breaks', async (t) => {
  const r = await relay()
  const far = await r.client.open('streams')
  const command = 'i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); [ $((i % 600)) = 0 ] && sleep 0.2; done; exit 4'
  const want = Array.from({ length: 3000 }, (_, i) => `line ${i}\n`).join('')
  await t.test('a stream goes on, nothing lost and nothing twice', async () => {
    for (const after of [2_500, 6_000, 20_000]) {
      r.cutAfter(after)
      assert.deepEqual(await all(far.stream(command)), [`stdout ${want}`, 'exit 4'])
    }
    let cut: NodeJS.Timeout | undefined
    try {
      const got = await far.run(command, { onStdout: () => void (cut ??= setInterval(() => r.cut(), 150)) })
      assert.deepEqual([got.exitCode, got.stdout], [4, want])
    } finally {
      clearInterval(cut)
    }
  })
  await t.test('so does a process that is attached', async () => {
    const p = await far.start(command)
    r.cutAfter(3000)
    assert.deepEqual(await all(p), [`stdout ${want}`, 'exit 4'])
    r.cutAfter(3000)
    assert.equal((await p.wait()).stdout, want)
  })
  await t.test('what cannot go on is an error', async () => {
    const shell = await far.shell()
    const line = all(shell.stream('echo a; sleep 2; echo b'))
    setTimeout(() => r.cut(), 300)
    await fails(line, UnavailableError)
    const run = far.run('sleep 2')
    setTimeout(() => r.cut(), 300)
    await fails(run, UnavailableError)
    await far.files.write('cut', new Uint8Array(3_000_000))
    r.cutAfter(1_000_000)
    await fails(far.files.read('cut'), UnavailableError)
    r.cutAfter(1_000_000)
    await fails((async () => { for await (const _ of far.files.readStream('cut')); })(), UnavailableError)
    const watch = far.files.watch()
    assert.equal((await watch.next()).value?.event, 'ready')
    const next = watch.next()
    setTimeout(() => r.cut(), 100)
    await fails(next, UnavailableError)
  })
  await t.test('a daemon that does not come back is an error', async () => {
    const line = all(far.stream('echo a; sleep 20'))
    setTimeout(() => {
      r.refuse(true)
      r.cut()
    }, 300)
    await fails(line, UnavailableError)
    r.refuse(false)
    await until(() => r.open() === 0, 'no connections')
  })
})

test('processes', async (t) => {
  await t.test('input, output and end', async () => {
    const p = await sb.start('while read -r x; do echo "got $x"; done; sleep 0.2; echo over >&2; exit 6', { tag: 'réader', env: { A: '1' } })
    assert.ok(p.pid !== undefined && p.pid > 0)
    assert.deepEqual([p.tag, (await p.info()).state], ['réader', 'running'])
    await p.write('é\n')
    await p.write(new TextEncoder().encode('b\n'))
    await p.write((async function* () { yield 'c'; yield '\n' })())
    await p.closeStdin()
    assert.deepEqual(await all(p), ['stdout got é\ngot b\ngot c\n', 'stderr over\n', 'exit 6'])
    const r = await p.wait()
    assert.deepEqual([r.exitCode, r.stdout, r.stderr], [6, 'got é\ngot b\ngot c\n', 'over\n'])
    assert.equal((await p.info()).state, 'ended')
    await fails(p.write('x'), SandboxError)
    await fails(p.write('\ud800'), ValidationError, { field: 'data' })
  })
  await t.test('much input', async () => {
    const p = await sb.start('wc -c')
    await p.write(new Uint8Array(3_500_000))
    await p.closeStdin()
    assert.equal((await p.wait()).stdout.trim(), '3500000')
  })
  await t.test('a first input, and none', async () => {
    assert.equal((await (await sb.start('cat', { stdin: 'first' })).wait()).stdout, 'first')
    assert.equal((await (await sb.start('cat', { stdin: false })).wait()).stdout, '')
  })
  await t.test('they are found again, and leaving leaves them alone', async () => {
    const p = await sb.start('echo here; sleep 7020', { tag: 'long' })
    for await (const e of p) if (e.type === 'stdout') break
    assert.ok((await sb.processes()).some((one) => one.id === p.id))
    for (const ref of ['long', p.id, p.pid as number]) assert.equal((await sb.process(ref)).id, p.id)
    await fails(sb.process('no/such'), NotFoundError)
    await p.signal('TERM')
    const r = await p.wait()
    assert.deepEqual([r.signal ?? '', r.ok], [r.signal ?? '', false])
    const q = await sb.start('sleep 7021')
    assert.notEqual((await q.kill()).state, 'running')
    await fails(q.wait({ check: true }), CommandError)
  })
  await t.test('places in the output', async () => {
    const p = await sb.start('printf 0123456789; sleep 0.5; printf abc')
    await until(async () => (await p.info()).bytes === 10, 'its output')
    const now = all(p.stream({ from: -1 }))
    assert.deepEqual(await all(p.stream({ from: 4 })), ['stdout 456789abc', 'exit 0'])
    assert.deepEqual(await now, ['stdout abc', 'exit 0'])
    await fails(p.stream({ from: 1000 }).next(), ValidationError, { field: 'from' })
    assert.throws(() => p.stream({ from: 0.5 }), ValidationError)
  })
  await t.test('what is not kept is reported', async () => {
    const p = await sb.start('head -c 5000000 /dev/zero | tr "\\0" x; sleep 0.1')
    await until(async () => (await p.info()).state === 'ended', 'its end')
    const events: StreamEvent[] = []
    for await (const e of p) events.push(e)
    const dropped = events.reduce((n, e) => n + (e.type === 'dropped' ? e.bytes : 0), 0)
    const got = events.reduce((n, e) => n + (e.type === 'stdout' ? e.data.length : 0), 0)
    assert.ok(dropped > 0)
    assert.equal(dropped + got, 5_000_000)
    assert.equal((await p.wait()).truncated, true)
  })
  await t.test('on a terminal', async () => {
    const p = await sb.start('stty size; read x; stty size; tty >&2', { tty: { rows: 30, cols: 90 } })
    const got = all(p)
    await until(async () => (await p.info()).bytes > 0, 'its output')
    await p.resize(40, 100)
    await p.write('x\n')
    assert.match((await got).join(), /30 90[^]*40 100[^]*\/dev\/[^]*exit 0/)
  })
  await t.test('they outlive the client', async () => {
    const other = await Client.open({ url: `unix:${socketPath}` })
    const p = await (await other.open('streams')).start('sleep 0.5; echo still', { tag: 'outlives' })
    await other.close()
    assert.equal((await (await sb.process('outlives')).wait()).stdout, 'still\n')
    await fails(p.info(), UnavailableError)
  })
})

test('a shell keeps its state', async () => {
  const shell = await sb.shell({ cwd: '/tmp', env: { A: 'first' } })
  assert.equal((await shell.run('pwd; echo $A; X=1; mkdir -p below; cd below')).stdout, '/tmp\nfirst\n')
  const r = await shell.run('pwd; echo $X; cat; exit_code() { return 7; }; exit_code', { stdin: 'in' })
  assert.deepEqual([r.stdout, r.exitCode, r.restarted], ['/tmp/below\n1\nin', 7, false])
  assert.deepEqual(await all(shell.stream('echo a; sleep 0.2; echo b >&2; false')), ['stdout a\n', 'stderr b\n', 'exit 1'])
  const seen: string[] = []
  assert.equal((await shell.run('echo c', { onStdout: (text) => void seen.push(text) })).stdout, 'c\n')
  assert.deepEqual(seen, ['c\n'])
  await fails(shell.run('false', { check: true }), CommandError)
  assert.ok((await sb.shells()).some((one) => one.id === shell.id))
  assert.equal((await shell.run('(exit 3)')).exitCode, 3)
  await shell.close()
  await shell.close()
  await fails(shell.run('true'), NotFoundError)
})

test('terminals', async (t) => {
  const text = async (from: AsyncIterable<Uint8Array>, want: RegExp): Promise<string> => {
    let got = ''
    for await (const data of from) {
      got += Buffer.from(data).toString('latin1')
      if (want.test(got)) return got
    }
    throw new Error(`it ends after ${got}`)
  }
  await t.test('a shell', async () => {
    const term = await sb.terminal({ rows: 33, cols: 99 })
    await term.write('stty size; echo $((6*7))\n')
    await text(term, /33 99\r\n[^]*42\r\n/)
    await term.resize(20, 70)
    await term.write('stty size; exit 5\n')
    await text(term, /20 70\r\n/)
    assert.equal((await term.wait()).exitCode, 5)
    await fails(term.write('x'), SandboxError)
    await term.close()
  })
  await t.test('a command, much output and much input', async () => {
    const term = await sb.terminal({ command: ['sh', '-c', 'stty raw -echo; echo go; head -c 300000 | wc -c; head -c 2000000 /dev/zero | tr "\\0" y; echo end'] })
    await text(term, /go/)
    await term.write(new Uint8Array(300_000).fill(120))
    let bytes = 0
    for await (const data of term) bytes += data.length
    assert.ok(bytes > 2_000_000)
    assert.equal((await term.wait()).exitCode, 0)
  })
  await t.test('signals', async () => {
    const term = await sb.terminal({ command: ['sh', '-c', 'trap "echo trapped; exit 9" TERM; echo go; while :; do sleep 0.1; done'] })
    await text(term, /go/)
    await fails(term.signal('NONSENSE'), SandboxError)
    await term.signal('TERM')
    assert.equal((await term.wait()).exitCode, 9)
    // The end that kill causes may come before its answer.
    for (let i = 0; i < 10; i++) {
      const other = await sb.terminal({ command: 'echo go; exec sleep 7030' })
      await text(other, /go/)
      await other.kill()
      assert.equal((await other.wait()).ok, false)
    }
  })
  await t.test('one that stays is found again', async () => {
    const term = await sb.terminal({ keep: true })
    assert.ok(term.id)
    await term.write('X=kept; echo be""gun\n')
    await text(term, /begun/)
    await term.close()
    const again = await sb.terminal({ id: term.id })
    await again.write('echo $X-again\n')
    await text(again, /kept-again/)
    assert.ok((await sb.terminals()).some((one) => one.id === term.id && one.state === 'running'))
    await sb.endTerminal(term.id as string)
    await again.wait()
    assert.ok(!(await sb.terminals()).some((one) => one.id === term.id && one.state === 'running'))
    await fails(sb.terminal({ keep: true, cwd: '/' }), ValidationError, { field: 'keep' })
  })
  await t.test('what cannot begin, and a signal', async () => {
    await fails(sb.terminal({ command: 'rm -rf /' }), SandboxError, { code: 'POLICY.DENY_TOOL' })
    await fails(sb.terminal({ rows: 0 }), ValidationError, { field: 'rows' })
    await fails(sb.terminal({ id: 'none' }), NotFoundError)
    const stop = new AbortController()
    const term = await sb.terminal({ signal: stop.signal })
    setTimeout(() => stop.abort(new Error('enough')), 100)
    await assert.rejects(text(term, /never/), /enough/)
    await assert.rejects(term.wait(), /enough/)
  })
})

test('a program ends by itself', async () => {
  const open = `import { Sandbox, Client } from '${new URL('../dist/esm/index.js', import.meta.url).href}'
    const options = { url: 'unix:${socketPath}' }
    const sb = await Sandbox.open('ends', options)`
  for (const [name, text] of Object.entries({
    closed: 'await sb.run("true"); await sb.close()',
    'not closed': 'await sb.run("true"); await sb.files.write("x", "y")',
    'a stream that is left': 'for await (const e of sb.stream("echo a; sleep 60")) break',
    'a read that is left': 'await sb.files.write("x", new Uint8Array(9e6)); for await (const e of sb.files.readStream("x")) break',
    'a watch that is left': 'for await (const e of sb.files.watch()) break',
    'a terminal that is closed': 'const t = await sb.terminal(); await t.close()',
    'an open terminal of a closed client': 'const t = await sb.terminal(); await sb.close()',
    'an aborted call': 'await sb.run("sleep 60", { signal: AbortSignal.timeout(50) }).catch(() => {})',
    'an open stream of a closed client': 'const s = sb.stream("echo a; sleep 60"); await s.next(); await sb.close()',
  })) {
    const p = program(`${open}\n${text}\nconsole.log('done')`)
    const timer = setTimeout(() => p.child.kill(), 60_000)
    const { code, out, err } = await p.ended
    clearTimeout(timer)
    assert.deepEqual([code, out, err], [0, 'done\n', ''], name)
  }
})
