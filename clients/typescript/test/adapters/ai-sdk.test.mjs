// The provider for the AI SDK harness, used by the harness's own agent with a harness of
// this test, whose runtime is a server inside that it reaches by a port.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { test } from 'node:test'
import { HarnessAgent } from '@ai-sdk/harness/agent'
import { Client, SandboxError } from '@bulkhead/sandbox'
import { sandboxProvider } from '@bulkhead/sandbox/ai-sdk'
import WebSocket from 'ws'
import { away, text, thrown, until } from './common.mjs'
import { makeHarness, server } from './harness.mjs'

const turnOf = (agent, session, prompt) => agent.generate({ session, prompt }).then(r => r.text)

test('an agent of the harness talks to its runtime inside by a port', async () => {
  let firsts = 0
  const agent = new HarnessAgent({
    harness: makeHarness(), id: 'x', sandbox: sandboxProvider({ ports: [4096] }),
    sandboxConfig: { bootstrapHash: 'v1', onBootstrap: async ({ session, workDir }) => { firsts++; await session.writeTextFile({ path: workDir + '/setup.txt', content: 'once' }) } },
  })
  const session = await agent.createSession({ sessionId: 'talk' })
  try {
    assert.equal(await turnOf(agent, session, 'pwd; cat ../setup.txt; cat ../bridge/log'), '1 /workspace/scripted-talk\nonceset up\n')
    assert.equal(await turnOf(agent, session, 'echo it is "$PORT"'), '2 it is 4096\n')
    assert.equal(firsts, 1)
  } finally {
    await session.destroy()
  }
  // Nothing of it is left.
  for await (const { session } of (await Client.open()).sandboxes()) assert.notEqual(session, 'ai-sdk-talk')
})

test('a session is resumed by another program', async () => {
  const start = () => new HarnessAgent({ harness: makeHarness(), id: 'x', sandbox: sandboxProvider({ ports: [4096] }) })
  const first = start()
  const session = await first.createSession({ sessionId: 'again' })
  assert.equal(await turnOf(first, session, 'echo 1 > kept; echo started'), '1 started\n')
  // A program that ends leaves what runs inside as it is; stop freezes it.
  const detached = JSON.parse(JSON.stringify(await session.detach()))
  const second = start()
  const resumed = await second.createSession({ sessionId: 'again', resumeFrom: detached })
  assert.equal(await turnOf(second, resumed, 'cat kept'), '2 1\n')
  const stopped = JSON.parse(JSON.stringify(await resumed.stop()))
  const provider = sandboxProvider()
  const [info] = await all((await Client.open()).sandboxes({ labels: { 'ai-sdk.session': 'ai-sdk-again' } }))
  assert.equal(info.status, 'paused')
  const third = start()
  const last = await third.createSession({ sessionId: 'again', resumeFrom: stopped })
  assert.equal(await turnOf(third, last, 'cat kept'), '3 1\n')
  await last.destroy()
  assert.equal((await thrown(() => provider.resumeSession({ sessionId: 'again' }))).code, 'SANDBOX.NOT_FOUND')
})

async function all(items) {
  const list = []
  for await (const item of items) list.push(item)
  return list
}

test('two sessions of one identity are set up once each', async () => {
  const provider = sandboxProvider()
  const setUp = []
  const wanted = sessionId => ({ sessionId, identity: 'same', onFirstCreate: async session => { setUp.push(sessionId); await session.writeTextFile({ path: 'mine', content: sessionId }) } })
  // The second call for a session waits for the first, and does not set it up again.
  const sessions = await Promise.all([provider.createSession(wanted('one')), provider.createSession(wanted('two')), provider.createSession(wanted('one'))])
  try {
    assert.deepEqual(setUp.sort(), ['one', 'two'])
    assert.deepEqual(await Promise.all(sessions.map(s => s.readTextFile({ path: 'mine' }))), ['one', 'two', 'one'])
    assert.equal(sessions[0].id, sessions[2].id)
    assert.notEqual(sessions[0].id, sessions[1].id)
    const again = await sandboxProvider().createSession(wanted('two'))
    assert.deepEqual(setUp, ['one', 'two'])
    assert.equal(again.id, sessions[1].id)
  } finally {
    await Promise.all(sessions.map(s => s.destroy()))
  }
})

