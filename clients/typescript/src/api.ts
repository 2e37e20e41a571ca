import type { components } from './generated/openapi.js'
import { errorOf, invalid } from './errors.js'
import { part, wellFormed, type Bytes, type Query, type Request, type Transport } from './transport.js'

/** The types of the HTTP API by their names in its document. */
export type Schemas = components['schemas']

/** On whose behalf calls are made. */
export interface Scope {
  /** The tenant; an admin chooses it, and a token has its own. */
  tenant?: string | undefined
  /** The agent whose settings and whose sandbox are meant; "main" without. */
  agent?: string | undefined
  /** The session; "default" without. */
  session?: string | undefined
}

/** The caller's side of a daemon: a transport, and the headers of a scope. @internal */
export class Api {
  readonly transport: Transport
  readonly scope: Readonly<Scope>
  readonly settings: string | undefined
  readonly #headers: Readonly<Record<string, string>>

  constructor(transport: Transport, scope: Scope = {}, settings?: string) {
    this.transport = transport
    this.scope = scope
    this.settings = settings
    const headers: Record<string, string> = {}
    for (const [name, field, value] of [
      ['Sandbox-Tenant', 'tenant', scope.tenant],
      ['Sandbox-Agent', 'agent', scope.agent],
      ['Sandbox-Session', 'session', scope.session],
      ['Sandbox-Settings', 'settings', settings],
    ] as const) {
      if (value === undefined || value === '') continue
      if (/[^\x20-\x7e]/.test(value)) {
        throw invalid('reach daemon', field, 'it holds characters that no header has', 'write ASCII')
      }
      headers[name] = value
    }
    this.#headers = headers
  }

  /** The same daemon on behalf of others; what is undefined stays, and '' is none. */
  with(scope: Scope, settings = this.settings): Api {
    const { tenant = this.scope.tenant, agent = this.scope.agent, session = this.scope.session } = scope
    return new Api(this.transport, { tenant, agent, session }, settings)
  }

  #scoped(request: Request): Request {
    return { ...request, headers: request.headers === undefined ? this.#headers : { ...this.#headers, ...request.headers } }
  }

  call<T>(request: Request): Promise<T> {
    return this.transport.call<T>(this.#scoped(request))
  }

  bytes(request: Request): ReturnType<Transport['bytes']> {
    return this.transport.bytes(this.#scoped(request))
  }

  send(request: Request): ReturnType<Transport['send']> {
    return this.transport.send(this.#scoped(request))
  }

  events(request: Request): ReturnType<Transport['events']> {
    return this.transport.events(this.#scoped(request))
  }

  socket(request: Parameters<Transport['socket']>[0]): ReturnType<Transport['socket']> {
    return this.transport.socket({ ...request, headers: { ...this.#headers, ...request.headers } })
  }

  /** The headers of a request, with the scope. */
  get headers(): Readonly<Record<string, string>> {
    return this.#headers
  }
}

/** The path of a sandbox and what is below it. @internal */
export function one(name: string, below = ''): string {
  if (!/^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/.test(name)) throw invalid('reach sandbox', 'name', 'it is no name of a sandbox')
  return `/v1/sandboxes/${name}${below}`
}

/**
 * The part of an address that names a file: the path inside, cleaned and without its
 * first slash, of which everything that could mean something else is escaped.
 * @internal
 */
export function inside(op: string, path: string): string {
  if (typeof path !== 'string') throw invalid(op, 'path', 'it is no string')
  const parts: string[] = []
  for (const one of (path.startsWith('/') ? path : `/workspace/${path}`).split('/')) {
    if (one === '' || one === '.') continue
    if (one === '..') parts.pop()
    else parts.push(part(op, 'path', one))
  }
  return parts.join('/')
}

/** A number of seconds, as requests have them. @internal */
export function seconds(op: string, field: string, value: number | undefined): number | undefined {
  if (value === undefined) return undefined
  if (!Number.isFinite(value) || value < 0) throw invalid(op, field, 'it is no number of seconds', 'write a number from 0 on')
  return value
}

/** A list of arguments, or a line for the shell. */
export type Command = string | readonly string[]

/** What a command may have beside itself. */
export interface CommandOptions {
  /** Where it runs; the workspace without. */
  cwd?: string | undefined
  /** Laid over the sandbox's own environment. */
  env?: Readonly<Record<string, string>> | undefined
  /** The seconds that it may take; the settings say without. */
  timeout?: number | undefined
  /** The account inside: "sandbox", "user", or its number. */
  user?: string | undefined
  /** The tool of an agent that the command counts as, which then has to be allowed. */
  tool?: string | undefined
  /** Have a person asked where a permission opens what a rule stops; see `client.approvals`. */
  ask?: boolean | undefined
}

/** The request for a command. @internal */
export function execOf(op: string, command: Command, o: CommandOptions): Schemas['Exec'] {
  const request: Schemas['Exec'] = {}
  if (typeof command === 'string') request.line = command
  else if (Array.isArray(command)) request.args = command as string[]
  else throw invalid(op, 'command', 'it is neither a line for the shell nor a list of arguments', "write 'echo hi' or ['echo', 'hi']")
  if (command.length === 0) throw invalid(op, 'command', 'it is empty', "write 'echo hi' or ['echo', 'hi']")
  if (o.env !== undefined) request.env = o.env
  if (o.cwd !== undefined) request.dir = o.cwd
  const timeout = seconds(op, 'timeout', o.timeout)
  if (timeout !== undefined) request.timeoutSeconds = timeout
  if (o.user !== undefined) request.user = o.user
  if (o.tool !== undefined) request.tool = o.tool
  if (o.ask !== undefined) request.ask = o.ask
  return request
}

/** The most bytes of input of one request. */
export const maxInput = 1 << 20

/** Adds an input to a request. @internal */
export async function withInput(op: string, request: { stdin?: string; stdinBase64?: string }, stdin: Bytes | undefined): Promise<void> {
  if (stdin === undefined) return
  if (typeof stdin === 'string') wellFormed(op, 'stdin', stdin)
  const bytes = await gather(op, stdin)
  if (bytes.byteLength > 0) request.stdinBase64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

async function gather(op: string, input: Bytes): Promise<Uint8Array> {
  const tooMuch = (): Error => invalid(op, 'stdin', 'at most 1 MiB of input is taken here', 'use start, and write to the process')
  if (typeof input === 'string' || input instanceof Uint8Array) {
    const bytes = typeof input === 'string' ? Buffer.from(input) : input
    if (bytes.byteLength > maxInput) throw tooMuch()
    return bytes
  }
  const parts: Uint8Array[] = []
  let size = 0
  for await (const piece of input as AsyncIterable<Uint8Array | string>) {
    if (typeof piece === 'string') wellFormed(op, 'stdin', piece)
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece
    if ((size += bytes.byteLength) > maxInput) throw tooMuch()
    parts.push(bytes)
  }
  return Buffer.concat(parts)
}

/** The checkpoints of all pages. @internal */
export async function* checkpointPages(api: Api, path: string, query: Query, signal: AbortSignal | undefined): AsyncGenerator<Schemas['Checkpoint'], void, undefined> {
  const op = 'list checkpoints'
  let cursor: string | undefined
  for (;;) {
    const page = await api.call<Schemas['CheckpointPage']>({ op, method: 'GET', path, query: { ...query, cursor }, again: true, signal })
    yield* page.items
    const next = page.next ?? ''
    if (next === '') return
    if (next === cursor || page.items.length === 0) throw errorOf('PROVIDER.UNAVAILABLE', 'the daemon answers with pages without end', { op })
    cursor = next
  }
}
