/**
 * A sandbox provider for the harness of Vercel's AI SDK 7: coding agents such as Claude
 * Code run inside, and the harness speaks to them through a port of the sandbox.
 *
 * The types are those of HarnessV1SandboxProvider of @ai-sdk/harness, written out here
 * so that this module needs no package of the framework.
 */
import { createHash } from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'
import { errorOf, SandboxError } from '../errors.js'
import { Client, Sandbox, type Process, type SandboxInfo, type SandboxOptions } from '../index.js'
import { isNotFound, join, refusal, unlessRefused } from './common.js'
import { PortServer } from './ports.js'

type Abortable = { abortSignal?: AbortSignal }
type ReadOptions = Abortable & { path: string }
type ProcessOptions = Abortable & { command: string; workingDirectory?: string; env?: Record<string, string> }

/** A command that goes on. */
export interface SandboxProcess {
  readonly pid?: number
  readonly stdout: ReadableStream<Uint8Array>
  readonly stderr: ReadableStream<Uint8Array>
  wait(): Promise<{ exitCode: number }>
  kill(): Promise<void>
}

/** Files and commands of a sandbox, which is what tools may have. */
export interface SandboxSession {
  readonly description: string
  readFile(options: ReadOptions): Promise<ReadableStream<Uint8Array> | null>
  readBinaryFile(options: ReadOptions): Promise<Uint8Array | null>
  readTextFile(options: ReadOptions & { encoding?: string; startLine?: number; endLine?: number }): Promise<string | null>
  writeFile(options: ReadOptions & { content: ReadableStream<Uint8Array> }): Promise<void>
  writeBinaryFile(options: ReadOptions & { content: Uint8Array }): Promise<void>
  writeTextFile(options: ReadOptions & { content: string; encoding?: string }): Promise<void>
  spawn(options: ProcessOptions): Promise<SandboxProcess>
  run(options: ProcessOptions): Promise<{ exitCode: number; stdout: string; stderr: string }>
}

/** Which hosts the sandbox may reach. */
export type NetworkPolicy =
  | { mode: 'allow-all' }
  | { mode: 'deny-all' }
  | { mode: 'custom'; allowedHosts?: ReadonlyArray<string>; allowedCIDRs?: ReadonlyArray<string>; deniedCIDRs?: ReadonlyArray<string> }

type Port = { port: number; protocol?: 'http' | 'https' | 'ws' }

/** A sandbox with its ports, its network and its end. */
export interface NetworkSandboxSession extends SandboxSession {
  readonly id: string
  readonly defaultWorkingDirectory: string
  readonly ports: ReadonlyArray<number>
  getPortEndpoint(options: Port): Promise<{ url: string; headers?: Readonly<Record<string, string>> }>
  getPortUrl(options: Port): Promise<string>
  setPorts(ports: ReadonlyArray<number>, options?: Abortable): Promise<void>
  setNetworkPolicy(policy: NetworkPolicy): Promise<void>
  stop(): Promise<void>
  destroy(): Promise<void>
  restricted(): SandboxSession
}

type FirstCreate = (session: SandboxSession, options: Abortable) => Promise<void>

/** Makes the sandboxes of a `HarnessAgent`. */
export interface SandboxProvider {
  readonly specificationVersion: 'harness-sandbox-v1'
  readonly providerId: string
  createSession(options?: Abortable & { sessionId?: string; identity?: string; onFirstCreate?: FirstCreate }): Promise<NetworkSandboxSession>
  resumeSession(options: Abortable & { sessionId: string }): Promise<NetworkSandboxSession>
}

/** How the sandboxes are made, beside what `Sandbox.open` takes. */
export interface ProviderOptions extends Omit<SandboxOptions, 'keep'> {
  /** Ports that servers inside may have; a harness takes the first. 4000 without it. */
  ports?: ReadonlyArray<number>
  /** Most bytes of each output that `run` returns; 16 MiB without it. */
  maxOutputBytes?: number
}

/** The folder, in the workspace, whose files say what has been set up. */
const setupFolder = '.ai-sdk-setup'