test('a sandbox whose set-up fails is gone, and one that was cut off is set up again', async () => {
  const provider = sandboxProvider()
  const error = await thrown(() => provider.createSession({ sessionId: 'broken', identity: 'i', onFirstCreate: async () => { throw new Error('no set-up') } }))
  assert.equal(error.message, 'no set-up')
  assert.equal((await thrown(() => provider.resumeSession({ sessionId: 'broken' }))).code, 'SANDBOX.NOT_FOUND')
  // What a program leaves that ends in the middle: the sandbox without the mark.
  const made = await provider.createSession({ sessionId: 'broken' })
  let again = 0
  const session = await provider.createSession({ sessionId: 'broken', identity: 'i', onFirstCreate: async () => { again++ } })
  assert.equal(again, 1)
  assert.equal(session.id, made.id)
  await session.destroy()
  await session.destroy()
  await session.stop()
})

test('ids of sessions may be any text', async () => {
  const provider = sandboxProvider()
  const ids = ['a/b ../ä🙂', 'x'.repeat(1000), 'A', 'a']
  const sessions = await Promise.all(ids.map(sessionId => provider.createSession({ sessionId })))
  try {
    assert.equal(new Set(sessions.map(s => s.id)).size, ids.length)
    for (const [i, sessionId] of ids.entries()) assert.equal((await sandboxProvider().resumeSession({ sessionId })).id, sessions[i].id)
  } finally {
    await Promise.all(sessions.map(s => s.destroy()))
  }
})

