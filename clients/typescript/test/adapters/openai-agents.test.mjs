// The helper for the OpenAI Agents SDK: an agent of the SDK, with a model that follows a
// script, works in a sandbox of the daemon.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { run } from '@openai/agents'
import { SandboxAgent } from '@openai/agents/sandbox'
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents/testing'
import { CloudflareSandboxClient } from '@openai/agents-extensions/sandbox/cloudflare'
import { Sandbox } from '@bulkhead/sandbox'
import { sandboxClient } from '@bulkhead/sandbox/openai-agents'
import { away, thrown } from './common.mjs'

test('an agent of the SDK runs a command in the sandbox', async () => {
  const client = sandboxClient(CloudflareSandboxClient, { timeoutMs: 60_000 })
  assert.ok(client instanceof CloudflareSandboxClient)
  const model = new ScriptedModel([
    [functionCall('exec_command', { cmd: 'echo $((6 * 7)) > answer; cat answer; pwd' }, { callId: 'c1' })],
    [assistantMessage('it is done')],
  ])
  const result = await run(new SandboxAgent({ name: 'worker', instructions: 'work', model }), 'go', { sandbox: { client } })
  assert.equal(result.finalOutput, 'it is done')
  assert.match(JSON.stringify(result.history), /42\\n\/workspace/)
})

test('files go through the daemon, and the token is not in the state of a session', async () => {
  const client = sandboxClient(CloudflareSandboxClient)
  const session = await client.create()
  try {
    await session.materializeEntry({ path: 'ü/in.bin', entry: { type: 'file', content: new Uint8Array([0, 255]) } })
    assert.deepEqual([...await session.readFile({ path: 'ü/in.bin' })], [0, 255])
    // The id is the name of the sandbox, which the SDK takes.
    const sandbox = await Sandbox.connect(session.state.sandboxId)
    assert.deepEqual([...await sandbox.files.read('ü/in.bin')], [0, 255])
    assert.ok(!JSON.stringify(await client.serializeSessionState(session.state)).includes(process.env.SANDBOX_TOKEN))
  } finally {
    await session.delete()
  }
})

test('addresses', async () => {
  class Client { constructor(options) { this.options = options } }
  const address = url => sandboxClient(Client, { url, token: 't' }).options.workerUrl
  assert.equal(address('tcp:127.0.0.1:8421'), 'http://127.0.0.1:8421')
  assert.equal(address('tcp:[::1]:8421'), 'http://[::1]:8421')
  assert.equal(address('https://box.example/'), 'https://box.example')
  assert.deepEqual(sandboxClient(Client, { url: 'http://a', token: 't', timeoutMs: 5 }).options, { workerUrl: 'http://a', apiKey: 't', timeoutMs: 5 })
  assert.equal(sandboxClient(Client).options.apiKey, process.env.SANDBOX_TOKEN)
  for (const url of ['unix:/run/sandbox.sock', 'nonsense', 'ftp://a']) {
    const error = await thrown(async () => address(url))
    assert.equal(error.code, 'SCHEMA.VALIDATION_FAILED')
    assert.equal(error.field, 'url')
  }
  const { SANDBOX_SERVER, SANDBOX_TOKEN } = process.env
  try {
    delete process.env.SANDBOX_TOKEN
    assert.equal((await thrown(async () => sandboxClient(Client))).field, 'token')
    delete process.env.SANDBOX_SERVER
    assert.equal((await thrown(async () => sandboxClient(Client))).field, 'url')
  } finally {
    Object.assign(process.env, { SANDBOX_SERVER, SANDBOX_TOKEN })
  }
})

test('a daemon that is away', async () => {
  const error = await thrown(() => sandboxClient(CloudflareSandboxClient, { url: away }).create())
  assert.match(`${error.name} ${error.message}`, /Sandbox/)
})