/** Makes a provider. Nothing is connected to until a session is made. */
export function sandboxProvider(options: ProviderOptions = {}): SandboxProvider {
  const { ports = [4000], maxOutputBytes = 16 << 20, labels, client, ...open } = options
  // One client for all sessions, also where it has to start a daemon. What names the
  // daemon is for the client; given beside one, it is for Sandbox.open to refuse.
  const { url: _url, token: _token, binary: _binary, stateDir: _stateDir, config: _config, ...creation } = open
  const wanted = client ? open : creation
  let own = client && Promise.resolve(client)
  const connection = () => {
    own ??= Client.open(open).catch((error) => {
      own = undefined
      throw error
    })
    return own
  }

  async function find(name: string): Promise<SandboxInfo | undefined> {
    for await (const info of (await connection()).sandboxes({ labels: { [sessionLabel]: name } })) if (info.session === name) return info
    return undefined
  }
  const starting = new Map<string, Promise<NetworkSandboxSession>>()

  async function session(sandbox: Sandbox): Promise<Session> {
    const where = await sandbox.run(['pwd'])
    return new Session(sandbox, where.stdout.replace(/\n$/, ''), ports, maxOutputBytes)
  }

  async function create({ sessionId, identity, onFirstCreate, abortSignal }: Parameters<SandboxProvider['createSession']>[0] & {}): Promise<Session> {
    abortSignal?.throwIfAborted()
    const name = sessionId === undefined ? `ai-sdk-${crypto.randomUUID()}` : sessionName(sessionId)
    const before = onFirstCreate && sessionId !== undefined ? await find(name) : undefined
    const sandbox = await Sandbox.open(name, {
      ...wanted,
      client: await connection(),
      labels: { ...labels, [sessionLabel]: name },
      keep: true,
      signal: abortSignal,
    })
    const made = await session(sandbox)
    if (!onFirstCreate) return made
    // The file, and not whether the sandbox is new, says that it was set up: a
    // program that ended in the middle has left a sandbox that is not.
    const done = `${made.defaultWorkingDirectory}/${setupFolder}/${digest(identity ?? '')}`
    if (await sandbox.files.stat(done).catch(unlessRefused)) return made
    try {
      await onFirstCreate(made.restricted(), abortSignal ? { abortSignal } : {})
      abortSignal?.throwIfAborted()
      await sandbox.files.write(done, '')
    } catch (error) {
      if (!before) await made.destroy()
      throw error
    }
    return made
  }

  return {
    specificationVersion: 'harness-sandbox-v1',
    providerId: 'bulkhead-sandbox',

    async createSession(request = {}) {
      const { sessionId } = request
      if (sessionId === undefined) return create(request)
      // Two calls for one session set it up one behind the other.
      const before = starting.get(sessionId) ?? Promise.resolve()
      const mine = before.then(
        () => create(request),
        () => create(request),
      )
      starting.set(sessionId, mine)
      try {
        return await mine
      } finally {
        if (starting.get(sessionId) === mine) starting.delete(sessionId)
      }
    },

    async resumeSession({ sessionId, abortSignal }) {
      abortSignal?.throwIfAborted()
      const name = sessionName(sessionId)
      const info = await find(name)
      if (info) {
        const sandbox = await Sandbox.connect(info.name, { client: await connection(), keep: true })
        if (info.status === 'paused') await sandbox.resume()
        return session(sandbox)
      }
      throw errorOf(
        'SANDBOX.NOT_FOUND',
        `there is no sandbox of the session ${JSON.stringify(sessionId)}: it was destroyed, or has expired; create the session anew`,
        { field: 'sessionId' },
      )
    },
  }
}

/** The label by which the sandbox of a session is found. */
const sessionLabel = 'ai-sdk.session'

/** The session of the daemon for one of the harness, whose ids may be any text. */
function sessionName(id: string): string {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(id) && !id.startsWith('sha256-') ? `ai-sdk-${id}` : `ai-sdk-sha256-${digest(id)}`
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}

/** What tools get: nothing at it leads to the sandbox that it is of. */
class Files implements SandboxSession {
  readonly description: string
  readonly #sandbox: Sandbox
  readonly #maxOutputBytes: number