test('files, commands and ports of a session', async t => {
  const provider = sandboxProvider({ ports: [5000, 5001], maxOutputBytes: 1000 })
  const session = await provider.createSession()
  t.after(() => session.destroy())
  const inside = session.restricted()

  await t.test('the restricted view has no lifecycle', () => {
    for (const name of ['stop', 'destroy', 'setNetworkPolicy', 'getPortUrl', 'getPortEndpoint', 'setPorts', 'id', 'ports', 'restricted', 'sandbox']) assert.equal(inside[name], undefined, name)
  })
  await t.test('files', async () => {
    const data = new Uint8Array(300_000).map((_, i) => i * 7)
    await inside.writeBinaryFile({ path: 'new folder/ü#%.bin', content: data })
    assert.deepEqual(await inside.readBinaryFile({ path: '/workspace/new folder/ü#%.bin' }), data)
    await inside.writeFile({ path: 'streamed', content: new Blob([data]).stream() })
    assert.equal(Buffer.compare(Buffer.from(await new Response(await inside.readFile({ path: 'streamed' })).arrayBuffer()), data), 0)
    for (const read of ['readFile', 'readBinaryFile', 'readTextFile']) assert.equal(await inside[read]({ path: 'missing/file' }), null, read)
    await inside.writeTextFile({ path: 'lines', content: 'one\r\ntwo\n\nfour' })
    const lines = (startLine, endLine) => inside.readTextFile({ path: 'lines', startLine, endLine })
    assert.deepEqual(await Promise.all([lines(), lines(2), lines(2, 3), lines(4, 99), lines(9), lines(1, 1)]), ['one\r\ntwo\n\nfour', 'two\n\nfour', 'two\n\n', 'four', '', 'one\r\n'])
    for (const encoding of ['utf-8', 'utf-16le', 'latin1']) {
      await inside.writeTextFile({ path: 'encoded', content: 'ä\ufeffb'.slice(0, encoding == 'latin1' ? 1 : 3), encoding })
      assert.equal(await inside.readTextFile({ path: 'encoded', encoding }), 'ä\ufeffb'.slice(0, encoding == 'latin1' ? 1 : 3), encoding)
    }
    assert.equal((await thrown(() => inside.writeTextFile({ path: 'encoded', content: '€ あ', encoding: 'latin1' }))).code, 'SANDBOX.UNSUPPORTED')
    assert.equal((await inside.run({ command: 'ln -s /etc/passwd out; ln -s lines in' })).exitCode, 0)
    assert.equal(await inside.readTextFile({ path: 'in', endLine: 1 }), 'one\r\n')
    for (const path of ['out', '/etc/passwd', '../etc/passwd']) assert.equal((await thrown(() => inside.readTextFile({ path }))).status, 403, path)
    assert.equal((await thrown(() => inside.writeTextFile({ path: 'out', content: '' }))).status, 403)
  })
  await t.test('commands', async () => {
    assert.deepEqual(await inside.run({ command: 'echo "$A"; pwd; echo no >&2; exit 3', env: { A: "it's\n$(x)" }, workingDirectory: '/workspace/new folder' }), { exitCode: 3, stdout: "it's\n$(x)\n/workspace/new folder\n", stderr: 'no\n' })
    const long = await inside.run({ command: 'head -c 5000 /dev/zero; echo end >&2' })
    assert.deepEqual([long.stdout.length, long.stderr], [1000, 'end\nsandbox: 4000 bytes of stdout are left out\n'])
    const denied = await inside.run({ command: 'rm -rf /' })
    assert.deepEqual([denied.exitCode, denied.stdout], [126, ''])
    assert.match(denied.stderr, /POLICY\.DENY_TOOL/)
    assert.equal((await thrown(() => inside.spawn({ command: 'rm -rf /' }))).code, 'POLICY.DENY_TOOL')
  })
  await t.test('an abort ends what runs', async () => {
    for (const start of [signal => inside.run({ command: 'sleep 1001', abortSignal: signal }), async signal => (await inside.spawn({ command: 'sleep 1001', abortSignal: signal })).wait()]) {
      const abort = new AbortController()
      const running = start(abort.signal)
      running.catch(() => {})
      await until('it runs', async () => (await inside.run({ command: "pgrep -x sleep -a | grep -c 1001" })).stdout == '1\n')
      const reason = new Error('enough')
      abort.abort(reason)
      assert.equal(await thrown(() => running), reason)
      await until('it is gone', async () => (await inside.run({ command: "pgrep -x sleep -a | grep -c 1001" })).stdout == '0\n')
      assert.equal(await thrown(() => start(abort.signal)), reason)
    }
  })
  await t.test('an abort while a process starts leaves none behind', async () => {
    const reason = new Error('enough')
    for (const after of [0, 1, 2, 5, 10, 20]) {
      const abort = new AbortController()
      setTimeout(() => abort.abort(reason), after)
      const process = inside.spawn({ command: 'sleep 1004', abortSignal: abort.signal })
      assert.equal(await thrown(async () => (await process).wait()), reason)
    }
    await until('all are gone', async () => (await inside.run({ command: 'pgrep -x sleep -a | grep -c 1004' })).stdout == '0\n')
  })
  await t.test('commands that go on', async () => {
    const process = await inside.spawn({ command: 'printf "\\377\\0ä"; echo late >&2; read x; exit 4', env: {} })
    assert.ok(process.pid > 0)
    assert.deepEqual(await process.wait(), { exitCode: 4 })
    // Outputs are read late, and the second first.
    assert.equal(await text(process.stderr), 'late\n')
    assert.deepEqual([...await new Response(process.stdout).arrayBuffer().then(b => new Uint8Array(b))], [255, 0, 195, 164])
    const endless = await inside.spawn({ command: 'yes | head -c 700000; sleep 1002' })
    let read = 0
    for await (const piece of endless.stdout) if ((read += piece.length) >= 700_000) break
    assert.equal(read, 700_000)
    await endless.kill()
    await endless.kill()
    assert.notEqual((await endless.wait()).exitCode, 0)
    assert.equal((await inside.run({ command: 'pgrep -x sleep -a | grep -c 1002' })).stdout, '0\n')
  })
  await t.test('ports', async () => {
    await inside.writeTextFile({ path: 'server.py', content: server })
    await inside.spawn({ command: 'python3 server.py 5000' })
    const { url } = await session.getPortEndpoint({ port: 5000 })
    await until('it listens', async () => (await fetch(url)).status == 200)
    assert.equal(await (await fetch(url + '/a%20b?c=d&e')).text(), '/a%20b?c=d&e')
    assert.equal(await (await fetch(url + '?c=d')).text(), '/?c=d')
    // As adapters make the address of a bridge.
    const socket = new WebSocket((await session.getPortUrl({ port: 5000, protocol: 'ws' })) + '?token=t')
    socket.on('open', () => socket.send('hi'))
    assert.equal(String(await new Promise((resolve, reject) => socket.on('message', resolve).on('error', reject))), '/?token=t hi')
    socket.terminate()
    // Nothing gets in without the path, and no other port.
    assert.equal((await fetch(new URL('/', url))).status, 404)
    assert.equal((await fetch(url.slice(0, -1) + (url.endsWith('0') ? '1' : '0'))).status, 404)
    assert.equal((await thrown(() => session.getPortUrl({ port: 5002 }))).code, 'SANDBOX.NOT_FOUND')
    assert.equal((await thrown(() => session.getPortUrl({ port: 5000, protocol: 'https' }))).code, 'SANDBOX.UNSUPPORTED')
    const silent = await fetch((await session.getPortEndpoint({ port: 5001 })).url)
    assert.equal(silent.status, 502)
    assert.match(await silent.text(), /5001/)
    await session.setPorts([5001])
    assert.equal((await fetch(url)).status, 404)
    assert.deepEqual(session.ports, [5001])
  })
  await t.test('the network', async () => {
    await session.setNetworkPolicy({ mode: 'custom', allowedHosts: ['a.example'], deniedCIDRs: ['169.254.169.254/32', 'fd00::/8'] })
    await session.setNetworkPolicy({ mode: 'deny-all' })
    for (const policy of [{ mode: 'custom', allowedCIDRs: ['1.1.1.1/32'] }, { mode: 'custom', allowedHosts: [], deniedCIDRs: ['10.0.0.0/4'] }, { mode: 'custom', allowedHosts: [], deniedCIDRs: ['8.8.8.8/32'] }]) {
      assert.equal((await thrown(() => session.setNetworkPolicy(policy))).code, 'SANDBOX.UNSUPPORTED', JSON.stringify(policy))
    }
  })
})

