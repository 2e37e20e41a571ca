// Holds the SDK against the vectors of clients/vectors, see the README there.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Client, SandboxError, type CheckpointInfo, type CodeContext, type Process, type Sandbox, type SandboxOptions, type Share, type Shell, type StreamEvent, type WatchEvent } from '@bulkhead/sandbox'

const folder = fileURLToPath(new URL('../../vectors', import.meta.url))
const have = new Set((process.env['SANDBOX_VECTORS'] ?? 'local').split(','))
const provider = have.has('docker') && !have.has('local') ? 'docker' : 'local'
const session = `vectors-${process.pid}-${Date.now()}`

interface Piece {
  type: string
  data: Uint8Array
  end?: object
}
type Value = null | boolean | number | string | Value[] | { [name: string]: Value }
type Fields = { [name: string]: Value }
interface Step {
  op: string
  with?: Fields
  on?: string
  save?: string
  result?: Value
  events?: Fields[]
  error?: { code: string; field?: string; status?: number }
}
interface Case {
  name: string
  requires?: string[]
  sandbox?: Fields
  steps: Step[]
}
interface Vectors {
  about: string
  requires?: string[]
  sandbox?: Fields
  cases: Case[]
}

const dir = mkdtempSync(join(tmpdir(), 'sdk-vectors-'))
let client: Client
before(async () => {
  const settings = JSON.parse(readFileSync(join(folder, 'daemon.json'), 'utf8')) as { agents: { defaults: { sandbox: Fields } } }
  settings.agents.defaults.sandbox['provider'] = provider
  const config = join(dir, 'settings.json')
  writeFileSync(config, JSON.stringify(settings))
  client = await Client.open({ config, stateDir: join(dir, 'state') })
})
after(async () => {
  await client.close()
  rmSync(dir, { recursive: true, force: true })
})

const camel = (name: string): string => name.replace(/_([a-z])/g, (_, c: string) => c.toUpperCase())

/** Names of options in the form of this SDK; names that are data stay. */
function options(from: Fields = {}): SandboxOptions {
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(from)) {
    if (name === 'session') continue
    out[camel(name)] = name === 'network' ? Object.fromEntries(Object.entries(value as Fields).map(([k, v]) => [camel(k), v])) : value
  }
  return out as SandboxOptions
}

const pick = (from: Fields, ...names: string[]): Record<string, never> => Object.fromEntries(names.filter((n) => n in from).map((n) => [n, from[n]])) as Record<string, never>

function input(value: Value | undefined): Uint8Array | string {
  if (typeof value === 'string') return value
  const o = value as Fields
  return 'base64' in o ? new Uint8Array(Buffer.from(o['base64'] as string, 'base64')) : (o['repeat'] as string).repeat(o['times'] as number)
}

function equals(got: unknown, want: Value, at: string): void {
  if (typeof want === 'string') {
    if (got instanceof Uint8Array) assert.deepEqual(Buffer.from(got).toString('latin1'), Buffer.from(want).toString('latin1'), at)
    else assert.equal(got ?? '', want, at)
  } else if (Array.isArray(want)) {
    assert.ok(Array.isArray(got), `${at} is no list`)
    assert.equal(got.length, want.length, `${at}: ${JSON.stringify(got)}`)
    want.forEach((one, i) => equals(got[i], one, `${at}[${i}]`))
  } else if (typeof want === 'object' && want !== null) {
    const { base64, match, contains } = want
    if (typeof base64 === 'string') assert.equal(Buffer.from(got as Uint8Array).toString('base64'), base64, at)
    else if (typeof match === 'string') assert.match(got instanceof Uint8Array ? Buffer.from(got).toString('utf8') : String(got ?? ''), new RegExp(match, 'u'), at)
    else if (Array.isArray(contains)) {
      for (const one of contains) {
        const found = (got as unknown[]).some((element) => {
          try {
            equals(element, one, at)
            return true
          } catch {
            return false
          }
        })
        assert.ok(found, `${at} has nothing like ${JSON.stringify(one)}: ${JSON.stringify(got)}`)
      }
    } else {
      for (const [name, value] of Object.entries(want)) {
        const o = (got ?? {}) as Record<string, unknown>
        equals(name in o ? o[name] : o[camel(name)], value, `${at}.${name}`)
      }
    }
  } else assert.equal(got, want, at)
}