  constructor(
    sandbox: Sandbox,
    readonly defaultWorkingDirectory: string,
    maxOutputBytes: number,
  ) {
    this.#sandbox = sandbox
    this.#maxOutputBytes = maxOutputBytes
    this.description = `A sandbox with Linux, in which commands run as an ordinary user. The working directory is ${defaultWorkingDirectory}; files outside of it may be closed, and hosts that were not permitted are not reached.`
  }

  async readFile({ path, abortSignal }: ReadOptions): Promise<ReadableStream<Uint8Array> | null> {
    const pieces = this.#sandbox.files.readStream(path, { signal: abortSignal })
    let first: IteratorResult<Uint8Array>
    try {
      first = await pieces.next()
    } catch (error) {
      return absent(error)
    }
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const { done, value } = first
          if (done) return controller.close()
          controller.enqueue(value)
          first = await pieces.next()
        },
        async cancel() {
          await pieces.return?.(undefined)
        },
      },
      { highWaterMark: 0 },
    )
  }

  async readBinaryFile({ path, abortSignal }: ReadOptions): Promise<Uint8Array | null> {
    try {
      return await this.#sandbox.files.read(path, { signal: abortSignal })
    } catch (error) {
      return absent(error)
    }
  }

  async readTextFile({
    encoding = 'utf-8',
    startLine = 1,
    endLine = Infinity,
    ...options
  }: ReadOptions & { encoding?: string; startLine?: number; endLine?: number }): Promise<string | null> {
    const data = await this.readBinaryFile(options)
    if (data === null) return null
    const text = new TextDecoder(encoding, { ignoreBOM: true }).decode(data)
    if (startLine <= 1 && endLine === Infinity) return text
    const lines = text.split(/(?<=\n)/)
    return lines.slice(Math.max(0, startLine - 1), Math.max(0, endLine)).join('')
  }

  async writeFile({ path, content, abortSignal }: ReadOptions & { content: ReadableStream<Uint8Array> }): Promise<void> {
    await this.#sandbox.files.write(path, content, { signal: abortSignal })
  }

  async writeBinaryFile({ path, content, abortSignal }: ReadOptions & { content: Uint8Array }): Promise<void> {
    await this.#sandbox.files.write(path, content, { signal: abortSignal })
  }

  async writeTextFile({ path, content, encoding = 'utf-8', abortSignal }: ReadOptions & { content: string; encoding?: string }): Promise<void> {
    await this.#sandbox.files.write(path, encode(content, encoding), { signal: abortSignal })
  }

  async spawn({ command, workingDirectory, env, abortSignal }: ProcessOptions): Promise<SandboxProcess> {
    abortSignal?.throwIfAborted()
    const process = await this.#sandbox.start(command, { cwd: workingDirectory, env, stdin: false, signal: abortSignal })
    return new Running(process, abortSignal)
  }

  async run({ command, workingDirectory, env, abortSignal }: ProcessOptions): Promise<{ exitCode: number; stdout: string; stderr: string }> {
    abortSignal?.throwIfAborted()
    const outputs = { stdout: new Kept(this.#maxOutputBytes), stderr: new Kept(this.#maxOutputBytes) }
    try {
      for await (const event of this.#sandbox.stream(command, { cwd: workingDirectory, env, signal: abortSignal })) {
        if (event.type === 'exit') {
          abortSignal?.throwIfAborted()
          const { timedOut, blockedReason } = event.result
          const notes = [
            outputs.stdout.note('stdout'),
            outputs.stderr.note('stderr'),
            timedOut ? 'sandbox: the command ran out of time and was ended\n' : '',
            blockedReason ? `sandbox: ${blockedReason}\n` : '',
          ]
          return { exitCode: timedOut ? 124 : event.exitCode, stdout: outputs.stdout.text(), stderr: outputs.stderr.text() + notes.join('') }
        }
        if (event.type === 'dropped') throw lost(event.bytes)
        if (event.type === 'again') for (const kept of Object.values(outputs)) kept.clear()
        else outputs[event.type].add(event.data)
      }
    } catch (error) {
      // A command that rules deny is one that cannot be executed, as a shell has it.
      if (!(error instanceof SandboxError) || error.code !== 'POLICY.DENY_TOOL') throw error
      return { exitCode: 126, stdout: '', stderr: `${refusal(error)}\n` }
    }
    throw errorOf('PROVIDER.UNAVAILABLE', 'the stream of the command has ended before the command')
  }
}

class Session extends Files implements NetworkSandboxSession {
  readonly id: string
  #ports: ReadonlyArray<number>
  readonly #server: PortServer
  readonly #restricted: SandboxSession
  readonly #sandbox: Sandbox

  constructor(sandbox: Sandbox, folder: string, ports: ReadonlyArray<number>, maxOutputBytes: number) {
    super(sandbox, folder, maxOutputBytes)
    this.id = sandbox.name
    this.#sandbox = sandbox
    this.#ports = [...ports]
    this.#server = new PortServer(sandbox)
    this.#restricted = new Files(sandbox, folder, maxOutputBytes)
  }

  get ports(): ReadonlyArray<number> {
    return this.#ports
  }

  async getPortEndpoint(options: Port): Promise<{ url: string }> {
    return { url: await this.getPortUrl(options) }
  }

  async getPortUrl({ port, protocol = 'http' }: Port): Promise<string> {
    if (!this.#ports.includes(port)) {
      throw errorOf(
        'SANDBOX.NOT_FOUND',
        `port ${port} is none of this session (${this.#ports.join(', ') || 'it has none'}): name it in "ports" of the provider, or by setPorts`,
        { field: 'port' },
      )
    }
    if (protocol === 'https') {
      throw errorOf('SANDBOX.UNSUPPORTED', 'ports are reached over a loopback address of this machine, without TLS: ask for http or ws', { field: 'protocol' })
    }
    return this.#server.url(port, protocol)
  }

  async setPorts(ports: ReadonlyArray<number>): Promise<void> {
    this.#ports = [...ports]
    this.#server.retain(ports)
  }

  async setNetworkPolicy(policy: NetworkPolicy): Promise<void> {
    await this.#sandbox.network.set({ allowedDomains: domains(policy) })
  }

  async stop(): Promise<void> {
    await this.#server.close()
    try {
      await this.#sandbox.pause({ force: true })
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error
      // It is gone, or is paused already.
      if (isNotFound(error) || (error.code === 'SANDBOX.BUSY' && (await this.#sandbox.info()).status === 'paused')) return
      if (error.code !== 'SANDBOX.UNSUPPORTED') throw error
      // A provider that cannot freeze a sandbox has its commands ended.
      for (const process of await this.#sandbox.processes()) await process.kill()
    }
  }

  async destroy(): Promise<void> {
    await this.#server.close()
    await this.#sandbox.remove()
  }

  restricted(): SandboxSession {
    return this.#restricted
  }
}

/**
 * A command in the background, whose outputs are read at their own pace. It is only
 * followed when its end or its output is asked for, so that a program can end before it.
 */
class Running implements SandboxProcess {
  readonly pid?: number
  readonly stdout: ReadableStream<Uint8Array>
  readonly stderr: ReadableStream<Uint8Array>
  readonly #process: Process
  readonly #signal?: AbortSignal
  readonly #aborted?: Promise<never>
  #ended?: Promise<{ exitCode: number }>

  constructor(process: Process, signal?: AbortSignal) {
    if (process.pid !== undefined) this.pid = process.pid
    this.stdout = output(process, 'stdout')
    this.stderr = output(process, 'stderr')
    this.#process = process
    if (!signal) return
    this.#aborted = new Promise((_, reject) => {
      const stop = () => void this.kill().then(() => reject(signal.reason), reject)
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop, { once: true })
    })
    this.#aborted.catch(() => {})
    this.#signal = signal
  }

  wait(): Promise<{ exitCode: number }> {
    return (this.#ended ??= this.#wait())
  }

  async kill(): Promise<void> {
    try {
      await this.#process.kill()
    } catch (error) {
      if (!isNotFound(error)) throw error
    }
  }

  async #wait(): Promise<{ exitCode: number }> {
    const ended = this.#process.wait()
    const { exitCode } = await (this.#aborted ? Promise.race([ended, this.#aborted]) : ended)
    // It may have ended because it is being killed.
    if (this.#signal?.aborted) await this.#aborted
    return { exitCode }
  }
}

/** One of the outputs of a process. Each has a stream of its own, so that neither waits for the other to be read. */
function output(process: Process, which: 'stdout' | 'stderr'): ReadableStream<Uint8Array> {
  let events: ReturnType<Process['stream']> | undefined
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        events ??= process.stream()
        for (;;) {
          const { done, value } = await events.next()
          if (done) return controller.close()
          if (value.type === 'dropped') throw lost(value.bytes)
          if (value.type === which && value.data.length > 0) return controller.enqueue(value.data)
        }
      },
      async cancel() {
        await events?.return?.(undefined)
      },
    },
    { highWaterMark: 0 },
  )
}

/** Keeps the beginning of an output. */
class Kept {
  #pieces: Uint8Array[] = []
  #length = 0
  #left = 0

  constructor(private readonly limit: number) {}

  add(data: Uint8Array): void {
    const piece = data.subarray(0, this.limit - this.#length)
    this.#pieces.push(piece)
    this.#length += piece.length
    this.#left += data.length - piece.length
  }

  clear(): void {
    this.#pieces = []
    this.#length = this.#left = 0
  }

  text(): string {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(join(this.#pieces, this.#length))
  }

  note(name: string): string {
    return this.#left > 0 ? `sandbox: ${this.#left} bytes of ${name} are left out\n` : ''
  }
}

/** The error of output that was not read before the daemon has forgotten it. */
function lost(bytes: number): SandboxError {
  return errorOf('PROVIDER.UNAVAILABLE', `${bytes} bytes of output are lost: the daemon keeps the last MiB of it, and more was written before it was read`)
}

function absent(error: unknown): null {
  if (!isNotFound(error)) throw error
  return null
}

/** The bytes of a text in an encoding, by the names that TextDecoder has for it. */
function encode(text: string, encoding: string): Uint8Array {
  const label = new TextDecoder(encoding).encoding
  if (label === 'utf-8') return new TextEncoder().encode(text)
  if (label === 'utf-16le') return Buffer.from(text, 'utf16le')
  const bytes = Buffer.from(text, 'latin1')
  if (label === 'windows-1252' && new TextDecoder(label).decode(bytes) === text) return bytes
  throw errorOf('SANDBOX.UNSUPPORTED', `this text cannot be written as ${encoding}: write it as utf-8 or utf-16le, or its bytes by writeBinaryFile`, {
    field: 'encoding',
  })
}

/** The hosts of a policy. Addresses have no rules of their own in the sandbox. */
function domains(policy: NetworkPolicy): string[] {
  if (policy.mode === 'allow-all') return ['*']
  if (policy.mode === 'deny-all') return []
  if (policy.allowedCIDRs?.length) throw noAddresses('allowedCIDRs')
  for (const cidr of policy.deniedCIDRs ?? []) if (!alwaysDenied(cidr)) throw noAddresses('deniedCIDRs')
  return [...(policy.allowedHosts ?? [])]
}

function noAddresses(field: string): SandboxError {
  return errorOf(
    'SANDBOX.UNSUPPORTED',
    `the network of a sandbox has rules for hosts, and none for addresses; private, link-local and metadata addresses are refused in any case. Name hosts in allowedHosts`,
    { field },
  )
}

/** Ranges that the egress proxy of a sandbox never dials. */
const closedRanges: [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
]

/** Whether no address of a range is reached in any case. */
function alwaysDenied(cidr: string): boolean {
  const [address = '', bits = '32'] = cidr.split('/')
  if (isIPv4(address) && /^\d+$/.test(bits)) {
    return closedRanges.some(([base, prefix]) => Number(bits) >= prefix && number(address) >>> (32 - prefix) === number(base) >>> (32 - prefix))
  }
  // Unique local and link-local addresses.
  return isIPv6(address) && ((/^f[cd]/i.test(address) && Number(bits) >= 8) || (/^fe[89ab]/i.test(address) && Number(bits) >= 10))
}

function number(address: string): number {
  return address.split('.').reduce((n, part) => ((n << 8) | Number(part)) >>> 0, 0)
}