test('a spawned command outlives the program', async () => {
  const provider = sandboxProvider()
  const program = `
    import { sandboxProvider } from '@bulkhead/sandbox/ai-sdk'
    const session = await sandboxProvider().createSession({ sessionId: 'outlive' })
    const process = await session.spawn({ command: 'sleep 1003' })
    console.log(process.pid)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'] })
  assert.match(await text(child.stdout), /^\d+\n$/)
  const session = await provider.resumeSession({ sessionId: 'outlive' })
  assert.equal((await session.run({ command: 'pgrep -x sleep -a | grep -c 1003' })).stdout, '1\n')
  await session.destroy()
})

test('a client is given, or the address of a daemon', async () => {
  const client = await Client.open({ url: process.env.SANDBOX_SOCKET })
  const session = await sandboxProvider({ client }).createSession()
  assert.equal((await session.run({ command: 'echo ok' })).stdout, 'ok\n')
  await session.destroy()
  assert.equal((await thrown(() => sandboxProvider({ client, url: process.env.SANDBOX_SOCKET }).createSession())).field, 'url')
  await client.close()
})

test('ports of a daemon at a unix socket', async () => {
  const session = await sandboxProvider({ url: process.env.SANDBOX_SOCKET, ports: [5000] }).createSession()
  try {
    await session.writeTextFile({ path: 'server.py', content: server })
    await session.spawn({ command: 'python3 server.py 5000' })
    const { url } = await session.getPortEndpoint({ port: 5000 })
    await until('it listens', async () => (await fetch(url)).status == 200)
    assert.equal(await (await fetch(url + '/x')).text(), '/x')
    // What was reached by it is not, once the session is over.
    await session.destroy()
    await assert.rejects(fetch(url))
  } finally {
    await session.destroy()
  }
})

test('a daemon that is away, and another tenant', async () => {
  const gone = sandboxProvider({ url: away })
  for (const call of [() => gone.createSession({ sessionId: 'x' }), () => gone.resumeSession({ sessionId: 'x' })]) {
    const error = await thrown(call)
    assert.ok(error instanceof SandboxError)
    assert.equal(error.code, 'PROVIDER.UNAVAILABLE')
  }
  const session = await sandboxProvider().createSession({ sessionId: 'mine' })
  const other = sandboxProvider({ token: process.env.SANDBOX_OTHER_TOKEN })
  assert.equal((await thrown(() => other.resumeSession({ sessionId: 'mine' }))).code, 'SANDBOX.NOT_FOUND')
  await session.destroy()
  const abort = AbortSignal.abort(new Error('not wanted'))
  assert.equal((await thrown(() => sandboxProvider().createSession({ sessionId: 'aborted', abortSignal: abort }))).message, 'not wanted')
})
