// Measures what a call of the SDK costs beyond the same request of plain HTTP: both
// take turns over connections that are kept, to one daemon, over its unix socket and
// over TCP. It fails when the difference of the medians is more than the budget.
//
//   npm run bench [-- CALLS]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Client } from '../dist/esm/index.js'

const budget = 0.5 // milliseconds
const calls = Number(process.argv[2] ?? 1000)
const warm = Math.max(50, calls / 10)

const folder = mkdtempSync(join(tmpdir(), 'sdk-bench-'))
const config = join(folder, 'settings.json')
writeFileSync(config, JSON.stringify({ agents: { defaults: { sandbox: { provider: 'local' } } }, tenants: { closed: true, list: [{ id: 'bench' }] } }))
const state = ['--config', config, '--state-dir', join(folder, 'state')]
const binary = process.env.SANDBOX_BINARY ?? 'sandbox'

const free = createServer().listen(0, '127.0.0.1')
await once(free, 'listening')
const { port } = free.address()
free.close()
await once(free, 'close')

const socket = join(folder, 'box.sock')
const daemon = spawn(binary, [...state, 'serve', '--listen', `unix:${socket}`, '--listen', `tcp:127.0.0.1:${port}`], { stdio: ['ignore', 'ignore', 'pipe'] })
let worst = 0
try {
  await new Promise((resolve, reject) => {
    daemon.once('exit', (code) => reject(new Error(`the daemon ends with ${code}`)))
    createInterface({ input: daemon.stderr }).on('line', (line) => line.includes('listening at') && resolve())
  })
  const made = spawn(binary, [...state, 'token', 'create', '--tenant', 'bench'], { stdio: ['ignore', 'pipe', 'ignore'] })
  let token = ''
  for await (const data of made.stdout) token += data
  token = token.trim()

  for (const at of [
    { name: 'unix', url: `unix:${socket}`, options: { socketPath: socket }, token },
    { name: 'tcp', url: `http://127.0.0.1:${port}`, options: { host: '127.0.0.1', port }, token },
  ]) {
    const client = await Client.open({ url: at.url, token: at.token })
    const sandbox = await client.open('bench')
    await sandbox.files.write('small', 'x'.repeat(1000))
    const agent = new http.Agent({ keepAlive: true, noDelay: true })
    const base = `/v1/sandboxes/${sandbox.name}`
    const Authorization = `Bearer ${token}`
    const plain = (method, path, body) =>
      new Promise((resolve, reject) => {
        const headers = body === undefined ? { Authorization } : { Authorization, 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }
        const call = http.request({ ...at.options, agent, method, path: base + path, headers }, (answer) => {
          answer.resume()
          answer.on('end', () => (answer.statusCode < 300 ? resolve() : reject(new Error(String(answer.statusCode)))))
        })
        call.on('error', reject)
        call.end(body)
      })
    const body = JSON.stringify({ args: ['true'] })
    for (const [name, one, two] of [
      ['stat', () => plain('GET', '/files/workspace/small?stat=true'), () => sandbox.files.stat('small')],
      ['read', () => plain('GET', '/files/workspace/small'), () => sandbox.files.read('small')],
      ['run true', () => plain('POST', '/exec', body), () => sandbox.run(['true'])],
    ]) {
      const times = { plain: [], sdk: [] }
      const n = name === 'run true' ? Math.ceil(calls / 4) : calls
      for (let i = -warm; i < n; i++) {
        // Which one is first changes from turn to turn.
        for (const [kind, call] of i % 2 === 0 ? [['plain', one], ['sdk', two]] : [['sdk', two], ['plain', one]]) {
          const began = process.hrtime.bigint()
          await call()
          if (i >= 0) times[kind].push(Number(process.hrtime.bigint() - began) / 1e6)
        }
      }
      const at50 = {}
      const show = Object.entries(times).map(([kind, list]) => {
        list.sort((a, b) => a - b)
        at50[kind] = list[Math.floor(list.length / 2)]
        return `${kind} p50 ${at50[kind].toFixed(3)} p95 ${list[Math.floor(list.length * 0.95)].toFixed(3)}`
      })
      const more = at50.sdk - at50.plain
      worst = Math.max(worst, more)
      console.log(`${at.name.padEnd(5)} ${name.padEnd(9)} ${show.join('   ')}   more ${more.toFixed(3)} ms`)
    }
    agent.destroy()
    await sandbox.remove()
    await client.close()
  }
} finally {
  daemon.removeAllListeners('exit')
  const ended = once(daemon, 'exit')
  daemon.kill()
  await ended
  rmSync(folder, { recursive: true, force: true })
}
console.log(`the SDK takes at most ${worst.toFixed(3)} ms more of a call (median), budget ${budget} ms`)
if (worst > budget) process.exitCode = 1