/** A result as vectors have it: outputs are their bytes. */
const result = (r: { stdoutBytes: Uint8Array; stderrBytes: Uint8Array }): object => ({ ...r, stdout: r.stdoutBytes, stderr: r.stderrBytes })

/** Events of a stream with adjacent pieces joined. */
class Events {
  readonly #from: AsyncIterator<StreamEvent>
  #left: Piece | undefined
  constructor(from: AsyncIterator<StreamEvent>) {
    this.#from = from
  }
  async #read(): Promise<Piece | undefined> {
    if (this.#left !== undefined) {
      const left = this.#left
      this.#left = undefined
      return left
    }
    const { done, value } = await this.#from.next()
    if (done === true) return undefined
    if (value.type === 'exit') return { type: 'exit', data: new Uint8Array(0), end: value.result }
    if (value.type === 'stdout' || value.type === 'stderr') return { type: value.type, data: value.data }
    throw new Error(`an event ${value.type}`)
  }
  /** Reads until there are as many as are wanted and the last has its length. */
  async next(want: Fields[]): Promise<object[]> {
    const got: object[] = []
    for (const one of want) {
      const first = await this.#read()
      if (first === undefined) break
      if (first.end !== undefined) {
        got.push(first.end)
        break
      }
      const expected = one[first.type]
      const long = typeof expected === 'string' ? Buffer.byteLength(expected) : typeof expected === 'object' && expected !== null && 'base64' in expected ? Buffer.from((expected as Fields)['base64'] as string, 'base64').length : Infinity
      let data = first.data
      while (data.length < long) {
        const more = await this.#read()
        if (more === undefined || more.type !== first.type) {
          this.#left = more
          break
        }
        data = Buffer.concat([data, more.data])
      }
      if (data.length > long) {
        this.#left = { type: first.type, data: data.subarray(long) }
        data = data.subarray(0, long)
      }
      got.push({ [first.type]: data })
    }
    return got
  }
  async rest(): Promise<object[]> {
    const got: object[] = []
    let data = new Uint8Array(0) as Uint8Array
    for (let last = ''; ; ) {
      const one = await this.#read()
      if (last !== '' && one?.type !== last) got.push({ [last]: data })
      if (one === undefined) return got
      if (one.end !== undefined) {
        got.push(one.end)
        last = ''
      } else {
        data = one.type === last ? Buffer.concat([data, one.data]) : one.data
        last = one.type
      }
    }
  }
  async close(): Promise<void> {
    await this.#from.return?.()
  }
}

function walk(at: string, prefix = ''): Record<string, Uint8Array> {
  const out: Record<string, Uint8Array> = {}
  for (const entry of readdirSync(at, { withFileTypes: true })) {
    if (entry.isDirectory()) Object.assign(out, walk(join(at, entry.name), `${prefix}${entry.name}/`))
    else out[prefix + entry.name] = readFileSync(join(at, entry.name))
  }
  return out
}

class Runner {
  readonly saved = new Map<string, unknown>()
  readonly opened: Sandbox[] = []
  readonly tag: string
  constructor(
    readonly sandbox: Sandbox,
    tag: string,
  ) {
    this.tag = tag
  }

