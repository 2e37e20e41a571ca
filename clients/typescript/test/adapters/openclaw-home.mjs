// Runs OpenClaw with a home of its own and a model that follows a script.
import { spawn } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from './common.mjs'
import { blocks } from './page.mjs'

const require = createRequire(import.meta.url)
const openclaw = path.resolve(path.dirname(require.resolve('openclaw/plugin-sdk/sandbox')), '../../openclaw.mjs')
const plugin = realpathSync(path.resolve(path.dirname(require.resolve('@bulkhead/sandbox/openclaw.plugin.json'))))

/** Serves a model that calls tools one behind the other, and keeps what each has answered. */
export async function scripted(t, script) {
  const answers = []
  let at = 0
  const server = http.createServer(async (request, response) => {
    const { messages = [] } = JSON.parse(await text(request) || '{}')
    const tools = messages.filter(m => m.role == 'tool')
    answers.splice(0, answers.length, ...tools.map(m => (typeof m.content == 'string' ? m.content : m.content.map(c => c.text).join(''))))
    const step = script[at++]
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    const send = (delta, finish_reason = null) => response.write(`data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`)
    if (step) send({ role: 'assistant', tool_calls: [{ index: 0, id: `call_${at}`, type: 'function', function: { name: step[0], arguments: JSON.stringify(step[1]) } }] })
    else send({ role: 'assistant', content: 'all is done' })
    send({}, step ? 'tool_calls' : 'stop')
    response.end('data: [DONE]\n\n')
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { url: `http://127.0.0.1:${server.address().port}/v1`, answers }
}

export function folder(t) {
  const made = realpathSync(mkdtempSync(path.join(tmpdir(), 'openclaw-test-')))
  t.after(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** Runs OpenClaw with a home of its own. */
export async function run(home, args, env = {}) {
  const child = spawn(process.execPath, [openclaw, ...args], {
    env: { PATH: process.env.PATH, HOME: home, OPENCLAW_STATE_DIR: home, OPENCLAW_CONFIG_PATH: path.join(home, 'openclaw.json'), SANDBOX_TOKEN: process.env.SANDBOX_TOKEN, NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), new Promise(resolve => child.on('close', resolve))])
  return { out, err, code }
}

/** Writes the settings of ADAPTERS.md with the plugin of this tree and the model. */
export function configure(home, workspace, model, config = {}) {
  const { agents, plugins } = JSON.parse(blocks('json')[0])
  Object.assign(agents.defaults, { workspace, skipBootstrap: true, model: { primary: 'scripted/m' } })
  plugins.load = { paths: [plugin] }
  plugins.entries.bulkhead.config = { url: process.env.SANDBOX_SERVER, ...config }
  const models = { mode: 'replace', providers: { scripted: { baseUrl: model, apiKey: 'x', api: 'openai-completions', models: [{ id: 'm', name: 'm', contextWindow: 128000, maxTokens: 4096 }] } } }
  writeFileSync(path.join(home, 'openclaw.json'), JSON.stringify({ gateway: { mode: 'local' }, agents, models, plugins }))
}