  async #process(p: Process): Promise<object> {
    return { ...(await p.info()) }
  }

  /** A checkpoint that was saved, or else the reference. */
  #checkpoint(ref: string): string | CheckpointInfo {
    return (this.saved.get(ref) as CheckpointInfo | undefined) ?? ref
  }

  /** Carries out a step, and returns its value and what is saved of it. */
  async do(step: Step): Promise<{ value?: unknown; save?: unknown; events?: object[] }> {
    const w = step.with ?? {}
    const text = (name: string): string => w[name] as string
    const on = step.on === undefined ? undefined : this.saved.get(step.on)
    if (step.on !== undefined) assert.notEqual(on, undefined, `nothing is saved as ${step.on}`)
    const sb = on !== undefined && 'files' in (on as object) ? (on as Sandbox) : this.sandbox
    const command = w['command'] as string | string[]
    const choices = { ...pick(w, 'cwd', 'env', 'timeout', 'user'), ...('stdin' in w && w['stdin'] !== true ? { stdin: input(w['stdin']) } : {}) }
    const opened = async (box: Sandbox): Promise<{ value: unknown; save: unknown }> => {
      this.opened.push(box)
      return { value: await box.info(), save: box }
    }
    switch (step.op) {
      case 'run':
        return { value: result(await sb.run(command, choices)) }
      case 'stream': {
        const events = new Events(sb.stream(command, choices))
        if (step.events !== undefined) return { events: await events.rest() }
        const all = (await events.rest()) as Record<string, Uint8Array>[]
        const joined = (name: string): Uint8Array => Buffer.concat(all.flatMap((e) => (e[name] instanceof Uint8Array ? [e[name] as Uint8Array] : [])))
        return { value: { ...all.at(-1), stdout: joined('stdout'), stderr: joined('stderr') } }
      }
      case 'start': {
        const p = await sb.start(command, { stdin: false, ...choices, ...(w['stdin'] === true ? { stdin: true } : {}), ...pick(w, 'tag', 'tty') })
        return { value: await this.#process(p), save: p }
      }
      case 'processes':
        return { value: await Promise.all((await sb.processes()).map((p) => this.#process(p))) }
      case 'process': {
        const p = await sb.process(w['ref'] as string)
        return { value: await this.#process(p), save: p }
      }
      case 'process.info':
        return { value: await (on as Process).info() }
      case 'process.write':
        return { value: await (on as Process).write(input(w['data'])) }
      case 'process.close_stdin':
        return { value: await (on as Process).closeStdin() }
      case 'process.signal':
        return { value: await (on as Process).signal(text('signal')) }
      case 'process.resize': {
        const { rows, cols } = w['tty'] as { rows: number; cols: number }
        return { value: await (on as Process).resize(rows, cols) }
      }
      case 'process.kill':
        return { value: await (on as Process).kill() }
      case 'process.wait':
        return { value: await (on as Process).wait() }
      case 'process.stream': {
        const from = (on as Process).stream(pick(w, 'from'))
        if (w['from'] === -1) {
          // It is followed from now on.
          const first = from.next()
          await new Promise((resolve) => setTimeout(resolve, 300))
          let begun = false
          return { save: new Events({ next: () => (begun ? from.next() : ((begun = true), first)), return: () => from.return() }) }
        }
        const events = new Events(from)
        if (step.events !== undefined) return { events: await events.rest() }
        if (step.error !== undefined) await events.rest()
        return { save: events }
      }
      case 'stream.next':
        return { events: await (on as Events).next(step.events ?? []) }
      case 'stream.close':
        return { value: await (on as Events).close() }
      case 'shell':
        return { save: await sb.shell(pick(w, 'cwd', 'env')) }
      case 'shell.run':
        return { value: result(await (on as Shell).run(text('line'), choices)) }
      case 'shell.close':
        return { value: await (on as Shell).close() }
      case 'files.read':
        return { value: await sb.files.read(text('path'), pick(w, 'offset', 'length')) }
      case 'files.write':
        return { value: await sb.files.write(text('path'), input(w['data']), pick(w, 'exclusive', 'mode')) }
      case 'files.list':
        return { value: await sb.files.list(text('path')) }
      case 'files.stat':
        return { value: await sb.files.stat(text('path'), pick(w, 'follow')) }
      case 'files.exists':
        return { value: await sb.files.exists(text('path')) }
      case 'files.mkdir':
        return { value: await sb.files.mkdir(text('path'), pick(w, 'parents')) }
      case 'files.move':
        return { value: await sb.files.move(text('from'), text('to'), pick(w, 'overwrite')) }
      case 'files.symlink':
        return { value: await sb.files.symlink(text('target'), text('path')) }
      case 'files.remove':
        return { value: await sb.files.remove(text('path'), pick(w, 'recursive')) }
      case 'files.glob':
        return { value: (await sb.files.glob(text('pattern'), pick(w, 'path', 'limit'))).paths }
      case 'files.upload': {
        const local = mkdtempSync(join(dir, 'up-'))
        for (const [name, content] of Object.entries(w['files'] as Fields)) {
          mkdirSync(dirname(join(local, name)), { recursive: true })
          writeFileSync(join(local, name), input(content))
        }
        return { value: await sb.files.upload(local, text('path')) }
      }
      case 'files.download': {
        const local = mkdtempSync(join(dir, 'down-'))
        await sb.files.download(text('path'), local)
        return { value: { files: walk(local) } }
      }
      case 'files.watch': {
        const watch = sb.files.watch(text('path'), pick(w, 'recursive'))
        assert.equal((await watch.next()).value?.event, 'ready')
        return { save: watch }
      }
      case 'watch.next': {
        const got: WatchEvent[] = []
        while (got.length < (step.events ?? []).length) {
          const { done, value } = await (on as AsyncGenerator<WatchEvent, void>).next()
          if (done === true) break
          if (value.event === 'change') got.push(value)
        }
        return { events: got }
      }
      case 'watch.close':
        await (on as AsyncGenerator<WatchEvent, void>).return()
        return {}
      case 'run_code': {
        const context = w['context'] === undefined ? {} : { context: this.saved.get(text('context')) as CodeContext }
        return { value: await sb.runCode(text('code'), { ...pick(w, 'language', 'timeout'), ...context }) }
      }
      case 'contexts.create': {
        const made = await sb.contexts.create(pick(w, 'language', 'cwd'))
        return { value: made, save: made }
      }
      case 'contexts.list':
        return { value: await sb.contexts.list() }
      case 'contexts.restart':
        return { value: await sb.contexts.restart((on as CodeContext | undefined)?.id ?? text('ref')) }
      case 'contexts.delete':
        return { value: await sb.contexts.delete((on as CodeContext | undefined)?.id ?? text('ref')) }
      case 'ports.list':
        return { value: await sb.ports.list() }
      case 'ports.connect': {
        const connection = await sb.ports.connect(w['port'] as number)
        connection.end(Buffer.from(input(w['data'])))
        const parts: Buffer[] = []
        for await (const data of connection) parts.push(data as Buffer)
        return { value: { received: new Uint8Array(Buffer.concat(parts)) } }
      }
      case 'ports.share': {
        const share = await sb.ports.share(w['port'] as number, pick(w, 'ttl', 'public'))
        return { value: share, save: share }
      }
      case 'ports.shares':
        return { value: await sb.ports.shares() }
      case 'ports.revoke':
        return { value: await sb.ports.revoke((on as Share | undefined)?.id ?? text('ref')) }
      case 'network.set':
        return { value: await sb.network.set(options({ network: w['network'] as Fields }).network ?? {}) }
      case 'tools.list':
        return { value: await sb.tools.list() }
      case 'tools.call':
        return { value: await sb.tools.call(text('name'), w['input'] as Fields) }
      case 'info':
        return { value: await sb.info() }
      case 'pause':
        return { value: await sb.pause(pick(w, 'force')) }
      case 'resume':
        return { value: await sb.resume() }
      case 'recreate':
        return { value: await sb.recreate(pick(w, 'force')) }
      case 'extend':
        return { value: await sb.extend(w['seconds'] as number) }
      case 'set_timeout':
        return { value: await sb.setTimeout(w['seconds'] as number) }
      case 'usage':
        return { value: await sb.usage() }
      case 'remove':
        return { value: await sb.remove() }
      case 'checkpoint': {
        const made = await sb.checkpoint(w['name'] === undefined ? undefined : `${text('name')}-${crypto.randomUUID().slice(0, 8)}`)
        return { value: made, save: made }
      }
      case 'checkpoints':
        return { value: await sb.checkpoints() }
      case 'checkpoint.get':
        return { value: await client.checkpoint((on as CheckpointInfo).id) }
      case 'checkpoint.remove':
        return { value: await client.removeCheckpoint((on as CheckpointInfo).id) }
      case 'rollback':
        return { value: await sb.rollback(this.#checkpoint(text('checkpoint'))) }
      case 'fork': {
        const sessions = (w['sessions'] as string[] | undefined)?.map((session) => `${this.tag}-${session}`)
        const fromCheckpoint = w['checkpoint'] === undefined ? undefined : this.#checkpoint(text('checkpoint'))
        const made = await sb.fork({ ...pick(w, 'count'), sessions, fromCheckpoint })
        for (const [i, fork] of made.entries()) {
          if (fork.problem !== undefined) continue
          const { save } = await opened(await client.sandbox(fork.name as string))
          const name = (w['as'] as string[] | undefined)?.[i]
          if (name !== undefined) this.saved.set(name, save)
        }
        return { value: made.map((fork) => ({ ...fork, problem: fork.problem ?? null })) } // the other languages have null
      }
      case 'open': {
        const begins = w['checkpoint'] === undefined ? {} : { fromCheckpoint: this.#checkpoint(text('checkpoint')) }
        return opened(await client.open(`${this.tag}-${text('session')}`, { ...options(w), ...begins }))
      }
      case 'connect':
        return opened(await client.sandbox(on === undefined ? text('name') : (on as Sandbox).name))
      case 'close':
        return { value: await sb.close() }
      case 'sandboxes': {
        const all: unknown[] = []
        for await (const one of client.sandboxes({ labels: w['labels'] as Record<string, string> })) all.push(one)
        return { value: all }
      }
      case 'health':
        return { value: await client.health() }
    }
    throw new Error(`nothing is known of the operation ${step.op}`)
  }

  async step(step: Step, at: string): Promise<void> {
    let got: Awaited<ReturnType<Runner['do']>>
    try {
      got = await this.do(step)
    } catch (error) {
      if (step.error === undefined || !(error instanceof SandboxError)) throw new Error(`${at}: ${(error as Error).message}`, { cause: error })
      assert.equal(error.code, step.error.code, `${at}: ${error.message}`)
      if (step.error.field !== undefined) assert.equal(error.field, step.error.field, `${at}: ${error.message}`)
      if (step.error.status !== undefined) assert.equal(error.status, step.error.status, `${at}: ${error.message}`)
      return
    }
    assert.equal(step.error, undefined, `${at} is no error`)
    if (step.save !== undefined) this.saved.set(step.save, got.save)
    if (step.events !== undefined) equals(got.events, step.events, at)
    if (step.result !== undefined) equals(got.value, step.result, at)
  }

  async end(): Promise<void> {
    for (const one of this.saved.values()) {
      if (one instanceof Events) await one.close()
      else if (typeof (one as AsyncGenerator).return === 'function') await (one as AsyncGenerator).return(undefined)
    }
    for (const box of this.opened) await box.remove()
  }
}

const files = readdirSync(folder).filter((name) => name.endsWith('.json') && name !== 'daemon.json')
assert.ok(files.length > 0)
for (const file of files) {
  const vectors = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Vectors
  const missing = (all: string[] = []): string | undefined => all.find((one) => !have.has(one))
  test(file, { skip: missing(vectors.requires) !== undefined && `it requires ${missing(vectors.requires)}` }, async (t) => {
    const shared = await client.open(`${session}-${file.replace('.json', '')}`, options(vectors.sandbox))
    try {
      for (const [i, one] of vectors.cases.entries()) {
        await t.test(one.name, { skip: missing(one.requires) !== undefined && `it requires ${missing(one.requires)}`, timeout: 60_000 }, async () => {
          const tag = `${session}-${file.replace('.json', '')}-${i}`
          const own = one.sandbox === undefined ? undefined : await client.open(tag, options(one.sandbox))
          const runner = new Runner(own ?? shared, tag)
          try {
            for (const [n, step] of one.steps.entries()) await runner.step(step, `step ${n + 1} (${step.op})`)
          } finally {
            await runner.end()
            await own?.remove()
          }
        })
      }
    } finally {
      await shared.remove()
    }
  })
}
